"""The budget of memory of scoring rows: the model's weights, pieces of files, the program."""

from __future__ import annotations

from fewpass.pipeline.budget import PROGRAM_BYTES, Budget
from fewpass.pipeline.rows.windows import chunk_bytes
from fewpass.pipeline.runs.model import Model
from fewpass.storage.dataset import Dataset

DEFAULT = 1 << 30  # bytes, for all but the weights
LEAST_PIECE = 1 << 16  # bytes of text
LEAST_ROWS = 1 << 24  # bytes, so that lines of a megabyte are read


def scoring_budget(model: Model, memory: int | None) -> Budget:
    """Return the budget of what is read next to a model: `memory`, or the default and weights."""
    weights = weights_bytes(model)
    memory = DEFAULT + weights if memory is None else memory
    return Budget(memory, max(memory - PROGRAM_BYTES - weights, LEAST_ROWS))


def weights_bytes(model: Model) -> int:
    """Return the bytes of the weights while rows are scored."""
    return Budget.weights * model.weights.coef.nbytes


def piece_bytes(budget: Budget, model: Model, threads: int, wider: int = 1) -> int:
    """Return the bytes of a file that are read as a piece, of which each thread has one at a time.

    Parameters
    ----------
    wider
        How many times as wide as its text a row is that is written.

    Raises
    ------
    BadInput
        The model and the smallest pieces do not fit.
    """
    pieces = wider * (threads + 1)
    smallest = Budget.scored_piece.with_this(budget, pieces * LEAST_PIECE)
    budget.require(weights_bytes(model), smallest, "the model")
    return max(LEAST_PIECE, budget.scored_piece // pieces)


def require_chunks(budget: Budget, model: Model, dataset: Dataset) -> None:
    """Raise BadInput where the model and the chunks that are read ahead do not fit."""
    rows = Budget.windows * chunk_bytes(dataset.manifest)
    budget.require(weights_bytes(model), rows, "the model")
