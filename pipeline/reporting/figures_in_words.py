"""The figures of an evaluation by people's names for them, with as many digits as say something."""

from __future__ import annotations

from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.scoring.row_metrics import MetricFigures


def shown_figures(figures: Evaluation) -> dict[str, str | None]:
    """Write the figures of an evaluation; those without a meaning are None."""
    within = f" (exact to {figures.auc_within:.1g})" if figures.auc_within is not None else ""
    return {
        "rows": f"{figures.rows:,}",
        "mean loss": f"{figures.loss:.6g}",
        "objective": f"{figures.objective:.6g}",
        "error": _error(figures),
        "area under the ROC curve": None if figures.auc is None else f"{figures.auc:.5f}{within}",
        "mean squared error": None if figures.mse is None else f"{figures.mse:.6g}",
        "R squared": None if figures.r2 is None else f"{figures.r2:.5f}",
        "mean deviance": None if figures.deviance is None else f"{figures.deviance:.6g}",
        "mean pinball loss": None if figures.pinball is None else f"{figures.pinball:.6g}",
        "D squared": None if figures.d2 is None else f"{figures.d2:.5f}",
        **_metrics(figures.metrics or MetricFigures()),
    }


def _metrics(metrics: MetricFigures) -> dict[str, str | None]:
    """Write the metrics that people use, with the base rates of those that have one."""
    plain = {
        "F1": metrics.f1, "balanced accuracy": metrics.balanced_accuracy,
        "recall": metrics.recall, "mean absolute percentage error": metrics.mape,
        "calibration error": metrics.calibration_error,
    }  # fmt: skip
    shown = {name: None if one is None else f"{one:.5g}" for name, one in plain.items()}
    if metrics.lift is not None and metrics.lift_top is not None:
        shown["lift"] = f"{metrics.lift:.3f} (in the top {100 * metrics.lift_top:.3g}% of the rows)"
    based = {
        "precision": (metrics.precision, metrics.base_precision),
        "mean absolute error": (metrics.mae, metrics.base_mae),
        "log loss": (metrics.log_loss, metrics.base_log_loss),
        "Brier score": (metrics.brier, metrics.base_brier),
    }
    for name, (one, base) in based.items():
        if one is not None:
            shown[name] = f"{one:.5g}" + ("" if base is None else f" (base rate {base:.5g})")
    return shown


def _error(figures: Evaluation) -> str | None:
    base = figures.metrics.base_error if figures.metrics else None
    if figures.error is None:
        return None
    return f"{figures.error:.3%}" + ("" if base is None else f" (base rate {base:.3%})")
