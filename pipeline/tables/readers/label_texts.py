"""Labels of tables as text: 007 and 100000000000000001 are names, which no float gives back."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.decimal_text import DECIMAL
from fewpass.pipeline.rows.targets import label_text
from fewpass.solvers.bad_input import MOST_WHOLE

_NUMBER = re.compile(DECIMAL, re.ASCII)
#: Zeros in front of a number, which a float forgets.
_PADDED = re.compile(r"[-+]?0\d")
#: What may be no float: padded with zeros, or of more digits than every float gives back.
_PERHAPS = r"^\s*[-+]?(?:0\d|[\d.]{16})"


class LabelTexts(NamedTuple):
    """The text of labels that may be no floats; whoever counts labels asks which are none."""

    rows: NDArray[np.int64]  # (m,) of a table, ascending
    cells: Any  # (m,) an Arrow array

    @classmethod
    def of(cls, cells: Any) -> LabelTexts | None:
        """Take those of cells (n,), an Arrow array; None where all are floats."""
        import pyarrow as pa  # noqa: PLC0415 - rows of plain numbers have none
        import pyarrow.compute as pc  # noqa: PLC0415 - likewise

        types, kind = pa.types, cells.type
        if types.is_integer(kind) or types.is_decimal(kind):
            perhaps = pc.greater(pc.abs(pc.cast(cells, pa.float64(), safe=False)), MOST_WHOLE - 1)
        elif types.is_string(kind) or types.is_large_string(kind):
            perhaps = pc.match_substring_regex(cells, _PERHAPS)
        else:
            return None
        rows = np.flatnonzero(np.asarray(perhaps.fill_null(fill_value=False), np.bool_))
        return cls(rows, cells.take(pa.array(rows))) if rows.size else None

    def names(self, *, padded: bool = True) -> tuple[NDArray[np.int64], list[str]]:
        """Return the rows (k,) with names in place of numbers, and their names.

        Parameters
        ----------
        padded
            Whether zeros in front of a number make it a name.
        """
        texts = _texts(self.cells)
        are_names = {text: not is_number(text, padded=padded) for text in set(texts)}
        named = np.fromiter(map(are_names.__getitem__, texts), np.bool_, len(texts))
        return self.rows[named], [texts[k] for k in np.flatnonzero(named).tolist()]

    def subset(self, rows: NDArray[np.int64]) -> LabelTexts:
        """Return the same of some rows alone, ascending, numbered anew."""
        stay = np.flatnonzero(np.isin(self.rows, rows))
        return LabelTexts(np.searchsorted(rows, self.rows[stay]), self.cells.take(stay))


def is_number(text: str, *, padded: bool = True) -> bool:
    """Return whether the float that a text is read as stands for no other label.

    1, +1, 1.0 and 1e0 are one number, 01 is a name, and so is a number beyond 2^53.
    """
    if not _NUMBER.fullmatch(text):
        return True
    if (padded and _PADDED.match(text)) or abs(float(text)) > MOST_WHOLE:
        return False
    return Decimal(text) == Decimal(label_text(float(text)))


def _texts(cells: Any) -> list[str]:
    """Return cells as text; decimals without the zeros behind their last digit."""
    import pyarrow as pa  # noqa: PLC0415 - where there are cells it is imported
    import pyarrow.compute as pc  # noqa: PLC0415 - likewise

    texts: list[str] = pc.utf8_trim_whitespace(pc.cast(cells, pa.large_string())).to_pylist()
    if pa.types.is_decimal(cells.type):
        return [text.rstrip("0").rstrip(".") if "." in text else text for text in texts]
    return texts


def labelled(
    target: NDArray[np.float64], texts: LabelTexts | None, *, padded: bool = True
) -> tuple[NDArray[np.int64], list[str]]:
    """Return which label each row (n,) has, and the labels, for targets that are numbers.

    Parameters
    ----------
    padded
        Whether zeros in front of a number make it a name; they do not where labels that are known
        are numbers.
    """
    values, places = np.unique(target, return_inverse=True)
    labels = [label_text(value) for value in values.tolist()]
    if texts is None and len({*labels}) == len(labels):
        return places.astype(np.int64), labels
    rows, names = (np.zeros(0, np.int64), []) if texts is None else texts.names(padded=padded)
    numbers = {label: k for k, label in enumerate(labels)}
    for row, name in zip(rows.tolist(), names, strict=True):
        places[row] = numbers.setdefault(name, len(numbers))
    used, codes = np.unique(places, return_inverse=True)
    every = list(numbers)
    return codes.astype(np.int64), [every[k] for k in used.tolist()]
