"""Nights of a store: evaluated before they are learnt, learnt from in windows, and never lost."""

from contextlib import suppress
from math import inf, nan

import pytest

import fewpass
from fewpass import abandon, evaluate, forget, ingest, models, publish, take
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.lease import LeaseLost
from fewpass.pipeline.models.refresh.old_generations import clean_store
from fewpass.pipeline.models.refresh.store_log import Overtaken
from fewpass.pipeline.models.refresh.store_state import LEASE, run_of
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from testing.refreshing import EndsBefore, Interrupted, Nights, plan_of, refresh, write_rows

ROWS = 300  # of a night
TURN = 5  # night from which on column a does the contrary, where it does


@pytest.fixture
def nights(tmp_path):
    return Nights(tmp_path)


def weights_of(url):
    weights = load_model(RunFolder(url)).weights
    return weights.coef.tobytes(), float(weights.intercept)


def test_usual_nights_are_all_published_and_all_rows_learnt(nights):
    made = nights.nights(6)
    assert [one.state for one in made] == ["published"] * 6
    assert nights.rows_learnt == dict.fromkeys(range(1, 7), ROWS)
    assert [one.nights for one in made][:3] == [(1,), (1, 2), (1, 2, 3)]
    last = nights.store.published
    assert set(last.runs) == {"1", "4", "14", "all"}
    assert last.runs["14"] == last.runs["all"]  # equal windows are trained once
    used = models(nights.plan.store)
    assert used.published == 6
    assert [one.state for one in used.generations] == ["published before"] * 5 + ["published"]


def test_rows_are_evaluated_by_models_that_have_not_learnt_from_them(nights):
    """The loss in the log is what `evaluate` says of the model published the night before."""
    nights.nights(2)
    before = nights.store.published
    url = f"{nights.plan.store}/generations/{before.generation:06d}/{before.run}"
    made = nights.night()
    data = nights.store.data_of(3)
    assert made.loss == pytest.approx(evaluate(url, data).loss, rel=1e-12)
    scores = nights.store.generations[-1].evaluated.scores
    assert scores.of("all")[0] == made.loss
    assert scores.difference("all", "published") == (0.0, 0.0)


class Shown(RefreshWork):
    """Keeps which models were shown side by side, and on which rows."""

    def show_models(self, new, before, rows):
        self.models, self.rows = (new, before), rows


def test_a_model_is_shown_beside_the_one_before_it_on_rows_that_neither_has_learnt_from(nights):
    shown, published = Shown(), []
    for night in range(1, 5):
        nights.night(work=shown)
        if night > 1:
            assert shown.models == (published[-1], published[-2] if night > 2 else None)
            rows = Dataset.open(shown.rows)
            assert rows.folder.url == Folder(nights.store.data_of(night)).url
            for run in filter(None, shown.models):
                assert rows.manifest.fingerprint not in RunFolder(run).record().learnt
        published.append(run_of(nights.plan.store, nights.store.published))


def test_a_turn_waits_a_night_and_is_confirmed_by_the_next(nights):
    nights.nights(TURN - 1)
    waits = nights.night(turned=True)
    assert (waits.state, waits.explained, waits.generation) == ("waits", True, TURN)
    assert "the world or the coding has changed" in waits.message
    assert nights.store.published.generation == TURN - 1
    confirmed = nights.night(turned=True)
    assert confirmed.state == "published"
    assert f"{TURN:06d} is confirmed" in confirmed.message
    assert nights.store.past.used == tuple(range(1, TURN + 2))
    assert models(nights.plan.store).generations[TURN - 1].state == "learnt from"
    assert set(confirmed.nights) <= {TURN, TURN + 1}
    after = nights.night(turned=True)
    assert after.loss < waits.loss / 1.5


