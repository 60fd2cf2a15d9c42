"""Vowpal Wabbit's text to sparse tables, and the names of their hashed columns."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import pyarrow as pa

from fewpass.pipeline.budget import UNTOLD
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.hashing import hashes
from fewpass.pipeline.tables.readers import vw_kernel as grammar
from fewpass.pipeline.tables.readers.finding import Address, find
from fewpass.pipeline.tables.readers.lines import WholeLines, first_lines, sample
from fewpass.pipeline.tables.readers.source import LARGEST, LISTED, Expected, ParsedRows, Piece
from fewpass.pipeline.tables.readers.sparse_text import ParsedText, SparseText
from fewpass.pipeline.tables.readers.vw_kernel import VwCounts, VwSpace, parse_rows
from fewpass.storage.table import MOST_WEIGHT, SparseTable, index_dtype

#: Bytes that are looked at, and names that a column is given at most.
LOOKED_AT, _LISTED = 4 << 20, 3
#: Most names that a data set stores, and characters shown of a column's.
_REMEMBERED, _SHOWN = 20_000, 100
_BLANKS = re.compile(rb"[\x00-\x20]+")
_MESSAGES = {
    grammar.BAD_LABEL: ("{token} stands where the label should, a number", "Number the labels,"),
    grammar.BAD_WEIGHT: (
        f"the importance in {{token}} is no number from 0 to {MOST_WEIGHT:g}",
        "Write label, importance and tag in this order,",
    ),
    grammar.NO_BAR: (
        "no | follows the label in {token}",
        "Check that the file is Vowpal Wabbit's text (`format`),",
    ),
    grammar.BAD_VALUE: ("the value in {token} is not a finite number", "Correct it,"),
    grammar.TOO_LARGE: (
        "the value in {token} is too large for {dtype}, or too large to square",
        "Give it in another unit,",
    ),
    grammar.MISSING_LABEL: ("the label before {token} is missing", "Write the label first,"),
}


class VowpalWabbitSource(SparseText):
    """Files in the text format of Vowpal Wabbit as sparse rows; see `Source` for the methods.

    Namespaces and names are hashed to 2^hash_bits columns, by MurmurHash3 of `namespace^name`: not
    the columns that VW has, but as many collisions.  Importances are row weights, tags are passed
    over.
    """

    extensions: ClassVar[tuple[str, ...]] = (".vw",)
    hashes_names: ClassVar[bool] = True
    meaningless = (*SparseText.meaningless, "zero_based")
    messages = _MESSAGES
    refusal = "Vowpal Wabbit's text has no such setting, but `{}` was given. Leave it out."

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        super().__init__(addresses, options, expected)
        self._bits = options.hash_bits
        self.n_features = 1 << self._bits
        if options.n_features is not None:
            self._bits = options.n_features.bit_length() - 1
            self.n_features = options.n_features
        if self.n_features != 1 << self._bits:
            raise BadInput(
                f"{addresses[0].name} is hashed to 2^bits columns, but {self.n_features} were "
                "asked for. Ingest both with the same `hash_bits`."
            )
        text, _ = sample(addresses[0], self._longest_line)
        _, counts = self._parse(text)
        self.has_weight = counts.weighted > 0

    def hashed_names(self) -> dict[int, str]:
        """Names of the columns that the commonest features of the first lines are hashed to."""
        assert self.n_features is not None, "2^bits"
        text = first_lines(self._addresses[0], self._longest_line, LOOKED_AT)
        return remembered_names(text.bytes.tobytes(), self.n_features)

    def read(self, text: WholeLines, *, stop: bool) -> ParsedText:  # noqa: ARG002
        space, counts = self._parse(text)
        table = self._table(space, counts)
        last = int(table.indices.max(initial=-1))
        return ParsedText(table, last, space.bad, counts.bad, counts.merged)

    def _parse(self, text: WholeLines) -> tuple[VwSpace, VwCounts]:
        size, rows = text.bytes.size, text.lines
        ends = np.flatnonzero(text.bytes == ord("\n"))
        longest = int(np.diff(ends, prepend=-1).max(initial=0))
        values = size // 2 + 1  # a feature is a blank and a letter at least
        space = VwSpace(
            np.empty(values), np.empty(values, np.int64), np.empty(rows + 1, np.int64),
            np.empty(rows), np.empty(rows),
            np.empty((LISTED, 3), np.int64), np.empty(2 * longest + 2, np.uint8),
        )  # fmt: skip
        unlabelled, largest = not self._options.label_required, LARGEST[self._options.dtype]
        return space, parse_rows(text.bytes, self._bits, unlabelled, largest, space)

    def _table(self, space: VwSpace, counts: VwCounts) -> SparseTable:
        nnz = int(space.indptr[counts.rows])
        return SparseTable(
            space.data[:nnz].astype(self._options.dtype),
            space.indices[:nnz].astype(index_dtype(self.n_features or 1)),
            space.indptr[: counts.rows + 1],
            space.target[: counts.rows],
            np.nan_to_num(space.weight[: counts.rows], nan=1.0)
            if self.has_weight or counts.weighted
            else None,
        )

    def parse(self, piece: Piece) -> ParsedRows:
        parsed = super().parse(piece)
        weight = parsed.table.weight
        if self.has_weight or weight is None:
            return parsed
        others = weight[weight != 1.0]
        if len(others) and self._options.label_required:
            raise BadInput(
                f"{piece.file}, from line {piece.first_line} on: a row has the importance "
                f"{others[0]:g}, and none of the first lines of {self.files[0].name} has any. "
                "Write 1 behind the label of its first row."
            )
        return parsed._replace(table=parsed.table._replace(weight=None))


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
