"""What pages of flows show: words of people, digits that say something, and what the data have."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from fewpass.flows.cli import main
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.models.refresh.store_state import published, run_of
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.scoring.row_metrics import MetricFigures

#: As Python calls figures; and a number that nobody reads to its end.
RAW = re.compile(
    "|".join(name for name in (*Evaluation._fields, *MetricFigures._fields) if "_" in name)
)
LONG = re.compile(r"[1-9]\d*\.\d{9,}|0\.0*[1-9]\d{8,}")


def rows(n, seed, turned=False):
    rng = np.random.default_rng(seed)
    city, age = rng.choice(["north", "south"], n), rng.normal(40.0, 10.0, n).round(1)
    side = np.where(city == "north", 1.0, -1.0) * (-1.0 if turned else 1.0)
    bought = np.where(side + 0.1 * (age - 40.0) + rng.logistic(0.0, 1.0, n) > 0.0, "yes", "no")
    ids = [f"{seed}-{k}" for k in range(n)]
    frame = pd.DataFrame({"id": ids, "city": city, "age": age.astype(object), "bought": bought})
    frame.loc[3, "age"] = "oops"
    frame.loc[5:7, "city"] = None
    return frame


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    rows(500, 1).to_csv(folder / "first.csv", index=False)
    rows(400, 2).to_csv(folder / "second.csv", index=False)
    with (folder / "second.csv").open("a") as file:
        file.write("1,2\n")
    return folder


READING = {"label": "bought", "keep": "id", "column": '{id="drop"}', "on_bad_row": "skip"}


@pytest.fixture
def pages(prefect_server, flow_runner):
    """Runs a flow; what its page shows, by what it is: tables as lists, texts as they are."""

    def shown(flow, **parameters):
        flow_runner.result(flow, **parameters)
        newest = {"sort": "START_TIME_DESC", "limit": 1}
        (run,) = prefect_server.ask("flow_runs/filter", newest)
        found = {}
        for key, one in prefect_server.artifacts(run).items():
            assert not RAW.search(str(one["data"])), (key, RAW.search(str(one["data"]))[0])
            assert one["type"] == "image" or not LONG.search(str(one["data"])), key
            what = re.sub(r".*-[0-9a-f]{8}-", "", key)
            found[what] = json.loads(one["data"]) if one["type"] == "table" else one["data"]
        return found | {"message": run["state"]["message"]}

    return shown


def by(table, name):
    return {row[name]: row for row in table}


def test_what_ingest_append_train_evaluate_and_predict_saw(pages, shop, tmp_path):
    files = [str(shop / name) for name in ("first.csv", "second.csv")]
    seen = pages(
        "ingest", sources=shop / "*.csv", dataset=tmp_path / "d", test_fraction="0.2", **READING
    )
    assert seen["files"] == [
        {"file": files[0], "rows": "500", "skipped": "0"},
        {"file": files[1], "rows": "400", "skipped": "1"},
    ]
    columns = by(seen["columns"], "column")
    assert columns["id"]["became"] == "kept as written"
    assert columns["city"]["became"].startswith("category of 2 values")
    assert (columns["city"]["missing"], columns["age"]["missing"]) == ("6 rows", "2 rows")
    assert "1 bad row was skipped." in seen["rows"]
    assert "line 402: the row has 2 cells, 4 were expected" in seen["rows"]
    assert "2 cells hold no number ('oops', ...)" in seen["rows"]

    rows(100, 3).to_csv(tmp_path / "more.csv", index=False)
    asked = {"sources": tmp_path / "more.csv", "dataset": tmp_path / "d"}
    seen = pages("append", **asked)
    assert by(seen["columns"], "column")["city"]["missing"] == "9 rows"
    assert seen["files"] == [{"file": str(tmp_path / "more.csv"), "rows": "100", "skipped": "0"}]
    assert "rows appended" in seen["rows"]
    assert seen["progress"] == 100.0
    assert "Nothing was appended" in pages("append", **asked)["rows"]

    seen = pages(
        "train", dataset=tmp_path / "d", run=tmp_path / "run", solver="gd", lam="1e-9", passes="1",
        certify="true", scheduler="none",
    )  # fmt: skip
    assert "no useful bound" in seen["message"]
    assert "no useful bound" in seen["card"]
    certified = [row for row in seen["convergence"] if row["objective"]]
    assert {row["at most above optimum"] for row in certified} == {"no useful bound yet"}

    seen = pages("evaluate", run=tmp_path / "run", dataset=tmp_path / "d-test", scheduler="none")
    assert {row["column"] for row in seen["slices"]} == {"bought", "city", "age"}
    assert len(seen["worst"]) == 10
    assert set(seen["worst"][0]) == {
        "loss", "predicted", "row: bought", "row: id", "row: city", "row: age",
    }  # fmt: skip
    assert {row["column"] for row in seen["columns"]} == {"city", "age"}
    assert "base rate" in seen["card"]
    seen = pages("evaluate", run=tmp_path / "run", dataset=files[0], by="city", scheduler="none")
    assert by(seen["slices"], "value")["missing"]["rows"] == "3"

    rows(5, 4).assign(shoe=3).drop(columns="bought").to_csv(tmp_path / "new.csv", index=False)
    seen = pages(
        "predict", run=tmp_path / "run", inputs=tmp_path / "new.csv", out=tmp_path / "p.csv",
        unknown_features="ignore",
    )  # fmt: skip
    assert "5 rows with the columns predicted, score" in seen["predictions"]
    assert as_markdown("Left out 1 column that is not known: 'shoe'") in seen["predictions"]


def test_a_new_model_beside_the_published_one(pages, tmp_path):
    """Of raw rows, which the store's model predicts to the bits of the command line."""
    (tmp_path / "later").mkdir()
    rows(800, 5).to_csv(tmp_path / "first.csv", index=False)
    asked = {"sources": tmp_path / "*.csv", "store": tmp_path / "live", "scheduler": "none",
             "training.tol": "1e-4"} | READING  # fmt: skip
    seen, live = pages("refresh", **asked), str(tmp_path / "live")
    assert "beside" not in seen
    first = run_of(live, published(live))
    rows(800, 7).to_csv(tmp_path / "later" / "rows.csv", index=False)
    like = tmp_path / "live/generations/000001/data"
    pages("ingest", sources=tmp_path / "later/rows.csv", dataset=tmp_path / "held", like=like,
          **READING)  # fmt: skip
    rows(800, 6, turned=True).to_csv(tmp_path / "second.csv", index=False)
    asked |= {"held_out": tmp_path / "held", "odd": "null", "windows": "1"}
    seen = pages("refresh", **asked)
    assert len(seen["worst"]) == 10
    figures = by(seen["beside"], "figure")
    assert figures["Log loss"]["verdict"] == "worse"  # the city's effect turned around
    assert float(figures["Log loss"]["this model"]) > float(figures["Log loss"]["published before"])
    slices = {(row["column"], row["value"]): row for row in seen["slices"]}
    assert slices["city", "north"]["verdict"] == "worse"
    assert float(slices["city", "north"]["log loss, published before"]) < 0.7
    assert {row["column"] for row in seen["columns"]} >= {"city", "age"}
    grown = [float(row["loss"]) - float(row["loss, published before"]) for row in seen["fallen"]]
    assert grown == sorted(grown, reverse=True)
    assert grown[-1] > 0.0
    assert all(row["row: id"].startswith("7-") for row in seen["fallen"])
    assert run_of(live, published(live)) == first  # the other one is kept back
    rows(800, 9).to_csv(tmp_path / "third.csv", index=False)
    pages("refresh", **asked)
    third = run_of(live, published(live))
    assert third != first
    assert RunFolder(third).record().columns == RunFolder(first).record().columns
    rows(90, 8).drop(columns="bought").to_csv(tmp_path / "raw.csv", index=False)
    pages("predict", run=live, inputs=tmp_path / "raw.csv", out=tmp_path / "flow.parquet")
    words = ["predict", third, f"{tmp_path}/raw.csv", f"{tmp_path}/command.parquet", "-q"]
    assert main(words) == 0
    by_flow, by_command = (
        pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("flow", "command")
    )
    pd.testing.assert_frame_equal(by_flow, by_command, check_exact=True)
    assert len(by_flow) == 90