def test_an_odd_night_that_nothing_confirms_is_quarantined_and_can_be_taken(nights):
    nights.nights(4)
    assert nights.night(turned=True).state == "waits"
    usual = nights.night()
    assert usual.state == "published"
    assert "000005 is quarantined" in usual.message
    assert nights.store.past.quarantined == (5,)
    assert 5 not in nights.store.past.used
    assert [one.state for one in models(nights.plan.store).generations][4] == "quarantined"
    assert refresh(nights.plan).state == "unchanged"

    take(nights.plan.store, 5, because="it was a holiday")
    made = refresh(nights.plan)  # also without new files
    assert (made.state, made.files) == ("published", ())
    assert nights.store.past.used == (1, 2, 3, 4, 5, 6)
    assert made.nights == (1, 2, 3, 4, 5, 6)
    assert refresh(nights.plan).state == "unchanged"
    with pytest.raises(BadInput, match="neither waits nor is quarantined"):
        take(nights.plan.store, 5)


def test_what_is_taken_is_learnt_by_the_next_refresh_also_where_its_own_night_waits(nights):
    nights.nights(5, lambda night: night == 4)
    take(nights.plan.store, 4)
    made = nights.night(turned=True)
    assert [one.state for one in (*made.earlier, made)] == ["waits", "published"]
    assert made.nights == (1, 2, 3, 4, 5)
    assert (nights.store.past.waiting, nights.store.is_stale) == ((6,), False)


def test_a_number_that_was_given_up_takes_no_other_generation(nights):
    nights.nights(4)
    nights.come(turned=True)
    with suppress(Interrupted):
        refresh(nights.plan, EndsBefore(1))
    abandon(nights.plan.store)
    assert refresh(nights.plan).state == "waits"
    with pytest.raises(BadInput, match="000005 neither waits nor is quarantined"):
        take(nights.plan.store, 5)
    take(nights.plan.store, 6)
    assert len(refresh(nights.plan).message.split("usual")) == 1


def left_evaluated(nights):
    """Leave a refresh of one more night unfinished, whose rows were evaluated."""
    nights.come()
    for part in range(9):
        with suppress(Interrupted):
            refresh(nights.plan, EndsBefore(part))
        if nights.store.open.evaluated:
            return


def test_what_was_taken_stays_so_where_the_night_that_was_evaluated_is_given_up(nights):
    nights.nights(4, lambda night: night == 4)
    left_evaluated(nights)
    take(nights.plan.store, 4)
    abandon(nights.plan.store)
    assert nights.store.past.used == (1, 2, 3, 4)
    assert refresh(nights.plan).state == "published"


def test_nights_that_were_removed_stay_so_where_the_night_that_was_evaluated_is_given_up(nights):
    nights.nights(3)
    left_evaluated(nights)
    clean_store(nights.plan.store, 2)
    abandon(nights.plan.store)
    assert nights.store.past.used == (3,)
    assert refresh(nights.plan).nights == (3, 5)


def test_a_night_is_evaluated_by_the_published_model_also_where_its_own_nights_are_removed(
    tmp_path,
):
    nights = Nights(tmp_path, keep_generations=1, windows=["all"])
    nights.nights(2)
    publish(nights.plan.store, 1)
    assert nights.store.past.used == ()
    assert nights.night(turned=True).state == "waits"


def test_going_back_sets_the_nights_after_it_apart(nights):
    nights.nights(4)
    publish(nights.plan.store, 2, because="complaints")
    assert nights.store.past.used == (1, 2)
    assert nights.store.past.quarantined == (3, 4)
    assert refresh(nights.plan).state == "unchanged"
    assert nights.store.published.generation == 2
    made = nights.night()
    assert made.nights == (1, 2, 5)
    assert set(nights.store.generations[-1].learnt.runs) == {"1", "4", "14", "all", "whole"}


class Counted(RefreshWork):
    """Counts the parts of a refresh."""

    parts = 0

    def take(self, *of):
        self.parts += 1
        return super().take(*of)

    def train(self, *of):
        self.parts += 1
        return super().train(*of)

    def score(self, *of):
        self.parts += 1
        return super().score(*of)


