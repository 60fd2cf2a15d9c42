"""States and parts: nested tuples of arrays and numbers, copied and added field by field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

State = Any  # a NamedTuple of arrays, numbers and groups; a method may have one type per phase
Part = Any  # a tuple of arrays, numbers and parts that add up, one type per reduce


def copy_state(state: State) -> State:
    """Copy a state's arrays, keeping their layout; its numbers are immutable."""
    return each_field(_copy_value, state)


def _copy_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return copy_state(value)
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


def each_field(change: Callable[..., Any], *tuples: Any) -> Any:
    """Return a tuple of the same type with `change` applied to every field."""
    kind, fields = type(tuples[0]), (change(*values) for values in zip(*tuples, strict=True))
    return tuple(fields) if kind is tuple else kind(*fields)


def same(state: State) -> State:
    """Return the state itself."""
    return state


def add_parts(left: Part, right: Part) -> Part:
    """Return the sum of two parts of a reduction, field by field."""
    return each_field(_add_values, left, right)


def _add_values(left: Any, right: Any) -> Any:
    """Return the sum of two fields."""
    return add_parts(left, right) if isinstance(left, tuple) else left + right


def add_to_part(left: Part, right: Part) -> Part:
    """Return the same sum as `add_parts`, modifying the arrays of `left`."""
    return each_field(_add_to_value, left, right)


def _add_to_value(left: Any, right: Any) -> Any:
    if isinstance(left, tuple):
        return add_to_part(left, right)
    return np.add(left, right, out=left) if isinstance(left, np.ndarray) else left + right


def array_bytes(state: State) -> int:
    """Return the bytes of the arrays of a state."""
    return sum(
        value.nbytes if isinstance(value, np.ndarray) else array_bytes(value)
        for value in state
        if isinstance(value, np.ndarray | tuple)
    )


def row_versions(state: State) -> tuple[int, ...]:
    """Return the versions of the numbers per row that a state belongs to, one per model."""
    models = getattr(state, "models", (state,))
    return tuple(m.row_version for m in models if hasattr(m, "row_version"))


def with_row_version(state: State, version: int) -> State:
    """Return a state with its models set to a version of the numbers per row."""
    if not hasattr(state, "models"):
        return state._replace(row_version=version)
    return state._replace(models=tuple(m._replace(row_version=version) for m in state.models))
