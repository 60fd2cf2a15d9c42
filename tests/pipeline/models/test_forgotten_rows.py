"""Models that have learnt from forgotten rows are found by what runs record, and trained anew."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import fewpass
from fewpass.pipeline.errors import BadInput, NoRowMeant
from fewpass.pipeline.models import forgotten_rows
from fewpass.pipeline.models.refresh.listing import models
from fewpass.pipeline.models.refresh.old_generations import clean_store
from fewpass.pipeline.models.refresh.publishing import publish
from fewpass.pipeline.models.refresh.publishing import take_night as take
from fewpass.pipeline.models.refresh.store_state import published, run_of, store_at
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.tables.changing.viewing import make_view
from testing.interruptions import Killed
from testing.refreshing import refresh

HOW = {"lam": 0.01, "passes": 2}


def write_rows(path, seed, first=0):
    """300 rows of two numbers and a label, with ids from `first` on; every tenth is 7's."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((300, 2)).round(3)
    y = X.sum(1) + rng.logistic(size=300) > 0
    lines = [
        f"{7 if k % 10 == 0 else first + k + 1000},{label:d},{a},{b}\n"
        for k, (label, (a, b)) in enumerate(zip(y, X, strict=True))
    ]
    path.write_text("id,y,a,b\n" + "".join(lines))
    return path


def made(place, name, seed):
    source = write_rows(place / f"{name}.csv", seed)
    fewpass.ingest(source, place / name, label="y", keep="id", drop="id", encode="none")
    return place / name


def coefficients(run):
    return load_model(RunFolder(str(run))).weights.coef


@pytest.fixture
def chain(tmp_path):
    """Runs that begin at one another, on three data sets; `alone` has nothing of the first."""
    one, two, three = (made(tmp_path, name, k) for k, name in enumerate(("one", "two", "three")))
    fewpass.train(one, tmp_path / "a", **HOW)
    fewpass.train(two, tmp_path / "b", start_from=str(tmp_path / "a"), **HOW)
    fewpass.train(three, tmp_path / "c", start_from=str(tmp_path / "b"), **HOW)
    fewpass.train(two, tmp_path / "alone", **HOW)
    return tmp_path


def test_models_that_began_at_one_that_has_learnt_are_named_and_trained_anew(chain):
    result = fewpass.forget(chain / "one", "id == 7", retrain=True)
    assert result.models == tuple(str(chain / run) for run in "abc")
    assert set(result.retrained) == {str(chain / run) for run in ("a-g2", "b-g1", "c-g1")}
    start = None
    for dataset, run, anew in (("one", "A", "a-g2"), ("two", "B", "b-g1"), ("three", "C", "c-g1")):
        fewpass.train(chain / dataset, chain / "by-hand" / run, start_from=start, **HOW)
        np.testing.assert_array_equal(
            coefficients(chain / anew), coefficients(chain / "by-hand" / run)
        )
        start = str(chain / "by-hand" / run)
    again = fewpass.forget(chain / "one", "id == 7", retrain=True, allow_none=True)
    assert (again.models, set(again.retrained)) == (result.models, set(result.retrained))

    # what lies in between is gone, and the runs' records still say what they come of
    shutil.rmtree(chain / "by-hand")
    shutil.rmtree(chain / "b")
    third = fewpass.forget(chain / "one", "id == 1001", retrain=True)
    assert {str(chain / run) for run in ("a", "a-g2", "b-g1", "c", "c-g1")} == set(third.models)
    assert {str(chain / run) for run in ("a-g3", "b-g2", "c-g2")} == set(third.retrained)


def test_a_model_whose_beginning_is_gone_is_not_trained_from_another(chain):
    shutil.rmtree(chain / "b")
    result = fewpass.forget(chain / "one", "id == 7", retrain=True)
    assert set(result.models) == {str(chain / "a"), str(chain / "c")}
    assert result.retrained == (str(chain / "a-g2"),)
    assert str(chain / "b") in result.notes[0]


def test_a_copy_of_a_run_is_not_trained_anew_on_rows_that_are_forgotten_in_its_own_folder(tmp_path):
    (tmp_path / "here").mkdir()
    fewpass.train(made(tmp_path / "here", "one", 0), tmp_path / "here/a", **HOW)
    shutil.copytree(tmp_path / "here", tmp_path / "copy")
    result = fewpass.forget(tmp_path / "copy/one", "id == 7", retrain=True)
    assert (result.models, result.retrained) == ((str(tmp_path / "copy/a"),), ())
    assert f"{tmp_path}/here/one, which it learnt from, has the rows still" in result.notes[0]


