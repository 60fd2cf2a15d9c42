"""Where whole groups are held out to evaluate on, they choose form and lam, too."""

import numpy as np
import pandas as pd
import pytest

from fewpass import ingest, train
from fewpass.flows import cli
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.tables.additive.row_groups import RowGroups
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset


def visits(n_patients=150, each=8, seed=0):
    """Rows of patients, who differ in their level, and in three columns that say nothing of it."""
    rng = np.random.default_rng(seed)
    at = np.repeat(np.arange(n_patients), each)
    own = rng.normal(size=(n_patients, 4))
    dose = rng.uniform(-1, 1, len(at))
    y = 3.0 * own[at, 0] + dose + 0.1 * rng.normal(size=len(at))
    columns = {f"c{k}": own[at, k].round(3) for k in (1, 2, 3)}
    frame = pd.DataFrame({"patient": [f"p{k}" for k in at], "dose": dose.round(3), **columns})
    return frame.assign(y=y.round(3)).sample(frac=1.0, random_state=seed)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    work = tmp_path_factory.mktemp("visits")
    visits().to_csv(work / "rows.csv", index=False)
    by = {"fraction": {"test_fraction": 0.2}, "none": {}}
    by["group"] = {"test_fraction": 0.2, "test_group": "patient"}
    return work, {
        name: ingest(work / "rows.csv", work / name, label="y", **held) for name, held in by.items()
    }


def losses(made, name):
    chosen = recipe_in(Dataset.open(made[1][name].dataset).schema).additive.chosen
    return {one.form: one.loss for one in chosen.candidates}


def test_whole_groups_choose_form_and_lam_where_they_are_held_out(made):
    work, results = made
    notes = " ".join(results["group"].notes)
    assert "Rows of one 'patient' stay together when form and lam are chosen." in notes
    encoding = Dataset.open(results["group"].dataset).schema.encoding
    assert encoding.grouped.by == "patient"
    assert cli.main(["train", str(work / "group"), str(work / "run"), "--tol", "1e-2"]) == 0
    record = RunFolder(str(work / "run")).record()
    assert record.lam_origin.groups_of == "patient"
    n = Dataset.open(results["group"].dataset).n_rows
    assert record.lam_origin.candidates[0].lam == pytest.approx(encoding.grouped.lam / n)
    assert "those of one 'patient' together" in record.lam_origin.sentence()
    train(work / "group", work / "given", tol=1e-2, held_out=str(work / "group-test"))
    assert RunFolder(str(work / "given")).record().lam_origin.groups_of is None


def test_other_rows_are_drawn_at_random_and_alike_ones_are_named(made):
    _, results = made
    alike = "Rows of one 'patient' are alike"
    assert any(alike in note and "`test_group=patient`" in note for note in results["none"].notes)
    assert not any(alike in note for name in ("group", "fraction") for note in results[name].notes)
    for name in ("none", "fraction"):
        assert Dataset.open(results[name].dataset).schema.encoding.grouped is None


def test_parts_are_of_whole_groups():
    groups = RowGroups("by", np.repeat(np.arange(10), 7))
    for few, n_parts in ((0, 1), (1_000, 5)):
        parts = groups.parts(0, few)
        assert len(parts) == n_parts
        for learnt, scored in parts:
            assert not {*groups.codes[learnt]} & {*groups.codes[scored]}
            assert len(learnt) + len(scored) == 70 and len(scored) == 14


def test_rows_of_one_group_have_no_others_to_choose_by(tmp_path):
    """Of two groups one is held out to evaluate on; what is asked for is chosen by rows at random."""
    rows = visits(100, 3).drop(columns="patient")
    rows["site"] = np.where(np.arange(len(rows)) % 2, "a", "b")
    rows.to_csv(tmp_path / "rows.csv", index=False)
    held = {"label": "y", "test_fraction": 0.4, "test_group": "site"}
    made = ingest(tmp_path / "rows.csv", tmp_path / "set", **held)
    assert any(note.endswith("to choose by, and rows are of one.") for note in made.notes)
    assert recipe_in(Dataset.open(made.dataset).schema).additive is None
    asked = ingest(tmp_path / "rows.csv", tmp_path / "asked", encode="additive", **held)
    additive = recipe_in(Dataset.open(asked.dataset).schema).additive
    assert additive is None or additive.chosen.groups_of is None
