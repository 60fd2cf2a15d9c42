"""From a table of words, gaps and days to a model, and back to names."""

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fewpass import from_run
from fewpass.flows.cli import main
from fewpass.flows.flags import in_flags
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.reporting.model_card import model_card
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.encoding.applying import encode
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.storage.dataset import Dataset


def people(n=3000, seed=0):
    """Who buys: by words, a heavy tail with gaps, and days."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Bern", "Oslo", "Rome"], n, p=[0.6, 0.3, 0.1])
    income = rng.lognormal(3.0, 1.5, n).round(2)
    gone = rng.random(n) < 0.2
    score = (city == "Oslo") * 2.0 - gone * 1.5 + 0.3 * np.log1p(income) - 1.0
    days = np.datetime64("2026-01-01") + rng.integers(0, 200, n)
    return pd.DataFrame(
        {
            "city": np.where(rng.random(n) < 0.05, None, city),
            "income": np.where(gone, np.nan, income),
            "seen": days.astype(str),
            "user": rng.permutation(n),
            "bought": np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A run on three quarters of the table, from the command line, with no option but --label."""
    folder = tmp_path_factory.mktemp("tables")
    frame = people()
    frame[:2000].to_csv(folder / "train.csv", index=False)
    frame[2000:].to_csv(folder / "test.csv", index=False)
    data, run, test = (str(folder / name) for name in ("data", "run", "test"))
    common = ["--memory", "128MB", "-q"]
    assert main(["ingest", str(folder / "train.csv"), data, "--label", "bought", *common]) == 0
    assert main(["train", data, run, "--tol", "1e-5", "--scheduler", "none", *common]) == 0
    like = ["--like", data, "--no-shuffle"]
    assert main(["ingest", str(folder / "test.csv"), test, *like, *common]) == 0
    return folder, frame


def predicted(run, source, out, *options):
    assert (
        main(["predict", str(run), str(source), str(out), "--memory", "128MB", "-q", *options]) == 0
    )
    return pd.read_parquet(out)


def test_raw_rows_are_predicted_as_encoded_ones(work, tmp_path):
    folder, frame = work
    raw = predicted(folder / "run", folder / "test.csv", tmp_path / "raw.parquet")
    stored = predicted(folder / "run", folder / "test", tmp_path / "stored.parquet")
    pd.testing.assert_frame_equal(raw, stored)
    shuffled = frame[2000:][frame.columns[::-1]].drop(columns="bought")
    shuffled.to_parquet(tmp_path / "rows.parquet", index=False)
    other = predicted(folder / "run", tmp_path / "rows.parquet", tmp_path / "other.parquet")
    pd.testing.assert_frame_equal(raw, other)


def test_the_recipe_is_part_of_the_data_set(work, tmp_path):
    folder, _ = work
    data = Dataset.open(str(folder / "data"))
    recipe = recipe_in(data.schema)
    assert recipe == recipe_in(RunFolder(str(folder / "run")).record().columns)
    assert data.n_features == recipe.n_outputs
    shutil.copytree(folder / "data", tmp_path / "data")
    schema = tmp_path / "data/schema.json"
    schema.write_text(schema.read_text().replace('"city"', '"town"'))
    assert main(["check", str(tmp_path / "data")]) == 1


def test_a_recipe_of_other_columns_is_refused(work):
    data = Dataset.open(str(work[0] / "data"))
    record = data.schema.encoding
    fewer = Recipe.model_validate(record.recipe).columns[:-1]
    lying = record.model_copy(update={"recipe": Recipe(columns=fewer).model_dump(mode="json")})
    with pytest.raises(BadInput, match=r"makes \d+ features of 3 columns, where"):
        recipe_in(data.schema.model_copy(update={"encoding": lying}))