def test_rows_are_learnt_after_an_append_and_not_before_a_deletion(tmp_path):
    one = made(tmp_path, "one", 0)
    fewpass.train(one, tmp_path / "first", **HOW)
    fewpass.append(one, write_rows(tmp_path / "more.csv", 5, 300))
    assert fewpass.forget(one, "id == 9", allow_none=True).models == ()  # nothing was forgotten
    fewpass.train(one, tmp_path / "second", start_from=str(tmp_path / "first"), **HOW)
    result = fewpass.forget(one, "id == 7", retrain=True, warm=True)
    assert result.models == (str(tmp_path / "first"), str(tmp_path / "second"))
    assert {RunFolder(run).record().plan.start_from for run in result.retrained} == {
        str(tmp_path / "first"), str(tmp_path / "first-g3"),
    }  # fmt: skip


def test_models_that_were_chosen_by_forgotten_test_rows_are_named_apart(tmp_path):
    source = write_rows(tmp_path / "all.csv", 3)
    ingested = {"label": "y", "keep": "id", "drop": "id", "test_fraction": 0.3}
    fewpass.ingest(source, tmp_path / "d", **ingested)
    fewpass.ingest(source, tmp_path / "other", like=str(tmp_path / "d"))
    for run, data, held_out in (
        ("learnt", "d", None), ("both", "d", "d-test"), ("chosen", "other", "d-test"),
        ("by-training-rows", "other", "d"), ("quarantined", "other", None),
    ):  # fmt: skip
        held_out = held_out and str(tmp_path / held_out)
        fewpass.train(tmp_path / data, tmp_path / run, held_out=held_out, **HOW)
    in_test = {row["id"] for row in fewpass.Dataset(tmp_path / "d-test").to_arrow().to_pylist()}
    only_there = min(in_test - {"7"})
    few = fewpass.forget(tmp_path / "d", f"id == {only_there}")
    assert few.test_forgotten == 1
    assert (few.models, few.chosen) == ((), (str(tmp_path / "both"), str(tmp_path / "chosen")))
    fewpass.train(tmp_path / "other", tmp_path / "z", held_out=str(tmp_path / "d-test"), **HOW)
    for dry_run in (True, False):
        result = fewpass.forget(tmp_path / "d", "id == 7", dry_run=dry_run)
        assert result.models == (str(tmp_path / "both"), str(tmp_path / "learnt"))
        assert result.chosen == tuple(
            str(tmp_path / r) for r in ("by-training-rows", "chosen", "z")
        )
    assert fewpass.forget(tmp_path / "d", "id == 1", allow_none=True).chosen == result.chosen


def test_models_that_have_learnt_from_forgotten_test_rows_are_named_and_trained_anew(tmp_path):
    """As the last model is trained on all rows, once the test rows have said how good it is."""
    source = write_rows(tmp_path / "all.csv", 3)
    fewpass.ingest(source, tmp_path / "d", label="y", keep="id", drop="id", test_fraction=0.3)
    make_view(str(tmp_path / "every"), [str(tmp_path / "d"), str(tmp_path / "d-test")])
    for run, data, start in (
        ("measured", "d", None), ("of-tests", "d-test", None), ("of-all", "every", None),
        ("next", "d", "of-tests"),
    ):  # fmt: skip
        start = start and str(tmp_path / start)
        fewpass.train(tmp_path / data, tmp_path / run, start_from=start, **HOW)
    in_test = {row["id"] for row in fewpass.Dataset(tmp_path / "d-test").to_arrow().to_pylist()}
    only_there = f"id == {min(in_test - {'7'})}"
    models = tuple(str(tmp_path / run) for run in ("next", "of-all", "of-tests"))
    assert fewpass.forget(tmp_path / "d", only_there, dry_run=True).models == models
    result = fewpass.forget(tmp_path / "d", only_there, retrain=True)
    assert (result.forgotten, result.test_forgotten, result.models) == (0, 1, models)
    assert {*result.retrained} == {str(tmp_path / run) for run in ("next-g1", "of-tests-g2")}
    assert "of-all was not trained anew: its rows cannot be read" in result.notes[0]


