"""Kept columns of whole numbers that a reader makes doubles of: these must be the same numbers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.solvers.bad_input import MOST_WHOLE


def refuse_rounded(
    columns: Sequence[Any], names: Sequence[str], rounded: Collection[str], where: str, advice: str
) -> None:
    """Refuse numbers so large that one double stands for several, as rows are found by them.

    Parameters
    ----------
    columns, names
        Arrow arrays (n,), and what they are called.
    rounded
        The names of those that are kept, and were read as doubles though they may be whole.
    where, advice
        For the message.

    Raises
    ------
    BadInput
        A column of such numbers.
    """
    for name, column in zip(names, columns, strict=True):
        if name not in rounded or not pa.types.is_float64(column.type):
            continue
        if (pc.max(pc.abs(column)).as_py() or 0.0) >= MOST_WHOLE:
            raise BadInput(
                f"{where}: column {shown_name(name)} is kept, and holds numbers beyond 2^53, of "
                f"which several would be one here. {advice}"
            )
