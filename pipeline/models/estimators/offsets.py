"""Numbers added to the scores of rows: offsets, or the logarithms of exposures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def offset_of(offset: Any, exposure: Any, n_rows: int) -> Vector | None:
    """Return offsets (n,), or None where none are given; ValueError for what are none."""
    refuse_both(offset, exposure)
    name, given = ("offset", offset) if exposure is None else ("exposure", exposure)
    if given is None:
        return None
    numbers = np.asarray(given, np.float64)
    numbers = np.full(n_rows, float(numbers)) if numbers.ndim == 0 else numbers
    if numbers.shape != (n_rows,):
        raise ValueError(
            f"{name} has the shape {numbers.shape}, but X has {n_rows} rows. Give one number per "
            "row."
        )
    bad = ~np.isfinite(numbers) | ((numbers <= 0.0) if name == "exposure" else False)
    if bad.any():
        row, wanted = int(bad.argmax()), "above 0" if name == "exposure" else "finite"
        raise ValueError(f"{name}[{row}] is {numbers[row]:g}. Give numbers that are {wanted}.")
    return np.log(numbers) if name == "exposure" else numbers


def refuse_both(offset: Any = None, exposure: Any = None) -> None:
    """Refuse offsets and exposures at once."""
    if offset is not None and exposure is not None:
        raise ValueError(
            "Both offset and exposure are given. Add the logarithm of the exposure to the offset, "
            "and leave exposure out."
        )


def given_offset(offset: Any, exposure: Any) -> dict[str, Any]:
    """Return by its name the one that is given; {} where none is."""
    refuse_both(offset, exposure)
    named = {"offset": offset, "exposure": exposure}
    return {name: given for name, given in named.items() if given is not None}


def require_offset(has_offset: bool, offset: Any) -> None:
    """Refuse rows without offsets where the model was fitted with some, and the other way round."""
    if has_offset == (offset is not None):
        return
    if has_offset:
        raise ValueError(
            "The model was fitted with offset or exposure, and predictions need them, too. Give "
            "them, or exposure=1 for rates."
        )
    raise ValueError(
        "An offset or an exposure is given, and the model was fitted without. Leave it out."
    )
