"""Chunks of a new generation: those of the one before as they are, and fresh ones among them.

Rows lie in random order within a data set, and a pass visits chunks.  So fresh chunks, whose rows
were shuffled among themselves, go between those that are there, at places drawn by the seed: a pass
in stored order meets new rows all along.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fewpass.pipeline.tables.changing.one_change import NextGeneration, PlacedChunk, StoredRows
from fewpass.pipeline.tables.ingest.writing import UnfilledChunk
from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.dataset import Dataset

#: First word after the seed of what is drawn here; an ingest has others.
INTERLEAVED = 4


def unfilled_chunk(before: Dataset, n_new: int) -> UnfilledChunk | None:
    """Return the rows of the last chunk, where it is not full: new ones fill it up.

    They are shuffled with the new ones in the first fresh chunk, of `n_new` rows that come.
    """
    full, rest = divmod(before.n_rows, before.manifest.chunk_rows)
    if not rest:
        return None
    order, drawn_by = None, _drawn_by(before)
    if drawn_by is not None:
        n_rows = min(before.manifest.chunk_rows, rest + n_new)
        order = np.random.default_rng([*drawn_by, 1]).permutation(n_rows)
    return UnfilledChunk(StoredRows(before).read(full), order)


def interleaved(made: NextGeneration, records: Sequence[ChunkRecord]) -> list[PlacedChunk]:
    """Return all chunks of a generation, whose fresh ones have these records."""
    before, n_full = made.before, made.writer.n_rows // made.writer.chunk_rows
    full = before.n_rows // made.writer.chunk_rows
    fresh = iter([made.fresh(number, record) for number, record in enumerate(records)])
    places = places_of_fresh(full, n_full, _drawn_by(before))
    return [*(next(fresh) if k is None else made.shared(k) for k in places), *fresh]


def places_of_fresh(full: int, fresh: int, drawn_by: list[int] | None) -> list[int | None]:
    """Return for every full chunk which old one it is; None: a fresh one.

    `full` old chunks and `fresh` ones, all in their order; those not drawn come last.
    """
    every: list[int | None] = [None] * (full + fresh)
    at = np.arange(full)
    if drawn_by is not None:
        random = np.random.default_rng(drawn_by)
        at = np.sort(random.permutation(full + fresh)[:full])
    for number, place in enumerate(at.tolist()):
        every[place] = number
    return every


def _drawn_by(before: Dataset) -> list[int] | None:
    """Return the seed of what is drawn; None: rows keep their order."""
    seed = before.manifest.shuffle.seed
    return None if seed is None else [seed, INTERLEAVED, before.manifest.generation]
