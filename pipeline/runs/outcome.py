"""The result of a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from fewpass.pipeline.runs.grid import Choice
from fewpass.pipeline.runs.saved import Cursor, Saved
from fewpass.pipeline.runs.validation import Validation
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_passes
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, Weights


class Convergence(NamedTuple):
    """The nearness to the optimum that was asked for, that is proven, and whether it is enough.

    A finished run has converged if and only if `relative_gap <= tol`.  What other values of lam
    came to, where several were trained, does not count, and a model that is as near without a
    proof of it has not converged.
    """

    tol: float | None  # what was asked for; None: nothing
    relative_gap: float | None  # Certificate.relative: of classes the largest
    converged: bool | None  # None where no tolerance was asked for, or the run is not finished

    @classmethod
    def of(cls, tol: float | None, certified: Certificate | None, *, finished: bool) -> Self:
        """Compare the certificate of a run's newest weights with its plan's tolerance."""
        gap = certified.relative if certified else None
        is_decided = finished and tol is not None
        return cls(tol, gap, (gap is not None and gap <= tol) if is_decided else None)  # type: ignore[operator]

    def sentence(self, passes: float) -> str | None:
        """Say whether the tolerance was reached; None without one, or before the end."""
        if self.converged is None:
            return None
        gap = self.relative_gap
        certified = "nothing" if gap is None or gap >= 1.0 else f"{gap:.3g}"
        verdict = "reached" if self.converged else "missed"
        after = format_passes(passes, ".4g")
        return f"Tolerance {self.tol:g} {verdict}: certified {certified} after {after}."


@dataclass(frozen=True)
class TrainingResult:
    """The result of a finished run; the fields that `fewpass train --json` prints."""

    run: str
    snapshot: str
    solver: str
    loss: str
    lam: float
    penalty: str  # its name
    nonzeros: int | None  # weights that are not 0, of all models; None with an l2 penalty
    proven_zeros: int | None  # weights that are proven to be 0 at the optimum, where anything is
    classes: int | None  # a model for each, where there are more than two: the objective is their
    # mean, and the certificate the largest
    candidates: list[dict[str, Any]]  # of several lam, what became of each that went on to the end:
    # the fields of fewpass.pipeline.runs.grid.Candidate
    lam_tried: int  # how many lam the pass, or the passes, began with
    lam_origin: dict[str, Any] | None  # of a lam that nobody gave, the fields of
    # fewpass.pipeline.runs.grid.LamOrigin
    calibration: dict[str, Any] | None  # where one was asked for, the numbers of a form of
    # fewpass.pipeline.calibration
    stopped_early: bool | None  # whether the held-out loss ended it; None: it was not to
    passes_of_model: float | None  # where it might have: after so many passes the loss was lowest
    passes: float  # rows read over the rows of the data set; those of a last certificate not
    rows_seen: int
    objective: float | None  # mean loss + (lam/2) ||w||^2 over all rows, if a pass was paid for it
    certificate: float | None  # at most this far above the optimum
    hinge_certificate: float | None  # of the smoothed hinge: the same for the plain hinge
    tol: float | None  # these three as in Convergence
    relative_gap: float | None
    converged: bool | None
    left_passes: float | None  # where it was missed, passes to the tolerance at the rate at which
    # the certificate fell over the last three; None where it did not fall
    weights_sha256: str
    seconds: float
    bytes_read: int
    peak_memory_bytes: int  # of the largest process that took part
    encoded: dict[str, str]  # of a source: columns, and what became of each; none of plain numbers
    notes: tuple[str, ...]  # of a source: what somebody should look at
    features: dict[str, Any] | None  # of `simba`: nu, margin and margin_bound, iterations, values
    # of the data read (accesses, and pilot_accesses to find nu), and whether files were mapped

    @property
    def convergence(self) -> Convergence:
        """Return the tolerance asked for, the gap proven, and whether that is enough."""
        return Convergence(self.tol, self.relative_gap, self.converged)


class Trained(NamedTuple):
    """The facts that an estimator takes over from a training."""

    weights: Weights
    cursor: Cursor
    solver: str  # the method that was at work last
    loss: str  # of more than two classes maybe that of all at once
    lam: float
    choice: Choice | None  # where rows were held out
    validation: Validation | None  # where the training might stop early
    certified: Certificate | None
    converged: bool | None  # whether the plan's tolerance is certified; None: none was asked for

    @classmethod
    def of(cls, saved: Saved, plan: TrainingPlan, problem: Problem) -> Self:
        """Take it from the last snapshot, and from the engine's plan and problem."""
        return cls(
            weights=saved.weights,
            cursor=saved.cursor,
            solver=plan.solver.kind,
            loss=problem.loss.name,
            lam=saved.choice.lam if saved.choice else problem.penalty.total,
            choice=saved.choice,
            validation=saved.validation,
            certified=saved.certificate,
            converged=Convergence.of(plan.tol, saved.certificate, finished=True).converged,
        )


def hinge_gap(problem: Problem, certified: Certificate | None) -> float | None:
    """Carry the certificate of a loss that lies a little below the hinge over to the hinge."""
    below = problem.loss.below_hinge
    return None if certified is None or below is None else certified.gap + below
