"""Raw tables through the Prefect flows: the bits that the command line gives."""

import shutil

import pandas as pd
import pytest

from fewpass.flows.cli import main
from fewpass.pipeline.models.refresh.store_state import published, run_of
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset
from tests.pipeline.test_tables import people

MEMORY = "128MB"


def predicted(run, source, out):
    """By the command, in this process."""
    assert main(["predict", str(run), str(source), str(out), "--memory", MEMORY, "-q"]) == 0
    return pd.read_parquet(out)


def require_equal(found, expected):
    """Every bit of every prediction."""
    pd.testing.assert_frame_equal(found, expected, check_exact=True)


@pytest.fixture
def rows(tmp_path):
    frame = people(1500)
    frame[:700].to_csv(tmp_path / "train.csv", index=False)
    later = frame[700:1100].assign(city="Paris")  # a word that no recipe knows
    later.to_csv(tmp_path / "later.csv", index=False)
    frame[1100:].drop(columns="bought").to_csv(tmp_path / "raw.csv", index=False)
    return tmp_path


def test_flows_give_the_bits_of_the_command_line(flow_runner, rows):
    folder, ran = rows, flow_runner.result
    ran("ingest", sources=folder / "train.csv", dataset=folder / "d", label="bought", memory=MEMORY)
    ran(
        "train",
        dataset=folder / "d",
        run=folder / "run",
        tol="1e-4",
        lam="1/n",
        scheduler="none",
        memory=MEMORY,
    )
    scored = ran(
        "predict", run=folder / "run", inputs=folder / "raw.csv", out=folder / "p.parquet",
        memory=MEMORY,
    )  # fmt: skip
    assert scored["rows"] == 400
    common = ["--memory", MEMORY, "-q"]
    source, data, run = (str(folder / name) for name in ("train.csv", "own", "own-run"))
    assert main(["ingest", source, data, "--label", "bought", *common]) == 0
    assert (
        main(["train", data, run, "--tol", "1e-4", "--lam", "1/n", "--scheduler", "none", *common])
        == 0
    )
    fingerprints = {Dataset.open(str(folder / name)).manifest.fingerprint for name in ("d", "own")}
    assert len(fingerprints) == 1
    by_flow, by_command = (
        pd.read_parquet(folder / "p.parquet"),
        predicted(run, folder / "raw.csv", folder / "own.parquet"),
    )
    require_equal(by_flow, by_command)
    # The run folder is all that it takes; tests/pipeline/test_tables.py has a process of its own.
    shutil.move(folder / "run", folder / "moved")
    shutil.rmtree(folder / "d")
    alone = predicted(folder / "moved", folder / "raw.csv", folder / "alone.parquet")
    require_equal(alone, by_command)


def test_after_a_refresh_raw_rows_are_predicted_alike(flow_runner, rows):
    """Of an additive model; that of a linear one is carried by the same recipe."""
    folder, ran = rows, flow_runner.result
    inbox, store = folder / "inbox", folder / "store"
    inbox.mkdir()

    def refreshed(name):
        shutil.copy(folder / name, inbox / name)
        found = ran(
            "refresh", sources=inbox / "*.csv", store=store, scheduler="none", settle=0, windows="all",
            ingest__options__label="bought", ingest__memory=MEMORY, training__memory=MEMORY,
            training__lam="1e-2", ingest__options__encode="additive",
            ingest__options__pairs="city:income",
        )  # fmt: skip
        assert found["published"], found
        return found["model"]

    first, second = refreshed("train.csv"), refreshed("later.csv")
    assert RunFolder(first).record().columns == RunFolder(second).record().columns
    assert recipe_in(RunFolder(second).record().columns).additive is not None
    assert run_of(str(store), published(str(store))) == second
    ran("predict", run=store, inputs=folder / "raw.csv", out=folder / "p.parquet", memory=MEMORY)
    by_flow = pd.read_parquet(folder / "p.parquet")
    require_equal(by_flow, predicted(second, folder / "raw.csv", folder / "own.parquet"))
    # Rows that are encoded first, like the published model's, are predicted alike.
    labelled = pd.read_csv(folder / "raw.csv").assign(bought="no")
    labelled.to_csv(folder / "labelled.csv", index=False)
    generation = RunFolder(second).record().plan.dataset
    like = ["--like", generation, "--no-shuffle", "--memory", MEMORY, "-q"]
    assert main(["ingest", str(folder / "labelled.csv"), str(folder / "encoded"), *like]) == 0
    encoded = predicted(second, folder / "encoded", folder / "encoded.parquet")
    require_equal(by_flow, encoded)
    shutil.copytree(second, folder / "alone")
    shutil.rmtree(store)
    alone = predicted(folder / "alone", folder / "raw.csv", folder / "alone.parquet")
    require_equal(alone, by_flow)
