"""Made-up months by the rule of nights: what must hold, what was seen, and whether it holds.

    python -m benchmarks.nights [--rows 2000 8000] [--seeds 3] [--streams NAME ...]

Excess is a published model's mean loss above that of the truth, on the next night's clean rows.
The models are learnt in memory (`testing/night_months.py`), the decisions are those of
`night_rule.py`.  Exit status 1 if a line does not hold.  docs/nights.md has the table.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from fewpass.pipeline.models.refresh.night_rule import Rule
from testing.night_months import Models, Month, by_rule, fixed
from testing.night_streams import NIGHTS, SPOILT, STREAMS, TURN, Nights
from testing.results import table

RULE = Rule()
WEEK = 7


class Run(NamedTuple):
    """A month of one seed, and what the single windows come to, always published."""

    month: Month
    fixed: dict[str, float]  # mean excess

    @property
    def mean(self) -> float:
        """The mean excess, of all nights but the last."""
        return _mean(self.month.excess)


class Seen(NamedTuple):
    """What came out, and whether it is what must be."""

    figure: str
    holds: bool


class Line(NamedTuple):
    """What must hold of some streams."""

    streams: tuple[str, ...]
    must: str
    seen: Callable[[list[Run]], Seen]


def main() -> int:
    """Print the table."""
    asked = _options()
    with threadpool_limits(1):
        seen = {
            (name, n): _seen(name, n, asked.seeds) for name in asked.streams for n in asked.rows
        }
    cells = []
    for name in asked.streams:
        for k, line in enumerate(lines_of(name)):
            each = [seen[name, n][k] for n in asked.rows]
            holds = "yes" if all(one.holds for one in each) else "**no**"
            cells.append([name, line.must, *(one.figure for one in each), holds])
    head = ("stream", "must", *(f"{n:,} rows" for n in asked.rows), "holds")
    print(table(head, cells, head))
    return 0 if all(one.holds for each in seen.values() for one in each) else 1


def lines_of(name: str) -> list[Line]:
    """Return what must hold of a stream."""
    return [line for line in LINES if name in line.streams]


def _seen(name: str, rows: int, seeds: int) -> list[Seen]:
    """Return what came out, for each line of a stream."""
    print(f"{name}, {rows:,} rows", file=sys.stderr, flush=True)
    runs = [run(name, rows, seed) for seed in range(seeds)]
    return [line.seen(runs) for line in lines_of(name)]


def _options() -> Namespace:
    options = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    options.add_argument("--rows", type=int, nargs="+", default=[2_000, 8_000], help="of a night")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--streams", nargs="+", choices=list(STREAMS), default=list(STREAMS))
    return options.parse_args()


def run(name: str, rows: int, seed: int) -> Run:
    """Run a month."""
    nights = Nights(STREAMS[name], rows, seed)
    models = Models(nights)
    lengths = {str(window): NIGHTS if window == "all" else window for window in RULE.windows}
    month = by_rule(nights, models, RULE)
    return Run(month, {own: _mean(fixed(nights, models, n)) for own, n in lengths.items()})


def _mean(excess: np.ndarray) -> float:
    return float(excess[:-1].mean())


# -- lines -----------------------------------------------------------------------------------------


def beside_all(most: float) -> Callable[[list[Run]], Seen]:
    """Compare the mean excess with that of all nights."""
    return lambda runs: _ratio(runs, [run.fixed["all"] for run in runs], most)


def beside_best(most: float) -> Callable[[list[Run]], Seen]:
    """Compare the mean excess with that of the best window, which nobody knows before."""
    return lambda runs: _ratio(runs, [min(run.fixed.values()) for run in runs], most)


def _ratio(runs: list[Run], others: list[float], most: float) -> Seen:
    own, other = np.mean([run.mean for run in runs]), np.mean(others)
    return Seen(
        f"{own / other:.2f} ({1e4 * own:.1f}e-4, {1e4 * other:.1f}e-4)", own <= most * other
    )


def never_waits(runs: list[Run]) -> Seen:
    """No night waits, and all rows are learnt."""
    waits = [run.month.nights("waits") for run in runs]
    past = [run.month.verdicts[-1].past for run in runs]
    return Seen(_words(waits), all(len(one.used) == NIGHTS for one in past) and not any(waits))


def decided(*verdicts: str) -> Callable[[list[Run]], Seen]:
    """Nights with a verdict other than usual are these, in every seed."""
    return lambda runs: Seen(
        _words(map(_verdicts, runs)), all(_verdicts(run) == [*verdicts] for run in runs)
    )


def _verdicts(run: Run) -> list[str]:
    return [
        f"{one.kind} {night}"
        for night, one in enumerate(run.month.verdicts, 1)
        if one.kind != "usual"
    ]


def _words(seeds: Iterable[Iterable[object]]) -> str:
    """Say what happened in each seed, once where it is the same."""
    each = [", ".join(map(str, one)) or "none" for one in seeds]
    return each[0] if len(set(each)) == 1 else "; ".join(each)


def recovered(runs: list[Run]) -> Seen:
    """The night after the turn's publishes a model that has lost at most a tenth of the jump."""
    left = max(run.month.excess[TURN + 1] / _jump(run) for run in runs)
    return Seen(f"{left:.3f}", left <= 0.1)


