"""States and parts: tuples of arrays, numbers and such tuples, copied and added field by field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

State = Any  # a NamedTuple of arrays, numbers and groups; a method may have one type per phase
Part = Any  # a tuple of arrays, numbers and parts that add up, one type per reduce


def copy_state(state: State) -> State:
    """Copy a state's arrays (layout kept); its numbers are immutable."""
    return _each_field(_copy_value, state)


def _copy_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return copy_state(value)
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


def _each_field(change: Callable[..., Any], *tuples: Any) -> Any:
    """Return a tuple of the same type, plain or named, made of its fields changed."""
    kind, fields = type(tuples[0]), (change(*values) for values in zip(*tuples, strict=True))
    return tuple(fields) if kind is tuple else kind(*fields)


def same(state: State) -> State:
    """Return the state itself."""
    return state


def add_parts(left: Part, right: Part) -> Part:
    """Field by field sum of two parts of one reduce."""
    return _each_field(_add_values, left, right)


def _add_values(left: Any, right: Any) -> Any:
    """Add two fields of parts."""
    return add_parts(left, right) if isinstance(left, tuple) else left + right


def add_to_part(left: Part, right: Part) -> Part:
    """Return the same sums as `add_parts`, in the arrays of `left`, which nobody else needs."""
    return _each_field(_add_to_value, left, right)


def _add_to_value(left: Any, right: Any) -> Any:
    if isinstance(left, tuple):
        return add_to_part(left, right)
    return np.add(left, right, out=left) if isinstance(left, np.ndarray) else left + right


def array_bytes(state: State) -> int:
    """Return what the arrays of a state take."""
    return sum(
        value.nbytes if isinstance(value, np.ndarray) else array_bytes(value)
        for value in state
        if isinstance(value, np.ndarray | tuple)
    )


def row_versions(state: State) -> tuple[int, ...]:
    """Return which versions of the numbers kept per row a state goes with: one per model."""
    models = getattr(state, "models", (state,))
    return tuple(m.row_version for m in models if hasattr(m, "row_version"))


def with_row_version(state: State, version: int) -> State:
    """Return a state, all its models, with the version of the numbers that were kept last."""
    if not hasattr(state, "models"):
        return state._replace(row_version=version)
    return state._replace(models=tuple(m._replace(row_version=version) for m in state.models))
