"""A check for models worse than the best constant: nothing was learnt, or steps were too long.

By its certificate where there is one; of a source by the first rows, which it has learnt from.
"""

from __future__ import annotations

from typing import NamedTuple

from fewpass.pipeline.planning.best_constant import levelled
from fewpass.pipeline.rows.buffers import dataset_block, unit_weights
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.runs.events import Warned
from fewpass.pipeline.scoring.row_losses import row_losses
from fewpass.pipeline.training.lam_sample import in_memory
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, Weights
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import Table

MOST_ROWS = 2000  # that a source's model is evaluated on
WORSE = 1.001  # times the constant's loss: less is rounding


def worse_by_certificate(certified: Certificate | None) -> Warned | None:
    """Warn of a certified objective above the loss of the best constant."""
    if certified is None or not certified.constants:
        return None
    for one in certified.each:
        (constant,) = one.constants
        if one.objective > WORSE * constant > 0.0:
            return _warned(one.objective, constant, "all rows and the penalty")
    return None


class FirstRowsLoss(NamedTuple):
    """Some of the first rows of a source, kept to evaluate the model on at the end."""

    dataset: MemoryDataset
    sample: Table

    @classmethod
    def of(cls, dataset: MemoryDataset) -> FirstRowsLoss:
        """Keep a copy of some rows."""
        return cls(dataset, dataset.sample(MOST_ROWS))

    def worse(self, problem: Problem, rule: TargetRule, weights: Weights) -> Warned | None:
        """Warn of a mean loss above that of the best constant, over rows and not exposures."""
        rows = in_memory(self.dataset, self.sample)
        constants = levelled(problem, rule, rows, self.sample).constants
        constant = sum(constants) / len(constants)
        losses = row_losses(problem, dataset_block(self.sample, self.dataset, rule), [weights])
        total = float(unit_weights(self.sample, self.dataset, rule).sum())
        loss = float(losses.loss[0] @ losses.weight) / total
        return _warned(loss, constant, "the first rows") if loss > WORSE * constant else None


def _warned(loss: float, constant: float, rows: str) -> Warned:
    return Warned(
        "constant",
        f"The model is worse than predicting a constant: {loss:.6g} on {rows}, the best constant "
        f"has {constant:.6g}. Columns of very different size want `scale=standard` or "
        "`scale=maxabs`; another `solver` or more `passes` may help, too.",
    )
