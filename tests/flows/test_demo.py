"""The demo: its text, and the way through it at toy size."""

import json
import shlex

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewpass.flows import cli
from fewpass.flows.commands.demo_steps import MARK, Demo
from fewpass.flows.display.console import Terminal
from fewpass.flows.options import Output
from fewpass.pipeline.clicks import FEWEST_COLUMNS, NUMBERS, VOCABULARY, columns_for, write_clicks


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("clicks") / "clicks.svm"
    return write_clicks(path, 3_000_000, seed=5)


def parsed(line):
    label, *pairs = line.split()
    columns, values = zip(*(pair.split(":") for pair in pairs), strict=True)
    return int(label), np.array(columns, int), np.array(values, float)


def test_rows_are_libsvm_with_ascending_columns(text):
    lines = text.path.read_text().splitlines()
    assert len(lines) == text.rows
    assert text.path.stat().st_size == text.bytes
    rows = [parsed(line) for line in lines[:2000]]
    for label, columns, values in rows:
        assert label in (0, 1)
        assert (np.diff(columns) > 0).all()
        assert 1 <= columns[0] <= columns[-1] <= text.columns
        assert ((values > 0) & (values <= 1)).all()
    sizes = [len(columns) for _, columns, _ in rows]
    assert 20 <= np.mean(sizes) <= NUMBERS + len(VOCABULARY)
    assert 0.05 <= text.clicks / text.rows <= 0.2
    assert sum(int(line[0]) for line in lines) == text.clicks


def test_few_columns_are_in_many_rows(text):
    lines = text.path.read_text().splitlines()
    counts = np.bincount(np.concatenate([parsed(line)[1] for line in lines]))
    ordered = np.sort(counts)[::-1]
    assert ordered[: len(ordered) // 20].sum() > 0.5 * ordered.sum()


def test_the_same_seed_gives_the_same_bytes(text, tmp_path):
    again = write_clicks(tmp_path / "again", 3_000_000, seed=5)
    assert again.path.read_bytes() == text.path.read_bytes()
    other = write_clicks(tmp_path / "other", 3_000_000, seed=6)
    assert other.path.read_bytes() != text.path.read_bytes()


@given(st.integers(100_000, 10**12), st.integers(128_000_000, 10**11))
def test_columns_are_no_more_than_the_memory_takes(size, memory):
    columns = columns_for(size, memory)
    assert columns <= columns_for(size)
    assert columns == FEWEST_COLUMNS or 48 * columns <= memory - 96_000_000
    assert columns_for(6_000_000_000, 256_000_000) == 1 << 21


@given(st.integers(100_000, 10**12))
def test_columns_grow_with_the_text(size):
    columns = columns_for(size)
    assert columns & (columns - 1) == 0
    assert columns == 4096 or 512 * columns <= size < 1024 * columns


def test_demo_explains_itself(tmp_path, capsys):
    folder = tmp_path / "demo"
    options = ["--size", "2MB", "--memory", "128MB"]
    assert cli.main(["demo", str(folder), *options, "--json"]) == 0
    printed = capsys.readouterr()
    told = json.loads(printed.out)
    assert told["auc"] > 0.5  # that of chance
    for place in ("clicks.svm", "clicks/manifest.json", "clicks-test", "run/report/report.html"):
        assert (folder / place).exists()
    for command in ("ingest", "train", "evaluate", "report"):
        assert f"$ fewpass {command} " in printed.err
    assert "Running on threads of this process" in printed.err
    for line in (line for line in printed.err.splitlines() if line.startswith("  $ fewpass ")):
        assert cli.main([*shlex.split(line)[2:], "--json"]) == 0, line  # as it was done here
    assert cli.main(["demo", str(folder), "--size", "99kB"]) == 2
    assert "Ask for 100kB or more" in capsys.readouterr().err
    assert (folder / "run").exists()


def test_only_a_folder_of_its_own_is_cleared(tmp_path):
    demo = Demo(Terminal(Output()), tmp_path / "demo", 10**6, "128MB", 0)
    demo.clear()
    demo.run.mkdir()
    demo.clear()
    assert not demo.run.exists()
    (tmp_path / "demo" / MARK).unlink()
    demo.run.mkdir()
    with pytest.raises(ValueError, match="no demo made"):
        demo.clear()
    assert demo.run.exists()
