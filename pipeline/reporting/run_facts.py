"""The facts of a run in words: one list for the terminal, pages, cards and notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fewpass.pipeline.runs.events import Learners
from fewpass.pipeline.runs.grid import LossChoice
from fewpass.pipeline.runs.outcome import Convergence, TrainingResult
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.timeline_points import NO_BOUND, above_optimum
from fewpass.pipeline.sizes import counted, format_bytes, format_seconds, or_none
from fewpass.solvers.registry import L2, loss_class

if TYPE_CHECKING:
    from fewpass.pipeline.reporting.report import RunReport

Facts = dict[str, str | None]  # None: there is nothing to say


def training_facts(result: TrainingResult) -> Facts:
    """Write down what a training came to."""
    squares = result.penalty == L2
    return _facts(result) | {
        "snapshot": result.snapshot,
        "penalty": None if squares else result.penalty,
        "models": f"{result.classes}, one per class" if result.classes else None,
        **_steps(result.features),
        "weights": _zeros(result),
        "probabilities": _calibrated(result.calibration),
        "best on held-out rows after": or_none(result.passes_of_model, ".4g"),
        "memory": f"at most {format_bytes(result.peak_memory_bytes)}",
    }


def report_facts(report: RunReport) -> Facts:
    """Write down how a run stands, and how it came there."""
    compiling = report.compiling_s
    facts = _facts(report)
    facts["certificate"] = facts["certificate"] or "not computed"
    return facts | {
        "data set": report.dataset,
        "snapshot": report.snapshot,
        "state": "finished" if report.finished else "unfinished: fewpass resume continues it",
        "loss by held-out rows": _loss(report.lam_origin),
        "lam by held-out rows": _origin(report.lam_origin),
        "chosen": report.chosen,
        "best learner": Learners(report.learners).sentence() if report.learners else None,
        "progressive loss": or_none(report.last_loss),
        "weights": f"{report.weights_not_zero:,} of {report.n_weights:,} are not 0",
        "restarts": str(report.restarts),
        "resumed": str(report.resumed),
        "of which compiling": format_seconds(compiling) if compiling else None,
        "waited for reading": f"{report.waiting_share:.0%} of the stepping time",
        "weights, SHA-256": report.weights_sha256,
    }


def data_facts(record: RunRecord) -> Facts:
    """Write down which rows a run has learnt from."""
    return {
        "data set": record.plan.dataset,
        "fingerprint": record.dataset_fingerprint,
        "rows": f"{record.n_rows:,}",
        "features": f"{record.n_features:,}",
        "layout": record.layout,
        "targets": record.targets.kind,
        "scaling": record.scaling.kind,
    }


def _facts(one: TrainingResult | RunReport) -> Facts:
    """Write down what there is of every run."""
    rows = f", {one.rows_seen:,} rows" if one.rows_seen else ""
    return {
        "run": one.run,
        "method": f"{one.solver}, loss {one.loss}, lam {one.lam:.6g}",
        "predictions": "exp(score): effects multiply" if loss_class(one.loss).is_steep else None,
        "passes": f"{one.passes:.4g}{rows}",
        "objective": or_none(one.objective, ".8g"),
        "certificate": _certificate(one),
        "tolerance": Convergence(one.tol, one.relative_gap, one.converged).sentence(one.passes),
        "took": f"{format_seconds(one.seconds)}, {format_bytes(one.bytes_read)} read",
    }


def _certificate(one: TrainingResult | RunReport) -> str | None:
    above = above_optimum(one.certificate, one.relative_gap)
    return above if above in (None, NO_BOUND) else f"{above} ({one.relative_gap:.2g} of it)"


def _origin(origin: dict[str, Any] | None) -> str | None:
    """Tell what a lam that nobody gave was chosen from, with the loss of each."""
    if origin is None:
        return None
    each = (f"{one['lam']:.3g}: {one['loss']:.6g}" for one in origin["candidates"])
    return f"{origin['written']} ({', '.join(each)})"


def _loss(origin: dict[str, Any] | None) -> str | None:
    """Tell why a loss that nobody gave is not the usual one."""
    choice = origin and origin["loss"]
    return LossChoice(**choice).reason() if choice else None


def _zeros(result: TrainingResult) -> str | None:
    """Tell how many weights an l1 penalty left, and of how many that is proven."""
    if result.nonzeros is None:
        return None
    text = f"{result.nonzeros:,} are not 0"
    if result.proven_zeros:
        text += f"; {result.proven_zeros:,} columns are proven to be 0 at the optimum"
    return text


def _calibrated(calibration: dict[str, Any] | None) -> str | None:
    """Return how scores become probabilities, if the run has a calibration."""
    if calibration is None:
        return None
    if "p" in calibration:
        return f"isotonic, {counted(len(calibration['p']), 'point')}"
    offset = f"{calibration['offset']:.4g}" if "offset" in calibration else "an offset per class"
    form = "sigmoid of" if "offset" in calibration else "softmax of"
    return f"{form} {calibration['slope']:.4g} * score + {offset}"


def _steps(features: dict[str, Any] | None) -> Facts:
    """Lay out the results of a method that reads single features."""
    if features is None:
        return {}
    pilot = f", and {features['pilot_accesses']:,} to find nu" if features["pilot_accesses"] else ""
    where = "mapped from files" if features["mapped"] else "in memory"
    return {
        "steps": f"{features['iterations']:,}, rows and columns {where}",
        "values read": f"{features['accesses']:,}{pilot}",
        "nu": f"{features['nu']:.6g}",
        "margin": f"{features['margin']:.6g}, at most {features['margin_bound']:.6g} is possible",
    }