def test_what_is_encoded_otherwise_is_no_test_data(work, tmp_path, capsys):
    folder, _ = work
    other = tmp_path / "other"
    assert main(["ingest", str(folder / "test.csv"), str(other), "--label", "bought", "-q"]) == 0
    assert main(["evaluate", str(folder / "run"), str(other), "-q"]) == 2
    assert "encoded otherwise" in capsys.readouterr().err
    like = ["--like", str(folder / "data"), "--encode", "none", "-q"]
    assert main(["ingest", str(folder / "test.csv"), str(tmp_path / "none"), *like]) == 2
    assert "--encode" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["--hash-bits", "12"], "--hash-bits is 12, but it was 20"),
        (["--column", "user=drop"], "--column is user=drop, but it was user=category"),
        (["--missing", "zero"], "--missing is zero, but it was refuse"),
        (["--cross", "city,user"], "--cross is city,user, but it was left out"),
        (["--no-ranks"], "--ranks is False, but it was True"),
        (["--bins", "4"], "--bins is 4, but it was left out"),
        (["--cross", "city"], "'city' is no pair of columns"),
        (["--column", "city"], "city is not of the form NAME=KIND"),
    ],
)
def test_a_recipe_is_used_as_it_is(said, told, work, tmp_path, capsys):
    folder, _ = work
    first, like = str(tmp_path / "first"), str(tmp_path / "like")
    source = ["ingest", str(folder / "test.csv")]
    assert main([*source, first, "--label", "bought", "--column", "user=category", "-q"]) == 0
    assert main([*source, like, "--like", first, *said, "-q"]) == 2
    error = capsys.readouterr().err
    assert told in error
    assert first in error or "recipe" not in error
    again = ["--column", "user=category", "-q"]  # said twice, and no contradiction
    assert main([*source, like, "--like", first, *again]) == 0


