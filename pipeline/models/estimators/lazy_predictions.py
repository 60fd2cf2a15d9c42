"""Predictions and scores for Dask collections, block by block; predictions when asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.blocks import RowBlock, hashed, is_bag
from fewpass.pipeline.tables.readers.collection_blocks import NO_OFFSETS, blocks_of, pairs_of

Method = Callable[..., NDArray[Any]]


def lazily(method: Method, X: Any, example: Any, offsets: Mapping[str, Any] = NO_OFFSETS) -> Any:
    """Return what a method gives for the rows of a collection, as a dask.array, not computed.

    Parameters
    ----------
    method
        Maps rows (n, d) to (n,) or (n, K).
    X
        dask.array, dask.dataframe, bag of texts or list of delayed blocks.
    example
        One row that the method takes.
    offsets
        What the method takes besides, by its name, if anything: "offset" or "exposure" to numbers
        (n,) of the same kind as X, to the name of a frame's column, or to one number.
    """
    import dask.array as da  # noqa: PLC0415 - only for those who have collections
    from dask.delayed import delayed  # noqa: PLC0415

    for name, given in offsets.items():
        if isinstance(given, Real):
            return lazily(partial(method, **{name: given}), X, example)
    if is_bag(X):
        X = hashed(X)
    empty, lengths = method(example, **dict.fromkeys(offsets, 1.0))[:0], [np.nan]
    if hasattr(X, "chunks"):
        X = X.rechunk({1: -1})
        lengths = X.chunks[0]
    of_pair, pairs = delayed(_of_pair), pairs_of(X, offsets)
    lengths = lengths if len(lengths) == len(pairs) else lengths * len(pairs)
    return da.concatenate([
        da.from_delayed(
            of_pair(*pair, [*offsets], method, empty), (length, *empty.shape[1:]), meta=empty
        )
        for pair, length in zip(pairs, lengths, strict=True)
    ])  # fmt: skip


def _of_pair(
    block: Any, numbers: Any, names: list[str], method: Method, empty: NDArray[Any]
) -> NDArray[Any]:
    if isinstance(numbers, str):
        block, numbers = block.drop(columns=[numbers]), block[numbers]
    return method(block, **dict.fromkeys(names, numbers)) if block.shape[0] else empty


def example_of(n_features: int, X: Any, offsets: Mapping[str, Any] = NO_OFFSETS) -> Any:
    """Return a row such as the blocks of a collection have, for `lazily`."""
    if hasattr(X, "columns"):
        named = [name for name in offsets.values() if isinstance(name, str)]
        row = X._meta_nonempty.iloc[:1]  # noqa: SLF001 - with the frame's own names
        return row.drop(columns=named) if named else row
    return np.zeros((1, n_features))


class Sums(NamedTuple):
    """Sums that a score is made of; those of blocks add up."""

    weight: float
    right: float  # weight of the rows that are predicted as they are
    mean: float  # of the targets, as are the next two
    about_mean: float  # weighted squares around the mean
    residual: float  # weighted squares around the predictions

    @property
    def r2(self) -> float:
        """R^2 as scikit-learn has it: of targets that are all one number 1 or 0."""
        if not self.about_mean:
            return float(not self.residual)
        return 1.0 - self.residual / self.about_mean

    def joined(self, other: Sums) -> Sums:
        """Return the sums of two disjoint sets of rows."""
        weight = self.weight + other.weight
        if not weight:
            return self
        step = other.mean - self.mean
        return Sums(
            weight,
            self.right + other.right,
            self.mean + step * other.weight / weight,
            self.about_mean + other.about_mean + step * step * self.weight * other.weight / weight,
            self.residual + other.residual,
        )


def sums_over(
    predict: Method, X: Any, y: Any, sample_weight: Any, *, numbers: bool,
    offsets: Mapping[str, Any] = NO_OFFSETS,
) -> Sums:  # fmt: skip
    """Compare predictions with targets, a block at a time."""
    from dask.base import compute  # noqa: PLC0415
    from dask.delayed import delayed  # noqa: PLC0415

    of_block, of_rows = delayed(_sums), dict(offsets)
    for name, given in offsets.items():
        if isinstance(given, Real):
            predict = partial(predict, **{name: of_rows.pop(name)})
    blocks = blocks_of(X, y, sample_weight, of_rows)
    role = next(iter(of_rows), "")
    result: tuple[Sums, ...] = compute(
        *(of_block(block, predict, numbers, role) for block in blocks)
    )
    total = result[0]
    for sums in result[1:]:
        total = total.joined(sums)
    if not total.weight:
        raise ValueError("There are no rows to score, or all weigh nothing. Give some.")
    return total


def _sums(block: RowBlock, predict: Method, numbers: bool, role: str) -> Sums:
    if not block.n_rows:
        return Sums(0.0, 0.0, 0.0, 0.0, 0.0)
    offsets = {role: block.offset} if role else {}
    y, result = np.asarray(block.y), predict(block.X, **offsets)
    w = np.ones(block.n_rows) if block.weight is None else np.asarray(block.weight, float)
    total = float(w.sum())
    right = float(w @ (y == result))
    if not numbers or not total:
        return Sums(total, right, 0.0, 0.0, 0.0)
    mean = float(w @ y) / total
    return Sums(total, right, mean, float(w @ (y - mean) ** 2), float(w @ (y - result) ** 2))
