"""States as the numbers (JSON) and arrays of a snapshot, and back, array layouts included.

What stands in a group of a state is called by its path: `best.coef`.
Layout decides the order of sums, hence bits: column-major arrays are stored transposed, under a
name that ends in `.T`.  Of several models trained together, arrays of one name are stored as one,
end to end, with every model's shape among its numbers.

What is read is compared with a state that the method itself makes for the same problem: every array
must have its shape and type, every number its type and a sensible value.  Compiled code does not
look where it writes, so nothing that comes out of a file gets past here unseen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.saved import read_attributes, unfit
from fewpass.solvers.losses import Problem
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.protocol import ProblemStats, Solver, State, Weights
from fewpass.solvers.tasks import States
from fewpass.storage.snapshot import Snapshot
from fewpass.storage.snapshot_file import Vectors

Numbers = dict[str, Any]
Arrays = dict[str, NDArray[Any]]
Packed = dict[str, NDArray[Any] | Vectors]
TURNED = ".T"
Examples = Sequence[Callable[[], State]]  # one for each model
MOST = 1 << 62  # of whole numbers: what compiled code can still count on from
LEAST = {"row_version": -1, "t0": -1, "thinned": 1}  # of whole numbers; of all others 0
MOST_OF = {"chosen": 5, "lead.runner_up": 5}  # outputs of onepass; of all others MOST


class ModelNumbers(BaseModel):
    """The numbers of one of several models: its state's, and its arrays' shapes."""

    model_config = ConfigDict(defer_build=True, extra="allow")

    shapes: dict[str, tuple[Annotated[int, Field(ge=0)], ...]]


_MODELS = TypeAdapter(list[ModelNumbers], config=ConfigDict(defer_build=True))


def pack_states(states: Sequence[State]) -> tuple[list[Numbers], Packed]:
    """Return the numbers of every stream's state, and all arrays by `STREAM.FIELD`."""
    each = [pack_state(stream, state) for stream, state in enumerate(states)]
    return [numbers for numbers, _ in each], {k: v for _, own in each for k, v in own.items()}


def pack_state(stream: int, state: State) -> tuple[Numbers, Packed]:
    """Return the numbers of a stream's state, and its arrays by `STREAM.FIELD`.

    They are the state's own: nothing is copied.
    """
    own: Packed
    numbers, own = _pack_models(state) if isinstance(state, States) else _pack(state)  # type: ignore[assignment]
    return numbers, {f"{stream}.{name}": array for name, array in own.items()}


