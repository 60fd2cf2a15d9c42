"""Files that are predicted and evaluated span by span: the same by threads and by a cluster."""

import gzip
import json
import os
import signal
from contextlib import contextmanager, nullcontext

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pytest
from pyarrow import csv, parquet

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring import predicted_parts, scoring_budget
from fewpass.pipeline.scoring.comparing_files import compare_rows
from fewpass.pipeline.scoring.evaluate_rows import evaluate_rows
from fewpass.pipeline.scoring.folder_record import KEY
from fewpass.pipeline.scoring.input_files import are_there, input_files
from fewpass.pipeline.scoring.prediction import predict
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.prediction_plan import EvaluationPlan, PredictionPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import arrow_rows, lines
from fewpass.storage.seal import unseal
from testing.object_store import object_store

N = 300
TOWNS = np.array(["Graz", "Linz", 'a "quoted"\nname', "x\n1,2,3\n4,5,6\n"], object)

IGNORING = EvaluationPlan(options=SourceOptions(unknown_features="ignore"))


def table(seed, n=N):
    rng = np.random.default_rng(seed)
    rows = pd.DataFrame(rng.standard_normal((n, 3)).round(3), columns=["a", "b", "c"])
    rows["town"] = TOWNS[rng.integers(0, len(TOWNS), n)]
    rows["y"] = np.where(rows["a"] + rng.standard_normal(n) > 0.0, "yes", "no")
    rows["id"] = np.arange(n)
    return rows


def as_csv(rows, path):
    csv.write_csv(pa.Table.from_pandas(rows), path)


def test_endings_in_capital_letters_are_endings(tmp_path):
    for name in ("A.CSV", "b.csv.GZ", "c.Tsv.gz", "d"):
        (tmp_path / name).write_text("1\n")
    files = input_files([str(tmp_path)], "out/", only_new=False)
    assert [one.made for one in files] == ["A.csv", "b.csv", "c.csv", "d.parquet"]


def test_of_new_files_there_may_be_none_yet_but_their_folder_is_there(tmp_path):
    assert input_files([f"{tmp_path}/*.csv"], "out/", only_new=True) == []
    with pytest.raises(FileNotFoundError, match="no file fits this pattern"):
        input_files([f"{tmp_path}/nofolder/*.csv"], "out/", only_new=True)
    assert not are_there([f"{tmp_path}/nofolder/*.csv"])  # which a schedule waits for


