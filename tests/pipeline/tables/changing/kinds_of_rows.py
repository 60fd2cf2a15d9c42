"""Small files of every kind of rows, and what two data sets of the same rows have in common."""

import numpy as np
import pytest

from fewpass.pipeline.rows.column_statistics import NAMES
from fewpass.storage.table import DenseTable


def write_table(path, n, first=0):
    rng = np.random.default_rng(first + 1)
    lines = []
    for k in range(n):
        city, age = rng.choice(["north", "south", "west"]), rng.integers(18, 90)
        label = "yes" if (age - 50) / 20 + (city == "north") + rng.normal() > 0 else "no"
        lines.append(f"c{(first + k) % 97:04d},{city},{age},{rng.lognormal(3, 1):.2f},{label}\n")
    path.write_text("id,city,age,paid,label\n" + "".join(lines))
    return str(path)


def write_libsvm(path, n, first=0):
    rng = np.random.default_rng(first + 1)
    lines = []
    for _ in range(n):
        columns = np.unique((6000 * rng.random(6) ** 3).astype(int)) + 1
        pairs = " ".join(f"{j}:{rng.integers(1, 9)}" for j in columns)
        lines.append(f"{rng.integers(0, 2)} {pairs}\n")
    path.write_text("".join(lines))
    return str(path)


def write_amounts(path, n, first=0):
    """Numbers to regress on, with weights, next to one another in the order of the source."""
    rng = np.random.default_rng(first + 1)
    rows = rng.normal(size=(n, 3)).round(3)
    lines = [f"{a},{b},{1 + abs(c)},{a - 2 * b + 0.1 * c:.4f}\n" for a, b, c in rows]
    path.write_text("a,b,w,y\n" + "".join(lines))
    return str(path)


KINDS = {
    "table": (write_table, {"label": "label", "keep": "id"}),
    "codes": (write_table, {"label": "label", "keep": "id", "encode": "splines"}),
    "sparse": (write_libsvm, {"format": "libsvm", "n_features": 6000}),
    "amounts": (
        write_amounts,
        {"label": "y", "weight": "w", "task": "regression", "shuffle": False, "encode": "none"},
    ),
}


def rows_of(dataset):
    """All rows as a sorted list of bytes."""
    tables = (dataset.with_retained(k, dataset.read_chunk(k)) for k in range(dataset.n_chunks))
    return sorted(row for table in tables for row in rows_in(table))


def rows_in(table):
    """Rows as bytes: features, target, weight and retained columns."""
    for i in range(table.n_rows):
        if isinstance(table, DenseTable):
            parts = [table.X[i]]
        else:
            own = slice(table.indptr[i], table.indptr[i + 1])
            parts = [table.indices[own], table.data[own]]
        more = (table.target, table.weight, table.retained)
        parts += [part[i] for part in more if part is not None]
        yield b"".join(np.ascontiguousarray(part).tobytes() for part in parts)


def require_equal_statistics(one, two):
    for name in NAMES:
        np.testing.assert_allclose(one.column(name), two.column(name), rtol=1e-12, atol=1e-13)
    a, b = one.manifest, two.manifest
    for part in ("norms", "targets", "weights"):
        if getattr(a, part) is not None:
            same = getattr(a, part).model_dump(), getattr(b, part).model_dump()
            for key, value in same[0].items():
                if isinstance(value, float):
                    assert value == pytest.approx(same[1][key], rel=1e-12)
                else:
                    assert value == same[1][key]
