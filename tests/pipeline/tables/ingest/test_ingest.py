"""Ingest: every row once, in one order that only the seed decides, with statistics that are right."""

import errno
import json
import os
import shutil
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

import fewpass
from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.sizes import format_bytes, parse_bytes
from fewpass.pipeline.tables.ingest import mapping, row_parts, writing
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.ingest.work_dir import WorkDir
from fewpass.pipeline.tables.readers.csv_rows import CsvRows
from fewpass.pipeline.tables.readers.source import FilesOfAFormat
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder, NotADataset
from fewpass.storage.local_files import LocalFiles
from fewpass.storage.writer import DatasetWriter
from testing.datasets import dense, table_of

ROWS = Budget.of(1 << 30).rows  # bytes, of the default


@pytest.fixture
def small(monkeypatch):
    """Pieces, parts and runs so small that a few rows need many of them; none stay in memory."""
    monkeypatch.setattr(mapping, "PIECE_BYTES", 2000)
    monkeypatch.setattr(row_parts, "PART_BYTES", 3000)
    monkeypatch.setattr(Budget, "retained", 0)
    monkeypatch.setattr(Budget, "run", 4_888)


def sparse_rows(n, d, seed=0, empty=0.1):
    """Matrix with column 0 numbering the rows, and labels -1 and 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)).round(3) * (rng.random((n, d)) < 0.4)
    X = X.astype(np.float32)
    X[:, 0] = np.arange(1, n + 1)
    y = np.where(rng.random(n) < 0.3, 1.0, -1.0)
    y[:2] = [-1, 1]
    return X, y


def write_libsvm(path, X, y):
    lines = []
    for row, label in zip(X, y, strict=True):
        entries = " ".join(f"{j + 1}:{row[j]:.9g}" for j in np.flatnonzero(row))
        lines.append(f"{label:g} {entries}\n")
    path.write_text("".join(lines))
    return str(path)


def write_csv(path, X, y, weight=None):
    names = [f"x{j}" for j in range(X.shape[1])] + (["w"] if weight is not None else []) + ["y"]
    columns = [*X.T, *([weight] if weight is not None else []), y]
    rows = [",".join(str(value) for value in row) for row in zip(*columns, strict=True)]
    path.write_text("\n".join([",".join(names), *rows]) + "\n")
    return str(path)


def stored(url):
    """The data set, its matrix as stored, and its targets as labels or numbers."""
    dataset = Dataset.open(url)
    rows = table_of(dataset)
    X = dense(rows, dataset.n_features)
    targets = dataset.manifest.targets
    y = rows.target
    if targets.kind == "labels":
        y = np.array(targets.labels)[y.astype(int)]
    return SimpleNamespace(set=dataset, manifest=dataset.manifest, X=X, y=y, weight=rows.weight)


def plan(source, dataset, **settings):
    """Of rows as they are, unless a scale is given: a few dense columns would be standardised."""
    return IngestPlan(sources=(str(source),), dataset=str(dataset), **{"scale": "none"} | settings)


def test_sizes():
    assert parse_bytes("256MB") == 256_000_000
    assert parse_bytes("1.5 gib") == 3 << 29
    assert parse_bytes("12k") == 12_000
    assert parse_bytes(7) == 7
    assert [format_bytes(x) for x in (0, 999, 1000, 999_600, 3.2e9)] == [
        "0 B", "999 B", "1 kB", "1 MB", "3.2 GB",
    ]  # fmt: skip
    for wrong in ("", "many", "-1", "1 xB", -5, 1.5, True):
        with pytest.raises(ValueError, match="256MB"):
            parse_bytes(wrong)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    n=st.integers(2, 400),
    seed=st.integers(0, 5),
    share=st.sampled_from([2e-6, 1e-5, 1.0, None]),
    threads=st.integers(1, 4),
    fraction=st.sampled_from([0.0, 0.5]),
)
def test_rows_are_permuted_and_none_is_lost(tmp_path, small, n, seed, share, threads, fraction):
    X, y = sparse_rows(n, 6, seed)
    source = write_libsvm(tmp_path / "rows.svm", X, y)
    for name in ("a", "b"):
        Folder(f"memory://{name}").delete_tree()
        Folder(f"memory://{name}-test").delete_tree()

    def settings_of(url):
        width = {"n_features": 6}
        return plan(source, url, seed=seed, test_fraction=fraction, options=width)

    try:
        one = ingest(settings_of("memory://a"), threads=threads)
    except BadInput:
        assert fraction
        assert n < 20
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Budget, "run", int((share or 1.0) * ROWS))
        patch.setattr(row_parts, "PART_BYTES", int((share or 1.0) * ROWS))
        patch.setattr(Budget, "retained", 0 if share else ROWS)
        two = ingest(settings_of("memory://b"), threads=1 if share else threads)
    assert (one.fingerprint, one.test_fingerprint) == (two.fingerprint, two.test_fingerprint)
    parts = [stored(url) for url in (one.dataset, one.test_dataset) if url]
    got, labels = (np.concatenate([getattr(part, name) for part in parts]) for name in "Xy")
    order = got[:, 0].argsort()
    np.testing.assert_array_equal(got[order], X)
    np.testing.assert_array_equal(labels[order], y)
    if n > 50:
        assert abs(np.corrcoef(got[:, 0], np.arange(n))[0, 1]) < 0.9
        assert sorted(got[:, 0]) != list(got[:, 0])


@pytest.mark.parametrize("layout", ["sparse", "dense"])
def test_threads_and_memory_do_not_matter(tmp_path, small, monkeypatch, layout):
    X, y = sparse_rows(1500, 8)
    write = {"sparse": write_libsvm, "dense": write_csv}[layout]
    source = write(tmp_path / ("rows.svm" if layout == "sparse" else "rows.csv"), X, y)
    found = set()
    cases = [(1, 5e-6, 2000), (2, 5e-6, 5000), (4, 5e-6, 2000), (2, 1.0, 10**6), (3, 1e-6, 20_000)]
    monkeypatch.setattr(writing, "LEAF_VALUES", 1000)
    for k, (threads, share, part_bytes) in enumerate(cases):
        monkeypatch.setattr(Budget, "run", int(share * ROWS))
        monkeypatch.setattr(row_parts, "PART_BYTES", part_bytes)
        made = tmp_path / f"set-{k}"
        result = ingest(plan(source, made, chunk_bytes="4kB"), threads=threads)
        assert result.chunks > 5
        found.add(result.fingerprint)
        assert not (made / ".ingest").exists()
    monkeypatch.setattr(Budget, "retained", ROWS)
    monkeypatch.setattr(Budget, "piece", 1)
    for threads in (1, 2, 4):
        held = plan(source, tmp_path / f"held-{threads}", chunk_bytes="4kB")
        found.add(ingest(held, threads=threads).fingerprint)
    assert len(found) == 1
    other = plan(source, tmp_path / "other", seed=1, chunk_bytes="4kB")
    assert ingest(other).fingerprint not in found


@pytest.mark.parametrize("layout", ["sparse", "dense"])
@pytest.mark.parametrize("shuffle", [True, False])
def test_held_rows_that_outgrow_the_memory_go_to_files(tmp_path, monkeypatch, layout, shuffle):
    X, y = sparse_rows(1500, 8)
    write = {"sparse": write_libsvm, "dense": write_csv}[layout]
    source = write(tmp_path / ("rows.svm" if layout == "sparse" else "rows.csv"), X, y)
    monkeypatch.setattr(mapping, "PIECE_BYTES", 2000)
    for kind in (FilesOfAFormat, CsvRows):
        monkeypatch.setattr(kind, "piece_bytes", 2000)
    moved, move = [], row_parts.PartsInTheMaking._to_files

    def noted(making):
        making._await(0)
        moved.append([making.parts.n_rows(group) for group in range(2)])
        move(making)

    monkeypatch.setattr(row_parts.PartsInTheMaking, "_to_files", noted)
    split = {"test_fraction": 0.3, "shuffle": shuffle}
    expected = ingest(plan(source, tmp_path / "expected", **split))
    assert not moved
    monkeypatch.setattr(Budget, "retained", 60_000)
    monkeypatch.setattr(Budget, "piece", 1)
    monkeypatch.setattr(
        "fewpass.pipeline.tables.readers.libsvm.LibsvmSource.estimated_bytes", lambda _: 1
    )
    monkeypatch.setattr(
        "fewpass.pipeline.tables.readers.table_source.TableSource.estimated_bytes", lambda _: 1
    )
    result = ingest(plan(source, tmp_path / "set", **split), threads=3)
    ((training, test),) = moved
    assert min(training, test) > 0
    assert result.fingerprint == expected.fingerprint
    assert result.test_fingerprint == expected.test_fingerprint


def test_an_ingest_killed_with_its_rows_in_memory_begins_again(tmp_path, monkeypatch):
    X, y = sparse_rows(600, 6)
    source = write_libsvm(tmp_path / "rows.svm", X, y)
    expected = ingest(plan(source, tmp_path / "quiet", chunk_bytes="2kB")).fingerprint

    def die(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(DatasetWriter, "commit", die)
        ingest(plan(source, tmp_path / "set", chunk_bytes="2kB"))
    left = {path.name for path in (tmp_path / "set" / ".ingest").iterdir()}
    assert left == {"lock", "chunks-training.jsonl"}
    assert ingest(plan(source, tmp_path / "set", chunk_bytes="2kB")).fingerprint == expected


def test_equal_keys_keep_the_order_of_the_source():
    keys = np.random.default_rng(0).random(1000).round(2)
    np.testing.assert_array_equal(row_parts.order_of(keys), np.argsort(keys, kind="stable"))


def test_unshuffled_rows_keep_their_order(tmp_path, small):
    X, y = sparse_rows(1200, 5)
    source = write_libsvm(tmp_path / "rows.svm", X, y)
    ingest(plan(source, tmp_path / "set", shuffle=False))
    got = stored(str(tmp_path / "set"))
    np.testing.assert_array_equal(got.X, X)
    np.testing.assert_array_equal(got.y, y)
    assert got.manifest.shuffle.seed is None


@pytest.mark.parametrize("layout", ["sparse", "dense"])
def test_statistics_are_those_of_the_stored_rows(tmp_path, small, layout):
    X, y = sparse_rows(700, 7)
    X[:, 3] += np.float32(1e4)  # a large mean must not eat the variance
    write = {"sparse": write_libsvm, "dense": write_csv}[layout]
    source = write(tmp_path / ("rows.svm" if layout == "sparse" else "rows.csv"), X, y)
    result = ingest(plan(source, tmp_path / "set", layout=layout))
    got = stored(result.dataset)
    exact = got.X.astype(np.float64)
    np.testing.assert_array_equal(got.set.column("count"), (exact != 0).sum(0))
    np.testing.assert_allclose(got.set.column("mean"), exact.mean(0), rtol=1e-12)
    np.testing.assert_allclose(got.set.column("variance"), exact.var(0), rtol=1e-9)
    squares = (exact**2).sum(1)
    assert got.manifest.norms.mean_square == pytest.approx(squares.mean(), rel=1e-12)
    assert got.manifest.norms.max_square == pytest.approx(squares.max(), rel=1e-12)
    assert got.manifest.targets.counts == (int((y == -1).sum()), int((y == 1).sum()))
    assert result.rows == 700
    assert result.nnz == (np.count_nonzero(X) if layout == "sparse" else X.size)


def test_split_and_scaling_use_the_training_rows(tmp_path, small):
    X, y = sparse_rows(900, 5)
    X[:, 4] = 2.5  # constant
    source = write_csv(tmp_path / "rows.csv", X, y)
    sparse = write_libsvm(tmp_path / "rows.svm", X, y)
    plain = ingest(plan(source, tmp_path / "plain", test_fraction=0.25))
    assert 0.2 < plain.test_rows / 900 < 0.3
    train, test = (stored(url).X.astype(np.float64) for url in (plain.dataset, plain.test_dataset))
    both = np.concatenate([train[:, 0], test[:, 0]])
    np.testing.assert_array_equal(np.sort(both), np.arange(1, 901))
    deviation = np.where(train.std(0) > 1e-9, train.std(0), 1)
    for kind, shift, scale in [
        ("maxabs", 0, np.abs(train).max(0)),
        ("standard", train.mean(0), deviation),
    ]:
        found = ingest(plan(source, tmp_path / kind, test_fraction=0.25, scale=kind))
        for url, rows in ((found.dataset, train), (found.test_dataset, test)):
            got = stored(url)
            np.testing.assert_allclose(got.X, (rows - shift) / scale, rtol=2e-7, atol=1e-6)
            np.testing.assert_allclose(got.set.column("scale"), 1 / scale, rtol=1e-12)
            assert got.manifest.scaling.kind == kind
    found = ingest(plan(sparse, tmp_path / "unit", scale="unit-rows"))
    np.testing.assert_allclose(np.linalg.norm(stored(found.dataset).X, axis=1), 1, rtol=1e-6)
    found = ingest(plan(sparse, tmp_path / "sparse", scale="maxabs"))
    np.testing.assert_allclose(np.abs(stored(found.dataset).X).max(0), 1, rtol=1e-6)
    with pytest.raises(BadInput, match="Choose the scaling maxabs"):
        ingest(plan(sparse, tmp_path / "refused", scale="standard"))


def test_like_takes_over_width_labels_and_scaling(tmp_path):
    X, y = sparse_rows(200, 6)
    train = ingest(plan(write_libsvm(tmp_path / "a.svm", X, y), tmp_path / "train", scale="maxabs"))
    part = write_libsvm(tmp_path / "b.svm", X[:20, :4], np.full(20, 1.0))
    result = ingest(plan(part, tmp_path / "test", like=train.dataset, shuffle=False))
    got = stored(result.dataset)
    assert result.features == 6
    assert result.labels == (-1.0, 1.0)
    assert got.manifest.targets.counts == (0, 20)
    expected = X[:20, :4] * stored(train.dataset).set.column("scale")[:4]
    np.testing.assert_allclose(got.X[:, :4], expected, rtol=1e-6)
    assert got.manifest.scaling == stored(train.dataset).manifest.scaling
    other = write_libsvm(tmp_path / "c.svm", X[:20], np.full(20, 7.0))
    with pytest.raises(BadInput, match=r"Labels 7 are unknown.*, which has -1, 1\."):
        ingest(plan(other, tmp_path / "refused", like=train.dataset))
    wide = write_libsvm(tmp_path / "d.svm", np.ones((3, 9)), y[:3])
    with pytest.raises(BadInput, match=r"d\.svm.*6 features"):
        ingest(plan(wide, tmp_path / "refused", like=train.dataset))


@pytest.mark.parametrize(
    ("targets", "task", "kind"),
    [
        ([1, 2, 3], "auto", "labels"),
        ([0.5, 1, 2], "auto", "values"),
        ([0.5, 1, 2], "classification", "labels"),
        ([1, 2, 3], "regression", "values"),
        (["spam", "ham", "eggs"], "auto", "labels"),
        (range(1001), "auto", "values"),
    ],
)
def test_targets(tmp_path, small, targets, task, kind):
    y = list(targets) * (1 if len(targets) > 3 else 300)
    X = np.arange(len(y), dtype=np.float32)[:, None]
    source = write_csv(tmp_path / "rows.csv", X, y)
    result = ingest(plan(source, tmp_path / "set", task=task))
    got = stored(result.dataset)
    assert got.manifest.targets.kind == kind
    assert result.task == {"labels": "classification", "values": "regression"}[kind]
    np.testing.assert_array_equal(got.y[got.X[:, 0].argsort()], np.array(y))
    if kind == "labels":
        assert result.labels == tuple(sorted(targets))
        assert got.manifest.targets.counts == (300, 300, 300)
    else:
        assert got.manifest.targets.variance == pytest.approx(np.var(y), rel=1e-12)


def test_weights(tmp_path, small):
    X, y = sparse_rows(300, 3)
    weight = np.random.default_rng(1).integers(1, 5, 300)
    source = write_csv(tmp_path / "rows.csv", X, y, weight)
    result = ingest(plan(source, tmp_path / "set", options={"weight": "w", "label": "y"}))
    got = stored(result.dataset)
    np.testing.assert_array_equal(got.weight[got.X[:, 0].argsort()], weight)
    assert got.manifest.weights.total == weight.sum()
    assert got.manifest.weights.maximum == 4


def test_rows_of_which_none_counts_are_refused(tmp_path, small):
    X, y = sparse_rows(300, 3)
    source = write_csv(tmp_path / "rows.csv", X, y, np.zeros(len(y)))
    with pytest.raises(BadInput, match=f"The weights of all {len(y)} rows are 0"):
        ingest(plan(source, tmp_path / "set", options={"weight": "w", "label": "y"}))
    with pytest.raises(BadInput, match=f"The weights of all {len(y)} rows are 0"):
        fewpass.train(source, tmp_path / "run", weight="w", label="y")
    assert not (tmp_path / "run").exists()


def test_labels_that_are_all_one_are_refused_with_what_helps(tmp_path, small):
    for label, more in (("p", ""), ("3", ", or choose `task=regression`")):
        source = tmp_path / f"{label}.csv"
        source.write_text("a,y\n" + "".join(f"{k},{label}\n" for k in range(50)))
        with pytest.raises(BadInput, match=rf"Check the label column{more}\.$"):
            ingest(
                plan(
                    source, tmp_path / f"set-{label}", task="classification", options={"label": "y"}
                )
            )


def test_what_is_done_is_not_done_again_and_nothing_else_is_touched(tmp_path):
    X, y = sparse_rows(100, 4)
    source = write_libsvm(tmp_path / "rows.svm", X, y)
    place = tmp_path / "set"
    first = ingest(plan(source, place, test_fraction=0.3))
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    second = ingest(plan(source, place, test_fraction=0.3), threads=1)
    assert (
        second.model_copy(
            update={"seconds": first.seconds, "peak_memory_bytes": first.peak_memory_bytes}
        )
        == first
    )
    assert {path: path.stat().st_mtime_ns for path in place.rglob("*")} == before
    with pytest.raises(BadInput, match=f"fewpass append {place} FILES.*`overwrite=true`"):
        ingest(plan(source, place, seed=1))
    replaced = ingest(plan(source, place, seed=1, overwrite=True))
    assert stored(str(place)).manifest.fingerprint == replaced.fingerprint != first.fingerprint
    write_libsvm(tmp_path / "rows.svm", X[:50], y[:50])
    with pytest.raises(BadInput, match="other sources"):
        ingest(plan(source, place, seed=1))
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "X").write_text("precious")
    with pytest.raises(BadInput, match="other files, such as X"):
        ingest(plan(source, mine))
    assert (mine / "X").read_text() == "precious"


def test_bad_input_is_refused(tmp_path):
    X, _ = sparse_rows(50, 4)
    one = write_libsvm(tmp_path / "one.svm", X, np.ones(50))
    with pytest.raises(BadInput, match=r"All 50 training rows have the label 1;"):
        ingest(plan(one, tmp_path / "set"))
    with pytest.raises(NotADataset):
        Dataset.open(str(tmp_path / "set"))
    assert ingest(plan(one, tmp_path / "set", task="regression")).task == "regression"
    bad = tmp_path / "bad.svm"
    bad.write_text("1 1:x\n-1 2:y\n")
    with pytest.raises(BadInput, match=r"2 bad ones were skipped.*bad\.svm, line 1"):
        ingest(plan(bad, tmp_path / "bad", options={"on_bad_row": "skip"}))
    bad.write_text("# no row\n")
    with pytest.raises(BadInput, match=r"^No row is left of the sources\. Check the format"):
        ingest(plan(bad, tmp_path / "bad"))
    bad.write_text("1 1:1\n-1 2:y\n-1 3:2\n")
    result = ingest(plan(bad, tmp_path / "bad", options={"on_bad_row": "skip"}))
    assert (result.rows, result.skipped) == (2, 1)
    assert "line 2" in result.skipped_rows[0]
    words = write_csv(tmp_path / "words.csv", X[:4], ["a", "b", "a", "b"])
    with pytest.raises(BadInput, match="labels are words"):
        ingest(plan(words, tmp_path / "words", task="regression"))
    with pytest.raises(BadInput, match="128 MB"):
        plan(one, "x", memory="64MB")
    with pytest.raises(BadInput, match="Leave test_fraction"):
        plan(one, "x", like="y", test_fraction=0.1)
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PermissionError, match="Choose another folder"):
        ingest(plan(one, tmp_path / "file" / "set"))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        ingest(plan(tmp_path / "nowhere.svm", tmp_path / "x"))


def test_too_many_columns_for_the_memory(tmp_path):
    (tmp_path / "wide.svm").write_text("1 1:1\n-1 900000:1\n")
    with pytest.raises(BadInput, match=r"900000 columns take 43\.2 MB.*Give at least 139 MB"):
        ingest(plan(tmp_path / "wide.svm", tmp_path / "set", memory="128MB"))
    result = ingest(plan(tmp_path / "wide.svm", tmp_path / "set", memory="140MB"))
    assert result.features == 900000


@pytest.mark.parametrize("share", [0, 0.02, 0.3, 0.9])
def test_a_full_disk_loses_nothing(tmp_path, small, monkeypatch, share):
    X, y = sparse_rows(900, 6)
    source = write_libsvm(tmp_path / "rows.svm", X, y)
    write, left = LocalFiles.write, [10**6]

    def full(self, *arguments, **settings):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, *arguments, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "write", full)
        expected = ingest(plan(source, tmp_path / "quiet", chunk_bytes="2kB")).fingerprint
    left[0] = int(share * (10**6 - left[0]))
    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "write", full)
        with pytest.raises(OSError, match="Free some space") as caught:
            ingest(plan(source, tmp_path / "set", chunk_bytes="2kB"))
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(NotADataset):
        Dataset.open(str(tmp_path / "set"))
    found = ingest(plan(source, tmp_path / "set", chunk_bytes="2kB"))
    assert found.fingerprint == expected
    assert [*Dataset.open(found.dataset).verify()] == []


def test_a_second_ingest_keeps_out(tmp_path):
    X, y = sparse_rows(60, 4)
    source = write_libsvm(tmp_path / "rows.svm", X, y)
    owned = WorkDir(tmp_path / "set" / ".ingest").owned()
    with owned, pytest.raises(BadInput, match=f"Process {os.getpid()} is at work"):
        ingest(plan(source, tmp_path / "set"))
    assert ingest(plan(source, tmp_path / "set")).rows == 60


@pytest.mark.parametrize("k", range(1, 4))
def test_a_folder_that_its_last_owner_removes_meanwhile_is_made_again(tmp_path, monkeypatch, k):
    """Gone after the k-th of the calls that make it and open its lock."""
    at, calls = tmp_path / "set" / ".ingest", [0]

    def removed_after(own):
        def call(path, *arguments, **words):
            given = own(path, *arguments, **words)
            if Path(path) in (at, at / "lock"):
                calls[0] += 1
                if calls[0] == k:
                    shutil.rmtree(at)
            return given

        return call

    monkeypatch.setattr(os, "mkdir", removed_after(os.mkdir))
    monkeypatch.setattr(os, "stat", removed_after(os.stat))
    monkeypatch.setattr(os, "open", removed_after(os.open))
    with WorkDir(at).owned():
        assert calls[0] > k
        assert (at / "lock").exists()


def test_progress_and_remote_target(tmp_path, small, monkeypatch):
    X, y = sparse_rows(600, 5)
    source = write_libsvm(tmp_path / "rows.svm", X, y)
    monkeypatch.setattr("fewpass.pipeline.tables.ingest.progress.REPORT_EVERY", 0.0)
    Folder("memory://remote").delete_tree()
    seen, threads = [], set(threading.enumerate())
    result = ingest(
        plan(source, "memory://remote/set", spill=str(tmp_path / "spill")), progress=seen.append
    )
    assert {p.phase for p in seen} == {"partition", "write", "done"}
    assert [p.bytes_read for p in seen] == sorted(p.bytes_read for p in seen)
    assert seen[-1].bytes_read == seen[-1].bytes_total == result.bytes_in
    assert seen[-1].rows == seen[-1].rows_total == 600
    assert 0 < result.bytes_out < 10 * result.bytes_in
    assert not any((tmp_path / "spill").iterdir())
    np.testing.assert_array_equal(np.sort(stored(result.dataset).X[:, 0]), np.arange(1, 601))
    assert set(threading.enumerate()) <= threads
    json.dumps(result.model_dump(mode="json"))


@pytest.mark.parametrize(
    ("name", "rows", "features"),
    [
        ("a9a.xz", 8000, 122),
        pytest.param("w8a/w8a.xz", 49749, 300, marks=pytest.mark.public_data),
    ],
)
def test_real_data(data_file, tmp_path, name, rows, features):
    result = ingest(plan(data_file(name), tmp_path / "set"))
    assert (result.rows, result.features, result.labels) == (rows, features, (-1.0, 1.0))
    got = stored(result.dataset)
    X, y = load_svmlight_file(str(decompressed(data_file(name), tmp_path)))
    keys = np.random.default_rng(0).standard_normal(features)
    expected = np.sort(X @ keys + 1000 * y)
    np.testing.assert_allclose(np.sort(got.X @ keys + 1000 * got.y), expected, rtol=1e-9)
    assert result.nnz == X.nnz


def decompressed(path, folder):
    import lzma

    target = folder / path.stem
    target.write_bytes(lzma.decompress(path.read_bytes()))
    return target


@pytest.mark.parametrize(("fraction", "files", "syncs"), [(0.0, 12, 20), (0.3, 24, 40)])
def test_a_small_set_is_few_files_and_each_is_synced_once(
    tmp_path, monkeypatch, fraction, files, syncs
):
    source = write_libsvm(tmp_path / "rows.svm", *sparse_rows(600, 40))
    synced, sync = [], os.fsync

    def noted(file):
        synced.append(Path(f"/proc/self/fd/{file}").resolve())
        sync(file)

    monkeypatch.setattr(os, "fsync", noted)
    place = tmp_path / "sets"
    ingest(plan(source, place / "set", test_fraction=fraction))
    sets = {place / "set", place / "set-test"} if fraction else {place / "set"}
    assert len([path for path in place.rglob("*") if path.is_file()]) <= files
    assert len(synced) <= syncs
    inside = Counter(path for path in synced if path not in sets and path != place)
    assert inside and set(inside.values()) == {1}
    inodes = {path for path in place.rglob("*") if path.is_file() and path.suffix == ".0"}
    assert inodes <= inside.keys()


def test_chunks_have_their_size_or_all_rows_are_one(tmp_path):
    X, y = sparse_rows(2000, 120)
    source = write_csv(tmp_path / "rows.csv", X, y)
    result = ingest(plan(source, tmp_path / "set"))
    assert (result.chunks, result.chunk_rows) == (1, 2000)
    result = ingest(plan(source, tmp_path / "large", chunk_bytes="100kB"))
    assert result.chunk_rows == 100_000 // (120 * 4 + 8)
