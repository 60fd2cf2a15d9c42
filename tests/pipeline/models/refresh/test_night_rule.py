"""The rule of nights: its laws for any scores, its formulas, and its decisions on made-up months."""

import json
import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.pipeline.models.refresh.night_rule import (
    REPLACES,
    TO_REPLACE,
    Rule,
    candidates,
    chosen,
    first,
    learnt_from,
    night_verdict,
    replacement_verdict,
)
from fewpass.pipeline.models.refresh.night_scores import Scores, joint_losses
from fewpass.pipeline.models.refresh.past_nights import HALF, PUBLISHED, Past
from fewpass.solvers.protocol import add_parts
from testing.night_months import Models, by_rule
from testing.night_streams import SPOILT, STREAMS, TURN, Nights

RULE = Rule()
ERROR = 0.01  # standard error of all losses and differences below


# -- scores ----------------------------------------------------------------------------------------


@given(st.integers(0, 1 << 30), st.floats(-1e3, 1e3), st.integers(2, 4))
def test_scores_of_parts_are_the_formulas_of_paired_rows(seed, common, n_models):
    rng = np.random.default_rng(seed)
    losses = common + rng.normal(size=(1, 60)) + 0.1 * rng.normal(size=(n_models, 60))
    weight = rng.integers(1, 4, 60).astype(float)
    names = "abcd"[:n_models]
    parts = [joint_losses(losses[:, k : k + 25], weight[k : k + 25]) for k in (0, 25, 50)]
    sums = add_parts(add_parts(parts[0], parts[1]), parts[2])
    share = weight / weight.sum()

    def mean_and_error(of):
        mean = of @ share
        return pytest.approx((mean, math.sqrt((share * (of - mean)) @ (share * (of - mean)))), 1e-7, 1e-12)  # fmt: skip

    for total in (sums, joint_losses(losses, weight)):
        scores = Scores.of_sums(names, total)
        assert scores.rows == 60
        for order in (names, names[::-1]):
            renamed = scores.renamed({name.upper(): name for name in order})
            assert renamed.names == tuple(order.upper())
            for a, b in permutations(order, 2):
                i, j = names.index(a), names.index(b)
                for one, own in ((scores, (a, b)), (renamed, (a.upper(), b.upper()))):
                    assert one.of(own[0]) == mean_and_error(losses[i])
                    assert one.difference(*own) == mean_and_error(losses[i] - losses[j])


# -- laws ------------------------------------------------------------------------------------------


def scores_of(losses, error=ERROR):
    """Scores with these mean losses, as well known as each other."""
    names = tuple(losses)
    covariance = np.diag([error**2] + [error**2] * (len(names) - 1))
    return Scores(names, tuple(losses.values()), tuple(map(tuple, covariance)), 100)


def any_scores(rng, names):
    """Nights of which some are odd, and some explained by candidates or windows."""
    level = 0.5 + rng.choice([0.0, 0.6], p=[0.7, 0.3])
    return scores_of({
        name: 0.5 + rng.normal() * 0.01 if name != PUBLISHED and rng.random() < 0.3 else level + rng.normal() * 0.01
        for name in names
    })  # fmt: skip


RULES = st.builds(
    Rule,
    windows=st.lists(
        st.one_of(st.integers(1, 9), st.just("all")), min_size=1, max_size=4, unique=True
    ).map(tuple),
    scored_generations=st.integers(1, 9), odd=st.one_of(st.none(), st.floats(1.0, 6.0)),
    most_waiting=st.integers(0, 4), after_turn=st.sampled_from(["wait", "publish"]),
    most_nights=st.one_of(st.none(), st.integers(1, 20)),
)  # fmt: skip


def by_persons(rng, past):
    """What a person may do between two nights, and the night whose rows are gone."""
    action, some = rng.integers(6), (*past.used, *past.waiting, *past.quarantined)
    one = int(rng.choice(some))
    if action == 0 and one not in past.used:
        return past.taken(one), None
    if action == 1:
        return past.quarantine(n for n in past.used if n > one), None
    if action == 2 and len(some) > 1:
        return past.without(one), one
    return past, None