def unpack_state(kinds: tuple[type, ...], snapshot: Snapshot, stream: int) -> State:
    """Rebuild one stream's state, of one of the given types.

    Of its arrays and numbers only the names are checked: `misfit` does the rest.
    """
    attributes = read_attributes(snapshot)
    kind = next((k for k in kinds if k.__name__ == attributes.state), None)
    if kind is None:
        names = " or ".join(k.__name__ for k in kinds)
        raise unfit(snapshot, f"its state is a {attributes.state!r}, where a {names} was expected")
    if stream >= len(attributes.streams):
        raise unfit(
            snapshot, f"it has {len(attributes.streams)} states, and none of stream {stream}"
        )
    numbers = attributes.streams[stream]
    named = ((name.partition("."), array) for name, array in snapshot.arrays.items())
    arrays = {field: array for (head, _, field), array in named if head == str(stream)}
    if "models" not in numbers:
        return _unpack(kind, numbers, arrays)
    try:
        return _unpack_models(kind, _MODELS.validate_python(numbers["models"]), arrays)
    except (ValidationError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise unfit(snapshot, f"its arrays are not those of its models ({error})") from error


def state_name(state: State) -> str:
    """Name the type of a state, or of each of several models'."""
    return type(state.models[0] if isinstance(state, States) else state).__name__


def versions_in(numbers: Mapping[str, Any]) -> set[int]:
    """Return the versions of the numbers per row that a packed state goes with."""
    models = numbers.get("models", [numbers])
    if not isinstance(models, list):  # no packed state: `misfit` refuses it
        return set()
    versions = (m["row_version"] for m in models if isinstance(m, Mapping) and "row_version" in m)
    return {version for version in versions if isinstance(version, int)}


def _pack(state: State) -> tuple[Numbers, Arrays]:
    numbers: Numbers = {}
    arrays: Arrays = {}
    for field, value in named_fields(state):
        if not isinstance(value, np.ndarray):
            numbers[field] = value
        elif value.flags.f_contiguous and not value.flags.c_contiguous:
            arrays[field + TURNED] = value.T
        else:
            arrays[field] = value
    return numbers, arrays


def named_fields(state: State, within: str = "") -> Iterator[tuple[str, Any]]:
    """Name the arrays and numbers of a state by their paths."""
    for field, value in state._asdict().items():
        if isinstance(value, tuple):
            yield from named_fields(value, f"{within}{field}.")
        else:
            yield within + field, value


def _unpack(kind: type, numbers: Mapping[str, Any], arrays: Arrays) -> State:
    fields = dict(numbers)
    for name, array in arrays.items():
        turned = name.endswith(TURNED)
        fields[name.removesuffix(TURNED)] = array.T if turned else array
    state = from_named_fields(kind, fields)
    if state is None or len(fields) != sum(1 for _ in named_fields(state)):
        raise BadInput(
            f"This run was started by a fewpass version with a different {kind.__name__}. Go on "
            "with that version, or begin a new run at its model (`start_from=RUN`)."
        )
    return state


def from_named_fields(kind: type, fields: Mapping[str, Any], within: str = "") -> State | None:
    """Put named fields into a state of that type and its groups; None where one is missing."""
    values = {}
    for name, group in get_type_hints(kind).items():
        path = within + name
        if isinstance(group, type) and issubclass(group, tuple):
            values[name] = from_named_fields(group, fields, path + ".")
            if values[name] is None:
                return None
        elif path not in fields:
            return None
        else:
            values[name] = fields[path]
    return kind(**values)


def _pack_models(states: States) -> tuple[Numbers, Packed]:
    models, parts = [], dict[str, list[NDArray[Any]]]()
    for state in states.models:
        numbers, arrays = _pack(state)
        shapes = {name: array.shape for name, array in arrays.items()}
        models.append(numbers | {"shapes": shapes})
        for name, array in arrays.items():
            parts.setdefault(name, []).append(array.ravel())
    return {"models": models}, dict(parts)


def _unpack_models(kind: type, models: list[ModelNumbers], arrays: Arrays) -> States:
    """Rebuild the states of models; their arrays are parts of those that were read."""
    states, done = [], dict.fromkeys(arrays, 0)
    for name, array in arrays.items():
        if array.ndim != 1:
            raise ValueError(f"{name} has {array.ndim} dimensions, where all models' lie in one")
    for model in models:
        numbers, own = model.model_dump(exclude={"shapes"}), Arrays()
        for name, shape in model.shapes.items():
            if name not in arrays:
                raise ValueError(f"there is no array {name}")
            first, size = done[name], math.prod(shape)
            own[name] = arrays[name][first : first + size].reshape(shape)
            done[name] = first + size
        states.append(_unpack(kind, numbers, own))
    for name, array in arrays.items():
        if array.shape != (done[name],):
            raise ValueError(f"{name} has {array.shape}, where all models need {done[name]}")
    return States(tuple(states))


# -- what is read may be no state of the method ----------------------------------------------------


def examples_of(solver: Solver, problem: Problem, stats: ProblemStats, kind: str) -> Examples:
    """Say how every model's state of the type `kind` is made, as the method begins with it."""
    if not isinstance(solver, MultiModel):
        return [partial(_example, solver, problem, stats, kind)]
    return [
        partial(_example, solver.solver, task.problem(problem), stats, kind)
        for task in solver.tasks
    ]


def _example(solver: Solver, problem: Problem, stats: ProblemStats, kind: str) -> State:
    first = solver.init(problem, stats)
    if type(first).__name__ == kind:
        return first
    return solver.start_at(problem, stats, Weights(np.zeros(stats.d), 0.0), 0)


def misfit(state: State, examples: Examples) -> str | None:
    """Say how a state differs in kind from the method's own, if it does; one is made at a time."""
    models = models_of(state)
    if len(models) != len(examples):
        return f"it has the states of {len(models)} models, where {len(examples)} were expected"
    each = (_misfits(own, example()) for own, example in zip(models, examples, strict=True))
    return next((sentence for model in each for sentence in model), None)


def models_of(state: State) -> tuple[Any, ...]:
    """Return the states of all models, of one that has no others itself."""
    return state.models if isinstance(state, States) else (state,)


def _misfits(state: Any, example: Any) -> Iterator[str]:
    if type(state) is not type(example):
        yield f"it is a {type(state).__name__}, where a {type(example).__name__} was expected"
        return
    each = zip(named_fields(state), named_fields(example), strict=True)
    fields = [(name, actual, own) for (_, actual), (name, own) in each]
    for name, actual, own in fields:
        if not isinstance(own, np.ndarray):
            yield from _number_misfit(name, actual, own)
    for name, actual, own in fields:
        if isinstance(own, np.ndarray):
            yield from _array_misfit(name, actual, own.dtype, own.shape)


def _array_misfit(name: str, actual: Any, dtype: Any, shape: tuple[int, ...]) -> Iterator[str]:
    if not isinstance(actual, np.ndarray):
        yield f"{name} is no array"
    elif (actual.dtype, actual.shape) != (dtype, shape):
        yield f"{name} is {actual.dtype} {actual.shape}, where {dtype} {shape} was expected"
    elif not np.isfinite(actual).all():
        yield f"{name} has numbers that are not finite"


def _number_misfit(name: str, actual: Any, expected: Any) -> Iterator[str]:
    kinds = (int, float) if isinstance(expected, float) else (type(expected),)
    if isinstance(actual, bool) is not isinstance(expected, bool) or not isinstance(actual, kinds):
        yield f"{name} is {actual!r}, where a {type(expected).__name__} was expected"
    elif isinstance(actual, float) and not math.isfinite(actual):
        yield f"{name} is {actual!r}, where a finite number was expected"
    elif isinstance(expected, int):
        least, most = LEAST.get(name, 0), MOST_OF.get(name, MOST)
        if not least <= actual <= most:
            yield f"{name} is {actual!r}, where {least} to {most} was expected"
