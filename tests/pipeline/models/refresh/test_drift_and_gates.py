"""Drift by independent sums over the rows; gates on figures, and on slices as rows by themselves."""

import csv

import numpy as np
import pytest

from fewpass import ingest as make
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh import watched_columns
from fewpass.pipeline.models.refresh.drift import drift_of
from fewpass.pipeline.models.refresh.drift_watch import DRIFT
from fewpass.pipeline.models.refresh.gates import LEAST_ROWS, results_of
from fewpass.pipeline.models.refresh.publishing import abandon
from fewpass.pipeline.models.refresh.store_state import store_at
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.category_slices import evaluate_slices
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.settings.metric_registry import METRICS
from fewpass.pipeline.settings.publishing_gates import Gate
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.storage.dataset import Dataset
from fewpass.storage.seal import unseal
from testing.refreshing import plan_of, refresh

CITIES = ("oslo", "paris", "rome")
MANY = tuple(f"c{k:02d}" for k in range(60))


def write(path, n, seed, yes=0.3, age=40.0, missing=0.05, cities=CITIES, more=(), **draws):
    """Rows of a number, a category and a label; (the cells as they were written)."""
    rng = np.random.default_rng(seed)
    city = rng.choice(cities, n, **draws)
    known = rng.random(n) > missing
    ages = np.where(known, [f"{x:.2f}" for x in rng.normal(age, 10, n)], "")
    label = np.where(rng.random(n) < yes + 0.3 * (city == "rome"), "yes", "no")
    save(path, [ages, city, label], more, rng)
    return ages, city, label


def save(path, columns, more=(), rng=None):
    """Write cells as CSV, with columns of numbers that say nothing."""
    path.parent.mkdir(exist_ok=True)
    columns = [*columns, *(rng.normal(size=len(columns[0])).round(3) for _ in more)]
    with path.open("w", newline="") as file:
        names = ("age", "city", "y", *more)
        csv.writer(file).writerows([names, *zip(*columns, strict=True)])


def psi(p, q):
    return sum((b - a) * np.log(b / a) for a, b in zip(p, q, strict=True))


def shares(cells, values):
    """With half a row more of each, so that none is 0."""
    counts = np.array([sum(cell == value for cell in cells) + 0.5 for value in values])
    return counts / counts.sum()


class Seen(RefreshWork):
    """Keeps what was shown of drift."""

    drift = None

    def show_drift(self, _store, _generation, drift):
        self.drift = drift


def compared(folder, first, second, **changed):
    """What became of the second file's rows."""
    plan, seen = plan_of(folder, **changed), Seen()
    for number, file in enumerate((first, second)):
        kept = folder / "inbox" / f"{number}.csv"
        kept.parent.mkdir(exist_ok=True)
        kept.write_bytes(file.read_bytes())
        assert seen.drift is None
        refresh(plan, seen)
    return plan, seen.drift


def test_means_are_of_the_numbers_that_are_there_as_the_source_has_them(tmp_path):
    files = (tmp_path / "a.csv", 2000, 1), (tmp_path / "b.csv", 2000, 2)
    rows = write(*files[0], missing=0.1), write(*files[1], missing=0.1, age=43.0)
    _, drift = compared(tmp_path, tmp_path / "a.csv", tmp_path / "b.csv")
    (age,) = (one for one in drift.columns if one.column == "age")
    means = [np.mean([float(cell) for cell in one[0] if cell]) for one in rows]
    assert age.moved == "mean"
    assert (age.before, age.now) == pytest.approx(means, rel=2e-3)  # clipped cells