@pytest.mark.parametrize("turned", [False, True])
def test_a_refresh_that_ends_anywhere_is_gone_on_with(tmp_path, turned):
    """After each part of three nights, one of which may wait: the same log, the same models."""
    whole = Nights(tmp_path / "whole")
    whole.nights(4)
    counts = []
    for _ in range(2):
        counts.append(Counted())
        whole.night(turned, counts[-1])
    cut = Nights(tmp_path / "cut")
    cut.nights(4)
    for counted in counts:
        cut.come(turned)
        for n in range(counted.parts):  # each goes further than the one before
            with suppress(Interrupted):
                refresh(cut.plan, EndsBefore(n))
        refresh(cut.plan)
    assert cut.store.past == whole.store.past
    ends = [
        weights_of(f"{one.plan.store}/generations/{k:06d}/{one.store.generations[k - 1].learnt.run}")
        for one in (whole, cut) for k in range(1, 7)
        if one.store.generations[k - 1].learnt is not None
    ]  # fmt: skip
    half = len(ends) // 2
    assert ends[:half] == ends[half:]


def test_a_model_that_fails_a_gate_is_kept_back_and_its_rows_are_learnt(tmp_path):
    nights = Nights(tmp_path, gates=["auc>=0.999"])
    first = nights.night()
    assert first.state == "published"  # it is scored by no rows
    second = nights.night()
    assert (second.state, second.gates[0].passed) == ("kept back", False)
    assert "auc>=0.999 failed: auc is" in second.message
    assert nights.store.published.generation == 1
    mended = nights.plan.model_copy(update={"gates": ("auc>=0.5",)})
    nights.come()
    assert refresh(mended).nights == (1, 2, 3)


def test_gates_ask_no_rows_that_a_model_has_learnt_from(tmp_path):
    nights = Nights(tmp_path, gates=["auc>=0.5"])
    nights.nights(4)
    nights.night(turned=True)
    nights.night()
    take(nights.plan.store, 5)
    taken = refresh(nights.plan)  # there are no rows at all
    write_rows(nights.folder / "inbox/02.csv", 99, ROWS)
    replaced = refresh(nights.plan)
    for made in (taken, replaced):
        assert made.state == "published"
        assert "no rows that it has not learnt from" in made.gates[0].reason


def test_gates_after_a_turn_ask_the_model_with_the_nights_that_waited(tmp_path):
    nights = Nights(tmp_path, gates=["auc>=0.8"])
    nights.nights(4)
    assert nights.night(turned=True).state == "waits"
    made = nights.night(turned=True)  # the model of before the turn has .32 here
    assert (made.state, made.gates[0].passed) == ("published", True)
    assert made.gates[0].reason.startswith("auc is 0.9")


def test_where_a_turn_is_kept_back_nights_are_as_usual_to_the_model_that_stays(tmp_path):
    nights = Nights(tmp_path, gates=["auc>=0.999"])
    nights.plan, gated = nights.plan.model_copy(update={"gates": ()}), nights.plan
    nights.nights(4)
    assert nights.night(turned=True).state == "waits"
    nights.plan, free = gated, nights.plan
    assert nights.night(turned=True).state == "kept back"
    stays = nights.night(turned=True)
    assert (stays.state, nights.store.past.waiting) == ("kept back", ())
    nights.plan = free
    published = nights.night(turned=True)
    assert published.state == "published"
    assert nights.store.past.usual[-1][1] < stays.loss / 1.5
    assert nights.night(turned=False).state == "waits"


class Exploded(RefreshWork):
    """Has the model of tonight a loss beyond all numbers."""

    def score(self, runs, rows):
        scores = super().score(runs, rows)
        if "new" not in runs:
            return scores
        of_new = scores.renamed({"new": "new", "published": "published"})
        gone = ((nan, nan), (nan, nan))
        return of_new._replace(loss=(inf, of_new.loss[1]), covariance=gone)


