"""A table with the recipe of its columns, decided by a sample of its first rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fewpass.pipeline.budget import TableKind
from fewpass.pipeline.decimal_text import NULL_VALUES
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.memory import release_freed_memory
from fewpass.pipeline.settings.encoding import ADDITIVE
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.additive.noise_columns import NEEDLESS
from fewpass.pipeline.tables.additive.rules import against_curves
from fewpass.pipeline.tables.encoding.applying import columns_of
from fewpass.pipeline.tables.encoding.cells import as_array, read_numbers, table_without_nulls
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.ids import ids_in
from fewpass.pipeline.tables.encoding.lists import is_list_of_numbers
from fewpass.pipeline.tables.encoding.number_recipe import Bins, Number
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import encoding_of, recipe_in
from fewpass.pipeline.tables.readers.columns import LOOK_BYTES, SAMPLE_BYTES, chosen_columns
from fewpass.pipeline.tables.readers.held_out_rows import held_out_at_random
from fewpass.pipeline.tables.readers.library_errors import naming
from fewpass.pipeline.tables.readers.row_roles import RowRoles
from fewpass.pipeline.tables.readers.sampling import FirstSample, sampled, with_exact_idf
from fewpass.pipeline.tables.readers.source import PIECE_BYTES, Expected, TableReader
from fewpass.pipeline.tables.readers.split_column import SplitColumn, threshold_of
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT
from fewpass.storage.column_schema import EncodingRecord, GroupedChoice

if TYPE_CHECKING:
    from fewpass.pipeline.tables.additive.choosing import Formed
    from fewpass.pipeline.tables.additive.sample_fit import SampleTargets


class FittedTable:
    """The columns of a table: what each is used for, and, once `fit` was called, their recipe.

    Attributes
    ----------
    columns : TableColumns
        What each is used for; those that are left out are none of the features.
    cut_by : list of int
        The columns that pieces are cut by.
    ids : dict
        Why columns are left out that nobody asked to drop, by name.
    roles : RowRoles
    split : tuple of int and SplitColumn, or None
        The column that rows are held out by.
    recipe : Recipe
    formed : Formed or None
        How curves and pairs were chosen, where that was tried.
    untried : str
        Why curves and pairs were not tried, where nobody asked for any, and none were refused.
    """

    def __init__(self, rows: TableReader, options: SourceOptions, expected: Expected) -> None:
        self.rows, self.options, self.expected = rows, options, expected
        self.name = rows.files[0].name
        self.columns = chosen_columns(rows, options, expected)
        self.ids: dict[str, str] = {}
        self.split: tuple[int, SplitColumn] | None = None
        self.formed: Formed | None = None
        self.untried = ""
        self._first_used = self.columns.read

    def sampled(self, is_enough: Callable[[Any], bool] | None = None) -> FirstSample:
        """Draw rows of the columns that are read; see `sampling.sampled`."""
        most = LOOK_BYTES if recipe_in(self.expected.schema) else SAMPLE_BYTES
        memory = self.expected.budget.sample
        drawn = [] if self.drawn_by is None else [self.drawn_by, *self._weight]
        return sampled(self.rows, self.columns.read, most, memory, drawn, is_enough)

    def require_encodable(self) -> None:
        """Refuse more columns than can be encoded within the budget."""
        kind: TableKind = "curved" if self.options.encode in ADDITIVE else "encoded"
        self.expected.budget.require_columns(len(self.columns.features), self.name, kind)

    def fit(self, sample: FirstSample, *, plain: bool = False) -> None:
        """Decide by a sample what targets and columns hold; their recipe is the one expected.

        Parameters
        ----------
        sample
            Rows of the columns that are read.
        plain
            Whether columns are numbers, which without curves are left as they are.

        Raises
        ------
        BadInput
            Columns that do not hold what they are asked for.
        """
        rows = sample.table
        self.roles = RowRoles.of(self.columns, self.name, rows)
        self.split = self._split_in(rows)
        given, self._is_plain = recipe_in(self.expected.schema), plain
        if given is not None:
            self.recipe = given
            return
        sample = self._counting(sample)
        sample = sample._replace(table=self._without_nulls(sample.table))
        self._leave_out_ids(sample.table, sample.n_rows)
        self.recipe = self._fitted(sample)
        if self.options.idf == "exact":
            self.recipe = with_exact_idf(self.recipe, self.rows, self.columns.features)

    @property
    def is_new(self) -> bool:
        """Return whether the recipe was fitted to the sample, not taken over."""
        return recipe_in(self.expected.schema) is None

    @property
    def encoding(self) -> EncodingRecord:
        """The recipe as a schema has it, with the lam that held-out rows chose with the form."""
        made, chosen = encoding_of(self.recipe, self.ids), self.formed and self.formed.chosen
        if not chosen:
            return made
        lam, grouped = chosen.best.lam, None
        if chosen.groups_of:
            grouped = GroupedChoice(
                chosen.groups_of, lam, chosen.loss, chosen.rows, chosen.held_out_rows
            )
        form_lam = lam if self.recipe.additive else None
        return made.model_copy(update={"form_lam": form_lam, "grouped": grouped})

    @property
    def _weight(self) -> list[int]:
        """The column of row weights, if there is one."""
        return [] if self.columns.weight is None else [self.columns.weight]

    def _count(self, weights: Sequence[Any], n: int) -> NDArray[np.bool_]:
        """Return which of n rows count: not those of weight 0, by the cells of their weights."""
        if not weights:
            return np.ones(n, np.bool_)
        assert self.columns.weight is not None, "it has cells"
        counts: NDArray[np.bool_] = self._numbers_in(weights[0], self.columns.weight) != 0.0
        return counts

    def _counting(self, sample: FirstSample) -> FirstSample:
        """Leave out rows of weight 0, where there are others: nothing is learnt from them."""
        table = sample.table
        weights = [as_array(table.column(self.columns.name_of(k))) for k in self._weight]
        counts = self._count(weights, table.num_rows)
        if counts.all() or not counts.any():
            return sample
        n_rows = None if sample.n_rows is None else round(sample.n_rows * float(counts.mean()))
        rows = table.filter(pa.array(counts))
        return sample._replace(table=rows, n_rows=n_rows, places=sample.places[counts])

    # -- held-out rows -----------------------------------------------------------------------------

    @property
    def drawn_by(self) -> int | None:
        """The column of targets where rows are held out at random, a share of those of each."""
        drawn = self.expected.held_out and self.expected.split is None
        return self.columns.label if drawn else None

    @property
    def cut_by(self) -> list[int]:
        """The columns that pieces are cut by.

        They decide where those of Arrow's files end, and so which rows are drawn: where some are,
        columns that were left out after a look at the sample are among them.
        """
        return self.columns.read if self.drawn_by is None else self._first_used

    @cached_property
    def threshold(self) -> float:
        """The key from which on rows are held out; all are read for it.

        BadInput where they can be read once only.
        """
        assert self.split is not None, "rows are held out by a column"
        at, split = self.split
        if self.name == STANDARD_INPUT:
            raise BadInput(
                f"`test_{split.how}` reads all rows once before, and {STANDARD_INPUT} is read once "
                "only. Leave it out, or name a file."
            )
        used = [at, *self._weight]
        parts = (self.rows.cells(piece, used) for piece in self.rows.pieces(PIECE_BYTES, used))
        keys = (
            split.keys(own.columns[0])[self._count(own.columns[1:], own.n_rows)] for own in parts
        )
        with naming(self.name, self.name):
            return threshold_of(split, keys, self.expected.held_out)

    def _learnt(self, sample: FirstSample) -> Any:
        """Return the rows of a sample that are not held out."""
        fraction, seed = self.expected.held_out, (self.expected.seed,)
        if not fraction:
            return sample.table
        if self.split is not None:
            at, split = self.split
            keys = split.keys(as_array(sample.table.column(self.columns.name_of(at))))
            return sample.table.filter(pa.array(keys < self.threshold))
        held_out = []
        for place, (cells, *weights) in sample.roles:
            counts = self._count(weights, len(cells))
            target = self.roles.targets_in(cells.filter(pa.array(counts)))
            drawn = np.zeros(len(cells), np.bool_)
            drawn[counts] = held_out_at_random(target, fraction, seed, place)
            held_out.append(drawn)
        return sample.table.filter(pa.array(~np.concatenate(held_out)[sample.places]))

    # -- columns -----------------------------------------------------------------------------------

    def _split_in(self, sample: Any) -> tuple[int, SplitColumn] | None:
        """Look at the column that rows are held out by, if there is one."""
        split = self.expected.split
        if split is None:
            return None
        at = self.columns.split
        assert at is not None, "rows are held out by it"
        name, given = self.columns.name_of(at), recipe_in(self.expected.schema)
        own = next((one for one in given.columns if one.name == name), None) if given else None
        if split.how == "by" and isinstance(own, Date | Number | Bins):
            return at, SplitColumn(name, split.how, own, split.seed)
        cells = as_array(sample.column(name))
        return at, SplitColumn.of(name, split.how, cells, split.seed, self.options)

    def _leave_out_ids(self, sample: Any, n_rows: int | None) -> None:
        """Take columns that name or count the rows for columns that are dropped."""
        crossed = {name: "hash" for pair in self.options.cross for name in pair.split(",")}
        asked = {**crossed, **self.options.column}
        self._leave_out(ids_in(sample.select(self.columns.feature_names), asked, n_rows))

    def _leave_out(self, why: dict[str, str]) -> None:
        """Take columns for ones that are dropped."""
        columns = self.columns
        self.ids |= why
        features = tuple(k for k in columns.features if columns.name_of(k) not in self.ids)
        self.columns = columns._replace(features=features)

    # -- the recipe --------------------------------------------------------------------------------

    def _fitted(self, sample: FirstSample) -> Recipe:
        options, rows, n_rows = self.options, sample.table, sample.n_rows
        self._require_named()
        self._require_columns(rows)
        crosses = [(a, b) for a, b in (pair.split(",") for pair in options.cross)]
        rules = RecipeRules(
            options.hash_bits, options.bins, options.ranks, kinds=options.column, crosses=crosses,
            n_rows=n_rows, classes=self.roles.n_classes(rows), null_values=options.null_values,
        )  # fmt: skip
        recipe = fitted(rows.select(self.columns.feature_names), rules)
        return self._with_form(recipe, sample) if self._tries_forms(recipe, n_rows) else recipe

    def _without_nulls(self, sample: Any) -> Any:
        """Return a sample with words for nothing null in columns that become features."""
        given, names = self.options.null_values, sample.column_names
        read = table_without_nulls(sample, NULL_VALUES if given is None else given)
        own = {*self.columns.feature_names}
        columns = [read[name] if name in own else sample[name] for name in names]
        return pa.table(columns, names=names)

    def _require_named(self) -> None:
        """Refuse settings of columns that are not there."""
        names = [*map(self.columns.name_of, range(self.columns.n_columns))]
        unknown = [name for name in self.options.column if name not in names]
        if unknown:
            raise BadInput(
                f"{self.name}: no column {shown_name(unknown[0])}, which `column` names. "
                f"The columns are: {', '.join(map(shown_name, names[:20]))}."
            )
        of_features = {*self.columns.feature_names, *self.ids}
        others = [
            name for name, kind in self.options.column.items()
            if kind != "drop" and name not in of_features
        ]  # fmt: skip
        if others:
            raise BadInput(
                f"{self.name}: `column={others[0]}={self.options.column[others[0]]}` says what a "
                f"feature holds, and {shown_name(others[0])} is none: it is the label, the weight "
                "or the offset, or it is dropped. Leave that out; `task` says what targets are."
            )

    def _require_columns(self, sample: Any) -> None:
        """Refuse lists so long that the columns of their numbers do not fit into the budget."""
        longest = [
            pc.max(pc.list_value_length(cells)).as_py() or 0
            for cells in sample.columns if is_list_of_numbers(cells.type)
        ]  # fmt: skip
        n_columns = sum(longest) + sample.num_columns
        self.expected.budget.require_columns(n_columns, self.name, "plain")

    # -- its form ----------------------------------------------------------------------------------

    def _tries_forms(self, recipe: Recipe, n_rows: int | None) -> bool:
        """Say whether curves and pairs are asked for, or may be tried."""
        if self.options.encode != "auto":
            return self.options.encode in ADDITIVE
        kinds = [column.kind for column in recipe.columns]
        if not self.expected.may_curve or self.columns.label is None:
            return False
        crossed = "columns are crossed" * bool(recipe.crosses)
        self.untried = crossed or against_curves(kinds, n_rows)
        return not self.untried

    def _with_form(self, recipe: Recipe, sample: FirstSample) -> Recipe:
        """Add curves and pairs, chosen by the rows of the sample that may be learnt from."""
        # With the solvers that forms are tried by, which other recipes need not wait for.
        from fewpass.pipeline.tables.additive.choosing import with_form  # noqa: PLC0415
        from fewpass.pipeline.tables.additive.of_table import asked_form  # noqa: PLC0415
        from fewpass.pipeline.tables.additive.row_groups import RowGroups  # noqa: PLC0415

        expected = self.expected
        learnt, targets = self._with_targets(self._learnt(sample))
        cells = [*columns_of(learnt, [column.name for column in recipe.columns])]
        asked = asked_form(self.options)._replace(
            memory=expected.budget.memory, unasked=self.options.encode == "auto",
            at_random=expected.held_out > 0.0 and expected.split is None,
            plain=self._is_plain, one_pass=expected.one_pass,
            wanted=tuple(self.options.column),
        )  # fmt: skip
        release_freed_memory()  # of the recipe, beside which forms are tried
        groups = None
        if self.split is not None and self.split[1].how == "group":
            name = self.split[1].name
            groups = RowGroups.of_cells(name, as_array(learnt.column(name)))
        self.formed = with_form(recipe, cells, targets, asked, expected.seed, groups)
        self._leave_out(dict.fromkeys(self.formed.left_out, NEEDLESS))
        return self.formed.recipe

    def _with_targets(self, sample: Any) -> tuple[Any, SampleTargets | None]:
        """Return the rows of a sample that have targets, and these; None where nothing has."""
        from fewpass.pipeline.tables.additive.of_table import targets_in, weighted  # noqa: PLC0415

        columns = self.columns
        if columns.label is None:
            return sample, None
        cells = as_array(sample.column(columns.name_of(columns.label)))
        exposure = self._numbers(sample, columns.exposure)
        targets, has = targets_in(cells, self.roles.written, self.expected.task, exposure)
        sample = sample if has.all() else sample.filter(pa.array(has))
        for role in (columns.weight, columns.exposure):
            targets = weighted(targets, self._numbers(sample, role))
        return sample, targets

    def _numbers(self, sample: Any, column: int | None) -> NDArray[np.float64] | None:
        """Return the numbers of a sample's column, if there is one."""
        if column is None:
            return None
        cells = as_array(sample.column(self.columns.name_of(column)))
        return self._numbers_in(cells, column)

    def _numbers_in(self, cells: Any, column: int) -> NDArray[np.float64]:
        """Return the numbers of the cells of a weight, an offset or an exposure."""
        return read_numbers(cells, self.roles.numbers[column]).values
