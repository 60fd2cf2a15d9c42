"""Rows of tables whose columns become numbers by a recipe: words, dates, text, missing values."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.memory import release_freed_memory
from fewpass.pipeline.settings.encoding import ADDITIVE, READ_KINDS, Kind
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.additive.rules import may_curve
from fewpass.pipeline.tables.encoding.applying import EncodedByCodes, columns_of, encode
from fewpass.pipeline.tables.encoding.category_recipe import Hashed
from fewpass.pipeline.tables.encoding.cells import (
    Written,
    is_single,
    is_text,
    read_numbers,
    words_of,
)
from fewpass.pipeline.tables.encoding.expansion import Expansion, expansion_of, has_codes
from fewpass.pipeline.tables.encoding.fitting import SHOWN, RecipeRules, fitted
from fewpass.pipeline.tables.encoding.ids import ids_in
from fewpass.pipeline.tables.encoding.inference import as_asked, infer
from fewpass.pipeline.tables.encoding.lists import is_list_of_numbers
from fewpass.pipeline.tables.encoding.number_recipe import Bins
from fewpass.pipeline.tables.encoding.recipe import AnyColumn, Recipe
from fewpass.pipeline.tables.encoding.remarks import remark_on
from fewpass.pipeline.tables.encoding.schema import encoding_of, recipe_in
from fewpass.pipeline.tables.encoding.text import DocumentCounts, slots_of
from fewpass.pipeline.tables.encoding.text_recipe import Text, idf_text
from fewpass.pipeline.tables.readers.arrow_numbers import in_cells
from fewpass.pipeline.tables.readers.borders import naming
from fewpass.pipeline.tables.readers.dense_rows import Targets
from fewpass.pipeline.tables.readers.rejection import Fault, without_bad_rows
from fewpass.pipeline.tables.readers.sampling import (
    LOOK_BYTES,
    PIECE_BYTES,
    SAMPLE_BYTES,
    chosen_columns,
    name_of,
    passed_columns,
    position_of,
    sampled,
    used_columns,
)
from fewpass.pipeline.tables.readers.source import Expected, Parsed, Piece, TableRows
from fewpass.pipeline.tables.readers.split_column import SplitColumn, threshold_of
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT
from fewpass.storage.column_schema import Schema
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import DenseTable, SparseTable, Table, n_bytes

if TYPE_CHECKING:
    from fewpass.pipeline.tables.additive.choosing import Formed

#: Kinds that the type of a column tells, and nobody else.
LISTS = ("vector", "tags", "map")
MOST_CLASSES = 1000  # more are numbers


class _Words(NamedTuple):
    """Words in a column of numbers."""

    column: int  # of the recipe
    n: int
    example: str


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
    """

    extensions: ClassVar[tuple[str, ...]] = ()
    magic: ClassVar[bytes | tuple[bytes, ...]] = b""

    def __init__(self, rows: TableRows, options: SourceOptions, expected: Expected) -> None:
        self._rows, self._options, self._expected = rows, options, expected
        self.files, self.packed = rows.files, rows.packed
        self._columns = chosen_columns(rows, options, expected)
        self.ids: dict[str, str] = {}
        self._words: dict[tuple[str, int], list[_Words]] = {}
        n_features = len(self._columns.features)
        expected.budget.require_columns(n_features, rows.files[0].name, "encoded")
        self.left_out = self._columns.left_out
        self.has_weight = self._columns.weight is not None
        self.has_offset = self._offset_role is not None
        self._split: tuple[int, SplitColumn] | None = None
        self._formed: Formed | None = None
        self._passed = passed_columns(self._columns, expected, rows.files[0].name)
        self._used = self._read_columns()
        given = recipe_in(expected.schema)
        most = LOOK_BYTES if given else SAMPLE_BYTES
        sample = sampled(rows, self._used, most, expected.budget.sample)
        with naming(self.files[0].name, self.files[0].name):
            self._look(sample.table, given, sample.n_rows)
        del sample
        release_freed_memory()
        self.n_features: int | None = self.recipe.n_outputs
        self._in_codes = False
        self.layout: Literal["dense", "sparse"] = self.recipe.layout
        own = self._columns.schema(rows.types)
        self.schema: Schema | None = own.model_copy(
            update={
                "encoding": encoding_of(self.recipe, self.ids),
                "reading": dict(rows.decided),
            }
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What somebody should look at, once rows were read."""
        return self._remarks + tuple(self._of_words()) + self._rows.notes

    def _of_words(self) -> Iterator[str]:
        """Yield a sentence for every column of numbers in which words were read as missing."""
        of_columns: dict[int, _Words] = {}
        for place in sorted(self._words):
            for one in self._words[place]:
                before = of_columns.get(one.column, one._replace(n=0))
                of_columns[one.column] = before._replace(n=before.n + one.n)
        for k, one in of_columns.items():
            column = self._columns.features[k]
            cells = "1 cell holds" if one.n == 1 else f"{one.n:,} cells hold"
            yield (
                f"C{self._columns.title(column)[1:]}: {cells} no number ({one.example!r}"
                f"{', ...' * (one.n > 1)}) and count as missing. If these are words, say "
                f"`column={name_of(self._columns, column)}=category`."
            )

    def words_for_numbers(self) -> dict[str, int]:
        """Return how many cells of each column of numbers were words, of the rows read so far."""
        counts: dict[str, int] = {}
        for of_piece in list(self._words.values()):
            for one in of_piece:
                name = name_of(self._columns, self._columns.features[one.column])
                counts[name] = counts.get(name, 0) + one.n
        return counts

    @property
    def kinds(self) -> dict[str, str]:
        """What every column is taken for, as the setting `column` has it; drops included."""
        dropped = {name: kind for name, kind in self._options.column.items() if kind == "drop"}
        dropped |= dict.fromkeys(self.ids, "drop")
        encoded = {c.name: c.as_setting for c in self.recipe.columns if c.kind not in LISTS}
        read = {name: kind for name, kind in self._options.column.items() if kind in READ_KINDS}
        return encoded | read | dropped

    @property
    def _offset_role(self) -> tuple[int, Literal["offset", "exposure"]] | None:
        """The column of the offsets or of the exposures, if there is one."""
        columns = self._columns
        if columns.offset is not None:
            return columns.offset, "offset"
        return None if columns.exposure is None else (columns.exposure, "exposure")

    def _look(self, sample: Any, given: Recipe | None, n_rows: int | None) -> None:
        """Decide by a sample what targets and columns hold."""
        self._target_written = self._written(sample)
        if (weight := self._columns.weight) is not None:
            kind = sample.schema.field(name_of(self._columns, weight)).type
            self._require_single(weight, kind, "weight", "numbers")
        if (role := self._offset_role) is not None:
            kind = sample.schema.field(name_of(self._columns, role[0])).type
            self._require_single(*role[:1], kind, role[1], "numbers")
        if (split := self._expected.split) is not None:
            at = self._split_position()
            assert at is not None, "rows are held out by it"
            name = name_of(self._columns, at)
            cells = sample.column(name).combine_chunks()
            self._split = at, SplitColumn.of(name, split.how, cells, split.seed)
        if given is None:
            self._leave_out_ids(sample, n_rows)
        self.recipe = given or self._fitted(sample, n_rows)
        if self._options.idf == "exact" and given is None:
            self.recipe = self._with_exact_idf()
        self._remarks = () if given else tuple(self._remarkable(sample))

    def parse_codes(self) -> Expansion | None:
        """Parse rows to codes, where there are any, from now on; return what becomes of them."""
        self._in_codes = has_codes(self.recipe)
        return expansion_of(self.recipe) if self._in_codes else None

    # -- before the first row ----------------------------------------------------------------------

    def _read_columns(self) -> list[int]:
        """Return the columns that are read: those that are used, and that rows are held out by."""
        at = self._split_position()
        more = [*self._passed, *([] if at is None else [at])]
        return list(dict.fromkeys([*used_columns(self._columns), *more]))

    def _split_position(self) -> int | None:
        split = self._expected.split
        return None if split is None else position_of(self._columns, split, self.files[0].name)

    def threshold(self, fraction: float) -> float:
        """Read the column that rows are held out by; return the key that `fraction` are beyond."""
        assert self._split is not None, "rows are held out by a column"
        at, split = self._split
        pieces = self._rows.pieces(PIECE_BYTES, [at])
        keys = (split.keys(self._rows.cells(piece, [at]).columns[0]) for piece in pieces)
        with naming(self.files[0].name, self.files[0].name):
            return threshold_of(split, keys, fraction)

    def _leave_out_ids(self, sample: Any, n_rows: int | None) -> None:
        """Take columns that name or count the rows for columns that are dropped."""
        columns = self._columns
        names = [name_of(columns, k) for k in columns.features]
        crossed = {name: "hash" for pair in self._options.cross for name in pair.split(",")}
        asked = {**self._rows.kinds, **crossed, **self._options.column}
        self.ids = ids_in(sample.select(names), asked, n_rows)
        features = tuple(k for k in columns.features if name_of(columns, k) not in self.ids)
        self._columns = columns._replace(features=features)
        self._used = self._read_columns()

    def _fitted(self, sample: Any, n_rows: int | None) -> Recipe:
        options, columns = self._options, self._columns
        names = [name_of(columns, k) for k in columns.features]
        unknown = [name for name in options.column if name not in self._all_names()]
        if unknown:
            raise BadInput(
                f"{self.files[0].name}: no column {shown_name(unknown[0])}, which `column` names. "
                f"The columns are: {', '.join(map(shown_name, self._all_names()[:20]))}."
            )
        self._require_columns(sample)
        crosses = [(a, b) for a, b in (pair.split(",") for pair in options.cross)]
        kinds = {**self._rows.kinds, **options.column}
        rules = RecipeRules(
            options.hash_bits, options.bins, options.ranks, kinds=kinds, crosses=crosses,
            n_rows=n_rows, classes=self._n_classes(sample),
        )  # fmt: skip
        recipe = fitted(sample.select(names), rules)
        return self._with_form(recipe, sample) if self._tries_forms(recipe, n_rows) else recipe

    def _tries_forms(self, recipe: Recipe, n_rows: int | None) -> bool:
        """Say whether curves and pairs are asked for, or may be tried."""
        if self._options.encode != "auto":
            return self._options.encode in ADDITIVE
        kinds = [column.kind for column in recipe.columns]
        may = self._expected.may_curve and not recipe.crosses and self._columns.label is not None
        return may and may_curve(kinds, n_rows)

    def _with_form(self, recipe: Recipe, sample: Any) -> Recipe:
        """Add curves and pairs, chosen by the rows of the sample that may be learnt from."""
        # With the solvers that forms are tried by, which other recipes need not wait for.
        from fewpass.pipeline.tables.additive.choosing import with_form  # noqa: PLC0415
        from fewpass.pipeline.tables.additive.of_table import (  # noqa: PLC0415
            asked_form,
            targets_in,
            weighted,
        )

        learnt, expected = sample, self._expected
        if self._split is not None and expected.held_out:
            at, split = self._split
            keys = split.keys(sample.column(name_of(self._columns, at)).combine_chunks())
            learnt = sample.filter(pa.array(keys < threshold_of(split, [keys], expected.held_out)))
        targets, label = None, self._columns.label
        if label is not None:
            cells = learnt.column(name_of(self._columns, label)).combine_chunks()
            exposure = self._sampled(learnt, self._columns.exposure)
            targets, has = targets_in(cells, self._target_written, expected.task, exposure)
            learnt = learnt.filter(pa.array(has))
            for role in (self._columns.weight, self._columns.exposure):
                targets = weighted(targets, self._sampled(learnt, role))
        cells = [*columns_of(learnt, [column.name for column in recipe.columns])]
        unasked = self._options.encode == "auto"
        asked = asked_form(self._options)._replace(
            memory=expected.budget.memory, unasked=unasked, one_pass=expected.one_pass
        )  # fmt: skip
        self._formed = with_form(recipe, cells, targets, asked, expected.seed)
        return self._formed.recipe

    def _sampled(self, sample: Any, column: int | None) -> NDArray[np.float64] | None:
        """Return the numbers of a sample's column, if there is one."""
        if column is None:
            return None
        return read_numbers(sample.column(name_of(self._columns, column)).combine_chunks())[0]

    def _n_classes(self, sample: Any) -> int:
        """Return how many classes the targets of a sample have; 1 of numbers, and of two."""
        label = self._columns.label
        if label is None:
            return 1
        count: int = pc.count_distinct(sample.column(name_of(self._columns, label))).as_py()
        return count if 2 < count <= MOST_CLASSES else 1

    def _require_columns(self, sample: Any) -> None:
        """Refuse lists so long that the columns of their numbers do not fit into the budget."""
        longest = [
            pc.max(pc.list_value_length(cells)).as_py() or 0
            for cells in sample.columns if is_list_of_numbers(cells.type)
        ]  # fmt: skip
        n_columns = sum(longest) + sample.num_columns
        self._expected.budget.require_columns(n_columns, self.files[0].name, "plain")

    def _with_exact_idf(self) -> Recipe:
        """Weigh the words of text by all rows, read once for it."""
        texts = [(k, one) for k, one in enumerate(self.recipe.columns) if isinstance(one, Text)]
        if not texts or self.files[0].name == STANDARD_INPUT:
            why = "there is none here" if not texts else f"{STANDARD_INPUT} is read once only"
            raise BadInput(
                f"`idf=exact` reads all rows once for the words of text, but {why}. Leave it out."
            )
        counts = {k: DocumentCounts(one.bits, one.grams) for k, one in texts}
        used = [self._columns.features[k] for k in counts]

        def count(piece: Piece) -> list[Any]:
            cells = map(words_of, self._rows.cells(piece, used).columns)
            pairs = zip(cells, counts.values(), strict=True)
            return [(len(words), *slots_of(words, own.bits, own.grams)) for words, own in pairs]

        threads = len(os.sched_getaffinity(0))
        with ThreadPoolExecutor(threads, "fewpass-idf") as pool:
            pieces = self._rows.pieces(PIECE_BYTES, used)
            for slots in ordered_map(pool, count, pieces, threads + 1):
                for own, part in zip(counts.values(), slots, strict=True):
                    own.add(*part)
        columns = list(self.recipe.columns)
        for k, one in texts:
            columns[k] = one.model_copy(update={"idf": idf_text(counts[k].weights())})
        return self.recipe.model_copy(update={"columns": tuple(columns)})

    def _all_names(self) -> list[str]:
        return [name_of(self._columns, k) for k in range(self._columns.n_columns)]

    def _written(self, sample: Any) -> Written | None:
        """Return how targets are written, by most of the sample; None: they are words."""
        label = self._columns.label
        if label is None:
            return "plain"
        cells = sample.column(name_of(self._columns, label)).combine_chunks().drop_null()
        if pa.types.is_dictionary(cells.type):
            return None
        self._require_single(label, cells.type, "label", "numbers or words")
        _, bad = read_numbers(cells) if is_text(cells.type) else (None, None)
        if bad is None:
            return "plain"
        inferred = infer(name_of(self._columns, label), cells)
        if inferred.kind == "number":
            return inferred.written
        return "plain" if bad.mean() <= 0.5 else None

    def _require_single(self, k: int, kind: Any, setting: str, wanted: str) -> None:
        """Refuse a label or weight whose cells are neither numbers nor text."""
        if not (is_text(kind) or is_single(kind)):
            raise BadInput(
                f"{self.files[0].name}: the {setting}, {self._columns.title(k)}, holds {kind} "
                f"values, {wanted} were expected. Name another column (`{setting}`)."
            )

    def _remarkable(self, sample: Any) -> Iterator[str]:
        """Yield a sentence for every column that most people would have something else made of."""
        for name, why in self.ids.items():
            yield (
                f"Column {shown_name(name)} was left out: {why}. Keep it with "
                f"`column={name}=category`, or =number."
            )
        rows = sample.slice(0, min(sample.num_rows, 10_000))
        for k, recipe in zip(self._columns.features, self.recipe.columns, strict=True):
            name = name_of(self._columns, k)
            cells = rows.column(name).combine_chunks()
            asked = self._options.column.get(name)
            kind = self._kind(recipe, cells)
            if asked and asked.partition(":")[0] != kind:
                continue
            said = remark_on(name, cells, kind, self._columns.advice(k))
            if said is not None:
                yield f"C{self._columns.title(k)[1:]} {said}"
        if self._formed is not None:
            from fewpass.pipeline.tables.additive.of_table import notes_on  # noqa: PLC0415

            unasked = self._options.encode == "auto"
            yield from notes_on(self._formed, self._dates, unasked=unasked)
        yield from self._hint()

    @property
    def _dates(self) -> list[str]:
        return [column.name for column in self.recipe.columns if column.kind == "date"]

    def _kind(self, recipe: AnyColumn, cells: Any) -> Kind:
        """Return what the cells of a column hold, as they tell themselves."""
        name = recipe.name
        if self._options.column.get(name) == "number":
            return as_asked(name, "number", cells).kind
        if name in self._options.column or name in self._rows.kinds:
            return infer(name, cells).kind
        if isinstance(recipe, Bins):
            return "number"
        return "category" if isinstance(recipe, Hashed) else recipe.kind

    def _hint(self) -> Iterator[str]:
        """Yield a sentence on how to judge a model on later rows, where there are dates."""
        dates = self._dates
        if dates and self._expected.split is None:
            yield (
                f"Column {shown_name(dates[0])} holds dates. If later rows are to be predicted, "
                f"hold out the last ones (`test_by={dates[0]}`): rows drawn at random promise more."
            )

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory, from the first ones."""
        lenient = self._options.model_copy(update={"on_bad_row": "skip"})
        for piece in self._rows.pieces(LOOK_BYTES, self._used):
            per_byte = n_bytes(self._parsed(piece, lenient).table) / max(1, piece.n_bytes)
            return int(per_byte * self._rows.expands_to())
        return 0

    # -- rows --------------------------------------------------------------------------------------

    def columns_of_names(self, names: Sequence[str]) -> Iterator[Sequence[Any]]:
        """Yield encoded columns as they are written, Arrow arrays (n,), piece by piece."""
        places = {name_of(self._columns, k): k for k in self._columns.features}
        used = [places[name] for name in names]
        for piece in self._rows.pieces(PIECE_BYTES, used):
            with naming(str(piece.file), piece.file):
                yield self._rows.cells(piece, used).columns

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        return self._rows.pieces(piece_bytes, self._used)

    def parse(self, piece: Piece) -> Parsed:
        return self._parsed(piece, self._options, counted=True)

    def _parsed(self, piece: Piece, options: SourceOptions, *, counted: bool = False) -> Parsed:
        place = f"{piece.file}, from {self._rows.unit} {piece.first_line:,} on"
        with naming(place, piece.file):
            return self._encoded(piece, options, counted=counted)

    def _encoded(self, piece: Piece, options: SourceOptions, *, counted: bool) -> Parsed:
        cells = self._rows.cells(piece, self._used)
        own = dict(zip(self._used, cells.columns, strict=True))
        encoding = encode(self.recipe, [own[k] for k in self._columns.features])
        faults = [self._bad_cells(k, mask, own) for k, mask in encoding.bad]
        if counted and encoding.words:
            self._count_words(piece, encoding.words, own)
        targets, bad_target = self._targets(own, cells.n_rows, options)
        weight, bad_weight = self._weights(own)
        offset, bad_offset = self._offsets(own)
        faults += [*bad_target, *bad_weight, *bad_offset]
        table: Table
        if self._in_codes and isinstance(encoding, EncodedByCodes):
            table = DenseTable(encoding.codes, targets.values, weight, offset)
        elif self.layout == "dense":
            table = DenseTable(encoding.dense(options.dtype), targets.values, weight, offset)
        else:
            table = SparseTable(*encoding.sparse(options.dtype), targets.values, weight, offset)
        good = without_bad_rows(
            table, faults, piece.file, options.on_bad_row, self._rows.unit, cells.lines,
            cells.faults, targets.written,
        )  # fmt: skip
        last = self.recipe.n_outputs - 1
        split = None
        if self._split is not None:
            at, column = self._split
            split = column.keys(own[at])
            split = split if good.rows is None else split[good.rows]
        passed = tuple(own[k] for k in self._passed)
        if good.rows is not None:
            passed = tuple(cells.take(pa.array(good.rows)) for cells in passed)
        return Parsed(
            good.table, targets.labels, last, good.skipped, good.n_skipped, written=good.written,
            split=split, passed=passed,
        )  # fmt: skip

    def _count_words(self, piece: Piece, words: Any, own: dict[int, Any]) -> None:
        """Note the words of a piece that were read as missing numbers; in any thread, once."""
        self._words[(piece.file, piece.first_line)] = [
            _Words(k, int(mask.sum()), self._first(k, mask, own)) for k, mask in words
        ]

    def _first(self, k: int, mask: NDArray[np.bool_], own: dict[int, Any]) -> str:
        return str(own[self._columns.features[k]][int(mask.argmax())])[:SHOWN]

    def _bad_cells(self, k: int, mask: NDArray[np.bool_], own: dict[int, Any]) -> Fault:
        column = self._columns.features[k]
        kind = self.recipe.columns[k].wanted
        name = name_of(self._columns, column)
        advice = f"Correct it, or say that it holds words (`column={name}=category`),"
        fact = f"{self._columns.title(column)} holds FOUND {kind} expected"
        return Fault(mask, fact, advice, own[column])

    def _targets(
        self, own: dict[int, Any], n: int, options: SourceOptions
    ) -> tuple[Targets, list[Fault]]:
        label = self._columns.label
        if label is None:
            return Targets(np.full(n, np.nan), None), []
        cells, title, words, written = own[label], self._columns.title(label), None, None
        faults = []
        if self._target_written is not None:
            target, bad = read_numbers(cells, self._target_written)
            written = in_cells(cells) if self._target_written == "plain" else None
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
        return Targets(target, words, written), faults

    def _weights(self, own: dict[int, Any]) -> tuple[NDArray[np.float64] | None, list[Fault]]:
        column = self._columns.weight
        if column is None:
            return None, []
        weight, _ = read_numbers(own[column])
        fact = f"the weight in {self._columns.title(column)} is negative, missing or no number"
        return weight, [Fault(~(weight >= 0.0), fact, "Give finite weights of at least 0,")]

    def _offsets(self, own: dict[int, Any]) -> tuple[NDArray[np.float64] | None, list[Fault]]:
        """Return the offsets of rows: those of the file, or the logarithms of the exposures."""
        if self._offset_role is None:
            return None, []
        column, role = self._offset_role
        given, _ = read_numbers(own[column])
        title = self._columns.title(column)
        if role == "offset":
            fact = f"the offset in {title} is missing or no finite number"
            return given, [Fault(~np.isfinite(given), fact, "Give numbers,")]
        bad = ~(np.isfinite(given) & (given > 0.0))
        fact = f"the exposure in {title} is not above 0, missing or no number"
        offset = np.log(np.where(bad, 1.0, given))
        return offset, [Fault(bad, fact, "Give finite numbers above 0,")]