# -- stores ----------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    (tmp_path / "inbox").mkdir()
    plan = RefreshPlan(
        sources=(f"{tmp_path}/inbox/*.csv",), store=f"{tmp_path}/store", settle=0, windows=("all",),
        ingest={"options": {"label": "y", "drop": ["id"]}, "keep": ["id"]},
        training={"lam": "1e-2", "tol": 1e-6},
    )  # fmt: skip
    for k in range(3):
        write_rows(tmp_path / f"inbox/{k}.csv", k, 300 * k)
        assert refresh(plan).state == "published"
    return plan


def ids_in(store):
    there = [fewpass.Dataset(one.data) for one in store_at(store).generations if one.has_rows]
    return [row["id"] for data in there for row in data.to_arrow().to_pylist()]


def views_in(store):
    """Return the generations that have a view."""
    return [int(one.parent.name) for one in Path(store).glob("generations/*/rows-*")]


def from_zero(store, run):
    """Return the coefficients of a model of all rows of a store, trained from zero."""
    parts = [one.data for one in store_at(store).generations if one.has_rows]
    make_view(f"{run}-rows", parts)
    fewpass.train(f"{run}-rows", run, lam=1e-2, tol=1e-6)
    return coefficients(run)


def test_a_store_forgets_in_all_generations_and_learns_anew_from_zero(store, tmp_path):
    at = store.store
    runs = tuple(f"{at}/generations/{k:06d}/run-all" for k in (1, 2, 3))
    n = ids_in(at).count("7")
    looked = fewpass.forget(f"{at}/generations/000002/data", "id == 7", dry_run=True)
    assert (looked.models, looked.published) == (runs[1:], runs[2:])
    assert sorted(views_in(at)) == [2, 3]
    result = fewpass.forget(at, "id == 7", retrain=True)
    assert views_in(at) == [4]  # that it is learnt from anew; others say what the rows were like
    assert result.forgotten == n
    assert ids_in(at).count("7") == 0
    assert result.rows == len(ids_in(at)) == 900 - n
    assert (result.models, result.published) == (runs, runs[2:])

    current = published(at)
    assert (current.generation, models(at).generations[-1].state) == (4, "published")
    assert result.retrained == (run_of(at, current),)
    np.testing.assert_array_equal(
        coefficients(result.retrained[0]), from_zero(at, tmp_path / "zero")
    )
    again = fewpass.forget(at, "id == 7", retrain=True, allow_none=True)
    assert (again.retrained, published(at)) == ((), current)

    write_rows(Path(store.sources[0]).parent / "9.csv", 9, 3000)
    assert refresh(store).rows == 900 - n + 300
    record = RunFolder(run_of(at, published(at))).record()
    assert record.plan.start_from == result.retrained[0]
    assert not set(record.learnt) & set(result.learnt_from)


def test_after_forgetting_a_refresh_begins_at_no_model_that_knows_the_rows(store, tmp_path):
    at = store.store
    result = fewpass.forget(at, "id == 7")
    assert result.published == (run_of(at, published(at)),)
    write_rows(Path(store.sources[0]).parent / "9.csv", 9, 3000)
    refresh(store)
    run = run_of(at, published(at))
    assert not set(RunFolder(run).record().learnt) & set(result.learnt_from)
    np.testing.assert_array_equal(coefficients(run), from_zero(at, tmp_path / "zero"))


def test_a_night_that_somebody_took_is_learnt_also_where_rows_are_forgotten_first(store):
    at = store.store
    publish(at, 2)
    take(at, 3)
    fewpass.forget(at, "id == 7", retrain=True)
    assert models(at).generations[-1].nights == (1, 2)
    made = refresh(store)
    assert (made.state, made.files, made.nights) == ("published", (), (1, 2, 3))
    assert refresh(store).state == "unchanged"


@pytest.mark.parametrize("then", ["id == 7", "id == 1001"])
def test_forgetting_that_was_cut_short_is_finished(store, monkeypatch, then):
    def crash(*_):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(forgotten_rows, "n_rows", crash)
        fewpass.forget(store.store, "id == 7", retrain=True)
    done = fewpass.forget(store.store, then, retrain=True)  # the rows of 7 are gone by now
    assert run_of(store.store, published(store.store)) == done.retrained[-1]
    assert len(models(store.store).generations) == 4
    assert refresh(store).state == "unchanged"
    with pytest.raises(NoRowMeant):
        fewpass.forget(store.store, "id == 7", retrain=True)


