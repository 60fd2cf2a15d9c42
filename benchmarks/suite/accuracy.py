"""Seconds to a given suboptimality, as contests of the programme (time_to_accuracy.py)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.suite.workloads import load

ROWS = {"D1": 200_000, "S1": 150_000}  # the first ones of the sets; of others all


class Goal(NamedTuple):
    """What auto's method should be faster than, by what factor, in reaching what."""

    peers: tuple[str, ...]  # the best of those whose names begin so
    at_least: float
    suboptimality: str = "1e-06"


LOGISTIC = {
    "D1": (Goal(("snapml",), 1.3), Goal(("scikit-learn", "liblinear"), 2.0)),
    "S1": (Goal(("snapml",), 1.0), Goal(("scikit-learn", "liblinear"), 2.0)),
}
RAW = (Goal(("snapml", "scikit-learn", "liblinear"), 1.0),)
HINGE = (Goal(("snapml",), 1.5, "1e-02"), Goal(("snapml",), 1.0))


class AccuracyContest(NamedTuple):
    """One problem, everybody's way to its optimum."""

    workload: str
    place: Path
    loss: str
    lam: str
    turns: int  # through all contestants

    @property
    def name(self) -> str:
        """What the programme calls it."""
        return f"accuracy {self.workload} {self.loss} {self.lam}"

    def held(self, *, rehearsed: bool = True) -> dict[str, Any]:
        """Run it; returns its results, JSON values."""
        from benchmarks.suite.time_to_accuracy import Trial, reference, time_to_accuracy, warm_up

        warm_up()
        X, y = load(self.place)
        n = min(ROWS.get(self.workload, len(y)), len(y))
        lam = 1.0 / n if self.lam == "1/n" else float(self.lam)
        trial = Trial(self.workload, X[:n], y[:n], self.loss, lam)
        best = reference(trial)
        if rehearsed:  # compiles what sizes decide
            time_to_accuracy(trial, only=["fewpass"], most_seconds=1.0, best=best)
        rows = time_to_accuracy(trial, turns=self.turns, best=best)
        goals = LOGISTIC.get(self.workload, RAW) if self.loss == "logistic" else HINGE
        chosen = next(row for row in rows if row["chosen"])
        return {
            "contest": self.name,
            "title": f"CPU seconds to the optimum: {self.workload}, {self.loss}, lam {self.lam}",
            "workload": self.workload,
            "rows": n,
            "turns": self.turns,
            "courses": {row["contestant"]: row for row in rows},
            "targets": [evaluated(goal, chosen, rows) for goal in goals],
        }


def evaluated(goal: Goal, ours: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the ratio that came out; null where one of the two did not arrive."""
    arrived = {
        row["contestant"]: row["seconds_to"][goal.suboptimality]
        for row in rows
        if row["contestant"].startswith(goal.peers) and row["seconds_to"][goal.suboptimality]
    }
    best = min(arrived, key=lambda name: arrived[name], default=None)
    mine = ours["seconds_to"][goal.suboptimality]
    return {
        "number": 6,
        "ours": ours["contestant"],
        "peer": best or " or ".join(goal.peers),
        "at_least": goal.at_least,
        "measure": f"CPU seconds to {goal.suboptimality}",
        "ratio": arrived[best] / mine if best and mine else None,
    }
