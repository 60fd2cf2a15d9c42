"""Tables that are hard on memory, ingested by a process of their own within 128 MB, or twice that."""

import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.encoding.text import MOST_TEXT_BITS, encode_text, slots_of
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.retained_columns import words_of_retained
from fewpass.storage.dataset import Dataset
from testing.ingest_memory import measured

MEMORY = 128_000_000
ROOMY = 2 * MEMORY  # has room for rows of some megabytes


def ingested(folder, kind="csv", memory=MEMORY, **more):
    """What became of the large file, and the memory that it took beyond the small one.

    Kernels are compiled here before, so that nothing is but read in the process that is measured.
    """
    files = [str(folder / f"{name}.{kind}") for name in ("small", "large")]
    how = {"options": {"label": "y"}} | more
    ingest(IngestPlan(sources=(files[0],), dataset=str(folder / "here"), **how))
    return measured(*files, dataset=str(folder / "set"), memory=memory, **how)


def write_wide(path, n, d=2000):
    """Numbers, a tenth of the columns words, with gaps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=1000).round(3).astype(str)[rng.integers(0, 1000, (n, d))]
    X[:, ::10] = rng.choice(np.array(["red", "green", "blue"]), (n, d // 10))
    X[rng.random((n, d)) < 0.02] = ""
    rows = (",".join([*row, "no" if k % 2 else "yes"]) for k, row in enumerate(X))
    path.write_text("\n".join([",".join([*(f"c{k}" for k in range(d)), "y"]), *rows]) + "\n")


def test_two_thousand_columns_fit(tmp_path):
    write_wide(tmp_path / "small.csv", 200, 20)
    write_wide(tmp_path / "large.csv", 750)
    write_wide(tmp_path / "first.csv", 100)
    compiled = {"sources": (str(tmp_path / "first.csv"),), "dataset": str(tmp_path / "first")}
    ingest(IngestPlan(**compiled, options={"label": "y"}))
    told = ingested(tmp_path)
    assert told["rows"] == 750
    assert told["taken"] < MEMORY


def write_empty(path, n, d):
    """Five cells of each row say something: of a line of JSON, so many members are there."""
    rng = np.random.default_rng(0)
    names, rows = [f"c{k}" for k in range(d)], rng.integers(0, d, (n, 5))
    said = [dict.fromkeys(row, 0.1 + row[0] / 999) | {d: k % 2} for k, row in enumerate(rows)]
    if path.suffix == ".jsonl":
        first = dict.fromkeys(range(d), 0.5) | {d: 1}
        lines = [{[*names, "y"][c]: v for c, v in row.items()} for row in [first, *said[1:]]]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return
    lines = [",".join([*names, "y"])]
    for row in said:
        cells = [""] * (d + 1)
        for c, value in row.items():
            cells[c] = str(value)
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(("kind", "n", "d"), [("csv", 6_000, 1000), ("jsonl", 20_000, 200)])
def test_cells_that_are_empty_count_as_much_as_others(tmp_path, kind, n, d):
    """Of text they are a byte, or none; as rows, and on their way, some 40."""
    write_empty(tmp_path / f"small.{kind}", 200, 20)
    write_empty(tmp_path / f"large.{kind}", n, d)
    told = ingested(tmp_path, kind)
    assert told["rows"] == n
    assert told["taken"] < MEMORY


def write_words(path, n):
    """Another word in every row."""
    rows = (f"w{7919 * k:x},{k % 97},{'no' if k % 3 else 'yes'}" for k in range(n))
    path.write_text("\n".join(["word,x,y", *rows]) + "\n")


def test_millions_of_different_words_fit(tmp_path):
    """The words alone, as Python has them, would take more than the budget."""
    write_words(tmp_path / "small.csv", 5000)
    write_words(tmp_path / "large.csv", 1_000_000)
    told = ingested(tmp_path)
    assert told["rows"] == 1_000_000
    assert told["taken"] < MEMORY


def write_kept(path, n, columns=100):
    """Short cells of columns that are kept, which take 64 bytes each."""
    rows = (f"{'7,' * columns}{k % 97},{'no' if k % 3 else 'yes'}" for k in range(n))
    head = ",".join([*(f"k{k}" for k in range(columns)), "x", "y"])
    path.write_text("\n".join([head, *rows]) + "\n")
    return {"keep": [f"k{k}" for k in range(columns)]}


def test_cells_of_kept_columns_are_within_the_memory(tmp_path):
    """As bytes they take as much as the budget, and come in one piece."""
    write_kept(tmp_path / "small.csv", 200)
    kept = write_kept(tmp_path / "large.csv", 20_000)
    told = ingested(tmp_path, **kept)
    assert told["rows"] == 20_000
    assert told["taken"] < MEMORY
    stored = Dataset.open(str(tmp_path / "set"))
    every = np.concatenate([stored.read_retained(k) for k in range(stored.n_chunks)])
    assert set(words_of_retained(every, 99).tolist()) == {b"7"}


def write_texts(path, longest):
    """Short texts, and a long one in the middle."""
    rows = [f"some words of row {k % 50},{k},{'no' if k % 3 else 'yes'}" for k in range(2000)]
    rows[1000] = "a long text of words " * (longest // 21) + ",0,no"
    path.write_text("\n".join(["text,x,y", *rows]) + "\n")


@pytest.mark.parametrize("longest", [8 << 20, 40 << 20])
def test_one_long_text_is_taken_or_refused(tmp_path, longest):
    """A row may take a sixteenth of the memory that is for rows."""
    write_texts(tmp_path / "small.csv", 1000)
    write_texts(tmp_path / "large.csv", longest)
    told = ingested(tmp_path, memory=ROOMY)
    assert told["taken"] < ROOMY
    if longest > ROOMY // 16:
        assert "a line is longer than" in told["refused"]
    else:
        assert told["rows"] == 2000


def write_cell_of_lines(path, n):
    """Short rows, and in the middle one whose quoted cell has millions of lines."""
    rows = [f'{k % 2},{k % 977},w{k % 1000},"some, text {k}"\n' for k in range(n)]
    if n > 1000:
        longest = Budget.of(ROOMY).longest_row
        rows[n // 2] = '1,5,w1,"' + "x,\n" * (longest // 3 - 10) + '"\n'
    path.write_text("y,a,b,text\n" + "".join(rows))


def test_a_quoted_cell_of_many_lines_takes_a_few_times_its_bytes(tmp_path):
    write_cell_of_lines(tmp_path / "small.csv", 200)
    write_cell_of_lines(tmp_path / "large.csv", 100_000)
    told = ingested(tmp_path, memory=ROOMY)
    assert told["rows"] == 100_000
    assert told["taken"] < ROOMY


def test_a_worker_is_within_its_memory(tmp_path):
    """With rows in the order of the source, too, where all are in one bucket."""
    for name, n in {"small": 200, "large": 500_000}.items():
        write_cell_of_lines(tmp_path / f"{name}.csv", n)
    how = {"options": {"label": "y"}, "memory": ROOMY, "overwrite": True}
    peaks = []
    with open_executor(Execution(workers=1, threads=2)) as executor:
        for name, shuffle in [("small", True), ("large", True), ("large", False)]:
            plan = IngestPlan(
                sources=(str(tmp_path / f"{name}.csv"),), dataset=str(tmp_path / "set"),
                shuffle=shuffle, test_fraction=0.1 if shuffle else 0.0, **how,
            )  # fmt: skip
            ingest(plan, executor=executor)
            peaks.append(executor.result(executor.submit("peak", peak_memory_bytes)))
    assert peaks[-1] - peaks[0] < ROOMY


def write_parquet(path, n):
    """50 columns of numbers in one row group."""
    X = np.random.default_rng(0).normal(size=(50, n))
    table = pa.table({f"c{k}": x for k, x in enumerate(X)} | {"y": X[0] + X[1] > 0.0})
    pq.write_table(table, path, row_group_size=n)


def test_a_row_group_is_read_in_parts(tmp_path):
    """Where Arrow has all 200 MB in memory, beside what ingest has, they take 400 MB."""
    write_parquet(tmp_path / "small.parquet", 2000)
    write_parquet(tmp_path / "large.parquet", 500_000)
    told = ingested(tmp_path, "parquet", ROOMY)
    assert told["rows"] == 500_000
    assert told["taken"] < ROOMY


@pytest.mark.parametrize("grams", ["words", "characters"])
def test_counting_the_slots_of_text_takes_a_few_times_a_slice_of_it(grams):
    """In the shape of 'text that is 150 MB unpacked' (tests/faults/shapes.py), here of 12 MB."""
    lines = pa.array([f"word {k % 911} and so on " * 10 for k in range(50_000)], pa.large_string())
    slots_of(lines[:10], MOST_TEXT_BITS, grams)  # compiled
    tracemalloc.start()
    slots, counts = slots_of(lines, MOST_TEXT_BITS, grams)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < (4 << MOST_TEXT_BITS) + 80_000_000  # of all at once: 200 or 600 MB
    few = lines[:5000].take(pa.array(np.random.default_rng(0).permutation(5000)))
    all_at_once = np.unique(encode_text(few, 12, grams).column, return_counts=True)
    for part, known in zip(slots_of(few, 12, grams), all_at_once, strict=True):
        np.testing.assert_array_equal(part, known)
    assert (len(slots), counts.sum()) == _slots_by_hand(lines, grams)


def _slots_by_hand(lines, grams):
    column = [
        encode_text(lines[k : k + 911], MOST_TEXT_BITS, grams).column for k in range(0, 50_000, 911)
    ]
    return len(np.unique(np.concatenate(column))), sum(map(len, column))