def turn_costs(runs: list[Run]) -> Seen:
    """The mean excess is that of the night itself, of the one that waits, and little more."""
    jumps = max(run.mean * (NIGHTS - 1) / _jump(run) for run in runs)
    return Seen(f"{jumps:.2f} jumps", jumps <= 2.4)


def _jump(run: Run) -> float:
    """Return the excess of the last model before the turn, on the turn's night."""
    return float(run.month.excess[TURN - 1])


def first_week(runs: list[Run]) -> Seen:
    """Nights wait in the first week only, two at most."""
    waits = [run.month.nights("waits") for run in runs]
    return Seen(_words(waits), all(len(one) <= 2 and all(k <= WEEK for k in one) for one in waits))


def waits_once(runs: list[Run]) -> Seen:
    """One night waits, the others are as a week before."""
    once = all(len(run.month.nights("waits")) == 1 for run in runs)
    return Seen(_words(map(_verdicts, runs)), once)


def harmless(first: int) -> Callable[[list[Run]], Seen]:
    """Compare the worst of the five nights from a spoilt one on with the night before."""

    def seen(runs: list[Run]) -> Seen:
        each = (run.month.excess for run in runs)
        worst = 1e4 * max(one[first : first + 5].max() - one[first - 1] for one in each)
        return Seen(f"{worst:.1f}e-4", bool(worst <= 15.0))

    return seen


def takeable(runs: list[Run]) -> Seen:
    """Every night is learnt or quarantined, and what is quarantined can be learnt after all."""
    ends = [run.month.verdicts[-1].past for run in runs]
    whole = all(sorted((*past.used, *past.quarantined)) == list(range(NIGHTS)) for past in ends)
    taken = all(night in past.taken(night).used for past in ends for night in past.quarantined)
    quarantined = [[str(night) for night in past.quarantined] for past in ends]
    return Seen(
        f"quarantined: {_words(quarantined)}", whole and taken and all(map(bool, quarantined))
    )


def explained(night: int, *, by_itself: bool) -> Callable[[list[Run]], Seen]:
    """A model of one half of the night explains the other, or none does."""

    def seen(runs: list[Run]) -> Seen:
        each = [run.month.verdicts[night - 1].explained for run in runs]
        words = {True: "yes", False: "no", None: "not odd"}
        return Seen(_words([words[one]] for one in each), all(one is by_itself for one in each))

    return seen


SECOND = "broken second night"
QUIET, SPOILT_ONES = ("stable", "rare", "covariates"), ("broken", "unit", "two broken")
LINES = (
    Line(QUIET, "at most 1.2 of all nights' model", beside_all(1.2)),
    Line(QUIET, "no night waits, no row is left out", never_waits),
    Line(("turn",), "waits, is confirmed the next night", decided("waits 15", "confirms 16")),
    Line(("turn",), "then at most a tenth of the jump is left", recovered),
    Line(("turn",), "39 nights cost at most 2.4 jumps", turn_costs),
    Line(("turn",), "a model of the night alone explains it", explained(TURN, by_itself=True)),
    Line(("small turn",), "at most .6 of all nights' model", beside_all(0.6)),
    Line(("slow", "base rate"), "at most 1.15 of the best window in hindsight", beside_best(1.15)),
    Line(("small turn", "slow", "base rate"), "no night waits", never_waits),
    Line(("weekday",), "at most 1.2 of all nights' model", beside_all(1.2)),
    Line(("weekday",), "waits in the first week only, twice at most", first_week),
    Line(("odd Sundays",), "one night waits", waits_once),
    Line(("broken", "unit"), "waits, is quarantined", decided("waits 20", "quarantines 21")),
    Line(
        ("two broken",), "wait, are quarantined", decided("waits 20", "waits 21", "quarantines 22")
    ),
    Line((SECOND,), "waits, is quarantined", decided("waits 1", "quarantines 2")),
    Line(SPOILT_ONES, "worst of 5 nights: at most 15e-4 above the one before", harmless(SPOILT)),
    Line((SECOND,), "worst of 5 nights: at most 15e-4 above the one before", harmless(1)),
    Line((*SPOILT_ONES, SECOND), "its rows are there, and can be taken", takeable),
    Line(("unit",), "a model of the night alone explains it", explained(SPOILT, by_itself=True)),
    Line(("broken", "two broken"), "no model explains it", explained(SPOILT, by_itself=False)),
    Line((SECOND,), "no model explains it", explained(1, by_itself=False)),
)

if __name__ == "__main__":
    sys.exit(main())