def test_held_out_rows_veto_what_is_worse_by_two_standard_errors(tmp_path):
    write_rows(tmp_path / "held.csv", 77, 2000)
    nights = Nights(tmp_path, odd=None, windows=[1])
    nights.night()
    held = f"{tmp_path}/held"
    like = f"{nights.plan.store}/generations/000001/data"
    ingest(tmp_path / "held.csv", held, label="y", like=like)
    nights.plan = nights.plan.model_copy(update={"held_out": held})
    assert nights.night(turned=True).state == "kept back"
    assert nights.night().state == "published"
    assert nights.night(work=Exploded()).state == "kept back"


def test_rows_that_take_the_place_of_others_may_not_drift_further_than_new_ones(tmp_path):
    nights = Nights(tmp_path, max_drift=0.5)
    nights.nights(2)
    file = nights.folder / "inbox/02.csv"
    head, *lines = file.read_text().splitlines()
    file.write_text("\n".join([head, *(f"{line}e2" for line in lines)]))  # c in another unit
    with pytest.raises(BadInput, match="unlike those before"):
        refresh(nights.plan)
    abandon(nights.plan.store)
    write_rows(file, 3, ROWS + 1)
    made = refresh(nights.plan)
    assert (made.state, nights.rows_learnt) == ("published", {1: ROWS, 2: ROWS + 1})
    assert "Files of 000002 had changed" in made.message


def test_somebody_publishes_while_a_model_is_made(nights):
    nights.nights(3)

    class Publishes(RefreshWork):
        def train(self, plan, run):
            if nights.store.published.generation != 1:
                publish(nights.plan.store, 1)
            return super().train(plan, run)

    nights.come()
    with pytest.raises(Overtaken, match="published generation 000001"):
        refresh(nights.plan, Publishes())
    assert nights.store.published.generation == 1
    assert nights.store.open.number == 4
    made = refresh(nights.plan)
    assert (made.state, made.nights) == ("published", (1, 4))
    assert made.loss == pytest.approx(
        evaluate(f"{nights.plan.store}/generations/000001/run-all", nights.store.data_of(4)).loss
    )


def test_what_somebody_publishes_while_rows_are_evaluated_is_not_undone(nights):
    nights.nights(3)

    class Publishes(RefreshWork):
        def score(self, runs, rows):
            made = super().score(runs, rows)
            if nights.store.published.generation != 1:
                publish(nights.plan.store, 1)
            return made

    nights.come()
    with pytest.raises(Overtaken, match="published generation 000001"):
        refresh(nights.plan, Publishes())
    assert refresh(nights.plan).nights == (1, 4)
    assert nights.store.past.quarantined == (2, 3)


def test_who_was_taken_for_dead_writes_nothing(nights):
    nights.nights(2)

    class TakesOver(RefreshWork):
        def score(self, runs, rows):
            made = super().score(runs, rows)
            folder = Folder(nights.plan.store)
            folder.delete(LEASE)
            folder.create(LEASE, b"another's")
            return made

    nights.come()
    with pytest.raises(LeaseLost):
        refresh(nights.plan, TakesOver())
    assert nights.store.open.evaluated is None


@pytest.mark.parametrize("what", ["begun", "evaluated", "published"])
def test_an_event_of_long_ago_that_cannot_be_read_loses_and_doubles_no_row(nights, what):
    nights.nights(3)
    number = [one.number for one in nights.store.events if one.what == what][1]
    Folder(nights.plan.store).write(f"events/{number:06d}.json", b"")
    nights.come()
    if what == "begun":
        with pytest.raises(BadInput, match="generation 000002 began"):
            refresh(nights.plan)
    else:
        refresh(nights.plan)
        assert nights.rows_learnt == dict.fromkeys(range(1, 5), ROWS)


def test_nights_that_are_removed_before_the_next_one_is_evaluated_are_not_missed(nights):
    nights.nights(4)
    nights.come()
    with suppress(Interrupted):
        refresh(nights.plan, EndsBefore(1))
    clean_store(nights.plan.store, 2)
    assert refresh(nights.plan).nights == (3, 4, 5)


