"""Metrics that models are chosen by: each as a cost, and whether models have it."""

from __future__ import annotations

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.scoring.figure_sums import Measured
from fewpass.pipeline.settings.metric_registry import METRICS, Kind, MetricName
from fewpass.solvers.losses import Problem


def cost_of(metric: MetricName, evaluation: Evaluation) -> float | None:
    """Return what models are compared by, the lower the better; None: their loss.

    So, too, where a metric has no meaning, as precision where nothing is called positive: a loss is
    above 0, and so above the cost of any metric that is the better the higher it is.
    """
    figure = None if metric == "loss" else evaluation.figure(metric)
    if figure is None:
        return None
    return -figure if METRICS[metric].higher else figure


def require_defined(metric: MetricName, problem: Problem, rule: TargetRule) -> None:
    """Refuse a metric that models of a problem have no figure of; BadInput names those."""
    measured = Measured.of_problem(problem, rule)
    kinds: set[Kind] = {"any", "labels" if measured.n_labels else "numbers"}
    kinds |= {"two labels"} if measured.n_labels == 2 else set()
    kinds |= {"probabilities"} if measured.probabilities else set()
    kinds |= {"amounts"} if problem.loss.is_steep else set()
    names = sorted(name for name, one in METRICS.items() if one.chooses and one.of in kinds)
    if metric not in names:
        raise BadInput(
            f"metric is {metric}, which these models have no figure of (loss "
            f"{problem.loss.name}). They have {', '.join(names)}."
        )