def test_files_are_called_as_below_what_was_named_whatever_it_is(tmp_path, monkeypatch):
    """Marks of patterns in a name that is there are letters of it; a store's file is in no folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in[1]").mkdir()
    store = fsspec.filesystem("memory")
    for place in ("one.csv", "sub/two.csv"):
        store.pipe(f"/shop/{place}", b"a\n1\n")
    (tmp_path / "in[1]" / "x.csv").write_text("a\n1\n")
    named = {
        "in[1]/": ["x.csv"], "in[1]/x.csv": ["x.csv"], "in*/*.csv": ["in[1]/x.csv"],
        "memory:///shop/one.csv": ["one.csv"], "memory://shop/": ["one.csv", "sub/two.csv"],
        "memory:///shop/**": ["one.csv", "sub/two.csv"],
    }  # fmt: skip
    for spec, names in named.items():
        assert [file.made for file in input_files([spec], "out/", only_new=False)] == names, spec
    for spec, output in (("in[1]/", "in[1]/out/"), ("memory:///shop/**", "memory:///shop/out/")):
        with pytest.raises(BadInput, match="is inside the input"):
            input_files([spec], output, only_new=False)


def as_lines(rows, path):
    path.write_text("".join(f"{json.dumps(one)}\n" for one in rows.to_dict("records")))


def as_gzip(rows, path):
    plain = path.with_name("plain.csv")
    as_csv(rows, plain)
    path.write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()


def as_parquet(rows, path):
    parquet.write_table(pa.Table.from_pandas(rows), path, row_group_size=70)


#: How a file is written, its ending, and whether it becomes several.
KINDS = {
    "csv": (as_csv, ".csv", True),
    "jsonl": (as_lines, ".jsonl", True),
    "packed csv": (as_gzip, ".csv.gz", False),
    "parquet": (as_parquet, ".parquet", True),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    table(0).to_parquet(folder / "train.parquet")
    fewpass.ingest(folder / "train.parquet", folder / "data", label="y", drop=["id"])
    fewpass.train(folder / "data", folder / "run", loss="logistic", verbose=0)
    return load_model(RunFolder(str(folder / "run")))


@pytest.fixture(scope="module")
def other(model, tmp_path_factory):
    """A model of fewer columns."""
    folder = tmp_path_factory.mktemp("other")
    table(9).to_parquet(folder / "train.parquet")
    fewpass.ingest(folder / "train.parquet", folder / "data", label="y", drop=["id", "b"])
    fewpass.train(folder / "data", folder / "run", loss="logistic", verbose=0)
    return load_model(RunFolder(str(folder / "run")))


@pytest.fixture
def small(monkeypatch):
    """Pieces of 2 kB, in spans of four."""
    monkeypatch.setattr(scoring_budget, "PIECE_BYTES", 1 << 11)
    for module in (arrow_rows, lines, predicted_parts):
        monkeypatch.setattr(module, "SPAN_BYTES", 1 << 13)


@pytest.fixture(scope="module")
def here():
    """Dask's threads of this process."""
    with open_executor(Execution(scheduler="local", threads=3)) as executor:
        yield lambda: as_context(executor)


@contextmanager
def as_context(executor):
    yield executor


def into(model, source, out, cluster=nullcontext, **more):
    plan = PredictionPlan(options=IGNORING.options, keep=("id",), **more)
    return predict(model, [str(source)], f"{out}/", plan, cluster=cluster)


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != KEY
    }


def ids(folder, ending=".csv"):
    kind = ending.removeprefix(".")
    paths = [str(folder / name) for name in files_of(folder)]
    return pyarrow.dataset.dataset(paths, format=kind).to_table()["id"].to_pylist()


@pytest.mark.parametrize("kind", KINDS)
def test_parts_are_the_same_by_threads_and_tasks_and_together_the_whole(
    kind, model, tmp_path, small, here
):
    write, ending, in_parts = KINDS[kind]
    (tmp_path / "in").mkdir()
    for k in range(2):
        write(table(k + 1), tmp_path / f"in/{k}{ending}")
    made = [into(model, tmp_path / "in", tmp_path / f"threads{n}", threads=n) for n in (1, 3)]
    made.append(into(model, tmp_path / "in", tmp_path / "tasks", cluster=here))
    first, *others = (files_of(tmp_path / name) for name in ("threads1", "threads3", "tasks"))
    assert all(one == first for one in others)
    assert (len(first) > 2) == in_parts
    assert {one.rows for one in made} == {2 * N} and {one.files for one in made} == {2}
    assert made[0].columns == made[2].columns and made[0].notes == made[2].notes
    file = tmp_path / f"whole{'.csv' if '.csv' in ending else '.parquet'}"
    fewpass.predict(model.run.url, tmp_path / "in", file, keep=["id"], unknown_features="ignore")
    if file.suffix == ".parquet":
        parts = [parquet.read_table(tmp_path / "tasks" / name) for name in first]
        assert pa.concat_tables(parts).equals(parquet.read_table(file))
    else:
        head, *_ = file.read_bytes().partition(b"\n")
        rows = b"".join(part.partition(b"\n")[2] for part in first.values())
        assert head + b"\n" + rows == file.read_bytes()


