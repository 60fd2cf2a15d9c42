"""Rows of tables whose columns become numbers by a recipe: words, dates, text, missing values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipeline.encoding.applying import encode
from pipeline.encoding.cells import is_text, read_numbers, words_of
from pipeline.encoding.column_recipe import ColumnRecipe
from pipeline.encoding.fitting import Rules, as_sample, fitted
from pipeline.encoding.inference import held_in, looks_like_id, needs_encoding
from pipeline.encoding.lists import Vector
from pipeline.encoding.recipe import AnyColumn, Bins, Recipe, Text
from pipeline.encoding.schema import encoding_of, recipe_in
from pipeline.errors import BadInput
from pipeline.matching import shown_name
from pipeline.settings.source_options import SourceOptions
from pipeline.sources.columns import Columns, choose
from pipeline.sources.raw_rows import Cells, RawRows
from pipeline.sources.rejection import SKIP_ADVICE, settle, shown
from pipeline.sources.source import Expected, Parsed, Piece
from storage.schema import Schema
from storage.table import DenseTable, SparseTable, Table, n_bytes, take

#: Of the first rows: bytes as they are written, and rows drawn of them, that decide on a recipe.
SAMPLE_BYTES = 64 << 20
SAMPLE_ROWS = 100_000
SAMPLE_SEED = 0
#: Of the first rows: bytes that tell whether a table is more than numbers.
LOOK_BYTES = 1 << 20
_PIECE_BYTES = 1 << 22
#: A sparse value takes its index, too: dense rows are smaller where half of them is filled.
_DENSE = 2
#: A text is taken to fill so many slots.
_TEXT_SLOTS = 64
#: Kinds that the type of a column tells, and nobody else.
LISTS = ("vector", "tags")

Mask = NDArray[np.bool_]


class Fault(NamedTuple):
    """Rows with one kind of fault."""

    rows: Mask  # (n,)
    fact: str
    advice: str
    cells: Any = None  # (n,) what the rows hold there, to be shown


class EncodedSource:
    """Tables of any columns as rows of numbers; see `Source` for the methods.

    Parameters
    ----------
    rows
        The table as it is written.
    options
        How to read it.
    expected
        Where its schema has a recipe that one is used; otherwise one is fitted to a sample of the
        first rows.

    Attributes
    ----------
    recipe : Recipe
    notes : tuple of str
        What somebody should look at: columns that look like ids.
    """

    extensions: ClassVar[tuple[str, ...]] = ()
    magic: ClassVar[bytes] = b""

    def __init__(self, rows: RawRows, options: SourceOptions, expected: Expected) -> None:
        self._rows, self._options = rows, options
        self.files, self.packed = rows.files, rows.packed
        self._columns = chosen_columns(rows, options, expected)
        self.left_out = self._columns.left_out
        self.has_weight = self._columns.weight is not None
        self._used = used_columns(self._columns)
        known = recipe_in(expected.schema)
        sample = sampled(rows, self._used, LOOK_BYTES if known else SAMPLE_BYTES)
        self._numeric_labels = self._are_numbers(sample)
        self.recipe = known or self._fitted(sample)
        self.notes = () if known else tuple(self._ids(sample))
        self.n_features: int | None = self.recipe.n_outputs
        self.layout: Literal["dense", "sparse"] = layout_of(self.recipe)
        own = self._columns.schema(rows.types)
        self.schema: Schema | None = own.model_copy(update={"encoding": encoding_of(self.recipe)})

    @property
    def kinds(self) -> dict[str, str]:
        """What every column is taken for, as the setting `column` has it; drops included."""
        dropped = {name: kind for name, kind in self._options.column.items() if kind == "drop"}
        told = {c.name: _kind_of(c) for c in self.recipe.columns if c.kind not in LISTS}
        return told | dropped

    # -- before the first row ----------------------------------------------------------------------

    def _fitted(self, sample: Any) -> Recipe:
        options, columns = self._options, self._columns
        names = [name_of(columns, k) for k in columns.features]
        unknown = [name for name in options.column if name not in self._all_names()]
        if unknown:
            raise BadInput(
                f"{self.files[0].name}: no column {shown_name(unknown[0])}, which `column` names. "
                f"The columns are: {', '.join(map(shown_name, self._all_names()[:20]))}."
            )
        crosses = [(a, b) for a, b in (pair.split(",") for pair in options.cross)]
        rules = Rules(options.hash_bits, options.bins, kinds=options.column, crosses=crosses)
        return fitted(sample.select(names), rules)

    def _all_names(self) -> list[str]:
        return [name_of(self._columns, k) for k in range(self._columns.n_columns)]

    def _are_numbers(self, sample: Any) -> bool:
        """Whether targets are numbers, by most of the sample."""
        label = self._columns.label
        if label is None:
            return True
        cells = sample.column(name_of(self._columns, label)).combine_chunks().drop_null()
        _, bad = read_numbers(cells) if is_text(cells.type) else (None, None)
        return not (pa.types.is_dictionary(cells.type) or (bad is not None and bad.mean() > 0.5))

    def _ids(self, sample: Any) -> Iterator[str]:
        rows = sample.slice(0, min(sample.num_rows, 10_000))
        for k in self._columns.features:
            name = name_of(self._columns, k)
            cells = rows.column(name).combine_chunks()
            if looks_like_id(held_in(name, cells), cells):
                yield (
                    f"C{self._columns.title(k)[1:]} looks like an index or an id: it has "
                    f"another value in every row. Leave it out with {self._columns.advice(k)}."
                )

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory, from the first ones."""
        lenient = self._options.model_copy(update={"on_bad_row": "skip"})
        for piece in self._rows.pieces(LOOK_BYTES, self._used):
            per_byte = n_bytes(self._parsed(piece, lenient).table) / max(1, piece.n_bytes)
            return int(per_byte * self._rows.expands_to())
        return 0

    # -- rows --------------------------------------------------------------------------------------

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        """Pieces of whole rows."""
        return self._rows.pieces(piece_bytes, self._used)

    def parse(self, piece: Piece) -> Parsed:
        """Rows of one piece."""
        return self._parsed(piece, self._options)

    def _parsed(self, piece: Piece, options: SourceOptions) -> Parsed:
        cells = self._rows.cells(piece, self._used)
        own = dict(zip(self._used, cells.columns, strict=True))
        found = encode(self.recipe, [own[k] for k in self._columns.features])
        faults = [self._bad_cells(k, mask, own) for k, mask in found.bad]
        target, words, bad_target = self._targets(own, cells.n_rows, options)
        weight, bad_weight = self._weights(own)
        faults += [*bad_target, *bad_weight]
        bad = _any(faults, cells.n_rows)
        skipped = self._settled(piece, cells, faults, bad, options)
        table: Table
        if self.layout == "dense":
            table = DenseTable(found.dense(options.dtype), target, weight)
        else:
            table = SparseTable(*found.sparse(options.dtype), target, weight)
        kept = take(table, np.flatnonzero(~bad)) if bad.any() else table
        n_skipped = int(bad.sum()) + len(cells.faults)
        return Parsed(kept, words, self.recipe.n_outputs - 1, skipped, n_skipped)

    def _settled(
        self, piece: Piece, cells: Cells, faults: list[Fault], bad: Mask, options: SourceOptions
    ) -> Any:
        told = [(line, fact, f"{advice} {SKIP_ADVICE}") for line, fact, advice in cells.faults]
        lines = cells.lines() if bad.any() else np.zeros(0, np.int64)
        for row in np.flatnonzero(bad).tolist():
            first = next(fault for fault in faults if fault.rows[row])
            found = "" if first.cells is None else f" {shown(str(first.cells[row]))},"
            fact = first.fact.replace(" FOUND", found)
            told.append((int(lines[row]), fact, f"{first.advice} {SKIP_ADVICE}"))
        return settle(sorted(told), piece.file, options.on_bad_row, self._rows.unit)

    def _bad_cells(self, k: int, mask: Mask, own: dict[int, Any]) -> Fault:
        column = self._columns.features[k]
        kind = _wanted(self.recipe.columns[k])
        name = name_of(self._columns, column)
        advice = f"Correct it, or say that it holds words (`column={name}=category`),"
        fact = f"{self._columns.title(column)} holds FOUND {kind} expected"
        return Fault(mask, fact, advice, own[column])

    def _targets(
        self, own: dict[int, Any], n: int, options: SourceOptions
    ) -> tuple[NDArray[np.float64], tuple[str, ...] | None, list[Fault]]:
        label = self._columns.label
        if label is None:
            return np.full(n, np.nan), None, []
        cells, title, words = own[label], self._columns.title(label), None
        faults = []
        if self._numeric_labels:
            target, bad = read_numbers(cells)
            if bad is not None:
                fact = f"the target in {title} is FOUND a number was expected"
                faults.append(Fault(bad, fact, "Correct it, or check `label`,", cells))
        else:
            coded = words_of(cells).dictionary_encode()
            words = tuple(coded.dictionary.to_pylist())
            target = coded.indices.cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
        if options.label_required:
            missing = f"the target in {title} is missing or not finite"
            faults.append(Fault(np.isnan(target), missing, "Fill it in,"))
        return target, words, faults

    def _weights(self, own: dict[int, Any]) -> tuple[NDArray[np.float64] | None, list[Fault]]:
        column = self._columns.weight
        if column is None:
            return None, []
        weight, _ = read_numbers(own[column])
        fact = f"the weight in {self._columns.title(column)} is negative, missing or no number"
        return weight, [Fault(~(weight >= 0.0), fact, "Give finite weights of at least 0,")]


