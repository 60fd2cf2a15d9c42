"""Labels, weights, offsets and exposures of a table: what they hold, and what rows have of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.cells import (
    Written,
    as_array,
    is_single,
    is_text,
    read_numbers,
    words_of,
)
from fewpass.pipeline.tables.encoding.inference import infer
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.dense_rows import Targets
from fewpass.pipeline.tables.readers.label_texts import LabelTexts
from fewpass.pipeline.tables.readers.rejection import FOUND, Fault
from fewpass.storage.table import MOST_WEIGHT, are_weights

MOST_CLASSES = 1000  # more are numbers
#: Arrow arrays (n,) by the number of their column.
CellsByColumn = Mapping[int, Any]


class RoleValues(NamedTuple):
    """Parts of rows besides features, and the bad rows."""

    targets: Targets
    weight: NDArray[np.float64] | None  # (n,)
    offset: NDArray[np.float64] | None  # (n,)
    faults: list[Fault]


class RowRoles(NamedTuple):
    """The columns of a table that have a role, and the form of its targets and other numbers."""

    columns: TableColumns
    written: Written | None  # of targets; None: they are words
    numbers: Mapping[int, Written]  # of weights, offsets and exposures, by column

    @classmethod
    def plain(cls, columns: TableColumns, *, are_words: bool) -> RowRoles:
        """Return the roles of plain numbers, whose targets may be words."""
        weight: dict[int, Written] = {} if columns.weight is None else {columns.weight: "plain"}
        return cls(columns, None if are_words else "plain", weight)

    @classmethod
    def of(cls, columns: TableColumns, where: str, sample: Any) -> RowRoles:
        """Look at a sample of the file `where`; BadInput where a role holds no single values."""
        roles = cls(columns, _written_by_most(columns, where, sample), written := {})
        numbers = [] if columns.weight is None else [(columns.weight, "weight")]
        numbers += [] if roles.offset_role is None else [roles.offset_role]
        for column, role in numbers:
            name = columns.name_of(column)
            cells = as_array(sample.column(name)).drop_null()
            _require_single(columns, where, column, cells.type, role, "numbers")
            written[column] = infer(name, cells).written if is_text(cells.type) else "plain"
        return roles

    @property
    def offset_role(self) -> tuple[int, Literal["offset", "exposure"]] | None:
        """The column of the offsets or of the exposures, if there is one."""
        if self.columns.offset is not None:
            return self.columns.offset, "offset"
        return None if self.columns.exposure is None else (self.columns.exposure, "exposure")

    def n_classes(self, sample: Any) -> int:
        """Return how many classes the targets of a sample have; 1 of numbers, and of two."""
        label = self.columns.label
        if label is None:
            return 1
        count: int = pc.count_distinct(sample.column(self.columns.name_of(label))).as_py()
        return count if 2 < count <= MOST_CLASSES else 1

    def values(self, own: CellsByColumn, n: int, *, label_required: bool) -> RoleValues:
        """Return what n rows have, by the cells of their columns."""
        targets, bad_target = self._targets(own, n, label_required=label_required)
        weight, bad_weight = self._weights(own)
        offset, bad_offset = self._offsets(own)
        return RoleValues(targets, weight, offset, [*bad_target, *bad_weight, *bad_offset])

    def targets_in(self, cells: Any) -> NDArray[np.float64]:
        """Return the targets of rows (n,) by the cells of their column, bad ones NaN."""
        assert self.columns.label is not None, "it has cells"
        return self._targets({self.columns.label: cells}, len(cells), label_required=True)[0].values

    def _targets(
        self, own: CellsByColumn, n: int, *, label_required: bool
    ) -> tuple[Targets, list[Fault]]:
        label = self.columns.label
        if label is None:
            return Targets(np.full(n, np.nan), None), []
        title, faults = self.columns.title(label), list[Fault]()
        if self.written is None:
            targets = _word_targets(own[label])
        else:
            targets, bad = _number_targets(own[label], self.written)
            if bad is not None:
                fact = f"the target in {title} is {FOUND} a number was expected"
                faults.append(Fault(bad, fact, "Correct it, or check `label`,", own[label]))
        if label_required:
            missing = f"the target in {title} is missing or not finite"
            faults.append(Fault(np.isnan(targets.values), missing, "Fill it in,"))
        return targets, faults

    def _weights(self, own: CellsByColumn) -> tuple[NDArray[np.float64] | None, list[Fault]]:
        column = self.columns.weight
        if column is None:
            return None, []
        weight, _ = read_numbers(own[column], self.numbers[column])
        wanted = f"a number from 0 to {MOST_WEIGHT:g}"
        return weight, [self._fault(own, column, "weight", ~are_weights(weight), wanted)]

    def _offsets(self, own: CellsByColumn) -> tuple[NDArray[np.float64] | None, list[Fault]]:
        """Return the offsets of rows: those of the file, or the logarithms of the exposures."""
        if self.offset_role is None:
            return None, []
        column, role = self.offset_role
        given, _ = read_numbers(own[column], self.numbers[column])
        if role == "offset":
            return given, [self._fault(own, column, role, ~np.isfinite(given), "a number")]
        bad = ~(np.isfinite(given) & (given > 0.0))
        offset = np.log(np.where(bad, 1.0, given))
        return offset, [self._fault(own, column, role, bad, "a number above 0")]

    def _fault(
        self, own: CellsByColumn, column: int, role: str, bad: NDArray[np.bool_], wanted: str
    ) -> Fault:
        fact = f"the {role} in {self.columns.title(column)} is {FOUND} {wanted} was expected"
        return Fault(bad, fact, f"Correct it, or check `{role}`,", own[column])


def _written_by_most(columns: TableColumns, where: str, sample: Any) -> Written | None:
    """Return how targets are written, by most of a sample; None: they are words."""
    label = columns.label
    if label is None:
        return "plain"
    cells = as_array(sample.column(columns.name_of(label))).drop_null()
    if pa.types.is_dictionary(cells.type):
        return None
    _require_single(columns, where, label, cells.type, "label", "numbers or words")
    if not is_text(cells.type):
        return "plain"
    numbers, bad = read_numbers(cells)
    if bad is None:
        return "plain"
    inferred = infer(columns.name_of(label), cells)
    if inferred.kind == "number":
        return inferred.written
    return "plain" if bad.sum() <= np.isfinite(numbers).sum() else None


def _require_single(
    columns: TableColumns, where: str, k: int, kind: Any, setting: str, wanted: str
) -> None:
    """Refuse a label or weight whose cells are neither numbers nor text."""
    if not (is_text(kind) or is_single(kind)):
        raise BadInput(
            f"{where}: the {setting}, {columns.title(k)}, holds {kind} values, {wanted} were "
            f"expected. Name another column (`{setting}`)."
        )


def _word_targets(cells: Any) -> Targets:
    """Return codes into the words of a piece."""
    coded = words_of(cells).dictionary_encode()
    values = coded.indices.cast(pa.float64()).to_numpy(zero_copy_only=False).copy()
    return Targets(values, tuple(coded.dictionary.to_pylist()))


def _number_targets(cells: Any, how: Written) -> tuple[Targets, NDArray[np.bool_] | None]:
    """Return numbers, and which cells (n,) hold none."""
    values, bad = read_numbers(cells, how)
    return Targets(values, None, LabelTexts.of(cells) if how == "plain" else None), bad
