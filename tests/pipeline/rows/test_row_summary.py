"""Statistics of rows: however rows are grouped, joined they are those of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewpass.pipeline.rows.row_summary import RowSummary
from fewpass.storage.manifest import Labels, Manifest, Values
from fewpass.storage.table import DenseTable, cut

LABELS = Labels(labels=("a", "b", "c"), counts=(0, 0, 0))
NUMBERS = Values(mean=0.0, variance=0.0, minimum=0.0, maximum=0.0)
CLOSE = {"rel": 1e-9, "abs": 1e-9}


@st.composite
def rows_in_groups(draw: st.DrawFn) -> tuple[DenseTable, Labels | Values, list[int]]:
    """Draw rows with or without weights and offsets, their kind of targets, and ends of groups."""
    n = draw(st.integers(1, 40))
    random = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    far = draw(st.sampled_from([0.0, 1e6]))
    targets = draw(st.sampled_from([LABELS, NUMBERS]))
    own = random.integers(0, 3, n).astype(float) if targets is LABELS else random.normal(far, 3, n)
    weight = random.exponential(2.0, n) if draw(st.booleans()) else None
    offset = random.normal(0.0, 1.0, n) if draw(st.booleans()) else None
    X = random.normal(far, 10.0 ** draw(st.integers(-3, 3)), (n, 3))
    ends = draw(st.sets(st.integers(1, n - 1))) if n > 1 else set()
    return DenseTable(X, own, weight, offset), targets, [*sorted(ends), n]


def summarised(table: DenseTable, targets: Labels | Values) -> RowSummary:
    return RowSummary.of(table, targets)


def joined_anyhow(parts: Sequence[RowSummary], random: np.random.Generator) -> RowSummary:
    """Join neighbours in a random order, until one is left."""
    left = [*parts]
    while len(left) > 1:
        k = int(random.integers(len(left) - 1))
        left[k : k + 2] = [left[k].joined(left[k + 1])]
    return left[0]


def as_stored(rows: RowSummary, targets: Labels | Values) -> RowSummary:
    """Return the statistics that a manifest of the rows gives."""
    said: Any = SimpleNamespace(
        n_rows=rows.n_rows, targets=rows.targets(targets), weights=rows.weights, offsets=rows.offsets,
    )  # fmt: skip
    return RowSummary.of_manifest(cast("Manifest", said))


def moments_of(table: DenseTable) -> dict[str, float]:
    """Return what NumPy makes of all rows at once."""
    weight = np.ones(table.n_rows) if table.weight is None else table.weight
    y = table.target
    of = {"mean": y.mean(), "variance": y.var(), "minimum": y.min(), "maximum": y.max()}
    of |= {"total": weight.sum(), "weighted_mean": np.average(y, weights=weight)}
    if table.offset is not None:
        of |= {"offset": np.average(table.offset, weights=weight)}
        of |= {"exp": np.average(np.exp(table.offset), weights=weight)}
    return of


def require_same(rows: RowSummary, table: DenseTable, targets: Labels | Values) -> None:
    of, own = moments_of(table), rows.targets(targets)
    assert rows.n_rows == table.n_rows
    if isinstance(own, Labels):
        codes = table.target.astype(int)
        assert own.counts == tuple(np.bincount(codes, minlength=3))
        heft = own.counts if table.weight is None else np.bincount(codes, table.weight, 3)
        assert (own.weights is None) == (table.weight is None)
        assert own.heft == pytest.approx(tuple(heft), **CLOSE)
    else:
        assert (own.minimum, own.maximum) == (of["minimum"], of["maximum"])
        assert own.mean == pytest.approx(of["mean"], **CLOSE)
        assert own.variance == pytest.approx(of["variance"], **CLOSE)
        has_mean = table.weight is not None or table.offset is not None
        mean = pytest.approx(of["weighted_mean"], **CLOSE) if has_mean else None
        assert own.weighted_mean == mean
    if table.weight is None:
        assert rows.weights is None
    else:
        assert rows.weights is not None
        assert rows.weights.total == pytest.approx(of["total"], **CLOSE)
        assert rows.weights.maximum == table.weight.max()
    if table.offset is None:
        assert rows.offsets is None
    else:
        assert rows.offsets is not None
        assert rows.offsets.mean == pytest.approx(of["offset"], **CLOSE)
        assert rows.offsets.mean_exp == pytest.approx(of["exp"], **CLOSE)


@given(rows_in_groups(), st.integers(0, 1 << 30))
def test_any_grouping_joins_to_the_statistics_of_all_rows(
    drawn: tuple[DenseTable, Labels | Values, list[int]], seed: int
) -> None:
    table, targets, ends = drawn
    random = np.random.default_rng(seed)
    spans = zip([0, *ends[:-1]], ends, strict=True)
    parts = [summarised(cut(table, a, b), targets) for a, b in spans]
    rows = joined_anyhow(parts, random)
    require_same(rows, table, targets)
    in_order = reduce(RowSummary.joined, parts)
    assert (rows.n_rows, rows.has_offset) == (in_order.n_rows, in_order.has_offset)
    require_same(joined_anyhow([as_stored(one, targets) for one in parts], random), table, targets)
