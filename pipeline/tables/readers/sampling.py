"""Samples that decide on a recipe: first rows; for `idf=exact` the words of all rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.budget import SAMPLE_MEMORY
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import release_freed_memory
from fewpass.pipeline.tables.encoding.cells import as_array, is_text, words_of
from fewpass.pipeline.tables.encoding.fitting import as_sample
from fewpass.pipeline.tables.encoding.inference import infer, needs_encoding
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.text import DocumentCounts, slots_of
from fewpass.pipeline.tables.encoding.text_recipe import Text, idf_text
from fewpass.pipeline.tables.readers.columns import LOOK_BYTES, TableColumns
from fewpass.pipeline.tables.readers.library_errors import naming, parsing
from fewpass.pipeline.tables.readers.source import PIECE_BYTES, Piece, PiecePlace, TableReader
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT
from fewpass.storage.ordered import ordered_map

#: Rows drawn of the first ones (columns.SAMPLE_BYTES) that decide on a recipe; of tables so
#: wide that their cells take more memory than they may, fewer.
SAMPLE_ROWS = 100_000
SAMPLE_SEED = 0
MOST_PARTS = 8  # that short rows of many columns are in
COLUMN_BYTES = 1300  # that a column of each takes beside its cells


class FirstSample(NamedTuple):
    """Rows of the first bytes of a table."""

    table: Any  # of Arrow
    n_rows: int | None  # of the whole table, where these are drawn from all of it
    places: NDArray[np.int64]  # (n,) of these rows among all that were read
    roles: tuple[
        tuple[PiecePlace, tuple[Any, ...]], ...
    ]  # cells of the columns asked for, of all rows of each piece that was read
    gaps: frozenset[str]  # columns with missing cells in any row that was read
    row_bytes: float  # of a row, as pieces count them
    first: Piece  # that was read


def sampled(
    rows: TableReader, used: Sequence[int], most: int, memory: int = SAMPLE_MEMORY,
    roles: Sequence[int] = (), is_enough: Callable[[Any], bool] | None = None,
) -> FirstSample:  # fmt: skip
    """Draw rows of the first `most` bytes: the columns `used` of them.

    While they are drawn they take `memory` bytes at most, but for those of a piece, and for the
    columns `roles`, of which all cells are returned as well.  Whether the first `LOOK_BYTES` are
    enough `is_enough` says of their rows.
    """
    names = rows.names or tuple(f"x{k}" for k in range(len(rows.types)))
    called = [names[k] for k in used]
    called.append(f"{max(called, key=len)}_")  # places of rows: a name that no column has
    drawn = _DrawnRows(rows.files[0].name, memory)
    every: list[tuple[PiecePlace, tuple[Any, ...]]] = []
    faults: list[tuple[int, str, str]] = []
    gaps: set[str] = set()
    first: Piece | None = None
    read, n_rows, whole = 0, 0, True
    for piece in rows.pieces(min(most, PIECE_BYTES), used):
        first = first or piece
        cells = rows.cells(piece, used)
        columns = [words_of(c) if pa.types.is_dictionary(c.type) else c for c in cells.columns]
        if roles:
            own = tuple(columns[list(used).index(role)] for role in roles)
            every.append((piece.place, own))
        places = pa.array(np.arange(n_rows, n_rows + cells.n_rows))
        table = pa.table([*columns, places], names=called)
        drawn.add(table)
        n_rows += table.num_rows
        gaps |= {names[k] for k, c in zip(used, columns, strict=True) if c.null_count}
        faults += cells.faults[:1]
        read += piece.n_bytes
        if read >= most or (is_enough and read >= LOOK_BYTES and is_enough(drawn.table())):
            whole = False
            break
        is_enough = None if read >= LOOK_BYTES else is_enough
    if not drawn.n_rows:
        for line, fact, advice in faults:
            where = f"{rows.files[0].name}, {rows.unit} {line}"
            raise BadInput(f"{where}: {fact}. {advice.rstrip(',')}.")
        raise BadInput(f"{rows.files[0].name}: there are no rows. Check the file.")
    sample = as_sample(drawn.table(), SAMPLE_ROWS, SAMPLE_SEED)
    del drawn
    release_freed_memory()
    last = sample.num_columns - 1
    places = sample.column(last).to_numpy()
    assert first is not None, "there are rows"
    return FirstSample(
        sample.remove_column(last), n_rows if whole else None, places, tuple(every),
        frozenset(gaps), read / n_rows, first,
    )  # fmt: skip


class _DrawnRows:
    """Rows drawn so far, in parts; `name` is of their first file.

    What the parts take is added up as they come: there may be as many as files.
    """

    def __init__(self, name: str, memory: int) -> None:
        self.name, self.memory = name, memory
        self.rate = 1.0  # of rows retained, the same for all
        self._hold([])

    def add(self, table: Any) -> None:
        """Draw rows of another piece."""
        self._append(_thinned(table, self.rate))
        if len(self.parts) > MOST_PARTS and self.column_bytes > self.cell_bytes:
            self._hold([self.table().combine_chunks()])
            release_freed_memory()
        while self._is_too_large:
            self.rate /= 2
            self._hold([_thinned(part, 0.5) for part in self.parts])

    def table(self) -> Any:
        """Return all as one table; whole numbers become fractions where other parts have these."""
        what = "the files hold columns of different types"
        with parsing(self.name, what, "Write them alike."):
            return pa.concat_tables(self.parts, promote_options="permissive")

    def _hold(self, parts: Sequence[Any]) -> None:
        self.parts: list[Any] = []
        self.n_rows = self.cell_bytes = self.column_bytes = 0
        for part in parts:
            self._append(part)

    def _append(self, part: Any) -> None:
        self.parts.append(part)
        self.n_rows += part.num_rows
        self.cell_bytes += part.nbytes
        self.column_bytes += COLUMN_BYTES * part.num_columns

    @property
    def _is_too_large(self) -> bool:
        taken = self.cell_bytes + self.column_bytes
        has_more = self.n_rows > len(self.parts)
        return self.n_rows > 2 * SAMPLE_ROWS or (taken > self.memory and has_more)


def _thinned(table: Any, rate: float) -> Any:
    return as_sample(table, max(1, round(rate * table.num_rows)), SAMPLE_SEED)


def are_numbers(rows: TableReader, columns: TableColumns, sample: Any) -> bool:
    """Say whether the features of a sample hold neither words, dates, gaps nor far outliers.

    Texts in a file that has types are words, whatever they say.
    """
    with naming(rows.files[0].name, rows.files[0].name):
        for k in columns.features:
            name = columns.name_of(k)
            cells = as_array(sample.column(name))
            if is_text(cells.type) and rows.types[k] != "text":
                return False
            if needs_encoding(infer(name, cells), cells):
                return False
    return True


def with_exact_idf(recipe: Recipe, rows: TableReader, features: Sequence[int]) -> Recipe:
    """Weigh the words of text by all rows.

    Parameters
    ----------
    features
        Where the columns of the recipe are among those of the table.

    Raises
    ------
    BadInput
        There is no text, or the rows can be read once only.
    """
    texts = {k: one for k, one in enumerate(recipe.columns) if isinstance(one, Text)}
    if not texts or rows.files[0].name == STANDARD_INPUT:
        why = "there is none here" if not texts else f"{STANDARD_INPUT} is read once only"
        raise BadInput(
            f"`idf=exact` reads all rows once for the words of text, but {why}. Leave it out."
        )
    counts = _counted(texts, rows, [features[k] for k in texts])
    columns = list(recipe.columns)
    for k, one in texts.items():
        columns[k] = one.model_copy(update={"idf": idf_text(counts[k].weights())})
    return recipe.model_copy(update={"columns": tuple(columns)})


def _counted(
    texts: dict[int, Text], rows: TableReader, used: Sequence[int]
) -> dict[int, DocumentCounts]:
    """Read all rows, on threads; count in how many of them each word of a text is."""
    counts = {k: DocumentCounts(one.bits, one.grams) for k, one in texts.items()}

    def count(piece: Piece) -> list[Any]:
        cells = map(words_of, rows.cells(piece, used).columns)
        pairs = zip(cells, counts.values(), strict=True)
        return [(len(words), *slots_of(words, own.bits, own.grams)) for words, own in pairs]

    threads = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(threads, "fewpass-idf") as pool:
        pieces = rows.pieces(PIECE_BYTES, used)
        for slots in ordered_map(pool, count, pieces, threads + 1):
            for own, part in zip(counts.values(), slots, strict=True):
                own.add(*part)
    return counts
