"""Kinds of arguments, which a kernel has machine code for: numba's types, without numba."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

#: Words for a number or an array; of a tuple, its class and the kinds of what it holds.
Kind = str | tuple[type, "Kinds"]
Kinds = tuple[Kind, ...]

NOTHING = "None"
_NUMBERS = {kind: np.dtype(kind).str for kind in (bool, int, float)}
_ARRAYS = (np.ndarray, np.memmap)  # others may hold more than numbers, as masked ones do
_COUNTS = 0x1 | 0x2 | 0x400  # flags: in order by rows, or by columns, and writeable


class UnknownKind(TypeError):  # noqa: N818 - as Unlinked
    """An argument that numba alone may know."""


def kinds_of(values: Sequence[Any]) -> Kinds:
    """Return the kinds of arguments; UnknownKind for other things than numbers, arrays, tuples."""
    return tuple(map(_kind_of, values))


def _kind_of(value: Any) -> Kind:
    kind = type(value)
    if kind in _ARRAYS:
        flags = value.flags
        layout = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        aligned = value.dtype.names is None or value.dtype.isalignedstruct  # numba asks the type
        return array_kind(value.dtype, value.ndim, layout, aligned, flags.writeable)
    if isinstance(value, tuple):
        return kind, kinds_of(value)
    if isinstance(value, np.number | np.bool_):
        return value.dtype.str
    if value is None:
        return NOTHING
    if kind in _NUMBERS:
        return _NUMBERS[kind]
    raise UnknownKind(kind.__name__)


def array_kind(dtype: np.dtype[Any], ndim: int, layout: str, aligned: bool, written: bool) -> str:
    """Return the kind of an array; layout: "C", "F", or "A" for any."""
    of = _element_kind(dtype)
    return f"{of}[{ndim}{layout}]{'' if aligned else ' unaligned'}{'' if written else ' r'}"


def _element_kind(dtype: np.dtype[Any]) -> str:
    """Return the kind of an element: of a record its fields, too, with their places."""
    if dtype.subdtype is not None:
        of, shape = dtype.subdtype
        return f"{_element_kind(of)}{shape}"
    if dtype.fields is None:
        return dtype.str
    fields = sorted((at, name, _element_kind(of)) for name, (of, at, *_) in dtype.fields.items())
    return f"{dtype.str}{fields}"


def key_of(value: Any) -> Any:
    """Return a key of a dict, equal for values of one kind alone, and made faster than the kind."""
    if isinstance(value, np.ndarray):
        return type(value), value.dtype, value.ndim, value.flags.num & _COUNTS
    if isinstance(value, tuple):
        return type(value), *map(key_of, value)
    return type(value)


def classes_of(kinds: Kinds) -> Iterator[type]:
    """Yield the classes of named tuples: two may have one name."""
    for kind in kinds:
        if isinstance(kind, tuple):
            yield kind[0]
            yield from classes_of(kind[1])


def in_words(kinds: Kinds) -> str:
    """Return kinds as text, which is the same in every process."""
    return ", ".join(
        kind if isinstance(kind, str)
        else f"{kind[0].__module__}.{kind[0].__qualname__}({in_words(kind[1])})"
        for kind in kinds
    )  # fmt: skip
