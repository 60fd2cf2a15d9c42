"""A view of several data sets is a data set of their rows, in whatever it is used for."""

import itertools
import pickle
import shutil

import numpy as np
import pytest
from distributed import Client, LocalCluster
from fsspec import filesystem

import fewpass
from fewpass.flows import cli
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.on_dask import OnDask
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.changing.viewing import make_view
from fewpass.pipeline.training import lam_sample
from fewpass.storage import chunk_objects, column_copy
from fewpass.storage.chunk_table import ChunkTable
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, NotADataset
from fewpass.storage.manifest import KEY
from fewpass.storage.table import cut
from testing.datasets import random_table, write
from testing.interruptions import assert_cuts_change_nothing, trained
from testing.jobs import job_of
from tests.conftest import ROUNDING
from tests.pipeline.tables.changing.kinds_of_rows import (
    KINDS,
    require_equal_statistics,
    rows_in,
    rows_of,
    write_table,
)

#: Where rows are cut into parts, and the rows of a chunk of each: all but one end with a short one.
CUTS, CHUNKS = (0, 130, 430, 431, 1000), (60, 70, 40, 100)
SHORT = "96.4MB"  # of memory: windows of a few chunks
LAM = 0.01


def places(at):
    return [str(at / f"{k:06d}" / "data") for k in range(1, len(CUTS))]


def view_of_parts(at, table, *, d=30, **how):
    """A view of parts of a table."""
    own = zip(places(at), itertools.pairwise(CUTS), CHUNKS, strict=True)
    for place, (first, stop), chunk_rows in own:
        write(place, cut(table, first, stop), d, chunk_rows, **how)
    return make_view(str(at / "views" / "all"), places(at))


def pair(at, **kind):
    """The same rows as one data set, and as a view of four."""
    table = random_table(1000, 30, **kind)
    how = {name: kind[name] for name in ("targets", "classes") if name in kind}
    return write(at / "whole", table, 30, 60, **how), view_of_parts(at / "store", table, **how)


# -- what it is ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_rows_and_statistics_are_those_of_one_ingest(tmp_path, kind):
    make, settings = KINDS[kind]
    sizes = (300, 90, 210)
    starts = itertools.accumulate(sizes, initial=0)
    files = [make(tmp_path / f"{first}.txt", n, first) for n, first in zip(sizes, starts)]
    parts = [str(tmp_path / f"part{k}") for k in range(len(files))]
    fewpass.ingest(files[0], parts[0], chunk_bytes=4096, **settings)
    how = {name: settings[name] for name in settings if name != "encode"} | {"like": parts[0]}
    for file, part, chunk_bytes in zip(files[1:], parts[1:], (2048, 8192), strict=True):
        fewpass.ingest(file, part, chunk_bytes=chunk_bytes, **how)
    fewpass.ingest(files, tmp_path / "whole", **how)
    whole, view = Dataset.open(str(tmp_path / "whole")), make_view(str(tmp_path / "view"), parts)
    assert not list(view.verify())
    assert rows_of(view) == rows_of(whole)
    require_equal_statistics(view, whole)
    np.testing.assert_array_equal(view.column_order.source, whole.column_order.source)
    assert view.schema == whole.schema
    assert set(view.folder.names()) <= {"manifest.json", "columns.bin", "schema.json"}


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_what_is_planned_by_is_that_of_all_chunks(tmp_path, layout):
    view = pair(tmp_path, layout=layout, weighted=True)[1]
    parts = [Dataset.open(place) for place in places(tmp_path / "store")]
    records = [part.manifest.chunks.record(k) for part in parts for k in range(part.n_chunks)]
    own = view.manifest.chunks
    assert [own.record(k) for k in range(view.n_chunks)] == records
    for n in (1, 3, view.n_chunks):
        most = [sorted((record[at] for record in records), reverse=True)[:n] for at in (0, 1)]
        assert own.largest_together(n) == tuple(map(sum, most))
    for key in own.objects:
        lengths = [record.objects[key].length for record in records]
        assert (own.bytes_of([key]), own.largest_of([key])) == (sum(lengths), max(lengths))


def test_made_again_it_has_the_same_bytes_and_in_another_order_it_is_another(tmp_path):
    view = pair(tmp_path)[1]
    parts, folder = places(tmp_path / "store"), view.folder
    bytes_ = {key: folder.read(key) for key in folder.list()}
    changed = folder.local_path(KEY).stat().st_mtime_ns
    assert make_view(folder.url, parts).manifest == view.manifest
    assert folder.local_path(KEY).stat().st_mtime_ns == changed, "nothing is written"
    other = make_view(folder.url, parts[::-1])
    assert other.manifest.fingerprint != view.manifest.fingerprint
    assert rows_of(other) == rows_of(view)
    make_view(folder.url, parts)
    assert {key: folder.read(key) for key in folder.list()} == bytes_


