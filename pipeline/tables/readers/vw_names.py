"""What the hashed columns of Vowpal Wabbit's text are called, by the text itself."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from fewpass.pipeline.budget import UNTOLD
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.hashing import hashes
from fewpass.pipeline.tables.readers.finding import find
from fewpass.pipeline.tables.readers.lines import first_lines

#: Bytes that are looked at, and names that a column is given at most.
LOOKED_AT, _LISTED = 4 << 20, 3
#: Most names that a data set stores, and characters shown of a column's.
_REMEMBERED, _SHOWN = 20_000, 100
_BLANKS = re.compile(rb"[\x00-\x20]+")


def names_in(source: str, n_features: int) -> dict[int, str]:
    """Return the names of the columns that the first features of a file are hashed to.

    Where several share a column it has their names, commonest first.

    Parameters
    ----------
    source
        Vowpal Wabbit's text: a path, address or glob, of which the first file is read.
    n_features
        Columns that names are hashed to: 2^bits.

    Raises
    ------
    BadInput
        The columns are no power of two, or the text has no features.
    """
    if n_features & (n_features - 1):
        raise BadInput(
            f"The model has {n_features:,} columns, and names are hashed to 2^bits. Leave `names` "
            "out: its rows were no Vowpal Wabbit text."
        )
    text = first_lines(find([source])[0], UNTOLD.longest_row, LOOKED_AT)
    counts = Counter(_features(text.bytes.tobytes()))
    if not counts:
        raise BadInput(f"{source}: no line has a feature behind a |. Name Vowpal Wabbit's text.")
    return _by_column([name for name, _ in counts.most_common()], n_features)


def remembered_names(text: bytes, n_features: int) -> dict[int, str]:
    """Return names of columns as `names_in`, of the features that lines have most often.

    At most 20,000, as they are remembered with every model.
    """
    often = Counter(_features(text)).most_common(_REMEMBERED)
    joined = _by_column([name for name, _ in often], n_features)
    return {column: name[:_SHOWN] for column, name in joined.items()}


def _by_column(names: Sequence[bytes], n_features: int) -> dict[int, str]:
    columns = hashes(pa.array(names, pa.large_binary()), "") & np.int64(n_features - 1)
    by_column: dict[int, list[str]] = defaultdict(list)
    for name, column in zip(names, columns.tolist(), strict=True):
        by_column[column].append(name.decode("utf-8", "backslashreplace"))
    return {column: _joined(several) for column, several in by_column.items()}


def _features(text: bytes) -> Iterator[bytes]:
    """Yield namespace, ^ and name of every feature; see `vw_kernel` for the grammar."""
    for line in text.split(b"\n"):
        for part in line.split(b"|")[1:]:
            first, *others = _BLANKS.split(part)
            space = first.partition(b":")[0] + b"^"
            yield from (space + word.partition(b":")[0] for word in others if word)


def _joined(names: list[str]) -> str:
    more = f" or {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return " or ".join(names[:_LISTED]) + more
