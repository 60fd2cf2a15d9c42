"""Figures of models and of rows in words, the same in terminal, pages and Prefect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fewpass.pipeline.paired_mean import NORMAL_975
from fewpass.pipeline.runs.timeline_points import written_gap
from fewpass.pipeline.scoring.metric import HIGHER, figure_of
from fewpass.pipeline.sizes import as_fixed, decimals_of, or_dash

if TYPE_CHECKING:  # Arrow's half a second, which the table of lam need not wait for
    from fewpass.pipeline.explaining.importance import Importance
    from fewpass.pipeline.scoring.evaluate_classes import ClassFigures
    from fewpass.pipeline.scoring.evaluated_slices import Sliced
    from fewpass.pipeline.scoring.evaluation import Evaluation
    from fewpass.pipeline.scoring.row_metrics import MetricFigures

Rows = list[dict[str, str]]


def lam_rows(candidates: Sequence[dict[str, Any]], metric: str, chosen: float) -> Rows:
    """Lay out what became of every lam, the fields of `grid.Candidate`; the chosen one is marked.

    Columns of which nothing is known are left out.
    """
    losses, lams = ([one[name] for one in candidates] for name in ("loss", "lam"))
    least, decimals = min(losses), decimals_of(losses)
    mark = "chosen" + ", the smallest" * (len(lams) > 1 and chosen == min(lams))
    rows = [
        {
            "lam": f"{one['lam']:.6g}",
            "loss": as_fixed(one["loss"], decimals),
            "above\nleast": _with_error(one["loss"] - least, one["standard_error"]),
            "not 0": or_dash(one["nonzeros"], ",d"),
            **({metric: metric_of(one["cost"], metric)} if metric != "loss" else {}),
            "error": or_dash(one["error"], ".2%"),
            "objective": or_dash(one["objective"], ".6g"),
            "above\noptimum": or_dash(one["gap"], ".2e"),
            "": mark if one["lam"] == chosen else "",
        }
        for one in candidates
    ]
    used = [name for name in rows[0] if any(row[name] not in ("-", "") for row in rows)]
    return [{name: row[name] for name in used} for row in rows]


def _with_error(above: float, error: float | None) -> str:
    return "-" if error is None else f"{above:.2g} +- {error:.1g}"


def metric_of(cost: float | None, metric: str) -> str:
    """Write a metric by its cost, which is negated where higher is better."""
    return "-" if cost is None else f"{-cost if metric in HIGHER else cost:.6g}"


def importance_rows(columns: Importance, most: int, before: Importance | None = None) -> Rows:
    """Lay out how important columns are, the largest share of the scores' variance first.

    Parameters
    ----------
    before
        The same of the model that was published before.
    """
    rows = [_importance_row(one) for one in columns.terms[:most]]
    if before is not None:
        was = {one.name: _importance_row(one) for one in before.terms}
        for row in rows:
            of = was.get(row["column"], dict.fromkeys(row, "-"))
            row |= {f"{name} before": of[name] for name in (SHARE, WITHOUT)}
    return rows


SHARE, WITHOUT = "share of the variance", "loss without it"


def _importance_row(one: Any) -> dict[str, str]:
    return {
        "column": one.name,
        SHARE: f"{one.share:.2%}",
        "mean contribution": f"{one.size:.4g}",
        WITHOUT: f"{one.loss_without:+.4g} +- {NORMAL_975 * one.standard_error:.2g}",
    }


def class_rows(classes: Sequence[ClassFigures], most: int) -> Rows:
    """Lay out what becomes of each class, those that fare worst first."""
    worst = sorted(classes, key=lambda one: 1.0 if one.recall is None else one.recall)
    return [
        {
            "label": one.label,
            "mistaken for": one.mistaken_for or "-",
            "rows": f"{one.rows:,.0f}",
            "recall": or_dash(one.recall, ".4f"),
            "precision": or_dash(one.precision, ".4f"),
        }
        for one in worst[:most]
    ]


def worst_classes(classes: Sequence[ClassFigures], most: int) -> str:
    """Say which classes `class_rows` has."""
    several = len(classes)
    return "Classes" if several <= most else f"The {most} of {several} classes that fare worst"


def slice_rows(slices: Sliced) -> Rows:
    """Lay out the figures of slices of rows, with 95 % intervals."""
    rows = []
    for one in slices:
        figures, metrics = one.evaluation, one.evaluation.metrics
        row = {"slice": one.name, "rows": f"{figures.rows:,}"}
        row["loss"] = f"{figures.loss:.5g} +- {one.loss_within:.2g}"
        if figures.mse is None:
            bounded = one.error_low is not None
            between = f" ({one.error_low:.2%} to {one.error_high:.2%})" if bounded else ""
            row["error"] = or_dash(figures.error, ".2%") + between
            row["base rate"] = or_dash(metrics and metrics.base_error, ".2%")
            row["AUC"] = or_dash(figures.auc, ".4f")
        else:
            row["mean absolute error"] = or_dash(metrics and metrics.mae, ".5g")
            row["R squared"] = or_dash(figures.r2, ".4f")
        rows.append(row)
    return rows


def fold_rows(folds: Sequence[Any], all_means: Sequence[Any]) -> Rows:
    """Lay out what became of every fold, and the means with their standard errors.

    These are the fields of `training.cross_validation.CrossValidated`.
    """
    means = [one for one in all_means if one.metric in OF_FOLDS]
    rows = [
        {
            "fold": str(fold.fold),
            "rows": f"{fold.rows:,}",
            "objective": f"{fold.objective:.6g}",
            "above\noptimum": written_gap(fold.gap, fold.relative_gap, ".1e") or "-",
            **{one.metric: _of_fold(fold.evaluation, one.metric) for one in means},
        }
        for fold in folds
    ]
    none = dict.fromkeys(rows[0], "")
    mean = none | {"fold": "mean"} | {one.metric: f"{one.mean:.5g}" for one in means}
    error = {one.metric: f"+- {one.standard_error:.2g}" for one in means}
    return [*rows, mean, none | {"fold": "standard error"} | error]


#: Figures of folds that are shown, of those that there are.
OF_FOLDS = ("loss", "error", "auc", "mae", "r2")


def _of_fold(evaluation: Evaluation, metric: Any) -> str:
    return or_dash(figure_of(evaluation, metric), ".5g")


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
        **(_metrics(figures.metrics) if figures.metrics else {}),
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