def check(rule, past, every):
    """What holds at any time."""
    assert sorted((*past.used, *past.waiting, *past.quarantined)) == sorted(every)
    assert len(past.waiting) <= max(rule.most_waiting, 0)
    windows = learnt_from(rule, past)
    longest = max((math.inf if w == "all" else w) for w in rule.windows)
    for name, nights in windows.items():
        assert not set(nights) & set(past.waiting)
        assert name == "whole" or not set(nights) & set(past.quarantined)
        assert len(nights) <= min(longest, rule.most_nights or math.inf)
        assert name in ("since", "whole") or nights == past.used[len(past.used) - len(nights) :]
    assert len(past.usual) <= 14
    assert len(past.scores) <= rule.scored_generations
    gone = {*past.waiting, *past.quarantined}
    assert not gone & {night for night, _ in (*past.usual, *past.scores)}
    assert chosen(rule, past, None).window in windows


@given(st.integers(0, 1 << 30), RULES)
def test_no_night_is_lost_and_none_that_waits_counts(seed, rule):
    rng = np.random.default_rng(seed)
    past, every = first(Past(), 0, 0.5), [0]
    for tonight in range(1, 30):
        names = [PUBLISHED, *learnt_from(rule, past), *candidates(rule, past, tonight)]
        halves = scores_of({PUBLISHED: 1.1, HALF: rng.choice([0.5, 1.1])})
        verdict = night_verdict(rule, past, tonight, any_scores(rng, names), halves)
        before, past = past, verdict.past
        every.append(tonight)
        assert set(before.waiting) | {tonight} >= set(past.waiting)
        assert (verdict.kind == "waits") == (tonight in past.waiting)
        check(rule, past, every)
        past, gone = by_persons(rng, past)
        every = [night for night in every if night != gone]
        check(rule, past, every)


def month(rule, levels, *, more=0.0, stored=False):
    """Verdicts, windows and choices by losses that a seed decides, `more` added to all of them."""
    past = first(Past(), 0, 0.5 + more)
    for night in range(1, 6):
        past = past.learnt(night, 0.5 + more + 0.005 * (night % 3), None, 7)
    out = []
    for tonight in range(6, 30):
        windows, able = learnt_from(rule, past), candidates(rule, past, tonight)
        names = [PUBLISHED, *sorted(windows), *sorted(able)]
        scores = scores_of({name: more + levels(tonight, name) for name in names})
        if stored:
            scores = Scores(*json.loads(json.dumps(scores)))
        verdict = night_verdict(rule, past, tonight, scores)
        past = verdict.past
        choice = chosen(rule, past, out[-1][2].window if out else None)
        out.append((verdict, windows, choice, able))
    return out


def levels_of(seed, confirming=0.0):
    """Losses by night and model: odd nights, and windows that differ a little."""

    def level(night, name):
        rng = np.random.default_rng([seed, night])
        odd = rng.random() < 0.15
        if name.startswith("turned-") and rng.random() < confirming:
            return 0.45
        own = np.random.default_rng([seed, night, *name.removeprefix("turned-").encode()])
        return 0.5 + 0.6 * odd + 0.02 * own.random()

    return level


@settings(max_examples=25)
@given(st.integers(0, 1 << 30), st.permutations(RULE.windows))
def test_the_order_of_windows_changes_nothing(seed, windows):
    levels = levels_of(seed, confirming=0.3)
    own, other = month(RULE, levels), month(RULE._replace(windows=tuple(windows)), levels)
    for (a, *rest_a), (b, *rest_b) in zip(own, other, strict=True):
        assert (a.kind, a.nights) == (b.kind, b.nights)
        assert rest_a == rest_b


@settings(max_examples=25)
@given(st.integers(0, 1 << 30), st.sampled_from([-3.0, 7.0]))
def test_a_constant_added_to_all_losses_changes_nothing(seed, more):
    """While no usual loss begins anew: that of few nights varies by a share of itself."""
    own, other = (month(RULE, levels_of(seed), more=each) for each in (0.0, more))
    for a, b in zip(own, other, strict=True):
        assert (a[0].kind, a[0].nights, a[1]) == (b[0].kind, b[0].nights, b[1])
        assert a[2].window == b[2].window
        assert a[2].difference == pytest.approx(b[2].difference, abs=1e-12)


