"""LIBSVM text whose cells are mostly there, stored dense and standardised."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from fewpass import from_run
from fewpass.flows.cli import main
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.readers import SourceOptions, open_source
from fewpass.storage.dataset import Dataset


def frame_of(n=1500, spread=1e4, gaps=0.1, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"a": rng.normal(0, spread, n), "b": rng.normal(3, 1, n), "c": rng.normal(0, 1, n)}
    )
    frame = frame.mask(rng.random(frame.shape) < gaps, 0.0)
    frame["y"] = (frame.a / spread + frame.b + frame.c > 3.0).astype(int)
    return frame


def as_libsvm(frame, path):
    with path.open("w") as file:
        for *row, y in frame.itertuples(index=False):
            cells = " ".join(f"{k}:{x!r}" for k, x in enumerate(map(float, row), 1) if x)
            file.write(f"{int(y)} {cells}\n")
    return str(path)


def ingested(source, dataset, **settings):
    return ingest(IngestPlan(sources=(source,), dataset=str(dataset), memory="128MB", **settings))


def test_dense_text_of_other_units_is_stored_as_the_csv_of_the_same_rows(tmp_path):
    frame = frame_of()
    source = as_libsvm(frame, tmp_path / "rows.svm")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    options = {"dtype": "float64"}
    made = ingested(source, tmp_path / "svm", options=options)
    plain = options | {"encode": "none", "label": "y"}
    other = ingested(str(tmp_path / "rows.csv"), tmp_path / "csv", options=plain, shuffle=False)
    assert made.scale == other.scale == "standard"
    assert any("standardised" in note for note in made.notes)
    svm, csv = Dataset.open(str(tmp_path / "svm")), Dataset.open(str(tmp_path / "csv"))
    assert svm.manifest.layout == "dense"
    for name in ("mean", "variance", "scale", "shift"):
        np.testing.assert_allclose(svm.column(name), csv.column(name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("frame", "settings"),
    [
        (frame_of(gaps=0.8), {}),  # mostly zeros
        (frame_of(), {"scale": "none"}),
        (frame_of(), {"layout": "sparse"}),
    ],
)
def test_other_text_stays_sparse(tmp_path, frame, settings):
    source = as_libsvm(frame, tmp_path / "rows.svm")
    ingested(source, tmp_path / "data", **settings)
    assert Dataset.open(str(tmp_path / "data")).manifest.layout == "sparse"


def test_what_differs_and_stays_sparse_is_told(tmp_path):
    source = as_libsvm(frame_of(), tmp_path / "rows.svm")
    notes = ingested(source, tmp_path / "data", layout="sparse").notes
    assert any("differ in size by a factor of" in n and "scale=maxabs" in n for n in notes)


def test_dense_on_request_and_like_it(tmp_path):
    source = as_libsvm(frame_of(spread=2.0, gaps=0.7), tmp_path / "rows.svm")
    few = tmp_path / "few.svm"
    few.write_text("1 1:2.5\n0\n1 2:1 3:-1\n")
    data, later = tmp_path / "data", tmp_path / "later"
    ingested(source, data, layout="dense")
    ingested(str(few), later, like=str(data), shuffle=False)
    found = Dataset.open(str(later))
    assert (found.manifest.layout, found.n_features) == ("dense", 3)
    np.testing.assert_array_equal(found.read_stored(0).X, [[2.5, 0, 0], [0, 0, 0], [0, 1, -1]])
    wide = tmp_path / "wide.svm"
    wide.write_text("1 1:2.5\n0 4:1\n")
    with pytest.raises(BadInput, match=r"line 2: '4:1' lies beyond the 3 features"):
        ingested(str(wide), tmp_path / "wide", like=str(data))


def test_a_layout_that_cannot_be_is_refused(tmp_path):
    frame_of().to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(BadInput, match=r"so its rows are dense\. Leave `layout` out"):
        ingested(str(tmp_path / "rows.csv"), tmp_path / "data", layout="sparse",
                 options={"label": "y", "encode": "none"})  # fmt: skip
    with pytest.raises(BadInput, match="encoded to the smaller of dense and sparse"):
        ingested(str(tmp_path / "rows.csv"), tmp_path / "data", layout="dense",
                 options={"label": "y", "encode": "always"})  # fmt: skip
    with pytest.raises(ValueError, match="Leave layout out"):
        IngestPlan(sources=("a",), dataset="b", like="c", layout="dense")


def test_no_row_is_lost_however_text_is_cut(tmp_path):
    """Rows of a few bytes become many; pieces are cut shorter for them."""
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1 2:1 3:1 4:1 5:1 6:1 7:1 8:1\n" + "0 2:1\n" * 5000)
    from fewpass.pipeline.tables.ingest.layout import FilledSource

    source = FilledSource(open_source([str(path)], SourceOptions(n_features=8)), 8)
    pieces = [*source.pieces(1 << 12)]
    assert len(pieces) > 10
    assert sum(source.parse(piece).table.n_rows for piece in pieces) == 5001


def test_a_model_of_dense_text_predicts_text(tmp_path):
    frame = frame_of()
    source = as_libsvm(frame, tmp_path / "rows.svm")
    data, run, out = (str(tmp_path / name) for name in ("data", "run", "p.parquet"))
    quiet = ["--memory", "128MB", "-q"]
    assert main(["ingest", source, data, "--dtype", "float64", *quiet]) == 0
    assert main(["train", data, run, "--tol", "1e-6", "--scheduler", "none", *quiet]) == 0
    assert main(["predict", run, source, out, *quiet]) == 0
    expected = from_run(run).decision_function(frame[["a", "b", "c"]].to_numpy())
    np.testing.assert_allclose(pd.read_parquet(out).score, expected, rtol=1e-8, atol=1e-8)


def test_kappa_beyond_the_passes_is_told_with_its_remedy(tmp_path, capsys):
    """By `plan` and `train` before, and by `report` after."""
    source = as_libsvm(frame_of(), tmp_path / "rows.svm")
    data, run = str(tmp_path / "data"), str(tmp_path / "run")
    assert main(["ingest", source, data, "--layout", "dense", "--scale", "none", "-q"]) == 0
    options = ["--solver", "asgd", "--passes", "1", "--lam", "1e-4"]
    said = "columns differ in size by a factor of"
    assert main(["train", "--plan", data, *options, "--json"]) == 0
    advice = json.loads(capsys.readouterr().out)["advice"]
    assert any(said in one and "--scale standard" in one for one in advice)
    assert main(["train", data, run, *options, "--scheduler", "none"]) == 0
    assert said in " ".join(capsys.readouterr().err.split())
    assert main(["report", run, "--json"]) == 0
    captured = capsys.readouterr()
    assert any(said in one for one in json.loads(captured.out)["warnings"])
    assert said in " ".join(captured.err.split())
    assert main(["ingest", source, data, "--overwrite", "-q"]) == 0
    assert main(["train", "--plan", data, *options, "--json"]) == 0
    assert not any(said in one for one in json.loads(capsys.readouterr().out)["advice"])


@pytest.mark.parametrize(
    ("method", "what"),
    [(["--solver", "asgd"], "kappa is "), (["--solver", "pegasos", "--loss", "hinge"], "The mean")],
)
@pytest.mark.parametrize("straight", [False, True])
def test_a_table_in_raw_units_is_told_before_and_after(tmp_path, capsys, method, what, straight):
    """Also where the loss has a kink, and no kappa; also straight from the file."""
    source, run = str(tmp_path / "rows.csv"), str(tmp_path / "run")
    frame_of().to_csv(source, index=False)
    raw, options = (
        ["--label", "y", "--encode", "none", "--scale", "none"],
        [*method, "--lam", "1e-4"],
    )
    options += ["--passes", "1"]
    said = re.compile(rf"{what}.* in one pass: columns differ in size by a factor of .*standard")
    if straight:
        words = ["train", source, run, *raw, *options]
    else:
        assert main(["ingest", source, str(tmp_path / "data"), *raw, "-q"]) == 0
        words = ["train", str(tmp_path / "data"), run, *options, "--scheduler", "none"]
        assert main(["train", "--plan", str(tmp_path / "data"), *options, "--json"]) == 0
        assert any(map(said.match, json.loads(capsys.readouterr().out)["advice"]))
    assert main(words) == 0
    assert said.search(" ".join(capsys.readouterr().err.split()))
    assert main(["report", run, "--json"]) == 0
    assert any(map(said.match, json.loads(capsys.readouterr().out)["warnings"]))
