"""The benchmarks' machinery: contests, and the page that is made of their results alone.

`make bench-quick` runs every contestant, with the libraries of others beside; CI does.
"""

import json

import numpy as np
import pytest

from benchmarks import evidence
from benchmarks.suite.__main__ import RESULTS
from benchmarks.suite.contest import Contest, Contestant, LostError, Target
from benchmarks.suite.page import newest, page
from benchmarks.suite.workloads import load, save, shape, sparse_rows
from testing.results import EVIDENCE


@pytest.fixture
def place(tmp_path):
    rng = np.random.default_rng(0)
    X = sparse_rows(rng, 300, 50, 9)
    save(tmp_path, X, np.where(rng.random(300) < 0.5, 1.0, -1.0))
    return tmp_path


def contest(place, *contestants, targets=()):
    return Contest("one-pass toy", "Toy", "toy", contestants, targets, "value", 2000, turns=2)


def test_sets_come_back_as_they_were_made(place):
    X, y = load(place)
    assert shape(place) == (300, 50, X.nnz)
    np.testing.assert_allclose(np.sqrt(X.multiply(X).sum(axis=1)), 1.0, rtol=1e-6)
    assert (np.diff(X.indptr) > 0).all()
    assert set(y) == {-1.0, 1.0}


def test_contestants_take_turns_in_processes_of_their_own(place, tmp_path):
    ours = Contestant("ours", "one_pass:averaged_sgd", {"place": str(place), "loss": "logistic"})
    limit = Contestant("read", "one_pass:memory_read", {"place": str(place)}, is_limit=True)
    targets = (Target(1, "ours", "read", 0.1), Target(7, "ours", "room", 1.0, "peak_rss_mb", 1e6))
    held = contest(place, ours, limit, targets=targets).held()
    rows = held["contestants"]
    assert [row["is_limit"] for row in rows.values()] == [False, True]
    assert all(0.0 < row["wall_s"]["least"] <= row["wall_s"]["median"] for row in rows.values())
    first, second = held["targets"]
    assert first["ratio"] == rows["read"]["cpu_s"]["median"] / rows["ours"]["cpu_s"]["median"]
    assert second["ratio"] == 1e6 / rows["ours"]["peak_rss_mb"]

    results = tmp_path / "results.jsonl"
    about = {"at": "2026-01-01T00:00:00Z", "quick": False, "load": 0.0, "versions": {},
             "machine": {"processor": "x", "cores": 1, "memory_gb": 1.0, "caches": {}}}  # fmt: skip
    results.write_text("".join(json.dumps(held | about | {"title": t}) + "\n" for t in "ab"))
    (last,) = newest(results, quick=False)
    assert last["title"] == "b"
    assert "| *read* |" in page([last])


def test_a_contestant_that_fails_is_named(place):
    lost = Contestant("lost", "one_pass:averaged_sgd", {"place": str(place), "loss": "none"})
    with pytest.raises(LostError, match="lost ended with status 1"):
        contest(place, lost).held()


def test_the_page_has_every_contest():
    held = newest(RESULTS, quick=False)
    assert held
    made = page(held)
    assert not [h["contest"] for h in held if f"| {h['contest'].partition(' ')[2]} |" not in made]


def test_the_page_of_evidence_has_every_part():
    made = evidence.page()
    assert not [part.title for part in evidence.PARTS if f"\n## {part.title}\n" not in made]


def test_the_last_line_about_a_row_counts(tmp_path):
    """So a part that is measured again replaces what it measured, and nothing else."""
    results = tmp_path / "evidence.jsonl"
    old = EVIDENCE.read_text()
    size = {"part": "memory", "size": "4 GB", "step": "ingest"}
    again = size | {"rows": 7, "beyond_imports": 256e6, "budget": 256e6}
    results.write_text(old + json.dumps(again) + "\n")
    before, after = (evidence.page(path).splitlines() for path in (EVIDENCE, results))
    (changed,) = [line for line, was in zip(after, before, strict=True) if line != was]
    assert changed == "| 4 GB | ingest | 7 | 256 MB | 100% |"
