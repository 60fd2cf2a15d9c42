"""What a training straight from a source is told to take is what it takes."""

import sys

import pytest

from fewpass.pipeline.budget import PROGRAM_BYTES
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.source_forecast import forecast_of_source
from fewpass.pipeline.tables.stream import first_rows, source_pieces
from fewpass.pipeline.tables.stream.source_pieces import STEADY_BYTES
from fewpass.pipeline.tables.stream.sources import read_first_rows
from tests.pipeline.tables.stream.test_source_read_once import ONEPASS, lines, plan_of


@pytest.fixture(autouse=True)
def few_first_rows(monkeypatch):
    monkeypatch.setattr(source_pieces, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(first_rows, "FIRST_BYTES", 9_000)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(lines())
    return path


def test_the_first_rows_tell_of_all(source):
    told = forecast_of_source(plan_of(source), read_first_rows).forecast
    assert (told.solver, told.loss, told.lam, told.models) == ("asgd", "logistic", 1e-3, 1)
    assert not told.whole and told.columns_may_grow
    assert told.first_rows < 1_000
    assert told.n_rows == pytest.approx(2_000, rel=0.1)
    assert told.n_features < 60
    assert told.bytes_to_read == source.stat().st_size
    assert told.seconds > 0.0
    assert told.state_bytes + told.buffer_bytes + told.overhead_bytes <= 160e6


def test_a_source_that_the_first_rows_are_all_of_is_counted(source):
    source.write_text(lines(30))
    told = forecast_of_source(plan_of(source), read_first_rows).forecast
    assert told.whole and not told.columns_may_grow
    assert told.n_rows == told.first_rows == told.tried_rows == 30


def test_the_method_is_chosen_as_the_training_chooses_it(source):
    plan, choice, told, _ = forecast_of_source(
        plan_of(source, solver={"kind": "auto"}), read_first_rows
    )
    assert told.solver == plan.solver.kind == choice.methods[0].kind == "onepass"


def test_a_penalty_that_takes_more_than_one_reading_is_refused_with_the_way_that_works(source):
    asked = plan_of(source, solver={"kind": "auto"}, penalty="l1")
    with pytest.raises(BadInput, match=r"newton and psdca read rows again. Store them first"):
        forecast_of_source(asked, read_first_rows)


def test_memory_is_the_states_and_three_buffers(source):
    narrow = forecast_of_source(
        plan_of(source, {"options": {"n_features": 60}}), read_first_rows
    ).forecast
    wide = forecast_of_source(
        plan_of(source, {"options": {"n_features": 100_060}}), read_first_rows
    ).forecast
    assert wide.state_bytes - narrow.state_bytes == 80 * 100_000
    room = 160_000_000 - wide.state_bytes - PROGRAM_BYTES
    assert wide.buffer_bytes == pytest.approx(min(room, 3 * STEADY_BYTES), abs=3)


def test_what_does_not_fit_is_refused_as_by_the_training(source, fewpass):
    asked = (source, "--memory", "140MB", "--features", "1000000")
    planned = fewpass("plan", *asked, "--solver", "onepass")
    trained = fewpass("train", source, source.parent / "run", *asked[1:], "--solver", "onepass")
    assert planned == trained
    assert planned[0] == 2 and "is too small for onepass on 1,000,000 columns" in planned[2]


def test_the_command_tells_it_and_writes_nothing(source, as_json, fewpass):
    told = as_json("plan", source, "--solver", "asgd", "--lam", "1e-3")
    assert told["solver"] == "asgd" and told["first_rows"] < told["n_rows"]
    status, out, err = fewpass("plan", source, "--memory", "300MB")
    assert status == 0 and "about" in out and "later rows may have more" in out
    assert "needs the rows again" in err
    assert [path.name for path in source.parent.iterdir()] == ["rows.svm"]


def test_no_time_is_told_of_what_does_not_say_how_long_it_is(source, monkeypatch, as_json):
    with source.open() as rows:
        monkeypatch.setattr(sys, "stdin", rows)
        told = as_json("plan", "-", "--lam", "1e-3", "--solver", "asgd")
    assert told["seconds"] is None and told["bytes_to_read"] is None


def test_a_plan_keeps_no_data_set(source, fewpass):
    status, _, err = fewpass("plan", source, "--keep", source.parent / "kept")
    assert status == 2 and "A plan writes nothing" in err
    assert not (source.parent / "kept").exists()


@pytest.mark.parametrize("solver", [ONEPASS, {"kind": "sgd"}])
def test_every_method_of_one_pass_is_foreseen(source, solver):
    assert (
        forecast_of_source(plan_of(source, solver=solver), read_first_rows).forecast.seconds > 0.0
    )