@settings(max_examples=25)
@given(st.integers(0, 1 << 30))
def test_scores_that_were_stored_lead_to_the_same(seed):
    levels = levels_of(seed, confirming=0.3)
    for a, b in zip(month(RULE, levels), month(RULE, levels, stored=True), strict=True):
        assert a[0].past.used == b[0].past.used
        assert (a[0].kind, a[0].nights, *a[1:]) == (b[0].kind, b[0].nights, *b[1:])


# -- formulas --------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 2, 3, 4, 9, 14, 20])
def test_deviations_are_of_the_newest_usual_nights(k):
    losses = np.random.default_rng(k).normal(0.5, 0.03, k)
    past = first(Past(), 0, float(losses[0]))
    for night in range(1, k):
        past = past.learnt(night, float(losses[night]), None, 7)
    newest = losses[-14:]
    spread = np.std(newest, ddof=1) * (1 + 5 / len(newest)) if k > 1 else 0.0
    spread = max(spread, 0.04 * newest.mean()) if k < 4 else spread
    for loss in (0.2, 0.6):
        names = (PUBLISHED, *learnt_from(RULE, past))
        verdict = night_verdict(RULE, past, k, scores_of(dict.fromkeys(names, loss)))
        deviation = math.hypot(ERROR, spread)
        assert verdict.usual == pytest.approx(newest.mean())
        assert verdict.usual_error == pytest.approx(deviation)
        assert verdict.deviations == pytest.approx((loss - newest.mean()) / deviation)
        assert (verdict.kind == "waits") == (loss > newest.mean() + 4 * deviation)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_odd(loss):
    past = first(Past(), 0, 0.5)
    scores = scores_of({PUBLISHED: loss} | dict.fromkeys(learnt_from(RULE, past), 0.5))
    assert night_verdict(RULE, past, 1, scores).kind == "waits"


def test_a_night_that_has_drifted_waits_and_without_waiting_nights_does_not():
    past = first(Past(), 0, 0.5)
    scores = scores_of(dict.fromkeys((PUBLISHED, *learnt_from(RULE, past)), 0.5))
    for odd, kind in ((4.0, "waits"), (None, "usual")):
        assert night_verdict(RULE._replace(odd=odd), past, 1, scores, drifted=True).kind == kind


@pytest.mark.parametrize(("loss", "explains"), [(0.56, False), (0.53, True)])
def test_few_nights_are_no_reason_to_think_that_a_model_explains_a_night(loss, explains):
    """The published model's loss may be .08 above the usual one; that of a candidate may not."""
    past = first(Past(), 0, 0.5).learnt(1, 0.501, None, 7)
    scores = scores_of(dict.fromkeys((PUBLISHED, *learnt_from(RULE, past)), 0.9))
    assert night_verdict(RULE, past, 2, scores_of({PUBLISHED: 0.57})).kind == "usual"
    verdict = night_verdict(RULE, past, 2, scores, scores_of({PUBLISHED: 0.9, HALF: loss}))
    assert (verdict.kind, verdict.explained) == ("waits", explains)
    able = dict.fromkeys(candidates(RULE, verdict.past, 3), loss)
    after = night_verdict(RULE, verdict.past, 3, scores_of({PUBLISHED: 0.9} | able))
    assert after.kind == ("confirms" if explains else "waits")


def test_losses_of_zero_are_usual_and_any_loss_after_them_is_odd():
    past = first(Past(), 0, 0.0)
    for loss, kind in ((0.0, "usual"), (1e-9, "waits")):
        scores = scores_of(dict.fromkeys((PUBLISHED, *learnt_from(RULE, past)), loss), 0.0)
        assert night_verdict(RULE, past, 1, scores).kind == kind


def test_scores_that_are_missing_are_named():
    past = first(Past(), 0, 0.5).moved((1,), "waiting")
    with pytest.raises(ValueError, match="turned-1, turned-14, turned-4, turned-all, turned-since"):
        night_verdict(RULE, past, 2, scores_of({PUBLISHED: 0.5, "all": 0.5}))


def scored_nights(*nights):
    """A past with windows of four nights and scores of these."""
    past = Past(used=tuple(range(20)))
    for night, losses in enumerate(nights, 20):
        past = past.learnt(night, 0.5, scores_of(losses), 7)
    return past