def test_a_part_does_not_take_the_place_of_what_another_file_becomes(model, tmp_path, small):
    (tmp_path / "in/a").mkdir(parents=True)
    as_csv(table(1), tmp_path / "in/a.csv")
    as_csv(table(2, 5), tmp_path / "in/a/part-00000.csv")
    with pytest.raises(BadInput, match=r"in/a\.csv .* would become a/part-00000\.csv"):
        into(model, tmp_path / "in", tmp_path / "out")
    assert ids(tmp_path / "out") == [*range(5)]


@pytest.mark.parametrize("kind", KINDS)
def test_figures_of_files_have_the_same_bits_by_threads_and_tasks(
    kind, model, other, tmp_path, small, here
):
    write, ending, _ = KINDS[kind]
    for k in range(2):
        write(table(k + 1), tmp_path / f"{k}{ending}")
    sources = [str(tmp_path / f"{k}{ending}") for k in range(2)]
    options = SourceOptions(unknown_features="ignore")
    sliced = EvaluationPlan(options=options, by=("town", "a:0"))
    made = [
        evaluate_rows(model, sources, sliced, **where)
        for where in ({"threads": 1}, {"threads": 3}, {"cluster": here})
    ]  # fmt: skip
    assert made[0].evaluation.rows == 2 * N
    assert repr(made[1]) == repr(made[0]) and repr(made[2]) == repr(made[0])
    many = options.model_copy(update={"on_bad_row": "refuse"})
    paired = [
        compare_rows([model, other], sources, EvaluationPlan(options=many), **where)
        for where in ({"threads": 1}, {"threads": 3}, {"cluster": here})
    ]
    assert paired[0].rows == 2 * N and paired[0].models[1].differences[0].difference
    assert repr(paired[1]) == repr(paired[0]) and repr(paired[2]) == repr(paired[0])


def test_a_word_for_a_number_is_told_with_the_figures(model, tmp_path, small, here):
    rows = table(1)
    rows["a"] = rows["a"].astype(object)
    rows.loc[N - 1, "a"] = "oops"
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for where in ({"threads": 2}, {"cluster": here}):
        made = evaluate_rows(model, [str(tmp_path / "rows.csv")], IGNORING, **where)
        (note,) = made.evaluation.notes
        assert "1 cell holds no number ('oops')" in note


def test_a_bad_row_is_named_by_its_line_and_leaves_nothing_of_its_file(
    model, tmp_path, small, here
):
    (tmp_path / "in").mkdir()
    for k in range(3):
        as_lines(table(k + 1), tmp_path / f"in/{k}.jsonl")
    bad = tmp_path / "in/1.jsonl"
    rows = bad.read_text().splitlines()
    rows[200] = "{"
    bad.write_text("\n".join(rows) + "\n")
    for cluster in ({}, {"cluster": here}):
        out = tmp_path / f"out{len(cluster)}"
        with pytest.raises(BadInput, match=r"1\.jsonl, line 201\b.* 2 of 3 files are predicted"):
            into(model, tmp_path / "in", out, **cluster)
        with pytest.raises(BadInput, match=r"1\.jsonl, line 201\b"):
            evaluate_rows(model, [str(bad)], IGNORING, **cluster)
        assert {name[0] for name in files_of(out)} == {"0", "2"}
        rows[200] = rows[199]
        bad.write_text("\n".join(rows) + "\n")
        again = into(model, tmp_path / "in", out, **cluster)
        assert (again.rows, again.done_before) == (3 * N, 2)
        rows[200] = "{"
        bad.write_text("\n".join(rows) + "\n")


