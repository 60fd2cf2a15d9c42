"""The papers' pages say what their results do, and a part of the results is no reason to fail."""

import json
import sys

import pytest

from benchmarks.papers import asdca, s2gd
from benchmarks.papers.acceptance_primal import cells, excess_after
from benchmarks.papers.tables import KEPT, PAGES, rows_of
from fewpass.solvers.batch.lbfgs import Lbfgs
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from testing.synthetic import sparse_logistic


@pytest.mark.parametrize("name", PAGES)
def test_every_number_of_a_table_is_that_of_the_results(name):
    page = " ".join((KEPT / f"{name}.md").read_text().split())
    lines = [" ".join(line.split()) for line in PAGES[name][1](rows_of(name))]
    assert len(lines) > 5
    assert not [line for line in lines if line not in page]


def test_the_row_of_lbfgs_is_what_it_does():
    """It draws nothing, so that every machine comes to the same digits."""
    X, y = sparse_logistic()
    problem = Problem(LOSSES["logistic"](), L2(1.0 / len(y)), 0.0, 1.0)
    found = cells(excess_after(Lbfgs(), problem, X, y, 0.422182926710, (5, 8, 12, 20)))
    assert f"| L-BFGS | {found} | {found} |" in (KEPT / "s2gd.md").read_text()


@pytest.mark.parametrize(
    ("script", "lines", "missing"),
    [
        (
            s2gd,
            [
                {"set": name, "method": method, "step": "1/(4 L_mean)", "passes": [0.0, 30.0],
                 "excess": [1.0, 1e-3], "seconds": 1.0}
                for name in ("reuters", "ijcnn1") for method in ("constants", "S2GD+")
            ],
            "SGD on ijcnn1",
        ),
        (
            asdca,
            [
                {"set": "reuters", "method": method, "m": m, "theta": theta, "passes": [1.0],
                 "excess": [1e-9]}
                for method, m, theta in (
                    ("SDCA", None, ""), ("AGD", None, ""), ("constants", None, ""),
                    *(("ASDCA", m, theta) for m in asdca.BATCHES for theta in asdca.THETAS),
                )
            ],
            "a9a, unit rows, synthetic text",
        ),
    ],
)  # fmt: skip
def test_a_part_of_the_results_is_shown_and_no_picture_is_drawn_of_it(
    script, lines, missing, tmp_path, monkeypatch, capsys
):
    results = tmp_path / "results.jsonl"
    results.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    chosen = ["--methods", "S2GD+"] if script is s2gd else []
    sets = sorted({line["set"] for line in lines})
    monkeypatch.setattr(script, "FIGURES", tmp_path / "figures")
    monkeypatch.setattr(
        sys, "argv", ["script", "--results", str(results), *chosen, "--sets", *sets]
    )
    script.main()
    told = capsys.readouterr().out
    assert "| reuters |" in told
    assert f"stays as it is: it also shows {missing}" in told
    assert not (tmp_path / "figures").exists()