def test_drift_is_the_index_of_shares_and_of_means(tmp_path):
    n, m = 4000, 3000
    old = write(tmp_path / "a.csv", n, 1)
    new = write(
        tmp_path / "b.csv", m, 2, yes=0.4, age=43.0, missing=0.2,
        cities=(*CITIES, "lima"), p=(0.5, 0.2, 0.2, 0.1),
    )  # fmt: skip
    plan, drift = compared(tmp_path, tmp_path / "a.csv", tmp_path / "b.csv")
    chance = 1 / n + 1 / m
    of = {one.column: one for one in drift.columns}
    label = psi(shares(old[2], ("no", "yes")), shares(new[2], ("no", "yes")))
    assert of["label"].drift == pytest.approx(label - chance, rel=1e-9)
    everywhere = [psi(shares(old[1], (*CITIES, "lima")), shares(new[1], (*CITIES, "lima")))]
    assert of["city"].drift == pytest.approx(everywhere[0] - 3 * chance, rel=0.01)
    assert (of["city"].moved, of["city"].unseen_before) == ("rare or unseen", 0.0)
    assert of["city"].unseen == pytest.approx(np.mean(new[1] == "lima"))
    gone, now = (np.array([cell == "" for cell in ages]) for ages in (old[0], new[0]))
    assert of["age"].missing == pytest.approx(now.mean())
    numbers = [np.array([float(c) for c in ages if c]) for ages in (old[0], new[0])]
    distance = ((numbers[1].mean() - numbers[0].mean()) / numbers[0].std()) ** 2
    distance += np.log(numbers[1].std() / numbers[0].std()) ** 2
    there = 1 - (gone.mean() + now.mean()) / 2
    age = psi((gone.mean(), 1 - gone.mean()), (now.mean(), 1 - now.mean())) + there * distance
    assert of["age"].drift == pytest.approx(age, rel=0.03)  # clipped cells, chance
    told = [one.reported for one in drift.columns]
    assert told == [one.drift > 0.25 for one in drift.columns] == sorted(told)[::-1]
    stored = unseal(store_at(plan.store).generations[1].folder.read(DRIFT))
    assert stored["columns"][0]["drift"] == drift.largest
    (event,) = (one for one in store_at(plan.store).events if one.what == "drift")
    assert (event.generation, event.refused, event.why) == (2, False, drift.sentence)


def test_rows_that_drifted_too_far_are_not_learnt_from(tmp_path):
    write(tmp_path / "inbox/a.csv", 2000, 1)
    plan = plan_of(tmp_path, max_drift=0.2)
    refresh(plan)
    write(tmp_path / "inbox/b.csv", 2000, 2, age=60.0)
    for most in (0.2, 0.2, 0.1):
        with pytest.raises(BadInput, match=r"age drifted by .* and max_drift is 0.*store abandon"):
            refresh(plan.model_copy(update={"max_drift": most}))
    assert store_at(plan.store).past.used == (1,)
    told = [one for one in store_at(plan.store).events if one.what == "drift"]
    assert [(one.generation, one.refused) for one in told] == [(2, True)]  # once
    files = [one.name for one in store_at(plan.store).open.files]
    assert abandon(plan.store).number == 2
    made = refresh(plan.model_copy(update={"max_drift": None}))
    assert (made.state, list(made.files)) == ("published", files)


def test_where_drift_is_to_wait_a_night_that_moved_does(tmp_path):
    write(tmp_path / "inbox/a.csv", 2000, 1)
    plan = plan_of(tmp_path, drift="wait")
    refresh(plan)
    write(tmp_path / "inbox/b.csv", 2000, 2, age=60.0)
    assert refresh(plan).state == "waits"
    assert store_at(plan.store).past.waiting == (2,)


def test_the_same_rows_drawn_again_have_not_drifted(tmp_path):
    write(tmp_path / "a.csv", 4000, 1)
    write(tmp_path / "b.csv", 1500, 2)
    assert compared(tmp_path, tmp_path / "a.csv", tmp_path / "b.csv")[1].largest < 0.005


def test_sparse_rows_and_many_words_drift_like_dense_ones(tmp_path, monkeypatch):
    """Columns without names, of LIBSVM text: what is not there is 0; words that few rows have."""
    rng = np.random.default_rng(3)
    for name, rate in (("a", 0.3), ("b", 0.5)):
        lines = []
        for _ in range(2000):
            words = np.unique(1 + (5000 * rng.random(20) ** 3).astype(int))
            first = f"1:{rng.normal(2.0, 1.0):.4f} " if rng.random() < rate else ""
            lines.append(f"{rng.integers(2)} {first}" + " ".join(f"{w + 1}:1" for w in words))
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    sets = []
    for name in "ab":
        like = {"like": sets[0]} if sets else {"n_features": 5002}
        sets.append(f"{tmp_path}/{name}")
        make(tmp_path / f"{name}.csv", sets[-1], format="libsvm", **like)
    before, now = map(Dataset.open, sets)
    whole = drift_of(now, [before])
    monkeypatch.setattr(watched_columns, "AT_ONCE", 700)
    drift = drift_of(now, [before])
    assert drift.columns == whole.columns  # however many columns are compared at a time
    first, second = drift.columns[:2]
    assert first.column == "column 1"
    assert first.drift == pytest.approx(psi((0.3, 0.7), (0.5, 0.5)), rel=0.2)
    assert second.drift < 0.02


