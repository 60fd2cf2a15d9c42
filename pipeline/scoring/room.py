"""Whether what scores rows fits into a budget of memory: weights, pieces of files, the program."""

from __future__ import annotations

from fewpass.pipeline.rows.windows import (
    IN_FLIGHT,
    OVERHEAD_BYTES,
    chunk_bytes,
    require_memory,
)
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.tables.readers.room import ROW_SHARE, Room
from fewpass.pipeline.training.planning.job import COPIES_OF_WEIGHTS
from fewpass.storage.dataset import Dataset

DEFAULT = 1 << 30  # bytes, for all but the weights
PIECE_SHARE = 16  # a piece's text, rows, scaled rows and scores fit in a 16th of the budget, twice
LEAST_PIECE = 1 << 16  # bytes of text
LEAST_LINE = 1 << 20


def budget(model: Model, memory: int | None) -> int:
    """Return how much memory may be used: what was said, or what is usual and the weights."""
    return memory if memory is not None else DEFAULT + weights_bytes(model)


def weights_bytes(model: Model) -> int:
    """Return what the weights take while rows are scored."""
    return COPIES_OF_WEIGHTS * model.weights.coef.nbytes


def piece_bytes(model: Model, memory: int, threads: int, shares: int = 1) -> int:
    """Return how much of a file is read as a piece, of which each thread has one at a time.

    Parameters
    ----------
    shares
        How many times as wide as its text a row is that is written.

    Raises
    ------
    BadInput
        The model and the smallest pieces do not fit.
    """
    pieces = PIECE_SHARE * shares * (threads + 1)
    require_memory(memory, weights_bytes(model), pieces * LEAST_PIECE, "the model")
    return max(LEAST_PIECE, memory // pieces)


def room_of(model: Model, memory: int) -> Room:
    """Return what reading files may take beside the model; lines of a megabyte at least."""
    rows = memory - OVERHEAD_BYTES - weights_bytes(model)
    return Room(memory, max(rows, ROW_SHARE * LEAST_LINE))


def require_chunks(model: Model, memory: int, dataset: Dataset) -> None:
    """Raise BadInput where the model and the chunks that are read ahead do not fit."""
    rows = IN_FLIGHT * chunk_bytes(dataset.manifest)
    require_memory(memory, weights_bytes(model), rows, "the model")
