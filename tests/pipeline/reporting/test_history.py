"""The loss curve of a run: points inside spans, which change no bit and add up to the whole."""

from itertools import pairwise

import pytest

from fewpass import train
from fewpass.pipeline.reporting.history import read_history
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.solvers import loss_monitor
from testing.datasets import make


@pytest.mark.parametrize(
    ("solver", "layout", "classes"),
    [
        *((solver, "dense", 2) for solver in ("asgd", "onepass", "sdca", "psdca", "newton")),
        *((solver, "sparse", 3) for solver in ("asgd", "onepass", "sdca")),  # side by side
        ("sdca", "dense", 3),  # one after the other
        ("newton", "sparse", 3),
    ],
)
def test_a_pass_is_told_in_a_hundred_points_and_more(
    tmp_path, monkeypatch, solver, layout, classes
):
    how = {"layout": layout, "classes": classes}
    data = make(tmp_path / "data", n=6000, d=30, chunk_rows=1500, **how).folder.url
    curves, bits = {}, set()
    for rows in (16, 10**9):
        for least in ("LEAST_SECTION", "LEAST_NOTED"):
            monkeypatch.setattr(loss_monitor, least, rows)
        result = train(data, tmp_path / str(rows), solver=solver, passes=2)
        curves[rows] = read_history(RunFolder(result.run).events()).points
        bits.add(result.weights_sha256)
    assert len(bits) == 1
    fine, coarse = curves[16], curves[10**9]
    assert len(fine) > 200 > len(coarse)
    assert all(a.rows < b.rows for a, b in pairwise(fine))
    at = {point.rows: point.average for point in fine}
    found, whole = [at[point.rows] for point in coarse], [point.average for point in coarse]
    assert found == pytest.approx(whole, rel=1e-12)  # dual methods add up stretch by stretch
