"""The rows of a source in buffers.

Pieces are parsed by threads and come in their order; the rows of a buffer depend on the plan and
the source alone.  Buffers are small, so that steps begin soon, unless pieces differ in their
targets: then they are as large as the memory allows.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.from_source import Buffer
from fewpass.pipeline.rows.running_moments import RunningMoments, Sums
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.rows.source_order import GroupSums
from fewpass.pipeline.rows.source_position import LeftOut, SourcePosition
from fewpass.pipeline.rows.targets import label_text, range_with, shown
from fewpass.pipeline.tables.ingest.piece_map import KEYS, LISTED, skipped_in_words
from fewpass.pipeline.tables.readers.counting_rows import counting
from fewpass.pipeline.tables.readers.held_out_rows import HeldOutShare
from fewpass.pipeline.tables.readers.label_texts import labelled
from fewpass.pipeline.tables.readers.source import (
    PIECE_BYTES,
    ParsedRows,
    Piece,
    PiecePlace,
    Source,
)
from fewpass.pipeline.tables.stream.parsed_pieces import ParsedPiece, each_piece
from fewpass.storage.manifest import Labels, Values
from fewpass.storage.table import Table, concatenate, n_bytes, take

STEADY_BYTES = 64 << 20  # of rows in a buffer where pieces are alike
SECOND_BYTES = 20 << 20  # of rows in the second buffer; each one after it is twice as large, ...
ALL = 1 << 60  # pieces: beyond the last


class SourcePieces:
    """Pieces of a source in their order, parsed by threads; read once.

    Parameters
    ----------
    source
        What is read.
    threads, budget
        Number of pieces parsed at a time, and memory for them.
    """

    def __init__(self, source: Source, threads: int, budget: Budget) -> None:
        self.source, self._threads = source, threads
        self.passed_over = range(0)  # pieces that an earlier session learnt from
        fits = budget.pieces // (Budget.piece * source.piece_bytes)
        self.in_flight = max(1, min(fits, threads + 2))
        self.n_bytes = self.in_flight * Budget.piece_copies * source.piece_bytes

    def __iter__(self) -> Generator[ParsedPiece | None]:
        """Yield all pieces in turn; None for one that is passed over."""
        return each_piece(
            self.source.pieces(PIECE_BYTES), self._threads, self.in_flight, self._parsed
        )

    def _parsed(self, number: int, piece: Piece) -> ParsedPiece | None:
        if number in self.passed_over:
            return None
        read = ParsedPiece.of(self.source, number, piece)
        return read._replace(parsed=counting(read.parsed))


class Fixed(NamedTuple):
    """The decisions of the first rows on how all of them are read."""

    targets: Labels | Values
    words: bool  # whether labels are words
    scaler: Scaler
    held_out: HeldOutShare

    def targets_of(self, piece: ParsedPiece) -> NDArray[np.float64]:
        """Return a piece's targets as they are learnt from; BadInput for a label that is new."""
        target, labels = piece.parsed.table.target, piece.parsed.labels
        if not isinstance(self.targets, Labels):
            if labels is not None:
                raise BadInput(
                    f"{piece.where}: the targets are words, where those of the first rows were "
                    "numbers. Choose the label column with `label`."
                )
            return target
        if (labels is not None) != self.words and target.size:
            raise BadInput(
                f"{piece.where}: labels are words here and numbers elsewhere in the source. Write "
                "all labels as words, or all as numbers."
            )
        names = [label_text(label) for label in self.targets.labels]
        codes, own = target.astype(np.int64), [*(labels or ())]
        if labels is None:
            codes, own = labelled(target, piece.parsed.texts)
        self._refuse_new(piece, [label for label in own if label not in names])
        order = np.array([names.index(label) for label in own], np.float64)
        return order[codes]

    def _refuse_new(self, piece: ParsedPiece, new: Sequence[str]) -> None:
        if new:
            assert isinstance(self.targets, Labels), "only labels can be new"
            raise BadInput(
                f"{piece.where}: the label {new[0]} is new, the first rows had "
                f"{shown(self.targets)}. A model of "
                "one pass cannot take in another class: shuffle the source, give more `memory`, "
                "or train on a data set (`ingest_into`)."
            )

    def rows(self, piece: ParsedPiece) -> tuple[Table, Table | None]:
        """Return the rows to learn from, and the held-out ones, drawn as an ingest draws them."""
        table = self.scaler.apply(piece.parsed.table._replace(target=self.targets_of(piece)))
        if not self.held_out.fraction:
            return table, None
        test = self.held_out.of(piece.parsed, piece.place)
        return take(table, np.flatnonzero(~test)), take(table, np.flatnonzero(test))


def with_skipped(before: LeftOut, parsed: ParsedRows) -> LeftOut:
    """Count a piece's bad rows, too; the first of all are listed with their reason."""
    listed = skipped_in_words(parsed, LISTED - len(before.listed))
    return LeftOut(before.rows + parsed.n_skipped, (*before.listed, *listed))


