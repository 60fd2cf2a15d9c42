"""States as the numbers (JSON) and arrays of a snapshot, and back, array layouts included.

Layout decides the order of sums, hence bits: column-major arrays are stored transposed, under a
name that ends in `.T`.  Of several models trained together, arrays of one name are stored as one,
end to end, with every model's shape among its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import BadInput
from solvers.protocol import State
from solvers.together import States
from storage.snapshot import Snapshot

Numbers = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
TURNED = ".T"


def pack_states(states: list[State]) -> tuple[list[Numbers], Arrays]:
    """Return the numbers of every stream's state, and all arrays by `STREAM.FIELD`."""
    told: list[Numbers] = []
    arrays: Arrays = {}
    for stream, state in enumerate(states):
        numbers, own = _pack_models(state) if isinstance(state, States) else _pack(state)
        told.append(numbers)
        arrays |= {f"{stream}.{name}": array for name, array in own.items()}
    return told, arrays


def unpack_state(kinds: tuple[type, ...], snapshot: Snapshot, stream: int) -> State:
    """Rebuild one stream's state, of one of the given types."""
    kind = next(k for k in kinds if k.__name__ == snapshot.attributes["state"])
    numbers = snapshot.attributes["streams"][stream]
    named = ((name.partition("."), array) for name, array in snapshot.arrays.items())
    arrays = {field: array for (head, _, field), array in named if head == str(stream)}
    if "models" in numbers:
        return _unpack_models(kind, numbers["models"], arrays)
    return _unpack(kind, numbers, arrays)


def state_name(state: State) -> str:
    """Name the type of a state, or of each of several models'."""
    return type(state.models[0] if isinstance(state, States) else state).__name__


def versions_in(numbers: Mapping[str, Any]) -> set[int]:
    """Return the versions of the numbers per row that a packed state goes with."""
    each = numbers.get("models", [numbers])
    return {model["row_version"] for model in each if "row_version" in model}


def _pack(state: State) -> tuple[Numbers, Arrays]:
    numbers: Numbers = {}
    arrays: Arrays = {}
    for field, value in state._asdict().items():
        if not isinstance(value, np.ndarray):
            numbers[field] = value
        elif value.flags.f_contiguous and not value.flags.c_contiguous:
            arrays[field + TURNED] = value.T
        else:
            arrays[field] = value
    return numbers, arrays


def _unpack(kind: type, numbers: Mapping[str, Any], arrays: Arrays) -> State:
    fields = dict(numbers)
    for name, array in arrays.items():
        turned = name.endswith(TURNED)
        fields[name.removesuffix(TURNED)] = array.T if turned else array
    if fields.keys() != set(kind._fields):  # type: ignore[attr-defined]
        raise BadInput(
            f"This run was begun by a version of fewpass whose {kind.__name__} was another. Go on "
            "with that version, or begin a new run at its model: fewpass train --start-from RUN."
        )
    return kind(**fields)


def _pack_models(states: States) -> tuple[Numbers, Arrays]:
    models, parts = [], dict[str, list[NDArray[Any]]]()
    for state in states.models:
        numbers, arrays = _pack(state)
        shapes = {name: array.shape for name, array in arrays.items()}
        models.append(numbers | {"shapes": shapes})
        for name, array in arrays.items():
            parts.setdefault(name, []).append(array.ravel())
    return {"models": models}, {name: np.concatenate(each) for name, each in parts.items()}


def _unpack_models(kind: type, models: list[Numbers], arrays: Arrays) -> States:
    states, done = [], dict.fromkeys(arrays, 0)
    for told in models:
        numbers, own = dict(told), Arrays()
        for name, shape in numbers.pop("shapes").items():
            size = int(np.prod(shape))
            first = done[name]
            own[name] = arrays[name][first : first + size].reshape(shape).copy()
            done[name] = first + size
        states.append(_unpack(kind, numbers, own))
    return States(tuple(states))