def test_what_is_made_is_not_made_again_and_what_it_replaces_goes(
    model, tmp_path, small, monkeypatch
):
    """Killed after some parts; then the file has more rows, then fewer: no row stands twice."""
    source, out, real, made = tmp_path / "rows.csv", tmp_path / "out", [], []
    as_csv(table(1), source)
    into(model, source, tmp_path / "quiet")
    real.append(predicted_parts.written_rows)

    def counted(*given):
        if len(made) == 1:
            raise KeyboardInterrupt
        made.append(given)
        return real[0](*given)

    monkeypatch.setattr(predicted_parts, "written_rows", counted)
    with pytest.raises(KeyboardInterrupt):
        into(model, source, out)
    n_parts = len(files_of(tmp_path / "quiet"))
    made[:] = [None] * 4
    into(model, source, out)
    assert len(made) - 4 == n_parts - 1 > 0
    assert files_of(out) == files_of(tmp_path / "quiet")
    made[:] = [None] * 4
    assert into(model, source, out).done_before == 1 and len(made) == 4
    for n in (2 * N, 20, N):
        as_csv(table(2, n), source)
        before = files_of(out)
        assert into(model, source, out).rows == n
        assert ids(out) == list(range(n))
        assert (len(files_of(out)) == 1) == (n == 20) and files_of(out) != before


def test_a_file_of_the_user_among_parts_stays(model, tmp_path, small):
    source, out = tmp_path / "rows.csv", tmp_path / "out"
    as_csv(table(1), source)
    (out / "rows").mkdir(parents=True)
    (out / "rows/part-00001.csv").write_text("mine")
    with pytest.raises(BadInput, match=r"part-00001\.csv is there already"):
        into(model, source, out)
    assert files_of(out) == {"rows/part-00001.csv": b"mine"}
    into(model, source, out, overwrite=True)
    (out / "rows/part-00001.csv").write_text("mine, too")
    as_csv(table(1, 20), source)  # one file, and no parts
    into(model, source, out)
    assert (out / "rows/part-00001.csv").read_text() == "mine, too"
    assert len(files_of(out)) == 2


def test_a_store_takes_parts_and_goes_on_where_a_call_was_killed(model, tmp_path, small, here):
    source = tmp_path / "rows.csv"
    as_csv(table(1), source)
    into(model, source, tmp_path / "quiet")
    expected = files_of(tmp_path / "quiet")
    with object_store("bucket") as served, pytest.MonkeyPatch.context() as patch:
        patch.setattr(fsspec.config, "conf", {"s3": served.options})
        out = "s3://bucket/out"
        into(model, source, out, cluster=here)
        record = unseal(served.fs.cat(f"{out}/{KEY}"))
        assert len(record["files"]["rows.csv"]["parts"]) == len(expected)
        served.fs.rm(f"{out}/rows/part-00000.csv")  # the others are there, and on record
        assert into(model, source, out, cluster=here).rows == N
        made = {name: served.fs.cat(f"{out}/{name}") for name in expected}
    assert made == expected


def test_a_worker_that_is_killed_changes_nothing(model, tmp_path, monkeypatch):
    """Two processes, pieces as they are, each a span; one process dies as they begin."""
    for module in (arrow_rows, lines, predicted_parts):
        monkeypatch.setattr(module, "SPAN_BYTES", 1 << 20)
    source = tmp_path / "rows.csv"
    as_csv(table(1, 120_000), source)
    expected = evaluate_rows(model, [str(source)], IGNORING)
    into(model, source, tmp_path / "threads")
    with open_executor(Execution(workers=2, threads=1)) as executor:

        def cluster():
            return as_context(executor)

        victim = executor.result(executor.submit("pid", os.getpid))
        executor.submit("kill", os.kill, victim, signal.SIGKILL)
        into(model, source, tmp_path / "workers", cluster=cluster)
        found = evaluate_rows(model, [str(source)], IGNORING, cluster=cluster)
    assert len(files_of(tmp_path / "workers")) > 2
    assert files_of(tmp_path / "workers") == files_of(tmp_path / "threads")
    assert repr(found) == repr(expected)


def test_one_file_and_a_table_are_one_process_s(model, tmp_path):
    for out in ("rows.parquet", "rows.sqlite"):
        with pytest.raises(BadInput, match="written by one process, not by a cluster"):
            fewpass.predict(
                model.run.url, tmp_path / "rows.csv", tmp_path / out,
                execution=Execution(workers=2),
            )  # fmt: skip
