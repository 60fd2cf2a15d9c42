"""The delayed blocks of Dask collections: rows with targets, and maybe weights and offsets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.readers.blocks import (
    RowBlock,
    hashed,
    is_bag,
    labels_of,
    partitions_of,
)

#: What a block has next to its rows, by the words of `fit`.
PARTS = (("y",), ("sample_weight",), ("offset", "exposure"))
#: Names of the columns that carry target, weight and offset along with a frame's rows.
TARGET, WEIGHT, OFFSET = "__target__", "__weight__", "__offset__"
NO_OFFSETS: Mapping[str, Any] = MappingProxyType({})


def blocks_of(X: Any, y: Any, weight: Any, offsets: Mapping[str, Any] = NO_OFFSETS) -> list[Any]:
    """Return a Delayed per block of the collections, which computes to a `RowBlock`."""
    if y is None:
        raise BadInput("y is missing. Give the targets, or the name of their column in a frame.")
    given = {"y": y} | ({} if weight is None else {"sample_weight": weight}) | dict(offsets)
    if is_bag(X):
        X = hashed(X)
    if isinstance(X, list | tuple):
        return _of_delayed(X, given)
    return _of_array(X, given) if hasattr(X, "chunks") else _of_frame(X, given)


def _of_delayed(X: Sequence[Any], given: Mapping[str, Any]) -> list[Any]:
    from dask.delayed import delayed  # noqa: PLC0415

    for name, blocks in given.items():
        _require_list(X, blocks, name)
    nothing = [None] * len(X)
    parts = [next((given[name] for name in names if name in given), nothing) for names in PARTS]
    return [delayed(RowBlock.of)(*block) for block in zip(X, *parts, strict=True)]


def _require_list(X: Sequence[Any], blocks: Any, name: str) -> Sequence[Any]:
    is_list = isinstance(blocks, list | tuple)
    if not is_list or len(blocks) != len(X):
        other = counted(len(blocks), "block") if is_list else type(blocks)
        raise BadInput(
            f"X has {counted(len(X), 'block')}, but {name} has {other}. Give a list with a "
            "block for each."
        )
    given: Sequence[Any] = blocks
    return given


def _of_array(X: Any, given: Mapping[str, Any]) -> list[Any]:
    if X.ndim != 2:
        raise BadInput(f"X has {X.ndim} dimensions. Give rows by columns, (n, d).")
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    return _of_delayed(
        _delayed(X), {name: _like_rows(part, X, name) for name, part in given.items()}
    )


def _delayed(array: Any) -> list[Any]:
    blocks: list[Any] = array.to_delayed().ravel().tolist()
    return blocks


def _like_rows(part: Any, X: Any, name: str) -> list[Any]:
    """Return the blocks of targets or weights, cut as the rows of X are cut."""
    import dask.array as da  # noqa: PLC0415

    if not hasattr(part, "chunks"):
        if is_bag(part):
            return _require_as_many(labels_of(part), X, name)
        if hasattr(part, "to_delayed"):  # a series, whose lengths nobody knows
            return _require_as_many(partitions_of(part), X, name)
        part = da.from_array(np.asarray(part), chunks=-1)
    is_sized = not (np.isnan(X.shape[0]) or np.isnan(part.shape[0]))
    if not is_sized:
        return _require_as_many(_delayed(part), X, name)
    if part.shape != X.shape[:1]:
        raise BadInput(f"{name} has the shape {part.shape}, but X has {X.shape[0]} rows.")
    return _delayed(part.rechunk((X.chunks[0],)))


def _require_as_many(blocks: list[Any], X: Any, name: str) -> list[Any]:
    if len(blocks) != X.numblocks[0]:
        raise BadInput(
            f"X has {counted(X.numblocks[0], 'block')} of unknown length, but {name} has "
            f"{len(blocks)}. Cut them alike, or compute their lengths (compute_chunk_sizes)."
        )
    return blocks


def _of_frame(X: Any, given: Mapping[str, Any]) -> list[Any]:
    """Blocks of a frame: Dask may cut two expressions of one frame differently, so one it is."""
    from dask.delayed import delayed  # noqa: PLC0415

    names: list[str | None] = []
    for own, words in zip((TARGET, WEIGHT, OFFSET), PARTS, strict=True):
        word = next((word for word in words if word in given), None)
        X, column = (X, None) if word is None else with_column(X, given[word], word, own)
        names.append(column)
    split = delayed(RowBlock.of_frame)
    return [split(part, *names) for part in X.to_delayed()]


def with_column(X: Any, given: Any, word: str, own: str) -> tuple[Any, str]:
    """Return a frame that has a column of these numbers, and that column's name."""
    if isinstance(given, str):
        if given not in X.columns:
            listed = ", ".join(map(repr, list(X.columns)[:20]))
            raise BadInput(f"X has no column {given!r}. Its columns are {listed}.")
        return X, given
    if not hasattr(type(given), "__dask_graph__"):
        raise BadInput(  # nobody knows which of them a partition's rows have
            f"X is a Dask frame, but {word} is {type(given).__name__} in memory, and nobody knows "
            f"how many rows each partition has. Give {word} as a series of the same frame, or the "
            "name of its column, or X as an array: X.to_dask_array(lengths=True)."
        )
    return X.assign(**{own: given}), own


def pairs_of(X: Any, offsets: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """Return the delayed blocks of rows, each with its numbers; of a frame with their column.

    None where there are no offsets.
    """
    is_list, is_array = isinstance(X, list | tuple), hasattr(X, "chunks")
    if not offsets:
        blocks = X if is_list else _delayed(X) if is_array else partitions_of(X)
        return [(block, None) for block in blocks]
    ((word, given),) = offsets.items()
    if is_list:
        return list(zip(X, _require_list(X, given, word), strict=True))
    if is_array:
        return list(zip(_delayed(X), _like_rows(given, X, word), strict=True))
    frame, column = with_column(X, given, word, OFFSET)
    return [(part, column) for part in frame.to_delayed()]
