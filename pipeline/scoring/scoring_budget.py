"""The budget of memory of scoring rows: the model's weights, pieces of files, the program."""

from __future__ import annotations

from typing import NamedTuple

from fewpass.pipeline.budget import PROGRAM_BYTES, Budget
from fewpass.pipeline.rows.windows import chunk_bytes
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.readers.source import PIECE_BYTES
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


class ScoredPieces(NamedTuple):
    """Pieces of files that are scored."""

    bytes: int  # of the text of one, about
    at_once: int  # that are in memory


def scored_pieces(
    budget: Budget, model: Model, threads: int, wider: int = 1, tasks: int = 1
) -> ScoredPieces:
    """Return how much of a file is read as a piece, and how many pieces at once.

    Their size is a power of two, so that spans of a file do not depend on it, and has nothing to do
    with the threads.

    Parameters
    ----------
    threads
        Threads of a task.
    wider
        How many times as wide as its text a row is that is written.
    tasks
        Tasks that share the memory.

    Raises
    ------
    BadInput
        The model and the smallest pieces do not fit.
    """
    copies = wider * tasks
    smallest = Budget.scored_piece.with_this(budget, 2 * copies * LEAST_PIECE)
    budget.require(weights_bytes(model), smallest, "the model")
    share = budget.scored_piece // copies
    size = min(PIECE_BYTES, 1 << max(LEAST_PIECE, share // 2).bit_length() - 1)
    return ScoredPieces(size, min(threads + 1, max(2, share // size)))


def require_chunks(budget: Budget, model: Model, dataset: Dataset) -> None:
    """Raise BadInput where the model and the chunks that are read ahead do not fit."""
    rows = Budget.windows * chunk_bytes(dataset.manifest)
    budget.require(weights_bytes(model), rows, "the model")