def _wanted(column: AnyColumn) -> str:
    if isinstance(column, Vector):
        return f"{len(column.mean)} numbers were"
    return "a date was" if column.kind == "date" else "a number was"


def _kind_of(column: AnyColumn) -> str:
    if isinstance(column, Bins):
        return f"bins:{len(column.edges) + 1}"
    return {"hashed": "hash"}.get(column.kind, column.kind)


def _any(faults: Sequence[Fault], n: int) -> Mask:
    bad = np.zeros(n, np.bool_)
    for fault in faults:
        bad |= fault.rows
    return bad


def chosen_columns(rows: RawRows, options: SourceOptions, expected: Expected) -> Columns:
    """Find label, weight and features; BadInput where `pipeline.sources.columns.choose` does."""
    names = rows.names or tuple(f"x{k}" for k in range(len(rows.types)))
    dropped = tuple(name for name, kind in options.column.items() if kind == "drop")
    places = tuple(names.index(name) for name in dropped if name in names)
    changed: dict[str, Any] = {"drop": (*options.drop, *places)}
    if expected.schema is not None and expected.schema.encoding is not None:
        changed["n_features"] = None  # which counts what columns become
    options = options.model_copy(update=changed)
    return choose(rows.names, len(rows.types), options, rows.files[0].name, expected)