def test_with_other_settings_windows_are_scored_anew(nights):
    """Losses of another loss say nothing: no night is odd for them, and none is chosen by them."""
    nights.nights(4)
    other = {"loss": "smoothed_hinge", "lam": "1e-2", "tol": 1e-3}
    nights.plan = plan_of(nights.folder, training=other)
    made = nights.night()
    assert (made.state, made.window) == ("published", "all")
    assert len(nights.store.past.usual) == 1
    assert nights.night().state == "published"
    nights.plan = plan_of(nights.folder)  # whose losses are higher
    assert [one.state for one in nights.nights(2)] == ["published"] * 2


def test_all_nights_begin_at_last_nights_model(nights):
    nights.nights(5)
    store = nights.store
    starts = {
        name: RunFolder(f"{store.folder.url}/generations/000005/{run}").record().plan.start_from
        for name, run in store.published.runs.items()
    }
    assert starts == {
        "all": f"{store.folder.url}/generations/000004/run-all",
        "14": f"{store.folder.url}/generations/000004/run-all",
        "4": None,
        "1": None,
    }


def test_a_changed_file_that_cannot_be_read_leaves_its_rows_as_they_were(nights):
    nights.nights(2)
    (nights.folder / "inbox/01.csv").write_text("y,a,b,d\n1,2,3,4\n")
    made = refresh(nights.plan)
    assert (made.state, [one.file.name for one in made.refused]) == (
        "unchanged", [f"{nights.folder}/inbox/01.csv"],
    )  # fmt: skip
    assert nights.rows_learnt == {1: ROWS, 2: ROWS}
    assert refresh(nights.plan).state == "unchanged"
    (nights.folder / "inbox/01.csv").rename(nights.folder / "inbox/bad.csv")
    write_rows(nights.folder / "inbox/01.csv", 97, 2 * ROWS)
    refresh(nights.plan)
    assert nights.rows_learnt == {1: 2 * ROWS, 2: ROWS}


def test_rows_that_were_forgotten_do_not_come_back_by_a_file_that_changed(tmp_path):
    nights = Nights(tmp_path)
    nights.plan = nights.plan.model_copy(
        update={"ingest": nights.plan.ingest.model_copy(update={"keep": ("a",)})}
    )
    nights.nights(2)
    before = nights.rows_learnt
    forget(nights.plan.store, "a > 1")
    rows = nights.rows_learnt
    assert rows[1] < before[1]
    with (tmp_path / "inbox/01.csv").open("a") as file:
        file.write("1,2,0,0\n")
    made = refresh(nights.plan)
    assert made.state == "unchanged"
    assert "would bring them back" in made.refused[0].why
    assert nights.rows_learnt == rows
    inbox = tmp_path / "inbox"
    (inbox / "01.csv").rename(inbox / "a.csv")  # nor by one that is called otherwise by now
    assert refresh(nights.plan).state == "unchanged"
    (inbox / "a.csv").rename(inbox / "b.csv")
    write_rows(inbox / "a.csv", 98, 50)
    for _ in range(2):
        assert refresh(nights.plan).state == "unchanged"
    assert nights.rows_learnt == rows


def test_what_is_decided_while_a_generation_is_open_counts(nights):
    nights.nights(4)
    assert nights.night(turned=True).state == "waits"
    nights.come()
    with pytest.raises(Interrupted):
        refresh(nights.plan, EndsBefore(1))  # its rows are there, and not evaluated yet
    take(nights.plan.store, 5)
    refresh(nights.plan)
    assert nights.store.past.used == (1, 2, 3, 4, 5, 6)
    assert nights.store.past.quarantined == ()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"nonsense": 1}, 'no setting "nonsense"'),
        ({"training": {"tol": -1}}, "training.tol is -1"),
        ({"odd": "x"}, "odd is"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_by_name(settings, said):
    with pytest.raises(BadInput, match=said):
        fewpass.refresh(**{"sources": ("inbox/*",), "store": "store"} | settings)
