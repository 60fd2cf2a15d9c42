"""Training on a source that is read once: plain code as an oracle, and resumed = uninterrupted."""

import gzip
import io
import re
import sys

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file

import fewpass
from fewpass.flows.orchestration.session import Session, stages
from fewpass.pipeline.budget import Budget, MemoryShare
from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.rows.source_order import GroupSums, LossDrift
from fewpass.pipeline.rows.windows import Window, WindowPlan, row_order
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.readers.source import PiecePlace
from fewpass.pipeline.tables.stream import first_rows, source_pieces
from fewpass.pipeline.tables.stream.source_pieces import HeldOutRows
from fewpass.pipeline.tables.stream.sources import is_source, read_first_rows
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.onepass.onepass import Onepass
from fewpass.solvers.protocol import ColumnMoments
from fewpass.solvers.sgd.averaged_sgd import Asgd
from fewpass.storage.folder import NotADataset
from fewpass.storage.table import DenseTable
from testing import web_server
from testing.blocks import block_of

D = 60
ASGD = {"kind": "asgd", "gamma0": 0.5, "average_from": 100}
ONEPASS = {"kind": "onepass", "newton_columns": 0}


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """Some kilobytes do for several buffers."""
    monkeypatch.setattr(source_pieces, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(source_pieces, "SECOND_BYTES", 4_000)
    monkeypatch.setattr(source_pieces, "STEADY_BYTES", 12_000)
    monkeypatch.setattr(first_rows, "FIRST_BYTES", 9_000)


def lines(n=2_000, *, seed=0, labels=(0, 1), by_label=False, grow=True):
    """LIBSVM text; where it grows, later rows have columns that the first did not."""
    rng, w = np.random.default_rng(seed), np.random.default_rng(99).normal(size=D)
    found = []
    for i in range(n):
        width = D // 3 + (2 * D // 3) * i // n if grow else D
        at = np.sort(rng.choice(width, 6, replace=False))
        x = rng.normal(size=6).round(3)
        score = x @ w[at] + rng.normal()
        label = labels[min(len(labels) - 1, int(len(labels) / (1 + np.exp(-score))))]
        found.append((label, " ".join(f"{j + 1}:{v}" for j, v in zip(at, x))))
    if by_label:
        found.sort(key=lambda row: row[0])
    return "".join(f"{label} {row}\n" for label, row in found)


def plan_of(path, reading=None, **changes):
    source = {"sources": (str(path),)} | (reading or {})
    common = {"dataset": str(path), "source": source, "lam": 1e-3, "memory": "160MB"}
    return TrainingPlan(**common | {"solver": ASGD} | changes)


def run(plan, place, *, stop_after=None, resume=False):
    """Train, or do so until some buffers were stepped; returns the training."""
    start = TrainingRun.resume if resume else TrainingRun.start
    with_plan = () if resume else (plan,)
    training = start(*with_plan, str(place), InProcess(), open_source=read_first_rows)
    spans = 0
    for event in training:
        spans += event.kind == "span"
        if spans == stop_after:
            training.stop()
    return training


def spans_of(place):
    return [e for e in RunFolder(str(place)).events() if e["event"] == "span"]


# -- what it comes to ----------------------------------------------------------------------------


def buffers_as_read(text, sizes, seed=0):
    """The rows of the source cut where the log says, each part in its own random order."""
    X, y = load_svmlight_file(io.BytesIO(text.encode()), n_features=D, dtype=np.float32)
    start = 0
    for number, size in enumerate(sizes):
        part = slice(start, start + size)
        block = block_of(X[part], np.where(y[part] == 1, 1.0, -1.0))
        window = Window((number,), "permuted", 0, 0)
        order = row_order(WindowPlan(1, 1, 1, seed), window, np.arange(size))
        yield X[part], block._replace(order=order)
        start += size
    assert start == X.shape[0]


@pytest.mark.parametrize("settings", [ASGD, ONEPASS])
def test_the_model_is_that_of_plain_code_over_the_same_rows(settings, tmp_path):
    text = lines()
    (tmp_path / "rows.svm").write_text(text)
    given = {"options": {"n_features": D}}
    done = run(plan_of(tmp_path / "rows.svm", given, solver=settings, seed=3), tmp_path / "run")
    sizes = [span["rows"] for span in spans_of(tmp_path / "run")]
    assert len(sizes) > 5

    solver = {"asgd": Asgd, "onepass": Onepass}[settings["kind"]](**settings)
    walk, problem = solver.program(0)[0], done.problem
    sums, rows = np.zeros((D, 2)), 0
    stats = done.stats._replace(
        columns=lambda: ColumnMoments(sums[:, 0] / rows, sums[:, 1] / np.maximum(sums[:, 0], 1.0))
    )
    state = solver.init(problem, stats)
    for X, block in buffers_as_read(text, sizes, seed=3):
        rows += X.shape[0]
        np.add.at(sums[:, 0], X.indices, X.data != 0.0)
        np.add.at(sums[:, 1], X.indices, X.data.astype(float) ** 2)
        state = walk.resize(problem, state, D, stats.columns())
        state = walk.step(problem, stats, walk.enter(state), block)
    state = walk.join(problem, stats, [state])
    model = load_model(RunFolder(str(tmp_path / "run")))
    expected = solver.weights(state)
    assert np.array_equal(model.weights.coef, expected.coef)
    assert model.weights.intercept == expected.intercept


@pytest.mark.parametrize("settings", [ASGD, ONEPASS])
def test_columns_that_come_late_are_as_if_they_had_been_known(settings, tmp_path):
    (tmp_path / "rows.svm").write_text(lines())
    for name, given in (("known", {"options": {"n_features": D}}), ("unknown", {})):
        run(plan_of(tmp_path / "rows.svm", given, solver=settings), tmp_path / name)
    known, unknown = (load_model(RunFolder(str(tmp_path / n))) for n in ("known", "unknown"))
    width = unknown.weights.coef.shape[0]
    assert D // 3 < width <= D == len(known.weights.coef)
    assert unknown.record.n_features == width
    if settings is ASGD:  # whose steps know nothing of columns
        assert np.array_equal(unknown.weights.coef, known.weights.coef[:width])
    np.testing.assert_allclose(unknown.weights.coef, known.weights.coef[:width], rtol=1e-9)


# -- going on ------------------------------------------------------------------------------------

CASES = {
    "asgd": ({}, {}),
    "onepass": ({}, {"solver": ONEPASS}),
    "as it is chosen": ({}, {"solver": {"kind": "auto"}}),
    "rows put aside": ({"test_fraction": 0.3}, {"lam": "1e-3,1e-2", "calibrate": "platt"}),
    "classes": ({}, {"solver": ONEPASS}),
}


@pytest.mark.parametrize("case", CASES)
def test_resumed_is_uninterrupted_bit_for_bit(case, tmp_path):
    given, changes = CASES[case]
    labels = (0, 1, 2) if case == "classes" else (0, 1)
    (tmp_path / "rows.svm").write_text(lines(labels=labels))
    plan = plan_of(tmp_path / "rows.svm", given, **changes)
    whole = run(plan, tmp_path / "whole").result
    first = run(plan, tmp_path / "cut", stop_after=2)
    assert not first.finished
    second = run(plan, tmp_path / "cut", stop_after=3, resume=True)
    assert not second.finished and second.cursor.rows_seen < whole.rows_seen
    resumed = run(plan, tmp_path / "cut", resume=True).result
    assert resumed.weights_sha256 == whole.weights_sha256
    assert (resumed.rows_seen, resumed.bytes_read) == (whole.rows_seen, whole.bytes_read)
    assert resumed.candidates == whole.candidates and resumed.calibration == whole.calibration
    again = run(plan, tmp_path / "cut").result  # finished: nothing is done
    assert again.weights_sha256 == whole.weights_sha256


def test_the_flow_trains_straight_and_tries_again(tmp_path):
    (tmp_path / "rows.svm").write_text(lines())
    plan = TrainingPlan.model_validate_json(plan_of(tmp_path / "rows.svm").model_dump_json())
    whole = run(plan, tmp_path / "whole").result
    (stage,) = stages(plan, 0)
    with Session(plan, str(tmp_path / "run"), Execution()) as session:
        for seen, _event in enumerate(session.advance(stage)):
            if seen == 3:
                session.stop()
    with Session(plan, str(tmp_path / "run"), Execution()) as session:
        assert list(session.advance(stage))
        assert session.result.weights_sha256 == whole.weights_sha256


def test_another_source_is_not_gone_on_with(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text(lines())
    run(plan_of(path), tmp_path / "run", stop_after=2)
    path.write_text(lines(seed=1))
    with pytest.raises(PlanMismatch):
        run(None, tmp_path / "run", resume=True)


def test_what_differs_of_how_a_source_is_read_is_named_alone(tmp_path):
    """It was both plans of reading, with all their forty settings."""
    path, other = tmp_path / "rows.svm", tmp_path / "other.svm"
    for one in (path, other):
        one.write_text(lines())
    run(plan_of(path), tmp_path / "run", stop_after=2)
    with pytest.raises(PlanMismatch) as refusal:
        run(plan_of(other, {"task": "regression"}), tmp_path / "run")
    said = str(refusal.value).partition("another plan: ")[2].partition(" (")[0]
    assert said.split("; ") == [
        f"dataset was {path}, now {other}", f"sources was {path}, now {other}",
        "task was auto, now regression",
    ]  # fmt: skip


def test_another_version_on_a_server_is_not_gone_on_with(tmp_path):
    """Of the same size, and told by its tag alone."""
    text = lines().encode()

    def answer(asked):
        return web_server.good(asked, tag=f'"{hash(asked.content)}"')

    with web_server.web_server(text, answer) as server:
        url = server.url("rows.svm")
        run(plan_of(url), tmp_path / "run", stop_after=2)
        server.content = text.replace(b"\n1 ", b"\n0 ", 1)
        with pytest.raises(PlanMismatch):
            run(None, tmp_path / "run", resume=True)
        server.content = text
        resumed = run(None, tmp_path / "run", resume=True).result
        assert resumed.weights_sha256 == run(plan_of(url), tmp_path / "whole").result.weights_sha256


def test_rows_put_aside_are_those_of_an_ingest_and_evaluate_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("fewpass.pipeline.tables.ingest.mapping.PIECE_BYTES", 2_000)
    (tmp_path / "rows.svm").write_text(lines(grow=False))
    given = {"test_fraction": 0.25, "options": {"n_features": D}}
    found = run(plan_of(tmp_path / "rows.svm", given, seed=5), tmp_path / "run").result
    fewpass.ingest(
        tmp_path / "rows.svm", tmp_path / "data", n_features=D, test_fraction=0.25, seed=5
    )
    evaluated = fewpass.evaluate(tmp_path / "run", tmp_path / "data-test")
    (candidate,) = found.candidates
    assert found.rows_seen == 2_000 - evaluated.rows
    assert candidate["loss"] == pytest.approx(evaluated.loss, rel=1e-12)


# -- sources -------------------------------------------------------------------------------------


def test_compressed_split_and_standard_input_give_the_same_model(tmp_path, monkeypatch):
    text = lines(n=120)  # all in the first buffer
    (tmp_path / "rows.svm").write_text(text)
    (tmp_path / "rows.svm.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(source_pieces, "PIECE_BYTES", 1 << 20)
    models = [run(plan_of(tmp_path / n), tmp_path / f"run-{n}").result.weights_sha256
              for n in ("rows.svm", "rows.svm.gz")]  # fmt: skip
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    models.append(run(plan_of("-"), tmp_path / "run-stdin").result.weights_sha256)
    assert len(set(models)) == 1


def test_standard_input_says_what_it_cannot(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines().encode())))
    with pytest.raises(BadInput, match="how many rows standard input has"):
        run(plan_of("-", lam="1/n"), tmp_path / "run")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines().encode())))
    plan = plan_of("-", {"expected_rows": 2_000}, lam="1/n")
    cut = run(plan, tmp_path / "cut", stop_after=2)
    assert load_model(cut.run).weights.coef.any()
    with pytest.raises(BadInput, match="cannot be read again"):
        run(None, tmp_path / "cut", resume=True)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines().encode())))
    with pytest.raises(BadInput, match="cannot be read again"):
        run(plan, tmp_path / "cut")


