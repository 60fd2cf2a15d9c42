"""Parquet files, opened and read in batches of rows without having all of one in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fewpass.pipeline.sources.arrow_batches import validated
from fewpass.pipeline.sources.foreign import parsing
from fewpass.pipeline.sources.streams import Address, opened

BUFFER_BYTES = 1 << 18  # of every column that are read ahead from a disk


@contextmanager
def opened_parquet(address: Address) -> Iterator[Any]:
    """Open a Parquet file; BadInput when it is none, or not whole.

    A disk is read column by column in small parts, which takes half as long as Arrow's default.
    A store takes long for each request: Arrow asks for all columns of a row group at once.
    """
    small = {"pre_buffer": False, "buffer_size": BUFFER_BYTES}
    with opened(address) as (stream, _), parsing(address.name, "the file is not whole Parquet"):
        yield pq.ParquetFile(stream, **(small if address.is_local else {}))


def batches(address: Address, file: Any, rows: int, names: list[str]) -> Iterator[Any]:
    """Yield record batches of `rows` rows, the last one shorter, whatever the row groups.

    All are validated; BadInput where one is damaged.

    Row groups of a store are asked for one by one: of all that are asked for together Arrow keeps
    every byte until the last one was read.
    """
    groups = [None] if address.is_local else [[k] for k in range(file.num_row_groups)]
    rest: list[Any] = []
    found = (
        batch for group in groups
        for batch in file.iter_batches(rows, row_groups=group, columns=names, use_threads=False)
    )  # fmt: skip
    for batch in validated(found, address.name):
        whole = pa.concat_batches([*rest, batch]) if rest else batch
        if whole.num_rows >= rows:
            yield whole.slice(0, rows)
            whole = whole.slice(rows)
        rest = [whole] if whole.num_rows else []
    yield from rest