def test_a_store_may_be_moved_whole(tmp_path):
    view = pair(tmp_path / "here")[1]
    rows = rows_of(view)
    (tmp_path / "far" / "away").mkdir(parents=True)
    shutil.move(tmp_path / "here" / "store", tmp_path / "far" / "away" / "store")
    moved = Dataset.open(str(tmp_path / "far" / "away" / "store" / "views" / "all"))
    assert moved.manifest == view.manifest
    assert rows_of(moved) == rows


# -- what it is used for ---------------------------------------------------------------------------

CERTIFIED = ("psdca", "newton", "lbfgs", "s2gd")
ROWS = {
    "dense": ({}, "logistic"),
    "sparse": ({"layout": "sparse"}, "squared_hinge"),
    "weights": ({"weighted": True}, "logistic"),
    "numbers": ({"targets": "values", "layout": "sparse"}, "squared"),
    "classes": ({"classes": 3}, "softmax"),
}


@pytest.mark.parametrize(
    ("kind", "memory"), [*((kind, SHORT) for kind in ROWS), ("sparse", "1GB"), ("weights", "1GB")]
)
def test_models_are_those_of_the_rows_as_one_set(tmp_path, kind, memory):
    made, loss = ROWS[kind]
    sets = [one.folder.url for one in pair(tmp_path, **made)]
    how = {"loss": loss, "lam": LAM, "tol": 1e-7, "passes": 400, "memory": memory, "verbose": 0}
    methods = ("psdca", "lbfgs") if loss == "softmax" else CERTIFIED
    for solver in methods:
        # the intercept is charged from the weighted labels of the first chunk
        one, two = (
            fewpass.train(at, tmp_path / f"{solver}{k}", solver=solver, intercept="none", **how)
            for k, at in enumerate(sets)
        )
        assert one.converged and two.converged
        assert two.objective - two.certificate <= one.objective
        assert one.objective - one.certificate <= two.objective
    run = tmp_path / f"{methods[0]}0"
    one, two = (fewpass.evaluate(run, at) for at in sets)
    figures = ([value for value in each[:8] if value is not None] for each in (one, two))
    np.testing.assert_allclose(*figures, rtol=ROUNDING)


def test_one_pass_takes_the_parts_in_no_order(tmp_path):
    """Where the newest part says the opposite, the rows of all count alike, and each comes once."""
    table = random_table(1000, 30, seed=3)
    target = np.where(np.arange(1000) < 700, table.target, 1.0 - table.target)
    table = table._replace(target=target)
    mixed = np.random.default_rng(0).permutation(1000)
    whole = write(tmp_path / "whole", type(table)(table.X[mixed], target[mixed], None), 30, 60)
    view = view_of_parts(tmp_path / "store", table)
    how = {
        "solver": "asgd",
        "loss": "logistic",
        "lam": 0.1,
        "passes": 1,
        "memory": SHORT,
        "verbose": 0,
    }
    best = fewpass.train(
        whole.folder.url, tmp_path / "best", loss="logistic", lam=0.1, tol=1e-9, verbose=0
    ).objective
    runs = [
        fewpass.train(one.folder.url, tmp_path / f"run{k}", certify=True, seed=seed, **how)
        for k, (one, seed) in enumerate(itertools.product((whole, view), range(4)))
    ]
    excess = np.array([run.objective - best for run in runs]).reshape(2, 4).mean(axis=1)
    assert excess[1] < 2.0 * excess[0]
    assert {run.rows_seen for run in runs} == {1000}


def test_lam_is_chosen_on_rows_of_all_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(lam_sample, "LEAST", 100)
    view, read = pair(tmp_path, layout="sparse")[1], []
    rows = [{*rows_of(Dataset.open(part))} for part in places(tmp_path / "store")]
    original = Dataset.read_stored
    monkeypatch.setattr(Dataset, "read_stored", lambda self, k: read.append(k) or original(self, k))
    drawn = {*rows_in(lam_sample.sample_of(plan(view), view))}
    assert len(read) == 4, "a chunk of each part has rows enough"
    sizes = [len(drawn & own) for own in rows]
    assert np.abs(np.array(sizes) - [13, 30, 1, 57]).sum() == 1, "100 of 101 rows"


