"""The rows of a source in buffers of one random order each, read ahead of those that are stepped.

Pieces are parsed by threads and come in their order; what a buffer holds depends on the plan and
the source alone.  Buffers are as small as serves mixing, so that steps begin soon, unless pieces
differ in their targets: then they are as large as the memory allows.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from queue import Queue
from threading import Event as Signal
from threading import Semaphore, Thread
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.rows.targets import label_text, shown
from fewpass.pipeline.runs.saved import LeftOut
from fewpass.pipeline.straight.aside import Judges, noted
from fewpass.pipeline.straight.moments import RunningMoments, Sums
from fewpass.pipeline.tables.ingest.partition import PARTITION, PIECE_BYTES
from fewpass.pipeline.tables.readers.as_written import labelled
from fewpass.pipeline.tables.readers.source import Parsed, Piece, Source
from fewpass.pipeline.training.planning.mixing import Mixing
from fewpass.storage.manifest import Labels, Values
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import Table, concatenate, n_bytes, take

STEADY_BYTES = 64 << 20  # of rows in a buffer where pieces are alike
SECOND_BYTES = 20 << 20  # of rows in the second buffer; each one after it is twice as large, ...
ALL = 1 << 60  # pieces: beyond the last
POLL_S = 0.2  # how often a thread looks whether it is to end


class RawPiece(NamedTuple):
    """Rows of one piece as they came."""

    number: int
    parsed: Parsed
    n_bytes: int  # of the source
    where: str

    def without_text(self) -> RawPiece:
        """Return the same without the text that its targets stand in."""
        written = self.parsed.written
        kept = None if written is None else written.settled()
        return self._replace(parsed=self.parsed._replace(written=kept))


class Position(NamedTuple):
    """How far a source was read."""

    pieces: int = 0
    windows: int = 0
    pieces_mixing: Mixing = Mixing()
    windows_mixing: Mixing = Mixing()
    left_out: LeftOut = LeftOut()  # of the pieces that were read


class Buffer(NamedTuple):
    """Rows that come together, targets and features as they are learnt from."""

    number: int
    table: Table
    bytes_read: int
    read_s: float
    max_index: int
    position: Position  # where the source goes on after it
    rows: int  # of the source so far
    sums: Sums | None = None  # of the values of every column so far, where they are counted


class Raw:
    """Pieces of a source in their order, parsed by threads; read once.

    Parameters
    ----------
    source
        What is read.
    threads, budget
        How many pieces are parsed at a time, in how much memory.
    """

    def __init__(self, source: Source, threads: int, budget: Budget) -> None:
        self.source, self._threads = source, threads
        self.passed_over = range(0)  # numbers of pieces that an earlier session learnt from
        fits = budget.pieces // (Budget.piece * PIECE_BYTES)
        self.in_flight = max(1, min(fits, threads + 2))
        self.n_bytes = (
            self.in_flight * Budget.kept_piece * PIECE_BYTES
        )  # of memory that pieces take

    def pieces(self) -> Generator[RawPiece | int]:
        """Yield all pieces in turn; of those that are to be passed over, the number of bytes."""
        with ThreadPoolExecutor(self._threads, "fewpass-parse") as pool:
            numbered = enumerate(self.source.pieces(PIECE_BYTES))
            yield from ordered_map(pool, self._parsed, numbered, self.in_flight)

    def _parsed(self, numbered: tuple[int, Piece]) -> RawPiece | int:
        number, piece = numbered
        if number in self.passed_over:
            return piece.n_bytes
        where = f"{piece.file}, after line {piece.first_line - 1}"
        return RawPiece(number, self.source.parse(piece), piece.n_bytes, where)


class Fixed(NamedTuple):
    """What the first rows decided on: how all of them are read."""

    targets: Labels | Values
    words: bool  # whether labels are words
    scaler: Scaler
    test_fraction: float
    seed: int

    def targets_of(self, raw: RawPiece) -> NDArray[np.float64]:
        """Return a piece's targets as they are learnt from; BadInput for a label that is new."""
        target, labels = raw.parsed.table.target, raw.parsed.labels
        if not isinstance(self.targets, Labels):
            if labels is not None:
                raise BadInput(
                    f"{raw.where}: the targets are words, where those of the first rows were "
                    "numbers. Choose the label column with `label`."
                )
            return target
        if (labels is not None) != self.words and target.size:
            raise BadInput(
                f"{raw.where}: labels are words here and numbers elsewhere in the source. Write "
                "all labels as words, or all as numbers."
            )
        known = [label_text(label) for label in self.targets.labels]
        codes, found = target.astype(np.int64), [*(labels or ())]
        if labels is None:
            codes, found = labelled(target, raw.parsed.written)
        self._refuse_new(raw, [label for label in found if label not in known])
        order = np.array([known.index(label) for label in found], np.float64)
        return order[codes]

    def _refuse_new(self, raw: RawPiece, new: Sequence[str]) -> None:
        if new:
            assert isinstance(self.targets, Labels), "only labels can be new"
            raise BadInput(
                f"{raw.where}: the label {new[0]} is new, the first rows had "
                f"{shown(self.targets)}. A model of "
                "one pass cannot take in another class: shuffle the source, give more `memory`, "
                "or train on a data set (`keep`)."
            )

    def rows(self, raw: RawPiece) -> tuple[Table, Table | None]:
        """Return the rows to learn from, and those that are put aside, drawn as ingest does."""
        table = self.scaler.apply(raw.parsed.table._replace(target=self.targets_of(raw)))
        if not self.test_fraction:
            return table, None
        random = np.random.default_rng([self.seed, PARTITION, raw.number])
        random.random(table.n_rows)  # an ingest draws its buckets first
        test = random.random(table.n_rows) < self.test_fraction
        return take(table, np.flatnonzero(~test)), take(table, np.flatnonzero(test))


