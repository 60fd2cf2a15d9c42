"""The result of a training, as tables."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from fewpass.flows.display.console import (
    as_fixed,
    columns_table,
    decimals_of,
    facts_table,
    format_seconds,
    or_dash,
    passes_and_rows,
    titled_table,
)
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.scoring.metric import HIGHER
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import counted, format_bytes
from fewpass.solvers.registry import SQUARES

CANDIDATE_STYLES = {"error": ".2%", "objective": ".6g", "gap": ".2e"}


def result_tables(result: TrainingResult, plan: TrainingPlan) -> Group:
    """Return the run, its columns where they were encoded, and the lam that were compared."""
    shown: list[RenderableType] = [columns_table(result.encoded)] if result.encoded else []
    shown.append(facts_table("Run", _shown(result)))
    if result.lam_origin:
        shown.append(origin_table(result.lam_origin, plan.metric))
    if result.candidates:
        shown.append(candidate_table(result, plan))
    return Group(*shown)


def origin_table(origin: dict[str, Any], metric: str) -> Table:
    """Return a table of the lam that were compared before the training."""
    table = titled_table(f"lam by held-out rows: {origin['written']}")
    costs = any(each.get("cost") is not None for each in origin["candidates"])
    for name in ("lam", "loss", "above the best", "error", *([metric] if costs else [])):
        table.add_column(name, justify="right", no_wrap=True)
    losses = [each["loss"] for each in origin["candidates"]]
    least, decimals = min(losses), decimals_of(losses)
    for each in origin["candidates"]:
        above = f"{each['loss'] - least:.2g} +- {each['standard_error']:.1g}"
        error = or_dash(each["error"], ".2%")
        figures = [_figure(each["cost"], metric)] if costs else []
        table.add_row(
            f"{each['lam']:.6g}", as_fixed(each["loss"], decimals), above, error, *figures
        )
    return table


def _figure(cost: float, metric: str) -> str:
    """Write a metric by its cost, which is negated where higher is better."""
    return f"{-cost if metric in HIGHER else cost:.6g}"


def candidate_table(result: TrainingResult, plan: TrainingPlan) -> Table:
    """Return a table of all lam, the chosen one marked."""
    of_source = plan.source is not None and plan.source.test_fraction > 0.0
    held_out = plan.held_out is not None or of_source
    title = "On held-out rows" if held_out else "On rows before they were learnt from"
    if left := result.lam_tried - len(result.candidates):
        title += f" ({left} more lam left after a tenth)"
    table = titled_table(title)
    sparse = any(candidate["nonzeros"] is not None for candidate in result.candidates)
    counted = ("above\nleast", "not 0") if sparse else ()
    costs = any(candidate["cost"] is not None for candidate in result.candidates)
    asked = (plan.metric,) if costs else ()
    for name in ("lam", "loss", *counted, *asked, "error", "objective", "above\noptimum", ""):
        table.add_column(name, justify="right", no_wrap=True)
    losses = [candidate["loss"] for candidate in result.candidates]
    least, decimals = min(losses), decimals_of(losses)
    lams = [candidate["lam"] for candidate in result.candidates]
    chosen = "chosen" + ", the smallest" * (len(lams) > 1 and result.lam == min(lams))
    for candidate in result.candidates:
        table.add_row(
            f"{candidate['lam']:.6g}",
            as_fixed(candidate["loss"], decimals),
            *_counted(candidate, least),
            *(_figure(candidate["cost"], plan.metric) for _ in asked),
            *(or_dash(candidate[name], style) for name, style in CANDIDATE_STYLES.items()),
            chosen if candidate["lam"] == result.lam else "",
        )
    return table


def _counted(candidate: dict[str, Any], least: float) -> list[str]:
    """Return how far a loss is above the least, and the non-zeros, where these were counted."""
    if candidate["nonzeros"] is None:
        return []
    error = candidate["standard_error"] or 0.0
    return [f"{candidate['loss'] - least:.2g} +- {error:.1g}", f"{candidate['nonzeros']:,}"]


def _shown(result: TrainingResult) -> dict[str, Any]:
    return {
        "at": result.run,
        "snapshot": result.snapshot,
        "solver": f"{result.solver}, loss {result.loss}, {_shown_penalty(result)}",
        "models": f"{result.classes}, one per class" if result.classes else None,
        "passes": passes_and_rows(result.passes, result.rows_seen),
        **_shown_features(result),
        "objective": result.objective,
        "weights": _shown_zeros(result),
        "probabilities": _calibrated(result),
        "read": format_bytes(result.bytes_read),
        "took": f"{format_seconds(result.seconds)}, at most "
        f"{format_bytes(result.peak_memory_bytes)} of memory",
    }


def _shown_penalty(result: TrainingResult) -> str:
    """Tell lam, and the penalty if it is not of squares alone."""
    lam = f"lam {result.lam:.6g}"
    return lam if result.penalty == SQUARES else f"penalty {result.penalty}, {lam}"


def _shown_zeros(result: TrainingResult) -> str | None:
    """Tell how many weights an l1 penalty left, and of how many that is proven."""
    if result.nonzeros is None:
        return None
    text = f"{result.nonzeros:,} are not 0"
    if result.proven_zeros:
        text += f"; {result.proven_zeros:,} columns are proven to be 0 at the optimum"
    return text


def _calibrated(result: TrainingResult) -> str | None:
    """Return how scores become probabilities, if the run has a calibration."""
    calibration = result.calibration
    if calibration is None:
        return None
    if "p" in calibration:
        return f"isotonic, {counted(len(calibration['p']), 'point')}"
    offset = f"{calibration['offset']:.4g}" if "offset" in calibration else "an offset per class"
    form = "sigmoid of" if "offset" in calibration else "softmax of"
    return f"{form} {calibration['slope']:.4g} * score + {offset}"


def _shown_features(result: TrainingResult) -> dict[str, Any]:
    """Lay out the results of a method that reads single features."""
    features = result.features
    if features is None:
        return {}
    share = features["accesses"] / max(result.passes, 1e-300)  # values of the data set
    pilot = f", and {features['pilot_accesses']:,} to find nu" if features["pilot_accesses"] else ""
    where = "mapped from files" if features["mapped"] else "in memory"
    return {
        "passes": f"none; {counted(features['iterations'], 'step')}, rows and columns {where}",
        "accesses": f"{features['accesses']:,}{pilot}; the data have {share:,.0f} values",
        "nu": features["nu"],
        "margin": f"{features['margin']:.6g}, at most {features['margin_bound']:.6g} is possible",
    }