class HeldOutRows:
    """Held-out rows within a budget of memory: a uniform sample of all of them.

    Every row has a random number; where the rows are too many, the upper half is dropped.
    """

    def __init__(self, most_bytes: int, seed: int) -> None:
        self._most_bytes, self._seed, self._below = most_bytes, seed, 1.0
        self._tables: list[Table] = []
        self._keys: list[NDArray[np.float64]] = []

    def add(self, table: Table, place: PiecePlace) -> None:
        """Add the held-out rows of a piece."""
        key = np.random.default_rng([self._seed, KEYS, *place, 1]).random(table.n_rows)
        self._add_below(table, key)
        while sum(map(n_bytes, self._tables)) > self._most_bytes and self._below > 1e-9:
            self._below *= 0.5
            before, self._tables, self._keys = (self._tables, self._keys), [], []
            for one, keys in zip(*before, strict=True):
                self._add_below(one, keys)

    def _add_below(self, table: Table, key: NDArray[np.float64]) -> None:
        chosen = np.flatnonzero(key < self._below)
        if len(chosen):
            self._tables.append(take(table, chosen))
            self._keys.append(key[chosen])

    def table(self) -> Table | None:
        """Return all of them; None where there are none."""
        return concatenate(self._tables) if self._tables else None


class ReceivedRows:
    """Divides received pieces, in their order: rows to learn from, held-out rows, rows left out.

    Attributes
    ----------
    group_sums : GroupSums
        Of the targets of all pieces so far.
    left_out : LeftOut
        Bad rows of all pieces so far.
    targets : tuple of float
        The lowest and the highest of all pieces so far; None without rows.
    moments : RunningMoments or None
        Of all rows so far; None where the method does not use them.
    """

    def __init__(self, fixed: Fixed, held_out: HeldOutRows) -> None:
        self.fixed, self.held_out = fixed, held_out
        self.group_sums, self.left_out = GroupSums(), LeftOut()
        self.targets: tuple[float, float] | None = None
        self.moments: RunningMoments | None = None

    def take(self, piece: ParsedPiece) -> Table:
        """Return the rows of a piece to learn from."""
        table = self.pass_over(piece)
        self.left_out = with_skipped(self.left_out, piece.parsed)
        self.group_sums = self.group_sums.add(table.n_rows, *sums(table))
        if table.n_rows:
            self.targets = range_with(self.targets, table.target)
        return table

    def pass_over(self, piece: ParsedPiece) -> Table:
        """Do the same for rows that were learnt from, and counted, before."""
        table, held_out = self.fixed.rows(piece)
        if held_out is not None:
            self.held_out.add(held_out, piece.place)
        return table


def cut(
    pieces: Iterator[ParsedPiece | None],
    received: ReceivedRows,
    start: SourcePosition,
    most_bytes: int,
) -> Generator[Buffer]:
    """Yield the buffers after a position; none has more than about `most_bytes` of rows."""
    size, read, widest, at = 0, 0, start.n_features, start
    tables: list[Table] = []

    def made(up_to: int) -> Buffer:
        rows = concatenate(tables)
        tables.clear()
        position = SourcePosition(
            up_to, at.windows + 1, received.group_sums.rows, widest, 0, received.group_sums,
            at.of_windows.add(rows.n_rows, *sums(rows)), left_out=received.left_out,
            targets=received.targets,
        )  # fmt: skip
        so_far = count(received, rows, widest - 1)
        return Buffer(rows, read, position, so_far)

    for piece in pieces:
        if piece is None:
            continue
        if piece.number < start.pieces:
            received.pass_over(piece)
            continue
        table = received.take(piece)
        if table.n_rows:
            tables.append(table)
        size, read = size + n_bytes(table), read + piece.n_bytes
        widest = max(widest, piece.parsed.max_index + 1)
        if tables and size >= buffer_bytes(received.group_sums, most_bytes, at.windows):
            buffer = made(piece.number + 1)
            at = buffer.position
            yield buffer
            del buffer
            size, read = 0, 0
    if tables:
        yield made(ALL)


def buffer_bytes(group_sums: GroupSums, most: int, before: int) -> int:
    """Return the bytes of rows of the buffer after `before` others.

    The first are smaller, so that steps begin soon.
    """
    if group_sums.sorted:
        return most
    return min(most, STEADY_BYTES, SECOND_BYTES << min(before - 1, 8))


def count(received: ReceivedRows, rows: Table, widest: int) -> Sums | None:
    """Count the values of a buffer's rows, where moments are used; return the sums of all."""
    if received.moments is None:
        return None
    received.moments.add(rows, widest)
    return received.moments.sums.copy()


def sums(table: Table) -> tuple[float, float]:
    """Return the sums of a table's targets and of their squares."""
    return float(table.target.sum()), float(table.target @ table.target)