def name_of(columns: Columns, k: int) -> str:
    """Return what a column is called where it needs a name: x0, x1, ... without a header."""
    return columns.names[k] if columns.names else f"x{k}"


def used_columns(columns: Columns) -> list[int]:
    """Return the columns that are read."""
    return [k for k in (*columns.features, columns.label, columns.weight) if k is not None]


def sampled(rows: RawRows, used: Sequence[int], most: int) -> Any:
    """Draw rows of the first `most` bytes: an Arrow table of the columns `used`."""
    names = rows.names or tuple(f"x{k}" for k in range(len(rows.types)))
    parts, read = [], 0
    for piece in rows.pieces(min(most, _PIECE_BYTES), used):
        cells = rows.cells(piece, used)
        columns = [words_of(c) if pa.types.is_dictionary(c.type) else c for c in cells.columns]
        table = pa.table(columns, names=[names[k] for k in used])
        # So many of each piece that no more than the sample is kept, wherever files end.
        share = max(1, SAMPLE_ROWS * piece.n_bytes // most) if read else SAMPLE_ROWS
        parts.append(as_sample(table, share, SAMPLE_SEED))
        read += piece.n_bytes
        if read >= most:
            break
    if not any(part.num_rows for part in parts):
        raise BadInput(f"{rows.files[0].name}: there are no rows. Check the file.")
    return as_sample(pa.concat_tables(parts), SAMPLE_ROWS, SAMPLE_SEED)


def layout_of(recipe: Recipe) -> Literal["dense", "sparse"]:
    """Return the smaller layout of the rows that a recipe makes."""
    slots = sum(_slots(part) for part in recipe.parts)
    return "dense" if recipe.n_outputs <= _DENSE * slots else "sparse"


def _slots(part: ColumnRecipe) -> int:
    """Return how many entries of a row a column has, about."""
    if isinstance(part, Vector):
        return part.width
    return _TEXT_SLOTS if isinstance(part, Text) else 1


def is_more_than_numbers(rows: RawRows, options: SourceOptions, expected: Expected) -> bool:
    """Say whether the first rows hold words, dates, missing values or far outliers."""
    columns = chosen_columns(rows, options, expected)
    sample = sampled(rows, used_columns(columns), LOOK_BYTES)
    for k in columns.features:
        name = name_of(columns, k)
        cells = sample.column(name).combine_chunks()
        if needs_encoding(held_in(name, cells), cells):
            return True
    return False
