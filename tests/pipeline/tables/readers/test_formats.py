"""Laws that hold of every format: the same rows however they are cut, packed, spelt or interrupted."""

import bz2
import gzip
import lzma
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from scipy import sparse
from sklearn.utils import murmurhash3_32

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.formats import EXTENSIONS, FORMATS
from fewpass.pipeline.settings.formats import TABLES as TABLES_OF_FILES
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.ingest import mapping, phases
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.readers import Expected, SourceOptions, open_source
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import concatenate
from testing.datasets import dense, table_of
from testing.interruptions import Killed

N = 240
BAD = (7, 20, 101)  # rows that are spoilt
CUTS = (300, 1111, 1 << 20)  # bytes of a piece
FILES = (1, 2, 5)
BUCKETS = 64  # that names are hashed to


# -- the rows --------------------------------------------------------------------------------------


def words():
    """Words, numbers with gaps, days, counts, labels and weights; some cells of CSV need quotes."""
    rng = np.random.default_rng(3)
    cells = np.array(["plain", "with, comma", 'with "quotes"', "two\nlines", "größe", None], object)
    days = np.datetime64("2026-01-01") + rng.integers(0, 300, N)
    income = rng.lognormal(3.0, 1.0, N).round(3)
    return pd.DataFrame({
        "income": [None if gap else x for gap, x in zip(rng.random(N) < 0.1, income, strict=True)],
        "word": rng.choice(cells, N),
        "day": [day.isoformat() for day in days.astype(object)],
        "count": rng.integers(0, 9, N),
        "w": rng.integers(1, 9, N) / 4,
        "y": rng.choice(np.array(["no", "yes"], object), N),
    })  # fmt: skip