def test_the_least_mean_of_the_newest_nights_is_chosen_and_of_equal_ones_the_longest():
    even = {"1": 0.5, "4": 0.5, "14": 0.5, "all": 0.5}
    assert chosen(RULE, scored_nights(), None)[:4] == ("all", 0.0, 0.0, ())
    assert chosen(RULE, scored_nights(even), None).window == "all"
    nights = [even | {"all": 0.6, "14": 0.6}, *[even | {"1": 0.45}] * 3, *[even | {"4": 0.46}] * 4]
    choice = chosen(RULE, scored_nights(*nights), "1")
    assert choice.window == "4"  # the first night is too long ago
    assert choice.difference == pytest.approx(-0.16 / 7)
    assert choice.error == pytest.approx(ERROR * math.sqrt(2 / 7))
    assert (choice.nights, choice.changed) == (tuple(range(21, 28)), True)


def test_scores_of_other_windows_count_where_the_longest_is_among_them():
    past = scored_nights(*[{"1": 0.5, "4": 0.4, "all": 0.5}] * 3)
    assert chosen(Rule((4, 9, "all")), past, None).window == "4"
    assert chosen(Rule((4, 9)), past, "all")[:5] == ("9", 0.0, 0.0, (), True)


@pytest.mark.parametrize(("nights", "competes"), [(2, False), (3, True)])
def test_a_new_window_competes_after_three_nights(nights, competes):
    even = {"1": 0.5, "4": 0.5, "14": 0.5, "all": 0.5}
    past = scored_nights(*[even] * 5, *[even | {"whole": 0.4}] * nights).quarantine((3,))
    assert chosen(RULE, past, None).window == ("whole" if competes else "all")


# -- what persons do -------------------------------------------------------------------------------


def test_no_window_is_longer_than_the_longest():
    past = Past(used=(0, 1, 2, 4, 5), quarantined=(3,), turn=1)
    assert learnt_from(Rule((2, 3)), past) == {
        "2": (4, 5), "3": (2, 4, 5), "since": (2, 4, 5), "whole": (3, 4, 5),
    }  # fmt: skip
    assert learnt_from(Rule(most_nights=2), past)["all"] == (4, 5)


def test_taken_nights_are_a_turn_if_they_waited_and_halves_say_whether_to_publish_it():
    before = scored_nights(dict.fromkeys(["1", "4", "14", "all"], 0.5))
    past = before.moved((21, 22), "waiting").quarantine((3,))
    for half, window in ((0.5, "since"), (0.8, "all")):
        after = past.taken(21).taken(22, scores_of({PUBLISHED: 0.7, HALF: half}))
        assert (after.used[-3:], after.turn, after.waiting) == ((20, 21, 22), 21, ())
        assert after.usual == ((21, min(0.7, half)),)
        assert after.moved((23,), "waiting").taken(23).turn == 21
        assert chosen(RULE, after, None).window == window
        assert learnt_from(RULE, after)["since"] == (21, 22)
    assert past.taken(22).taken(21).turn == 21
    assert past.taken(21).learnt(23, 0.5, None, 7).taken(22).turn == 22
    assert past.taken(21).waiting == (22,)
    assert past.taken(21).usual == past.taken(21).scores == ()
    again = past.taken(3)
    assert (again.turn, again.usual, again.scores) == (None, past.usual, past.scores)
    assert (again.used, again.quarantined) == (before.used, ())


def test_rolled_back_nights_are_apart_and_what_they_said_is_forgotten():
    past = scored_nights(*[dict.fromkeys(["1", "4", "14", "all"], 0.5)] * 4)._replace(turn=22)
    back = past.quarantine(range(22, 24))
    assert (back.used, back.quarantined, back.turn) == (tuple(range(22)), (22, 23), None)
    assert [night for night, _ in back.scores] == [night for night, _ in back.usual] == [20, 21]
    assert back.taken(22).used == tuple(range(23))
    assert back.without(22) == back._replace(quarantined=(23,))


# -- months ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run():
    """Months by name: the stream's nights up to one, by a rule."""
    drawn = {}

    def run(name, until, rule=RULE):
        if name not in drawn:
            nights = Nights(STREAMS[name], 2_000, 0, until)
            drawn[name] = nights, Models(nights)
        return by_rule(*drawn[name], rule)

    return run


def events(month):
    return [
        (night, one.kind, one.nights)
        for night, one in enumerate(month.verdicts, 1) if one.kind != "usual"
    ]  # fmt: skip


