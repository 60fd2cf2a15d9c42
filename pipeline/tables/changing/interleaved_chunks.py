"""Chunks of a new generation: those of the one before as they are, and fresh ones among them.

Rows lie in random order within a data set, and a pass visits chunks.  So fresh chunks, whose rows
were shuffled among themselves, go between those that are there, at places drawn by the seed: a pass
in stored order meets new rows all along.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from fewpass.pipeline.tables.changing.stored_rows import StoredRows
from fewpass.pipeline.tables.ingest.chunking import ChunkOrder, Selection, cut_into_chunks
from fewpass.storage.chunk_table import ChunkRecord
from fewpass.storage.dataset import Dataset
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import Table
from fewpass.storage.writer import DatasetWriter

#: First word after the seed of what is drawn here; an ingest has others.
INTERLEAVED = 4
Report = Callable[[float], None]


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


def interleaved(
    before: Dataset,
    added: Dataset,
    writer: DatasetWriter,
    threads: int,
    report: Report,
) -> list[ChunkRecord]:
    """Write all chunks of the rows of two data sets, and return their records.

    The last chunk, where it is not full, is filled up with new rows.
    """
    seed = before.manifest.shuffle.seed
    full = before.n_rows // writer.chunk_rows
    drawn_by = None if seed is None else [seed, INTERLEAVED, before.manifest.generation]
    n_full = writer.n_rows // writer.chunk_rows
    places = places_of_fresh(full, n_full - full, drawn_by)
    fresh = [place for place, number in enumerate(places) if number is None]
    fresh += range(n_full, writer.n_chunks)
    records: dict[int, ChunkRecord] = {}
    form = StoredRows(before)

    def write(order: ChunkOrder) -> None:
        place = fresh[order.number]
        records[place] = form.write(writer, place, _mixed(order.rows(), drawn_by, order.number))

    orders = cut_into_chunks(_new_rows(form, added, full), writer.chunk_rows)
    with ThreadPoolExecutor(threads, "append") as pool:
        for done, _ in enumerate(ordered_map(pool, write, orders, threads + 1)):
            report((done + 1) / max(len(fresh), 1))
    for place, number in enumerate(places):
        if number is not None:
            record = before.manifest.chunks.record(number)
            records[place] = writer.link_chunk(place, before.generation_folder, record, number)
    return [records[place] for place in range(writer.n_chunks)]


def _mixed(table: Table, drawn_by: list[int] | None, number: int) -> Table:
    """Shuffle the first fresh chunk: the old rows that it is filled up from come first in it."""
    if drawn_by is None or number:
        return table
    order = np.random.default_rng([*drawn_by, 1]).permutation(table.n_rows)
    return Selection(table, order).rows()


def _new_rows(form: StoredRows, added: Dataset, full: int) -> Iterator[Selection]:
    """Yield the rows of fresh chunks: old ones of a chunk that is not full, then all new ones."""
    for number in range(full, form.dataset.n_chunks):
        yield _whole(form.read(number))
    for number in range(added.n_chunks):
        yield _whole(form.read_from(added, number))


def _whole(table: Table) -> Selection:
    return Selection(table, np.arange(table.n_rows))
