"""What the hashed columns of Vowpal Wabbit's text are called, by the text itself."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from fewpass.pipeline.encoding.hashing import hashes
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sources.source import LONGEST_LINE
from fewpass.pipeline.sources.streams import find, first_lines

#: Bytes that are looked at, and names that a column is given at most.
_LOOKED_AT, _LISTED = 4 << 20, 3
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
    text = first_lines(find([source])[0], LONGEST_LINE, _LOOKED_AT)
    counts = Counter(_features(text.bytes.tobytes()))
    if not counts:
        raise BadInput(f"{source}: no line has a feature behind a |. Name Vowpal Wabbit's text.")
    often = [name for name, _ in counts.most_common()]
    columns = hashes(pa.array(often, pa.large_binary()), "") & np.int64(n_features - 1)
    found: dict[int, list[str]] = defaultdict(list)
    for name, column in zip(often, columns.tolist(), strict=True):
        found[column].append(name.decode("utf-8", "backslashreplace"))
    return {column: _joined(names) for column, names in found.items()}


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