def test_a_table_of_words_is_encoded_and_its_model_takes_words(tmp_path):
    rng = np.random.default_rng(0)
    kinds, ages = rng.choice(["red", "blue", "green"], 900), rng.normal(40, 10, 900).round(1)
    bought = (kinds == "red") ^ (rng.random(900) < 0.2)
    rows = zip(kinds, ages, np.where(bought, "yes", "no"))
    text = "kind,age,label\n" + "".join(f"{k},{a},{b}\n" for k, a, b in rows)
    (tmp_path / "rows.csv").write_text(text)
    result = fewpass.train(
        tmp_path / "rows.csv", tmp_path / "run", lam=1e-3, memory="160MB", label="label"
    )
    assert result.rows_seen == 900
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(tmp_path / "rows.csv")
    predicted = fewpass.from_run(tmp_path / "run").predict(frame[["kind", "age"]])
    assert np.mean(predicted == np.where(kinds == "red", "yes", "no")) > 0.99


def test_dense_rows_are_scaled_by_the_first_and_models_are_of_rows_as_they_come(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(source_pieces, "PIECE_BYTES", 20_000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 3)) * [1.0, 1e4, 1e-3]
    y = (X @ [1.0, 1e-4, 1e3] + 0.3 * rng.normal(size=1500) > 0).astype(int)
    np.savetxt(tmp_path / "rows.csv", np.c_[X, y], "%.9g", ",", header="a,b,c,label", comments="")
    result = run(plan_of(tmp_path / "rows.csv", {}, solver={"kind": "auto"}), tmp_path / "run")
    model = load_model(result.run)
    assert model.record.scaling.kind == "standard"
    score = ((X - model.shift) * model.scale) @ model.weights.coef + model.weights.intercept
    assert np.mean((score > 0) == y) > max(y.mean(), 1.0 - y.mean())


