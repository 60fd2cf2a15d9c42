"""A metric by its name: which way is better, and what it is defined for."""

from __future__ import annotations

from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.scoring.figure_sums import Measured
from fewpass.pipeline.settings.training_plan import MetricName
from fewpass.solvers.losses import Problem


class Metric(NamedTuple):
    """A figure that models are chosen by."""

    name: MetricName

    @property
    def higher_is_better(self) -> bool:
        """Whether a model is the better the higher it is."""
        return self.name in HIGHER

    def cost(self, evaluation: Evaluation) -> float | None:
        """Return the figure of an Evaluation with all metrics, negated where higher is better.

        None where it has no meaning, as precision where nothing is called positive: the loss then
        stands in its place, which is above 0, and so above all of these.
        """
        figure = figure_of(evaluation, self.name)
        if figure is None:
            return None
        return -figure if self.higher_is_better else figure

    def require_defined(self, problem: Problem, rule: TargetRule) -> None:
        """Refuse a metric that models of a problem have no figure of; BadInput names those."""
        measured = Measured.of_problem(problem, rule)
        names = {*_ALWAYS, *(_OF_NUMBERS if not measured.n_labels else _OF_LABELS)}
        names |= {*_OF_TWO} if measured.n_labels == 2 else set()
        names |= {*_OF_PROBABILITIES} if measured.probabilities else set()
        names |= {*_OF_STEEP} if problem.loss.is_steep else set()
        if self.name not in names:
            raise BadInput(
                f"metric is {self.name}, which these models have no figure of (loss "
                f"{problem.loss.name}). They have {', '.join(sorted(names))}."
            )


def figure_of(evaluation: Evaluation, name: str) -> float | None:
    """Return a figure by its name; None where it has no meaning."""
    own = name in Evaluation._fields
    figure: float | None = getattr(evaluation if own else evaluation.metrics, name)
    return None if figure is None else float(figure)


HIGHER = frozenset(
    ("auc", "r2", "d2", "f1", "balanced_accuracy", "precision", "recall", "average_precision")
)
_OF_NUMBERS = ("mse", "rmse", "mae", "mape", "r2")
_OF_LABELS = ("error", "f1", "balanced_accuracy")
_OF_TWO = ("auc", "precision", "recall", "average_precision")
_OF_PROBABILITIES = ("log_loss", "brier", "calibration_error")
_ALWAYS, _OF_STEEP = ("loss",), ("deviance", "d2")