@pytest.fixture(scope="module", params=["dense", "sparse"])
def evaluated_rows(request, tmp_path_factory):
    """A model, held-out rows, and the cells of these; wide categories make sparse rows."""
    folder = tmp_path_factory.mktemp(request.param)
    settings = {"more": "abcdef"} if request.param == "dense" else {"cities": MANY}
    write(folder / "inbox/a.csv", 3000, 1, **settings)
    held_out = write(folder / "held.csv", 900, 2, **settings)
    plan = plan_of(folder, gates=("auc>=0.5", "error@city<=.7"))
    made = refresh(plan)
    like = store_at(plan.store).data_of(1)
    data = ingested(folder / "held.csv", folder / "held", like)
    assert Dataset.open(like).manifest.layout == request.param
    return folder, plan, RunFolder(made.model), like, data, held_out


def ingested(source, place, like):
    make(source, place, like=like)
    return Dataset.open(str(place))


def test_a_slice_is_its_rows_by_themselves(evaluated_rows):
    folder, _, run, like, data, (_, city, _) = evaluated_rows
    model = load_model(run)
    slices = evaluate_slices(model, data, InProcess(), "city")
    assert sum(one.rows for one in slices.values()) == len(city)
    name = min(city)
    header, *rows = csv.reader((folder / "held.csv").read_text().splitlines())
    with (folder / "alone.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *(row for row in rows if row[1] == name)])
    alone = ingested(folder / "alone.csv", folder / "alone", like)
    expected = evaluate(model, alone, InProcess())
    for figure in ("rows", "loss", "error"):
        assert getattr(slices[name], figure) == pytest.approx(getattr(expected, figure), rel=1e-12)
    within = slices[name].auc_within + expected.auc_within
    assert slices[name].auc == pytest.approx(expected.auc, abs=within)
    with pytest.raises(BadInput, match="no category 'age'"):
        evaluate_slices(model, data, InProcess(), "age")


def test_what_fails_a_gate_is_kept_back_and_on_record(evaluated_rows):
    folder, plan, run, _, data, _ = evaluated_rows
    model = load_model(run)

    def evaluated(column):
        if column is None:
            return {"": evaluate(model, data, InProcess())}
        return evaluate_slices(model, data, InProcess(), column)

    worse = {"": evaluate(model, data, InProcess())._replace(loss=0.01)}
    good = results_of(("auc>=0.4", "error <= 1", "loss <= before"), evaluated, evaluated)
    assert all(one.passed for one in good), good
    (first,) = results_of(("loss<=before - 1",), evaluated, None)
    assert (first.passed, first.reason) == (True, "it is the first model")
    bad = results_of(
        ("auc>=.999", "loss<=before+0.001", "error@city<=-1", "r2>=0"), evaluated, lambda _: worse
    )
    assert not any(one.passed for one in bad)
    assert "auc is 0." in bad[0].reason
    assert "below 0.999" in bad[0].reason
    assert "above 0.01 + 0.001 (the model published before)" in bad[1].reason
    sliced = evaluated("city")
    enough = [name for name, one in sliced.items() if one.rows >= LEAST_ROWS]
    said = bad[2].reason if enough else f"no value of city has {LEAST_ROWS} rows"
    assert said.count("error of city=") == len(enough)
    assert bad[3].reason == "r2 is not defined"

    asked = plan.model_copy(
        update={"gates": ("auc>=.999", "error@city<=1"), "held_out": data.folder.url}
    )
    write(
        folder / "inbox/b.csv",
        3000,
        3,
        **({"more": "abcdef"} if like_dense(data) else {"cities": MANY}),
    )
    kept = refresh(asked)
    assert kept.state == "kept back"
    assert "auc>=.999 failed: auc is 0." in kept.message
    assert [gate.passed for gate in kept.gates] == [False, bool(enough)]
    assert store_at(plan.store).generations[-1].ended.why.startswith("auc>=.999 failed")


def like_dense(data):
    return data.manifest.layout == "dense"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("auc", "is no gate"), ("auc>0.8", "is no gate"), ("auc>=", "is no gate"),
        ("acu>=0.8", "Did you mean auc"), ("loss@<=1", "is no gate"),
    ],
)  # fmt: skip
def test_what_is_no_gate_is_refused(written, said):
    with pytest.raises(BadInput, match=said):
        RefreshPlan(sources=("a",), store="s", gates=(written,))


def test_a_gate_is_read():
    assert Gate.of(" loss @ a city <= before - 1e-3")[1:] == ("loss", "a city", True, True, -1e-3)
    assert Gate.of("auc>=.8")[1:] == ("auc", None, False, False, 0.8)
    assert {"loss", "auc", "calibration_error", "mae"} <= set(METRICS)