def test_weights_have_names(work, capsys):
    folder, _ = work
    assert main(["explain", str(folder / "run"), "--weights", "--top", "4", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    names = [weight["feature"] for weight in told["weights"]]
    assert {"city=Oslo", "income is missing"} <= set(names)
    sizes = [abs(weight["weight"]) for weight in told["weights"]]
    assert sizes == sorted(sizes, reverse=True)
    assert main(["explain", str(folder / "run"), "--csv"]) == 0
    assert capsys.readouterr().out.startswith("class,feature,weight,per_unit\n")
    assert main(["export", str(folder / "run"), str(folder / "model.safetensors")]) == 2
    assert "takes the columns of a table, which it encodes" in capsys.readouterr().err


def test_what_speaks_for_a_class_has_a_positive_weight_whatever_the_sign_of_its_hash(
    tmp_path, capsys
):
    rng = np.random.default_rng(0)
    sides = {
        "no": ["cool", "dull", "grey", "loud", "rude", "slow"],
        "yes": ["fine", "glad", "good", "kind", "warm", "well"],
    }
    rows = [
        f"{label},{' '.join(rng.choice(words, 5))},{rng.choice(words)}"
        for label, words in ((label, sides[label]) for label in rng.choice(list(sides), 600))
    ]
    (tmp_path / "t.csv").write_text("\n".join(["said,text,word", *rows]))
    data, run = str(tmp_path / "d"), str(tmp_path / "r")
    columns = ["--column", "text=text", "--column", "word=hash", "--label", "said"]
    assert main(["ingest", str(tmp_path / "t.csv"), data, *columns, "-q"]) == 0
    assert main(["train", data, run, "--tol", "1e-2", "-q"]) == 0
    assert main(["explain", run, "--weights", "--json", "--top", "200"]) == 0
    told = {one["feature"]: one["weight"] for one in json.loads(capsys.readouterr().out)["weights"]}
    for label, words in sides.items():
        found = [told[f"{column}{word}"] for column in ("text: ", "word=") for word in words]
        assert all((weight > 0.0) == (label == "yes") for weight in found), told


def test_weights_in_units_of_the_source(tmp_path, capsys):
    """y = 3 x - 2 z, whatever is done to x and z on the way."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(5, 10, 2000), "z": rng.normal(0, 0.1, 2000)})
    frame["y"] = 3.0 * frame.x - 2.0 * frame.z
    frame.to_csv(tmp_path / "rows.csv", index=False)
    data, run = str(tmp_path / "data"), str(tmp_path / "run")
    options = ["--encode", "always", "--task", "regression", "-q"]
    assert main(["ingest", str(tmp_path / "rows.csv"), data, *options]) == 0
    train = ["--lam", "1e-9", "--tol", "1e-9", "--loss", "squared", "-q"]
    assert main(["train", data, run, *train]) == 0
    assert main(["explain", run, "--weights", "--json"]) == 0
    found = {w["feature"]: w["per_unit"] for w in json.loads(capsys.readouterr().out)["weights"]}
    # Half a percent of the rows is clipped at either end.
    assert found["x"] == pytest.approx(3.0, rel=0.02)
    assert found["z"] == pytest.approx(-2.0, rel=0.3)


def test_the_plan_can_be_printed_and_edited(work, tmp_path, capsys):
    folder, _ = work
    source, data = str(folder / "train.csv"), str(tmp_path / "data")
    assert main(["ingest", source, data, "--label", "bought", "--dry-run"]) == 0
    plan = capsys.readouterr().out
    assert 'city = "category"' in plan
    assert plan.startswith("# Column 'user' looks like an index or an id")
    (tmp_path / "plan.toml").write_text(plan.replace('user = "number"', 'user = "drop"'))
    config = ["--config", str(tmp_path / "plan.toml")]
    assert main(["ingest", source, data, *config, "--json"]) == 0
    captured = capsys.readouterr()
    told = json.loads(captured.out)
    assert set(told["encoded"]) == {"city", "income", "seen"}
    form, dates = told["notes"]
    assert form.startswith("The form was chosen by")
    assert "holds dates" in dates


def test_a_training_straight_from_a_table_says_what_an_ingest_says(work, tmp_path, capsys):
    folder, _ = work
    told = []
    for command in ("ingest", "train"):
        words = [str(folder / "train.csv"), str(tmp_path / command), "--label", "bought", "--json"]
        assert main([command, *words]) == 0
        captured = capsys.readouterr()
        result = json.loads(captured.out)
        assert all(in_flags(note) in captured.err for note in result["notes"])
        told.append((result["encoded"], result["notes"]))
    (form,) = (note for note in told[0][1] if note.startswith("The form was chosen by"))
    told[0][1].remove(form)  # of an ingest alone: learnt straight from a file, a table is linear
    assert told[0] == told[1]
    assert "looks like an index" in told[0][1][0]


def test_a_later_file_with_new_words_trains_on(work, tmp_path):
    """--like keeps the recipe: a word that was never seen is rare or unseen."""
    folder, frame = work
    frame[2000:].assign(city="Paris").to_csv(tmp_path / "new.csv", index=False)
    plan = IngestPlan(
        sources=(str(tmp_path / "new.csv"),), dataset=str(tmp_path / "new"),
        like=str(folder / "data"),
    )  # fmt: skip
    ingest(plan)
    new = Dataset.open(str(tmp_path / "new"))
    assert new.schema == Dataset.open(str(folder / "data")).schema
    names = recipe_in(new.schema).outputs
    assert new.column("mean")[names.index("city rare or unseen")] == 1.0


def test_inspect_and_the_model_card_tell_the_columns(work, capsys):
    folder, _ = work
    assert main(["inspect", str(folder / "data")]) == 0
    assert "category of 3 values" in capsys.readouterr().out
    card = model_card(RunFolder(str(folder / "run")))
    assert "| city | category of 3 values" in card


def test_settings_are_said_once(tmp_path):
    """--missing and the type of features hold for every later file that is read `like` the first."""
    rows = "x;z;y\n" + "".join(f"{k};{'' if k % 5 else k};{k % 2}\n" for k in range(40))
    (tmp_path / "rows.txt").write_text(rows)
    options = ["--delimiter", ";", "--missing", "zero", "--dtype", "float64", "--format", "csv"]
    common = ["--memory", "128MB", "-q"]
    first, later, run = (str(tmp_path / name) for name in ("first", "later", "run"))
    source = str(tmp_path / "rows.txt")
    assert main(["ingest", source, first, *options, "--scale", "none", *common]) == 0
    assert main(["ingest", source, later, "--like", first, *common]) == 0
    assert Dataset.open(later).manifest.dtype == "float64"
    assert main(["train", first, run, "--passes", "1", "--scheduler", "none", *common]) == 0
    assert len(predicted(run, source, tmp_path / "p.parquet")) == 40


def test_many_whole_numbers_are_taken_for_labels_and_that_is_said(tmp_path, capsys):
    frame = pd.DataFrame({"x": np.arange(500.0), "y": np.arange(500) % 30})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert main(["ingest", str(tmp_path / "rows.csv"), str(tmp_path / "data")]) == 0
    assert "The targets are 30 different whole numbers" in capsys.readouterr().err


def test_columns_of_other_units_are_standardised_and_the_model_is_not(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"metres": rng.normal(0, 1e4, 3000), "share": rng.normal(0, 0.1, 3000)})
    frame["y"] = 1e-3 * frame.metres + 50.0 * frame.share
    frame.to_csv(tmp_path / "rows.csv", index=False)
    data, run = str(tmp_path / "data"), str(tmp_path / "run")
    assert main(["ingest", str(tmp_path / "rows.csv"), data, "-q"]) == 0
    assert Dataset.open(data).manifest.scaling.kind == "standard"
    assert main(["train", data, run, "--lam", "1e-9", "--tol", "1e-6", "-q"]) == 0
    model = from_run(run)
    np.testing.assert_allclose(model.coef_, [1e-3, 50.0], rtol=1e-3)
    frame[["share", "y"]].to_csv(tmp_path / "one.csv", index=False)
    assert main(["ingest", str(tmp_path / "one.csv"), str(tmp_path / "one"), "-q"]) == 0
    assert Dataset.open(str(tmp_path / "one")).manifest.scaling.kind == "standard"


def test_sparse_rows_are_predicted_by_a_model_of_standardised_columns(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(5, 1e3, 500), "b": rng.normal(1, 0.1, 500)})
    frame["y"] = (frame.a + 1e4 * (frame.b - 1) > 0).astype(int)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    lines = [f"0 1:{a!r} 2:{b!r}" for a, b in zip(frame.a.tolist(), frame.b.tolist(), strict=True)]
    (tmp_path / "rows.svm").write_text("\n".join(lines) + "\n")
    data, run = str(tmp_path / "data"), str(tmp_path / "run")
    assert main(["ingest", str(tmp_path / "rows.csv"), data, "--dtype", "float64", "-q"]) == 0
    assert main(["train", data, run, "--passes", "2", "-q"]) == 0
    dense = predicted(run, tmp_path / "rows.csv", tmp_path / "dense.parquet")
    sparse = predicted(run, tmp_path / "rows.svm", tmp_path / "sparse.parquet", "--by-position")
    np.testing.assert_allclose(sparse.score, dense.score, rtol=1e-9, atol=1e-9)


def test_gaps_and_collisions_are_counted():
    n, rng = 3000, np.random.default_rng(2)
    frame = pd.DataFrame({
        "who": [f"v{k}" for k in rng.integers(0, 1500, n)], "paid": rng.lognormal(2, 1, n),
        "y": rng.integers(0, 2, n),
    })  # fmt: skip
    frame.loc[rng.random(n) < 0.2, "paid"] = np.nan
    frame.loc[rng.random(n) < 0.1, "who"] = None
    sample = pa.Table.from_pandas(frame[["who", "paid"]], preserve_index=False)
    who, paid = fitted(sample, RecipeRules(bits=11)).columns
    assert paid.missing_share == pytest.approx(frame.paid.isna().mean(), abs=1e-6)
    assert who.missing_share == pytest.approx(frame.who.isna().mean(), abs=1e-6)
    values = pa.array(frame.who.dropna().unique(), pa.large_string())
    _, columns, _ = encode(Recipe(columns=(who,)), [values]).sparse(np.float64)
    counts = np.unique(columns, return_counts=True)[1]
    together = counts[counts > 1].sum()
    assert who.collisions == pytest.approx(together / frame.who.nunique(), abs=1e-6)
    assert 0 < who.collisions < 1


def evaluated(run, rows, capsys, *options):
    capsys.readouterr()
    words = ["evaluate", str(run), str(rows), "--memory", "128MB", "--json", *options]
    assert main(words) == 0
    return json.loads(capsys.readouterr().out)


def test_files_evaluate_a_model_as_the_data_set_made_of_them_does(work, tmp_path, capsys):
    folder, _ = work
    of_set = evaluated(folder / "run", folder / "test", capsys)
    shutil.copytree(folder / "run", tmp_path / "run")
    of_file = evaluated(tmp_path / "run", folder / "test.csv", capsys, "--reliability")
    reliability = of_file.pop("reliability")
    assert reliability["log_loss"] == pytest.approx(of_set["loss"], rel=1e-12)
    assert of_file == pytest.approx(of_set, rel=1e-12)
    assert of_file["rows"] == 1000


def test_weights_and_classes_of_files_count_as_in_a_data_set(tmp_path, capsys):
    frame = people(900)
    frame["kind"] = np.where(frame["bought"] == "yes", frame["city"].fillna("Lund"), "no")
    frame["times"] = np.arange(900) % 3
    frame[:600].to_csv(tmp_path / "train.csv", index=False)
    frame[600:].to_csv(tmp_path / "test.csv", index=False)
    data, run, test = (str(tmp_path / name) for name in ("data", "run", "test"))
    columns = ["--label", "kind", "--weight", "times"]
    assert main(["ingest", str(tmp_path / "train.csv"), data, *columns, "-q"]) == 0
    assert main(["train", data, run, "--passes", "1", "--scheduler", "none", "-q"]) == 0
    assert main(["ingest", str(tmp_path / "test.csv"), test, "--like", data, "-q"]) == 0
    of_set, of_file = (evaluated(run, place, capsys) for place in (test, f"{test}.csv"))
    assert len(of_set["classes"]) == 5
    for name in ("rows", "loss", "error", "objective"):
        assert of_file[name] == pytest.approx(of_set[name], rel=1e-12)
    for one, other in zip(of_file["classes"], of_set["classes"], strict=True):
        assert one == {
            name: pytest.approx(value, rel=1e-12) if isinstance(value, float) else value
            for name, value in other.items()
        }


def test_labels_of_a_file_that_the_model_does_not_know_are_refused(work, tmp_path, capsys):
    folder, frame = work
    frame[2000:].replace({"bought": {"yes": "maybe"}}).to_csv(tmp_path / "rows.csv", index=False)
    assert main(["evaluate", str(folder / "run"), str(tmp_path / "rows.csv")]) == 2
    assert 'rows.csv, after line 1: the label "maybe" is unknown' in capsys.readouterr().err


@pytest.mark.parametrize("written", ["yes.", "Yes", " YES . "])
def test_labels_that_are_only_written_otherwise_are_told_so(work, tmp_path, capsys, written):
    folder, frame = work
    rows = frame[2000:].replace({"bought": {"yes": written.strip()}})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    said = f'"{written.strip()}" and "yes" differ by case, blanks or a dot at the end alone'
    assert main(["evaluate", str(folder / "run"), str(tmp_path / "rows.csv")]) == 2
    assert said in capsys.readouterr().err
    like = ["--like", str(folder / "data")]
    assert main(["ingest", str(tmp_path / "rows.csv"), str(tmp_path / "like"), *like]) == 2
    assert said in capsys.readouterr().err


def test_a_class_of_one_row_is_told_and_trained(tmp_path, capsys):
    frame = people(300)
    frame.loc[7, "bought"] = "Yes"
    frame.to_csv(tmp_path / "rows.csv", index=False)
    data, run = str(tmp_path / "data"), str(tmp_path / "run")
    assert main(["ingest", str(tmp_path / "rows.csv"), data, "--label", "bought", "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    (note,) = [one for one in notes if "single row" in one]
    assert note.startswith("'Yes': labels of a single row")
    assert any('Two labels may be one. "yes" and "Yes" differ' in one for one in notes)
    assert main(["train", data, run, "--passes", "1", "--scheduler", "none", "-q"]) == 0


def test_ranks_are_the_shares_of_the_sample_below_a_number():
    rng = np.random.default_rng(0)
    skew, mixed = -(rng.random(300) ** 5), np.where(np.arange(900) % 9, 0.0, rng.normal(0, 9, 900))
    for numbers in (mixed, rng.pareto(0.7, 5000), skew):
        column = fitted(pa.table({"x": numbers.astype(float)}), RecipeRules()).columns[0]
        known = np.asarray(column.rank.values)
        below = [(numbers < value).mean() + (numbers == value).mean() / 2 for value in known]
        assert np.allclose(column.rank.shares, below, atol=1e-12)
        assert (column.lowest is None) == ((numbers == numbers.min()).mean() < 0.05)


@pytest.mark.parametrize(
    "numbers", [np.arange(400.0), np.arange(400) % 2, np.ones(400), np.full(400, np.nan)]
)
def test_a_rank_that_says_nothing_new_is_left_out(numbers):
    column = fitted(pa.table({"x": np.asarray(numbers, float)}), RecipeRules()).columns[0]
    assert column.rank is None
    assert column.lowest is None
    raw = fitted(pa.table({"x": np.arange(400.0) ** 4}), RecipeRules(ranks=False)).columns[0]
    assert raw.outputs == ["x", "x log1p"]


def test_numbers_of_files_are_scaled_as_the_model_wants_them(tmp_path, capsys):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(5e4, 1e4, 300), "b": rng.normal(0, 1e-2, 300)})
    frame["y"] = frame["a"] / 1e4 + frame["b"] * 1e2 + rng.normal(0, 0.1, 300)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    data, run = str(tmp_path / "data"), str(tmp_path / "run")
    assert main(["ingest", str(tmp_path / "rows.csv"), data, "--label", "y", "-q"]) == 0
    assert Dataset.open(data).manifest.scaling.kind == "standard"
    assert main(["train", data, run, "--tol", "1e-6", "--scheduler", "none", "-q"]) == 0
    of_set, of_file = (evaluated(run, place, capsys) for place in (data, tmp_path / "rows.csv"))
    assert of_file == pytest.approx(of_set, rel=1e-6)