def test_a_model_that_knows_rows_of_a_generation_that_went_whole_is_found_later(store, tmp_path):
    at = store.store
    old = run_of(at, published(at))
    n_gone = fewpass.forget(at, "id >= 1600").forgotten
    (tmp_path / "elsewhere").mkdir()
    how = {"retrain": True, "allow_none": True, "runs": tmp_path / "elsewhere"}
    done = fewpass.forget(at, "id >= 1600", **how)
    assert (done.published, done.rows) == ((old,), 900 - n_gone)
    assert done.retrained == (run_of(at, published(at)),) != (old,)
    assert fewpass.forget(at, "id >= 1600", **how).retrained == ()
    with pytest.raises(BadInput, match=r"no folder .*typed/wrong, where models"):
        fewpass.forget(at, "id == 7", runs=tmp_path / "typed/wrong")
    assert "7" in ids_in(at)


def test_a_generation_all_of_whose_rows_are_forgotten_goes_whole(store, tmp_path):
    at, meant = store.store, "id == 7 or id >= 1600"
    rows = len(ids_in(at))
    looked = fewpass.forget(at, meant, dry_run=True)
    assert len(ids_in(at)) == rows
    done = fewpass.forget(at, meant, retrain=True)
    left = len(ids_in(at))
    assert looked.forgotten == done.forgotten == rows - left
    assert (done.rows, store_at(at).past.used) == (left, (1, 2))
    assert done.models == tuple(f"{at}/generations/{k:06d}/run-all" for k in (1, 2, 3))
    assert not (tmp_path / "store/generations/000003/data").exists()
    assert models(at).generations[2].state == "removed"
    np.testing.assert_array_equal(coefficients(done.retrained[0]), from_zero(at, tmp_path / "zero"))
    assert refresh(store).state == "unchanged"  # the file is still there, and was taken
    with pytest.raises(BadInput, match="No row of"):
        fewpass.forget(at, "id > 0")


def test_a_published_model_none_of_whose_nights_is_left_is_not_trained_anew(store):
    at = store.store
    fewpass.forget(at, "id < 1300")  # all rows of the first night
    publish(at, 1)
    done = fewpass.forget(at, "id == 1301", retrain=True)
    assert (done.forgotten, done.retrained, len(done.published)) == (1, (), 1)
    assert "000001/run-all was not trained anew: no night is left" in done.notes[0]
    assert (
        fewpass.forget(at, "id >= 1600").forgotten == 270
    )  # a night that is quarantined goes whole
    with pytest.raises(BadInput, match="No row of"):
        fewpass.forget(at, "id > 0")


def test_models_of_nights_that_were_cleaned_may_have_learnt_the_rows(store):
    at = store.store
    clean_store(at, 1)
    looked = fewpass.forget(at, "id == 7", dry_run=True)
    assert looked.models == looked.published == (f"{at}/generations/000003/run-all",)
    assert looked.notes[0].endswith("cannot be known: " + f"{at}/generations/000002/run-all.")
    publish(at, 2)  # the model stays, and its rows are gone
    with pytest.raises(NoRowMeant, match=r"cannot be known: .*000002/run-all, which is published"):
        fewpass.forget(at, "id == 1001")
    done = fewpass.forget(at, "id == 7")
    assert (done.models, done.published) == (looked.models, ())
    assert "000002/run-all, which is published" in done.notes[0]


def test_a_store_is_meant_by_a_link_to_it_as_well(store, tmp_path):
    (tmp_path / "link").symlink_to(store.store)
    done = fewpass.forget(tmp_path / "link", "id == 7 or id >= 1600", retrain=True)
    assert done.published == (str(tmp_path / "link/generations/000003/run-all"),)
    assert [one.state for one in models(store.store).generations][2:] == ["removed", "published"]


def test_a_store_without_rows_is_said_to_have_none(tmp_path):
    (tmp_path / "none.csv").write_text("id,y,a,b\n")
    plan = RefreshPlan(
        sources=(f"{tmp_path}/*.csv",), store=f"{tmp_path}/store", settle=0,
        ingest={"options": {"label": "y", "drop": ["id"]}, "keep": ["id"]},
    )  # fmt: skip
    with pytest.raises(BadInput, match="refused"):
        refresh(plan)
    with pytest.raises(BadInput, match="has no rows"):
        fewpass.forget(plan.store, "id == 7")