def numbers():
    """Numbers of three digits behind the point, a third of them 0; labels 0 and 1."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(N, 5)).round(3) * (rng.random((N, 5)) < 0.7)
    X[:, 0] = np.arange(N) % 7 + 0.5
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(5)])
    return frame.assign(w=rng.integers(1, 9, N) / 4, y=rng.integers(0, 2, N))


def assert_rows_of_words(source, X, y, frame):
    """Compare features with the cells that they are of, by formulas of their own."""
    got = dict(zip(source.recipe.outputs, X.T, strict=True))
    income = frame.income.to_numpy(float)
    np.testing.assert_array_equal(got["income is missing"], np.isnan(income))
    amounts = pd.DataFrame({"told": income, "got": got["income"]}).dropna().sort_values("told")
    assert (np.diff(amounts["got"]) >= 0).all()
    assert amounts["got"].nunique() > 0.8 * amounts.told.nunique()
    for word in frame.word.dropna().unique():
        np.testing.assert_array_equal(got[f"word={word}"], frame.word == word)
    np.testing.assert_array_equal(got["word is missing"], frame.word.isna())
    days = pd.to_datetime(frame.day)
    for month in days.dt.month.unique():
        np.testing.assert_array_equal(got[f"day month={month}"], days.dt.month == month)
    low, high = (np.flatnonzero(frame["count"] == k)[0] for k in (0, 8))
    step = (got["count"][high] - got["count"][low]) / 8
    assert step > 0
    np.testing.assert_allclose(got["count"] - got["count"][low], step * frame["count"], atol=1e-12)
    assert y == frame.y.tolist()


def assert_rows_of_numbers(_, X, y, frame):
    np.testing.assert_array_equal(X, frame.drop(columns=["w", "y"]).to_numpy())
    assert [int(float(label) > 0) for label in y] == frame.y.tolist()


def assert_rows_of_hashes(_, X, y, frame):
    places = [murmurhash3_32(f"^{k}", positive=True) % BUCKETS for k in range(5)]
    assert len({*places}) == 5
    assert_rows_of_numbers(_, X[:, places], y, frame)
    assert not np.delete(X, places, axis=1).any()


# -- the formats -----------------------------------------------------------------------------------


def write_csv(path, frame, delimiter=",", end="\n"):
    frame.to_csv(path, index=False, sep=delimiter, lineterminator=end)


def write_tsv(path, frame, end="\n"):
    write_csv(path, frame, "\t", end)


def write_jsonl(path, frame, end="\n"):
    text = frame.to_json(orient="records", lines=True, force_ascii=False)
    path.write_bytes(text.replace("\n", end).encode())


def write_parquet(path, frame):
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    pa.parquet.write_table(rows, path, row_group_size=70)


def write_arrow(path, frame):
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    pa.feather.write_feather(rows, str(path), chunksize=50, compression="uncompressed")


def write_sqlite(path, frame):
    with sqlite3.connect(path) as base:
        frame.to_sql("t", base, index=False)


def lines_of(frame, label, first, mark="", weighted=False):
    """Yield rows of numbers as lines of sparse text."""
    for row in frame.itertuples(index=False):
        entries = [f"{k + first}:{x}" for k, x in enumerate(row[:5]) if x]
        yield " ".join(
            [label(row.y), *([f"{row.w}"] if weighted else []), *([mark] * bool(mark)), *entries]
        )


def write_libsvm(path, frame, end="\n"):
    path.write_bytes("".join(f"{line}{end}" for line in lines_of(frame, str, 1)).encode())


def write_vw(path, frame, end="\n"):
    lines = lines_of(frame, lambda y: "1" if y else "-1", 0, "|", weighted=True)
    path.write_bytes("".join(f"{line}{end}" for line in lines).encode())


def write_npy(path, frame):
    np.save(path, np.ascontiguousarray(frame.to_numpy(float)))


def write_npz(path, frame):
    X = np.ascontiguousarray(frame.drop(columns=["w", "y"]).to_numpy())
    np.savez(path, X=X, y=frame.y.to_numpy(float))


def write_sparse_npz(path, frame):
    X = sparse.csr_matrix(frame.drop(columns=["w", "y"]).to_numpy())
    of = {"format": b"csr", "shape": X.shape}
    np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, y=frame.y.to_numpy(float), **of)


class Format(NamedTuple):
    """How rows are written, and what is asked for when they are read."""

    name: str
    ending: str
    write: Callable
    rows: Callable[[], pd.DataFrame]
    assert_rows: Callable
    options: dict
    weight: str | int | None = "w"  # None: it has none; "own": at a place of the format's own
    spoilt: str | None = None  # a line that is no row; None: the format has no lines
    n_above: int = 0  # lines above the first row
    most_files: int = 5

    def written(self, folder, frame=None, n_files=1, **how):
        """Write the rows of a frame to files; return the files."""
        frame = self.rows() if frame is None else frame
        n_files = min(n_files, self.most_files)
        bounds = np.linspace(0, len(frame), n_files + 1).astype(int)
        paths = [folder / f"rows-{k}{self.ending}" for k in range(n_files)]
        for path, low, high in zip(paths, bounds[:-1], bounds[1:], strict=True):
            self.write(path, frame.iloc[low:high], **how)
        return paths

    def opened(self, paths, expected=Expected(), **options):
        asked = SourceOptions(**({"dtype": "float64"} | self.options | options))
        return open_source([*map(str, paths)], asked, None, expected)

    def assert_read(self, paths, frame=None, cut=1 << 20, **options):
        """Compare the rows of files with those of a frame."""
        frame = self.rows() if frame is None else frame
        source = self.opened(paths, **options)
        X, y, _, skipped, n_skipped = all_rows(source, cut)
        self.assert_rows(source, X, y, frame)
        return skipped, n_skipped


def all_rows(source, cut=1 << 20):
    """Read a source: features (n, d), targets, weights, skipped rows, and how many were skipped."""
    parsed = [source.parse(piece) for piece in source.pieces(cut)]
    table = concatenate([part.table for part in parsed])
    y = [
        part.labels[int(target)] if part.labels else target
        for part in parsed for target in part.table.target.tolist()
    ]  # fmt: skip
    skipped = [row for part in parsed for row in part.skipped]
    return (
        dense(table, source.n_features),
        y,
        table.weight,
        skipped,
        sum(p.n_skipped for p in parsed),
    )


TABLE = {"label": "y", "drop": ("w",), "encode": "linear"}
PLAIN = {"label": "y", "drop": ("w",), "encode": "none"}
WORDS = [
    Format(name, f".{name}", write, words, assert_rows_of_words, TABLE, "w", *more)
    for name, write, *more in (
        ("csv", write_csv, "1,2", 1), ("tsv", write_tsv, "1\t2\t3\t4\t5\t6\t7", 1),
        ("jsonl", write_jsonl, '{"income": 1, "word": '), ("parquet", write_parquet),
        ("arrow", write_arrow), ("sqlite", write_sqlite, None, 0, 1),
    )
]  # fmt: skip
NUMBERS = [
    Format(
        f"{name} of numbers", ending, write, numbers,
        assert_rows_of_hashes if name == "vw" else assert_rows_of_numbers, options, *more,
    )
    for name, ending, write, options, *more in (
        ("csv", ".csv", write_csv, PLAIN, "w", "1,2,3", 1),
        ("parquet", ".parquet", write_parquet, PLAIN, "w"),
        ("libsvm", ".svm", write_libsvm, {"n_features": 5}, None, "1 3:x"),
        ("vw", ".vw", write_vw, {"hash_bits": 6}, "own", "1 | 3:x"),
        ("npy", ".npy", write_npy, {"label": -1, "drop": (-2,)}, -2),
        ("npz", ".npz", write_npz, {}, None),
        ("sparse npz", ".npz", write_sparse_npz, {}, None),
    )
]  # fmt: skip


def test_every_format_is_here():
    endings = {form.ending for form in (*WORDS, *NUMBERS)}
    assert {EXTENSIONS[ending] for ending in endings} == {*FORMATS, *TABLES_OF_FILES}


def formats(*asked):
    return pytest.mark.parametrize("form", asked, ids=[form.name for form in asked])


ALL = formats(*WORDS, *NUMBERS)
OF_TEXT = formats(*(form for form in (*WORDS, *NUMBERS) if form.spoilt))


# -- laws of reading -------------------------------------------------------------------------------


@ALL
@pytest.mark.parametrize("n_files", FILES)
def test_any_cut_and_any_number_of_files_give_the_rows_as_they_were_written(
    tmp_path, form, n_files
):
    paths = form.written(tmp_path, n_files=n_files)
    for cut in CUTS:
        form.assert_read(paths, cut=cut)
    for memory in (128_000_000, 1 << 30):
        source = form.opened(paths, Expected(budget=Budget.of(memory)))
        form.assert_rows(source, *all_rows(source)[:2], form.rows())


PACKINGS = {
    ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
    ".zst": lambda raw: pa.compress(raw, "zstd", asbytes=True),
}  # fmt: skip


def rewritten(paths, change, ending=""):
    """Write the bytes of files anew, to files whose names end in something more."""
    files = []
    for path in paths:
        files.append(path.with_name(path.name + ending))
        files[-1].write_bytes(change(path.read_bytes()))
    return files


@formats(*(form for form in (*WORDS, *NUMBERS) if form.spoilt or form.name == "arrow"))
@pytest.mark.parametrize("packing", PACKINGS)
def test_packed_files_have_the_same_rows(tmp_path, form, packing):
    pack = PACKINGS[packing]
    paths = form.written(tmp_path, n_files=2)
    form.assert_read(rewritten(paths, pack, packing), cut=1111)
    twice = rewritten(paths[:1], lambda raw: pack(raw[:999]) + pack(raw[999:]), packing)
    form.assert_read([*twice, paths[1]], cut=1111)


@OF_TEXT
def test_lines_may_end_as_in_windows_and_the_last_not_at_all(tmp_path, form):
    paths = form.written(tmp_path, n_files=2, end="\r\n")
    form.assert_read(paths, cut=300)
    rewritten(paths, lambda raw: raw.removesuffix(b"\r\n"))
    form.assert_read(paths, cut=300)
    rewritten(paths, lambda raw: raw.replace(b"\r\n", b"\n"))
    form.assert_read(paths, cut=300)


# -- bad rows --------------------------------------------------------------------------------------


def spoilt_cells(form):
    """Rows some of which lack what they may not lack: the target, or a plain number."""
    frame = form.rows()
    column = "y" if "word" in frame else "x1"
    frame[column] = frame[column].where(~frame.index.isin(BAD))
    return frame


def spoilt_lines(form, folder):
    """Write rows some of whose lines are none of the format."""
    frame = form.rows()
    if "word" in frame:  # a row is a line
        frame["word"] = frame.word.replace({"two\nlines": "two lines"})
    (path,) = form.written(folder, frame)
    lines = path.read_text().splitlines()
    for k in BAD:
        lines[k + form.n_above] = form.spoilt
    path.write_text("\n".join(lines) + "\n")
    return path, frame


def assert_refused_or_skipped(form, path, frame):
    places = [k + form.n_above + 1 for k in BAD]
    where = rf"{re.escape(str(path))}, (line|row) {places[0]}\b"
    with pytest.raises(BadInput, match=where):
        all_rows(form.opened([path]))
    good = frame.drop(index=[*BAD]).reset_index(drop=True)
    for cut in CUTS:
        skipped, n_skipped = form.assert_read([path], good, cut, on_bad_row="skip")
        assert [(row.file, row.line) for row in skipped] == [(str(path), one) for one in places]
        assert n_skipped == len(BAD)
        assert all(row.reason for row in skipped)


@ALL
def test_rows_that_lack_something_are_named_and_skipped_only_if_asked(tmp_path, form):
    frame = spoilt_cells(form)
    if "word" in frame:  # a row is a line
        frame["word"] = frame.word.replace({"two\nlines": "two lines"})
    (path,) = form.written(tmp_path, frame)
    if form.name in ("libsvm of numbers", "vw of numbers"):
        assert path.read_text().count("nan") == len(BAD)
    assert_refused_or_skipped(form, path, frame)


@OF_TEXT
def test_lines_that_are_no_rows_are_named_and_skipped_only_if_asked(tmp_path, form):
    assert_refused_or_skipped(form, *spoilt_lines(form, tmp_path))


@OF_TEXT
def test_bad_rows_of_later_files_are_named_by_their_file(tmp_path, form):
    (first,) = form.written(tmp_path)
    (tmp_path / "later").mkdir()
    later, _ = spoilt_lines(form, tmp_path / "later")
    with pytest.raises(BadInput, match=re.escape(f"{later}, ")):
        all_rows(form.opened([first, later]))
    *_, skipped, n_skipped = all_rows(form.opened([first, later], on_bad_row="skip"))
    assert {row.file for row in skipped} == {str(later)}
    assert n_skipped == len(BAD)


# -- weights and held-out rows ---------------------------------------------------------------------


@ALL
def test_weights_go_with_their_rows(tmp_path, form):
    paths = form.written(tmp_path, n_files=2)
    if form.weight is None:
        with pytest.raises(BadInput, match="weight"):
            form.opened(paths, weight="w")
        return
    own = {} if form.weight == "own" else {"weight": form.weight, "drop": ()}
    for cut in CUTS:
        source = form.opened(paths, **own)
        assert source.has_weight or form.weight == "own"
        X, y, weight, *_ = all_rows(source, cut)
        np.testing.assert_array_equal(weight, form.rows().w)
        form.assert_rows(source, X, y, form.rows())


def plan_of(form, paths, dataset, **settings):
    options = SourceOptions(**({"dtype": "float64"} | form.options))
    return IngestPlan(
        sources=tuple(map(str, paths)), dataset=str(dataset), options=options, chunk_bytes=4096,
        **({"scale": "none", "test_fraction": 0.3} | settings),
    )  # fmt: skip


@pytest.fixture
def small(monkeypatch):
    """Buckets so small that a few rows need many of them; none stay in memory."""
    monkeypatch.setattr(mapping, "PIECE_BYTES", 2000)
    little_memory(monkeypatch)


def little_memory(patch):
    patch.setattr(Budget, "retained", 0)
    patch.setattr(Budget, "run", 4_888)


def stored(url):
    """Return the rows of a data set as tuples: features, and the target as a number or a label."""
    dataset = Dataset.open(str(url))
    table = table_of(dataset)
    labels = dataset.manifest.targets.labels or (0, 1)
    X = dense(table, dataset.n_features)
    return [(*row, str(labels[int(y)])) for row, y in zip(X.tolist(), table.target, strict=True)]


@ALL
def test_held_out_rows_and_the_others_are_all_rows_whatever_the_memory(tmp_path, form, monkeypatch):
    paths = form.written(tmp_path, n_files=2)
    monkeypatch.setattr(mapping, "PIECE_BYTES", 2000)
    plans = [plan_of(form, paths, tmp_path / f"set{k}") for k in range(4)]
    made = [ingest(plans[0], threads=1), ingest(plans[1], threads=3)]
    little_memory(monkeypatch)
    made += [ingest(plans[2], threads=1), ingest(plans[3], threads=3)]
    assert len({(one.fingerprint, one.test_fingerprint) for one in made}) == 1
    whole = ingest(plan_of(form, paths, tmp_path / "whole", test_fraction=0.0))
    held_out, others = stored(made[0].test_dataset), stored(made[0].dataset)
    if "word" not in form.rows():  # whose recipe is of the rows that may be learnt from
        assert sorted(held_out + others) == sorted(stored(whole.dataset))
    assert len(held_out + others) == N
    assert 0.2 * N < len(held_out) < 0.4 * N


@formats(*WORDS, *(form for form in NUMBERS if form.weight == "w"))
def test_rows_are_held_out_by_groups_and_by_order(tmp_path, form):
    paths = form.written(tmp_path, n_files=2)
    column = "count" if "word" in form.rows() else "x0"
    for how in ("test_group", "test_by"):
        plan = plan_of(form, paths, tmp_path / how, **{how: column})
        asked = form.options | {"encode": "linear", "dtype": "float64"}
        plan = plan.model_copy(update={"options": SourceOptions(**asked)})
        made = ingest(plan)
        at = [*recipe_in(Dataset.open(made.dataset).schema).outputs].index(column)
        ours, theirs = (
            {row[at] for row in stored(url)} for url in (made.dataset, made.test_dataset)
        )
        if how == "test_group":
            assert not ours & theirs
        else:
            assert max(ours) <= min(theirs)


MOMENTS = [
    *((form, "_write_one") for form in (*WORDS, *NUMBERS)),
    *((form, moment) for form in (WORDS[0], NUMBERS[2]) for moment in ("_write", "_result")),
]


@pytest.mark.parametrize(("form", "moment"), MOMENTS, ids=lambda one: getattr(one, "name", one))
def test_an_ingest_that_is_killed_and_done_again_makes_the_same_set(
    tmp_path, form, small, monkeypatch, moment
):
    paths = form.written(tmp_path, n_files=2)
    quiet = ingest(plan_of(form, paths, tmp_path / "quiet"))

    def die(*_):
        raise Killed

    plan = plan_of(form, paths, tmp_path / "killed")
    with monkeypatch.context() as patch:
        patch.setattr(phases, moment, die)
        with pytest.raises(Killed):
            ingest(plan)
    again = ingest(plan)
    assert (again.fingerprint, again.test_fingerprint) == (
        quiet.fingerprint,
        quiet.test_fingerprint,
    )
    assert not Path(plan.dataset, ".ingest").exists()


# -- how often files are opened --------------------------------------------------------------------

#: Tables that are files; how many members JSON has shows more of its text than how large it is.
TABLES = {"csv": 3, "tsv": 3, "jsonl": 4, "parquet": 3, "arrow": 3}
TABLES |= {"csv of numbers": 3, "parquet of numbers": 3, "npy of numbers": 3}
OPENED = []
WATCHED = []


def note_opening(event, arguments):
    if WATCHED and event in ("open", "sqlite3.connect") and str(arguments[0]) in WATCHED:
        OPENED.append(str(arguments[0]))


sys.addaudithook(note_opening)


@formats(*(form for form in (*WORDS, *NUMBERS) if form.name in TABLES))
def test_a_file_is_opened_three_times_to_look_to_draw_a_sample_and_for_its_rows(tmp_path, form):
    paths = form.written(tmp_path, n_files=2)
    WATCHED[:], OPENED[:] = map(str, paths), []
    try:
        for encode in ("auto", *(["none"] if form.options.get("encode") == "none" else [])):
            own = {**form.options, "encode": encode} if "encode" in form.options else form.options
            plan = plan_of(form, paths, tmp_path / f"set-{encode}", test_fraction=0.0, scale="auto")
            ingest(plan.model_copy(update={"options": SourceOptions(**own)}))
            counts = Counter(OPENED)
            assert max(counts.values()) <= TABLES[form.name], counts
            OPENED.clear()
    finally:
        WATCHED.clear()