# -- what is refused -----------------------------------------------------------------------------


def test_a_bad_row_is_refused_by_file_and_line_or_skipped_and_told(tmp_path):
    rows = lines().splitlines()
    rows[1_500] = "1 3:x"
    (tmp_path / "rows.svm").write_text("\n".join(rows))
    with pytest.raises(BadInput, match=r"rows\.svm, line 1501"):
        run(plan_of(tmp_path / "rows.svm"), tmp_path / "run")
    given = {"options": {"on_bad_row": "skip"}}
    done = run(plan_of(tmp_path / "rows.svm", given), tmp_path / "skipped")
    assert done.result.rows_seen == 1_999
    (told,) = (e for e in done.run.events() if e["event"] == "skipped")
    assert told["rows"] == 1 and "line 1501" in told["reasons"][0]


@pytest.mark.parametrize("aside", [0.0, 0.3])
@pytest.mark.parametrize("often", [7, 400])
def test_rows_skipped_before_a_kill_are_counted_once(aside, often, tmp_path):
    """Those read ahead of the snapshot are not counted with it; those after the last row are."""
    rows = lines().splitlines()
    rows[often // 2 :: often] = ["1 3:x"] * len(rows[often // 2 :: often])
    (tmp_path / "rows.svm").write_text("\n".join([*rows, "1 4:x", "1 5:x"]))
    places = [k + 1 for k, row in enumerate(rows) if row == "1 3:x"] + [2_001, 2_002]
    given = {"options": {"on_bad_row": "skip"}, "test_fraction": aside}
    plan = plan_of(tmp_path / "rows.svm", given)
    whole = run(plan, tmp_path / "whole")
    run(plan, tmp_path / "cut", stop_after=2)
    run(plan, tmp_path / "cut", stop_after=3, resume=True)
    resumed = run(plan, tmp_path / "cut", resume=True)
    for done in (whole, resumed):
        (told,) = (e for e in done.run.events() if e["event"] == "skipped")
        assert told["rows"] == len(places)
        assert [int(re.search(r"line (\d+)", one)[1]) for one in told["reasons"]] == places[:20]
    assert resumed.result.weights_sha256 == whole.result.weights_sha256


def test_a_label_that_comes_late_is_refused_with_its_place(tmp_path):
    (tmp_path / "rows.svm").write_text(lines() + "7 1:1\n")
    with pytest.raises(BadInput, match=r"label 7 is new, the first rows had 0, 1"):
        run(plan_of(tmp_path / "rows.svm"), tmp_path / "run")


@pytest.mark.parametrize(
    "changes", [{"tol": 1e-3}, {"certify": True}, {"passes": 2}, {"solver": "sdca"}, {"streams": 2}]
)
def test_what_needs_rows_again_is_refused(changes, tmp_path):
    with pytest.raises((BadInput, ValueError), match="ingest_into"):
        plan_of(tmp_path / "rows.svm", **changes)


def test_workers_are_refused_as_they_do_not_read_the_source(tmp_path):
    class OnWorkers(InProcess):
        near = False

    (tmp_path / "rows.svm").write_text(lines())
    plan = plan_of(tmp_path / "rows.svm")
    with pytest.raises(BadInput, match="not by workers"):
        TrainingRun.start(plan, str(tmp_path / "run"), OnWorkers(), open_source=read_first_rows)


def test_streaming_newton_widens_and_ends_where_columns_become_too_many(tmp_path):
    """Under the squared loss it proves the optimum, wherever columns came in."""
    (tmp_path / "rows.svm").write_text(lines(4_000))
    found = {}
    for most, options in ((512, {}), (512, {"n_features": D}), (D - 5, {})):
        solver = {"kind": "onepass", "newton_columns": most}
        plan = plan_of(tmp_path / "rows.svm", {"options": options}, solver=solver, loss="squared")
        found[most, len(options)] = run(plan, tmp_path / f"{most}{len(options)}").result
    grown, whole, ended = found.values()
    assert ended.certificate is None
    assert grown.certificate < 1e-9
    assert whole.certificate < 1e-9
    assert grown.objective == pytest.approx(whole.objective, rel=1e-9)


@pytest.mark.parametrize(("gamma0", "is_worse"), [(0.5, True), (None, False)])
def test_a_model_worse_than_a_constant_is_pointed_out(tmp_path, gamma0, is_worse):
    """Steps too long for a column make one; from the best constant, steps that are sought do not."""
    rng, text = np.random.default_rng(0), []
    for _ in range(3_000):
        x = rng.normal(size=3) * (1.0, 1.0, 10.0)
        text.append(f"{int(rng.random() < 0.05)} 1:{x[0]:.4f} 2:{x[1]:.4f} 3:{x[2]:.4f}\n")
    (tmp_path / "rows.svm").write_text("".join(text))
    reading = {"scale": "none", "options": {"n_features": 3}}
    solver = {"kind": "asgd"} if gamma0 is None else {"kind": "asgd", "gamma0": gamma0}
    plan = plan_of(tmp_path / "rows.svm", reading, solver=solver, lam=1e-4)
    run(plan, tmp_path / "run")
    events = RunFolder(str(tmp_path / "run")).events()
    told = [e["what"] for e in events if e["event"] == "warning"]
    assert ("constant" in told) == is_worse


# -- order of a source --------------------------------------------------------------------------------------


def test_a_source_sorted_by_label_that_fits_is_one_buffer(tmp_path):
    (tmp_path / "rows.svm").write_text(lines(2_100, by_label=True))
    done = run(plan_of(tmp_path / "rows.svm"), tmp_path / "run")
    assert len(spans_of(tmp_path / "run")) == 1
    assert done.result.rows_seen == 2_100


def test_a_sorted_source_beyond_the_memory_is_told_with_the_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(Budget, "first_rows", MemoryShare("1/2000", "rows", "", "", ""))
    monkeypatch.setattr(Budget, "buffers", 2_000)
    (tmp_path / "rows.svm").write_text(lines(by_label=True))
    with pytest.raises(BadInput, match=r"sorted by label.*ingest_into"):
        run(plan_of(tmp_path / "rows.svm", memory="105MB"), tmp_path / "run")
    rows = lines().splitlines(keepends=True)
    rows[200:] = sorted(rows[200:])
    (tmp_path / "rows.svm").write_text("".join(rows))
    done = run(plan_of(tmp_path / "rows.svm", memory="125MB"), tmp_path / "run")
    told = [e["sentence"] for e in done.run.events() if e["event"] == "warning"]
    assert any("sorted" in sentence and "ingest" in sentence for sentence in told)
    (tmp_path / "mixed.svm").write_text(lines(grow=False))
    mixed = run(plan_of(tmp_path / "mixed.svm", memory="125MB"), tmp_path / "mixed")
    assert not [e for e in mixed.run.events() if e["event"] == "warning"]


def test_rows_to_learn_from_are_evaluated_without_those_held_out(tmp_path):
    rows = [f"{k},{k * k % 7},{'yes' if k > 880 and k % 2 else 'no'}\n" for k in range(1_000)]
    (tmp_path / "rows.csv").write_text("day,x,bought\n" + "".join(rows))
    reading = {"test_by": "day", "test_fraction": 0.2, "options": {"label": "bought"}}
    with pytest.raises(BadInput, match=r"All 800 training rows have the label no"):
        read_first_rows(plan_of(tmp_path / "rows.csv", reading))
    (tmp_path / "rows.csv").write_text("day,x,bought\n1,2,3\n")
    with pytest.raises(BadInput, match=r"All of the first 1 rows are held out"):
        read_first_rows(
            plan_of(
                tmp_path / "rows.csv", {"test_fraction": 0.99} | {"options": {"label": "bought"}}
            )
        )


def test_the_share_between_groups_is_that_of_an_analysis_of_variance():
    rng = np.random.default_rng(0)
    parts = [rng.normal(mean, 1.0, n) for mean, n in ((0.0, 300), (2.0, 500), (5.0, 100))]
    found = GroupSums()
    for part in parts:
        found = found.add(len(part), part.sum(), part @ part)
    every = np.concatenate(parts)
    between = sum(len(p) * (p.mean() - every.mean()) ** 2 for p in parts)
    within = sum(np.square(p - p.mean()).sum() for p in parts) / (len(every) - len(parts))
    assert found.share == pytest.approx(1.0 - within / every.var())
    assert between == pytest.approx(len(every) * every.var() - within * (len(every) - len(parts)))
    alike = GroupSums()
    for part in np.split(rng.permutation(every), 9):
        alike = alike.add(len(part), part.sum(), part @ part)
    assert alike.share == 0.0


def test_a_buffer_is_harder_by_more_than_chance_and_never_after_a_restart():
    before = LossDrift(100.0, 200)
    assert before.rises(200.0, 200) and not before.rises(100.0, 200)
    assert not before.rises(4.0, 4)  # of few rows a mean is anything
    assert not before.rises(-50.0, -100) and not LossDrift().rises(200.0, 200)


def test_held_out_rows_fit_into_their_budget_and_are_drawn_alike():
    held_out, rows = HeldOutRows(4_000, seed=0), 10
    for piece in range(100):
        X = np.full((rows, 3), piece, np.float32)
        held_out.add(DenseTable(X, np.zeros(rows), None), PiecePlace(piece, 0))
    kept = held_out.table().X[:, 0]
    assert 50 < len(kept) <= 4_000 // 20
    assert 20 < np.median(kept) < 80


@pytest.mark.parametrize("place", ["{here}", "memory://missing"])
def test_what_is_nowhere_is_a_data_set_that_is_missing(tmp_path, place):
    nowhere = f"{place.format(here=tmp_path)}/rows"
    with pytest.raises(NotADataset, match="nothing at"):
        fewpass.train(nowhere, str(tmp_path / "run"), solver="psdca")
    assert not is_source(nowhere)
    assert is_source(f"{nowhere}/*.csv")