def plan(view, **how):
    given = {"loss": "logistic", "lam": LAM, "memory": SHORT, "snapshot_every": 1000.0}
    return TrainingPlan(dataset=view.folder.url, **(given | how))


#: Numbers per row, sums, both, and one pass.
RUNS = {
    "psdca": {"solver": "psdca", "tol": 1e-5, "passes": 50},
    "lbfgs": {"solver": "lbfgs", "tol": 1e-5, "passes": 50},
    "s2gd": {"solver": "s2gd", "tol": 1e-4, "passes": 50},
    "asgd": {"solver": "asgd", "passes": 2},
}


@pytest.fixture(scope="module")
def processes():
    """Two workers, each a process."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, memory_limit=0, host="127.0.0.1"
    ) as cluster:
        yield cluster


@pytest.mark.parametrize("method", RUNS)
def test_threads_processes_and_cuts_change_no_bit(tmp_path, method, processes):
    view = pair(tmp_path, layout="sparse", weighted=True)[1]
    own = plan(view, streams=2, **RUNS[method])
    job = job_of(own, view)
    assert 1 < job.windows.chunks_per_window < view.n_chunks / 2, "it is read window by window"
    quiet = trained(own, tmp_path / "threads").result
    with Client(processes, set_as_default=False) as client:
        far = trained(own, tmp_path / "processes", OnDask(client, None)).result
    assert far.weights_sha256 == quiet.weights_sha256
    assert_cuts_change_nothing(own, tmp_path, quiet, cuts=3)


@pytest.mark.parametrize("method", RUNS)
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_a_view_of_one_part_has_its_bits(tmp_path, method, layout):
    part = write(tmp_path / "part", random_table(1000, 30, layout=layout), 30, 60)
    view = make_view(str(tmp_path / "view"), [part.folder.url])
    one, two = (
        trained(plan(each, **RUNS[method]), tmp_path / f"run{k}").result
        for k, each in enumerate((part, view))
    )
    assert one.weights_sha256 == two.weights_sha256
    assert one.certificate == two.certificate


def test_rows_of_verified_parts_are_copied(tmp_path, monkeypatch):
    monkeypatch.setattr(chunk_objects, "blocks_fetched", lambda: 0)
    view = Dataset.open(view_of_parts(tmp_path / "store", random_table(1000, 30)).folder)
    chunks = list(range(view.n_chunks))
    for k in chunks:
        assert not view.are_copied(chunks)
        view.prefetch(k)
        view.read_chunk(k)
    assert view.are_copied(chunks)


def test_columns_mapped_into_memory_are_those_of_the_rows(tmp_path):
    whole, view = pair(tmp_path, layout="sparse")
    for one in (whole, view):
        cli.main(["column-copy", one.folder.url])
    assert column_copy.has_columns(view)
    a, b = column_copy.map_columns(whole), column_copy.map_columns(view)
    for name, array in a.items():
        np.testing.assert_array_equal(array, b[name])
    runs = [
        fewpass.train(one.folder.url, tmp_path / f"run{k}", solver="simba", loss="hinge", verbose=0)
        for k, one in enumerate((whole, view))
    ]
    assert runs[0].weights_sha256 == runs[1].weights_sha256


def test_commands_take_a_view(tmp_path, capsys):
    files = [write_table(tmp_path / f"{k}.csv", 200, 200 * k) for k in range(3)]
    parts = [str(tmp_path / f"part{k}") for k in range(3)]
    fewpass.ingest(files[0], parts[0], label="label", keep="id", encode="linear")
    for file, part in zip(files[1:], parts[1:], strict=True):
        fewpass.ingest(file, part, like=parts[0])
    view, run = str(tmp_path / "view"), str(tmp_path / "run")
    make_view(view, parts)
    fewpass.train(view, run, verbose=0, tol=1e-3)
    for command in (
        ["check", view], ["inspect", view], ["inspect", view, "--rows", "3"], ["evaluate", run, view],
        ["cross-validate", view, "--lam", "1/n,10/n", "--folds", "4"], ["report", run],
        ["predict", run, view, str(tmp_path / "out.csv")], ["evaluate", run, run, view],
    ):  # fmt: skip
        assert not cli.main(command), command
    assert "part1" in capsys.readouterr().out
    assert fewpass.Dataset(view).to_arrow().num_rows == 600
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 601
    like = fewpass.ingest(files[0], tmp_path / "like", like=view)
    assert like.fingerprint == Dataset.open(parts[0]).manifest.fingerprint


# -- what is refused -------------------------------------------------------------------------------

AGAIN = "make the view anew"


def appended(part, tmp_path):
    return fewpass.append(part, write_table(tmp_path / "more.csv", 50, 900))


def forgotten(part, _):
    return fewpass.forget(part, "id == 'c0003'")


def replaced(part, tmp_path):
    rows = write_table(tmp_path / "other.csv", 80, 5000)
    fewpass.ingest(rows, part, label="label", overwrite=True)


#: What becomes of a part, and what is said of it where the view is opened, and where it is read.
CHANGES = {
    "appended": (appended, "generation 1 of it, and rows were appended since", None),
    "forgotten": (
        forgotten,
        "generation 1 of it, and rows were forgotten since",
        "forgotten since",
    ),
    "replaced": (replaced, "now holds data set", "now holds data set|made anew since"),
    "removed": (lambda part, _: shutil.rmtree(part), "There is nothing at", "missing|nothing at"),
}


@pytest.fixture
def nights(tmp_path):
    """Addresses of two data sets of a table, and a view of them."""
    files = [write_table(tmp_path / f"{k}.csv", 200, 200 * k) for k in range(2)]
    parts = [str(tmp_path / f"night{k}") for k in range(2)]
    fewpass.ingest(files[0], parts[0], label="label", keep="id", encode="linear")
    fewpass.ingest(files[1], parts[1], like=parts[0])
    return parts, make_view(str(tmp_path / "view"), parts)


@pytest.mark.parametrize("change", CHANGES)
def test_a_part_that_changed_is_named_with_what_became_of_it(tmp_path, nights, change):
    parts, view = nights
    under_way, waiting = pickle.dumps(view), pickle.loads(pickle.dumps(view))
    rows = rows_of(view)
    make, said, at_reading = CHANGES[change]
    make(parts[1], tmp_path)
    with pytest.raises(NotADataset, match=f"part 2 of 2 .*{said}.*{AGAIN}") as refused:
        Dataset.open(view.folder.url)
    assert parts[1] in str(refused.value)
    for one in (view, waiting, pickle.loads(under_way)):
        if at_reading is None:  # what was appended to is there as it was, for trainings under way
            assert rows_of(one) == rows
            continue
        with pytest.raises((Damaged, NotADataset), match=f"part 2 of 2 .*({at_reading}).*{AGAIN}"):
            rows_of(one)
    if change in ("appended", "forgotten"):
        anew = make_view(view.folder.url, parts)
        assert anew.n_rows == sum(Dataset.open(part).n_rows for part in parts)
        assert not list(anew.verify())


def test_rows_that_a_part_forgets_are_known_to_models_of_the_view(tmp_path, nights):
    parts, view = nights
    runs = [str(tmp_path / name) for name in ("run", "run-next")]
    fewpass.train(view.folder.url, runs[0], lam=0.1, verbose=0)
    fewpass.train(parts[0], runs[1], lam=0.1, start_from=runs[0], verbose=0)
    fewpass.train(parts[0], tmp_path / "free", lam=0.1, verbose=0)
    assert list(fewpass.forget(parts[1], "id == 'c0003'").models) == runs


def test_damage_of_a_part_is_found(nights):
    parts, view = nights
    path = next(Dataset.open(parts[1]).folder.local_path("target").glob("c.*"))
    path.write_bytes(path.read_bytes()[:-5] + b"12345")
    (fault,) = view.verify()
    assert parts[1] in fault
    with pytest.raises(Damaged, match=f"part 2 of 2 .*damaged.*{AGAIN}"):
        rows_of(view)


OTHERS = {
    "layout sparse and not dense": {"layout": "sparse"},
    "n_features 31 and not 30": {"d": 31},
    "has_weight True and not False": {"weighted": True},
    r"targets of numbers and not of labels \(-1.0, 1.0\)": {"targets": "values"},
    r"targets of labels \(0.0, 1.0, 2.0\) and not of labels \(-1.0, 1.0\)": {"classes": 3},
}


@pytest.mark.parametrize("said", OTHERS)
def test_parts_in_another_form_are_refused(tmp_path, said):
    how = {"d": 30} | OTHERS[said]
    own = {name: how[name] for name in ("targets", "classes") if name in how}
    one = write(tmp_path / "one", random_table(60, 30), 30, 20)
    two = write(tmp_path / "two", random_table(60, **how), how["d"], 20, **own)
    with pytest.raises(BadInput, match=f"two has {said} as .*one.*like={one.folder.url}"):
        make_view(str(tmp_path / "view"), [one.folder.url, two.folder.url])
    assert not (tmp_path / "view").exists()


def test_parts_and_places_that_do_not_fit_are_refused(tmp_path, nights):
    parts, view = nights
    rows = write_table(tmp_path / "own.csv", 60, 3000)
    other = fewpass.ingest(rows, tmp_path / "other", label="label", encode="linear").dataset
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "notes.txt").write_text("mine")
    for url, given, said in (
        ("v", [parts[0], other], "other has not the same columns or recipe"),
        ("v", [], "view of no data set"),
        ("v", [parts[0], parts[1], parts[0]], "there twice"),
        ("v", [view.folder.url], "is a view"),
        ("other", parts, "no view"),
        ("files", parts, "no view"),
        ("night0/view", parts, "lies in the data set"),
        ("", parts, "would be lost"),
    ):
        with pytest.raises(BadInput, match=said):
            make_view(str(tmp_path / url), given)
    assert not (tmp_path / "v").exists()
    assert Dataset.open(other).n_rows == 60


def test_scaling_and_order_of_columns_are_compared(tmp_path):
    make, settings = KINDS["sparse"]
    files = [make(tmp_path / f"{k}.txt", 300, 300 * k) for k in range(2)]
    one = fewpass.ingest(files[0], tmp_path / "one", scale="maxabs", **settings).dataset
    for name, how, said in (
        ("scaled", {"scale": "maxabs"}, "scaling maxabs [0-9a-f]{8} and not maxabs"),
        ("plain", {"scale": "none"}, "scaling none and not maxabs"),
        (
            "ordered",
            {"like": one, "column_order": "source"},
            r"not the same columns \(source",
        ),
    ):
        given = how if "like" in how else settings | how
        other = fewpass.ingest(files[1], tmp_path / name, **given).dataset
        with pytest.raises(BadInput, match=said):
            make_view(str(tmp_path / "view"), [one, other])


def test_a_view_is_not_changed_itself(tmp_path, nights):
    parts, view = nights
    at = view.folder.url
    more = write_table(tmp_path / "more.csv", 50, 900)
    for change in (lambda: fewpass.append(at, more), lambda: fewpass.forget(at, "id == 'c0003'")):
        with pytest.raises(BadInput, match=r"is a view, .*Change the data set .*view anew"):
            change()
    with pytest.raises(BadInput, match=r"another plan or of other sources.*overwrite=true"):
        fewpass.ingest(more, at, label="label")
    assert rows_of(Dataset.open(at)) == rows_of(view)
    fewpass.ingest(more, at, label="label", overwrite=True)
    assert (Dataset.open(at).n_rows, Dataset.open(parts[0]).n_rows) == (50, 200)


@pytest.mark.parametrize(
    ("lie", "said"), [("fingerprint", "now holds"), ("chunks", "other chunks")]
)
def test_a_view_that_lies_about_its_parts_is_refused(nights, lie, said):
    _, view = nights
    (one, two), chunks = view.manifest.parts, view.manifest.chunks
    first = chunks.between(0, one.n_chunks)
    lies = {
        "fingerprint": {"parts": (one, two.model_copy(update={"fingerprint": "0" * 64}))},
        "chunks": {"chunks": ChunkTable.joined([first, first])},
    }
    view.folder.write(KEY, view.manifest.model_copy(update=lies[lie]).sealed())
    with pytest.raises((NotADataset, Damaged), match=f"part 2 of 2 .*{said}"):
        Dataset.open(view.folder.url)


def test_parts_in_an_object_store_are_found_from_the_view(tmp_path, nights):
    parts, view = nights
    store = filesystem("memory")
    for name in ("night0", "night1"):
        store.put(str(tmp_path / name), f"/store/{name}", recursive=True)
    far = make_view("memory://store/views/all", [f"memory://store/night{k}" for k in range(2)])
    here = make_view(str(tmp_path / "here"), [parts[0], "memory://store/night1"])
    both = make_view("memory://store/views/both", [parts[0], "memory://store/night1"])
    assert [part.way for part in far.manifest.parts] == ["../../night0", "../../night1"]
    assert [part.way for part in here.manifest.parts] == ["../night0", "memory://store/night1"]
    assert [part.way for part in both.manifest.parts] == [parts[0], "../../night1"]
    for one in (far, here, both):
        assert rows_of(pickle.loads(pickle.dumps(one))) == rows_of(view)
