"""What a training tells while it runs, and what it hands on at its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeline.training.run_folder import Cursor
from solvers.losses import Problem, SmoothedHinge
from solvers.protocol import Certificate


@dataclass(frozen=True)
class Event:
    """What just happened.

    `kind` is start, resume, span, snapshot, restart, certificate or finish.
    """

    kind: str
    cursor: Cursor
    facts: dict[str, Any]


@dataclass(frozen=True)
class TrainingResult:
    """What a finished run hands on; the fields that `fewpass train --json` prints."""

    run: str
    snapshot: str
    solver: str
    loss: str
    lam: float
    classes: int | None  # a model for each, where there are more than two: the objective is their
    # mean, and the certificate the largest
    candidates: list[dict[str, Any]]  # where rows were held out, what became of every lam: the
    # fields of pipeline.training.grid.Candidate
    passes: float  # rows read over the rows of the data set; those of a last certificate not
    rows_seen: int
    objective: float | None  # mean loss + (lam/2) ||w||^2 over all rows, if a pass was paid for it
    certificate: float | None  # at most this far above the optimum
    hinge_certificate: float | None  # of the smoothed hinge: the same for the plain hinge
    weights_sha256: str
    seconds: float
    bytes_read: int
    peak_memory_bytes: int  # of the largest process that took part


def hinge_gap(problem: Problem, certified: Certificate | None) -> float | None:
    """Carry a smoothed hinge's certificate over: it lies below the hinge by width / 2 at most."""
    if certified is None or not isinstance(problem.loss, SmoothedHinge):
        return None
    return certified.gap + 0.5 * problem.loss.width