class Intake:
    """Takes pieces in, in their order: what is learnt from, what is put aside, what is left out.

    Attributes
    ----------
    mixing : Mixing
        Of the targets of all pieces so far.
    left_out : LeftOut
        Bad rows of all pieces so far.
    moments : RunningMoments or None
        Of all rows so far; None where no method asks.
    """

    def __init__(self, fixed: Fixed, judges: Judges) -> None:
        self.fixed, self.judges = fixed, judges
        self.mixing, self.left_out = Mixing(), LeftOut()
        self.moments: RunningMoments | None = None

    def take(self, piece: RawPiece) -> Table:
        """Return the rows of a piece to learn from."""
        table = self.pass_over(piece)
        self.left_out = noted(self.left_out, piece.parsed)
        self.mixing = self.mixing.add(table.n_rows, *sums(table))
        return table

    def pass_over(self, piece: RawPiece) -> Table:
        """Do the same for rows that were learnt from, and counted, before."""
        table, aside = self.fixed.rows(piece)
        if aside is not None:
            self.judges.add(aside, piece.number)
        return table


def cut(
    pieces: Iterator[RawPiece | int], intake: Intake, start: Position, room: int
) -> Generator[Buffer]:
    """Yield the buffers after a position; none has more than about `room` bytes of rows."""
    began, size, read, widest, at = time.perf_counter(), 0, 0, -1, start
    held: list[Table] = []

    def made(up_to: int) -> Buffer:
        rows = concatenate(held)
        held.clear()
        windows = at.windows_mixing.add(rows.n_rows, *sums(rows))
        position = Position(up_to, at.windows + 1, intake.mixing, windows, intake.left_out)
        sums_now = count(intake, rows, widest)
        seconds = time.perf_counter() - began
        return Buffer(
            at.windows, rows, read, seconds, widest, position, intake.mixing.rows, sums_now
        )

    for piece in pieces:
        if isinstance(piece, int):
            continue
        if piece.number < start.pieces:
            intake.pass_over(piece)
            continue
        table = intake.take(piece)
        if table.n_rows:
            held.append(table)
        size, read = size + n_bytes(table), read + piece.n_bytes
        widest = max(widest, piece.parsed.max_index)
        if held and size >= buffer_bytes(intake.mixing, room, at.windows):
            buffer = made(piece.number + 1)
            at = buffer.position
            yield buffer
            del buffer
            began, size, read = time.perf_counter(), 0, 0
    if held:
        yield made(ALL)


def buffer_bytes(mixing: Mixing, room: int, before: int) -> int:
    """Return how many bytes of rows the buffer has that so many come before.

    The first are smaller, so that steps begin soon.
    """
    if mixing.sorted:
        return room
    return min(room, STEADY_BYTES, SECOND_BYTES << min(before - 1, 8))


def count(intake: Intake, rows: Table, widest: int) -> Sums | None:
    """Count the values of a buffer's rows, if anybody asks, and return what all came to."""
    if intake.moments is None:
        return None
    intake.moments.add(rows, widest)
    return intake.moments.sums.copy()


def sums(table: Table) -> tuple[float, float]:
    """Return the sums of a table's targets and of their squares."""
    return float(table.target.sum()), float(table.target @ table.target)


class ReadAhead:
    """Buffers in their order, made by a thread from now on: one ahead of the one that is stepped.

    While a buffer is stepped one more is made, and no third one is begun.
    """

    def __init__(self, buffers: Generator[Buffer]) -> None:
        self._buffers = buffers
        self._ready: Queue[Buffer | BaseException | None] = Queue()
        self._wanted, self._over = Semaphore(1), Signal()
        self._thread = Thread(target=self._make, name="fewpass-source", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def next(self) -> tuple[Buffer | None, float]:
        """Return the next buffer, None after the last, and the seconds that it was waited for."""
        asked = time.perf_counter()
        found = self._ready.get()
        if isinstance(found, BaseException):
            raise found
        self._wanted.release()
        return found, time.perf_counter() - asked

    def _make(self) -> None:
        try:
            with closing(self._buffers) as made:
                while is_wanted(self._wanted, self._over):
                    found = next(made, None)
                    self._ready.put(found)
                    if found is None:
                        return
                    del found
        except BaseException as error:  # noqa: BLE001 - raised where the buffer would have come
            self._ready.put(error)


def is_wanted(wanted: Semaphore, over: Signal) -> bool:
    """Wait until one more buffer is wanted; False when none will be."""
    while not wanted.acquire(timeout=POLL_S):
        if over.is_set():
            return False
    return not over.is_set()