MONTHS = {
    "stable": [],
    "turn": [(15, "waits", (15,)), (16, "confirms", (15,))],
    "broken": [(20, "waits", (20,)), (21, "quarantines", (20,))],
    "unit": [(20, "waits", (20,)), (21, "quarantines", (20,))],
    "two broken": [(20, "waits", (20,)), (21, "waits", (20, 21)), (22, "quarantines", (20, 21))],
    "broken second night": [(1, "waits", (1,)), (2, "quarantines", (1,))],
    "odd Sundays": [
        (6, "waits", (6,)), (7, "quarantines", (6,)), (13, "as a week ago", (6,)),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", MONTHS)
def test_months(run, name):
    month = run(name, 24)
    assert events(month) == MONTHS[name]
    past = month.verdicts[-1].past
    assert sorted((*past.used, *past.quarantined)) == list(range(24))


def test_after_a_turn_a_model_of_the_nights_since_is_published_and_its_loss_is_usual(run):
    month = run("turn", 24)
    assert month.excess[TURN] > 0.9 * month.excess[TURN - 1] > 0.2
    assert month.excess[TURN + 1] < 0.1 * month.excess[TURN - 1]
    assert month.windows[TURN - 1 : TURN + 2] == ["all", "all", "1"]
    past = month.verdicts[TURN + 1].past
    assert [n for n, _ in past.usual] == [n for n, _ in past.scores] == [TURN + 1, TURN + 2]


def test_a_turn_that_explains_itself_is_published_at_once_where_that_is_asked(run):
    rule = RULE._replace(after_turn="publish")
    month = run("turn", 24, rule)
    assert events(month) == [(TURN, "takes", (TURN,))]
    assert month.excess[TURN] < 0.1 * month.excess[TURN - 1]
    assert events(run("broken", 24, rule)) == MONTHS["broken"]
    explained = {name: run(name, 24).verdicts for name in ("turn", "broken", "unit")}
    assert explained["turn"][TURN - 1].explained is True
    assert explained["unit"][SPOILT - 1].explained is True
    assert explained["broken"][SPOILT - 1].explained is False


def test_never_waiting_learns_every_night(run):
    month = run("turn", 24, RULE._replace(odd=None))
    assert not events(month)
    assert month.verdicts[-1].past.used == tuple(range(24))


def test_three_odd_nights_are_taken():
    past = first(Past(), 0, 0.5)
    kinds = []
    for tonight in range(1, 5):
        names = (PUBLISHED, *learnt_from(RULE, past), *candidates(RULE, past, tonight))
        verdict = night_verdict(RULE, past, tonight, scores_of(dict.fromkeys(names, 0.9)))
        past = verdict.past
        kinds.append((verdict.kind, verdict.nights))
    assert kinds[2:] == [("waits", (1, 2, 3)), ("takes", (1, 2, 3))]
    assert past.used == (0, 1, 2, 3, 4)
    assert past.usual == ((4, 0.9),)


@pytest.mark.parametrize(
    ("loss", "waiting", "rows", "kind"),
    [(0.51, 0, 100, REPLACES), (0.9, 0, 100, TO_REPLACE), (0.9, 2, 100, TO_REPLACE),
     (0.9, 3, 100, REPLACES), (0.9, 0, 20, REPLACES)],
)  # fmt: skip
def test_rows_of_files_that_changed_wait_if_they_are_odd(loss, waiting, rows, kind):
    past = Past(used=(1, 2, 3), waiting=(4,), usual=((1, 0.5), (2, 0.51), (3, 0.5)))
    scores = scores_of({PUBLISHED: loss})._replace(rows=rows)
    made = replacement_verdict(RULE, past, 2, scores, waiting=waiting)
    assert (made.kind, made.past) == (kind, past)
    assert replacement_verdict(RULE._replace(odd=None), past, 2, scores).kind == REPLACES
    explained = scores_of({PUBLISHED: loss, HALF: 0.5})
    at_once = RULE._replace(after_turn="publish")
    assert replacement_verdict(at_once, past, 2, scores, explained).kind == REPLACES
    of_waiting = replacement_verdict(RULE, past, 4, scores)
    assert of_waiting.kind == REPLACES
    assert (4 in of_waiting.past.used) == (loss < 0.6 or rows < 30)
