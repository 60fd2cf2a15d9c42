"""Which form is chosen: the statistic of pairs, held-out rows, and what somebody asked for."""

import json
import tracemalloc
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fewpass import LinearRegressor, TableEncoder, ingest
from fewpass.flows.cli import main
from fewpass.flows.command_line import spelled_out
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.estimators.frames import as_table
from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.additive import choosing
from fewpass.pipeline.tables.additive.cell_sums import subtract_each
from fewpass.pipeline.tables.additive.form_sample import EncodedForm
from fewpass.pipeline.tables.additive.interactions import (
    Binned,
    holds,
    interactions,
    phis_of,
    ranked,
)
from fewpass.pipeline.tables.additive.of_table import of_numbers
from fewpass.pipeline.tables.additive.rules import AskedForm, FormRules
from fewpass.pipeline.tables.additive.sample_fit import (
    GRID,
    SampleModels,
    SampleTargets,
    fitted_models,
)
from fewpass.pipeline.tables.additive.trials import FormTrial, losses_without
from fewpass.pipeline.tables.encoding.additive_shapes import shapes_of
from fewpass.pipeline.tables.encoding.applying import encode as encoded_as
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.encoding.variables_of_rows import VariablesOfRows
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import SparseTable
from testing.shape_values import values_of


def frame(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    a, b, c = rng.uniform(-1, 1, (3, n))
    town = rng.choice(["north", "south", "west"], n)
    y = np.sin(4 * a) + 2 * a * b + (town == "north") * c + 0.1 * rng.normal(size=n)
    return pd.DataFrame({"a": a, "b": b, "c": c, "town": town, "y": y}).round(4)


def cells_of(n, sizes, seed=0):
    rng = np.random.default_rng(seed)
    return {name: Binned(rng.integers(0, size, n), size) for name, size in sizes.items()}


def test_what_is_left_of_a_table_has_no_row_or_column_of_its_own():
    rng = np.random.default_rng(0)
    H = rng.uniform(0, 5, (4, 6))
    additive = H * (rng.normal(size=(4, 1)) + rng.normal(size=6))
    for _ in range(30):
        subtract_each(additive, H)
    np.testing.assert_allclose(additive, 0.0, atol=1e-9)


def test_noise_scores_about_nothing_and_an_interaction_is_found():
    n, rng = 4000, np.random.default_rng(1)
    names = [f"t{k}" for k in range(12)]
    cells = cells_of(n, dict.fromkeys(names, 5))
    pairs = [(a, b) for k, a in enumerate(names) for b in names[k + 1 :]]
    g = rng.normal(size=(1, n))
    noise = interactions(cells, pairs, g, np.ones((1, n)), numbers=True)
    z = np.array([one.z for one in noise])
    assert abs(z.mean()) < 5 / np.sqrt(len(z)) and (z > 3).sum() <= 2
    told = g + 0.3 * ((cells["t0"].codes > 1) ^ (cells["t1"].codes > 2))
    best = ranked(interactions(cells, pairs, told, np.ones((1, n)), numbers=True))
    assert (best[0].a, best[0].b) == ("t0", "t1")
    assert len(ranked(noise)) <= 2
    phis = phis_of(told, np.ones((1, n)), numbers=True)
    agreed = [holds(cells[a], cells[b], told, np.ones((1, n)), phis) for a, b in pairs]
    assert agreed[0] and sum(agreed[1:]) <= 6  # of 65; two or three by chance


def test_rules_by_rows_and_columns():
    def of(n, d, **asked):
        return FormRules.of(n, d, AskedForm(**asked))

    assert of(49, 5).levels == 0 and of(50, 5).levels == 3 and of(50, 5).pairs == 0
    assert of(500, 9)[:4] == (3, 9, 4, 2)
    assert of(2000, 9)[:4] == (5, 9, 8, 2)
    assert of(5000, 90).pairs == 60
    assert of(10_000, 200).levels == 3 and of(10_000, 200).most_cells == 500
    assert of(5000, 9, form="splines").pairs == 0 and of(5000, 9, knots=100).levels == 7
    assert of(50_000, 9, pairs=3)[1:4] == (3, 8, 1)


@pytest.mark.parametrize("waves", [12, 1])
def test_a_pair_that_more_is_left_of_has_more_knots(waves):
    """Of many rows: a product of waves shorter than an eighth of the rows, not one of a wave."""
    rng, n = np.random.default_rng(3), 10_000
    rows = pd.DataFrame(rng.uniform(-1, 1, (n, 2)).round(4), columns=["a", "b"])
    y = np.sin(waves * rows["a"]) * np.sin(waves * rows["b"]) + 0.1 * rng.normal(size=n)
    (pair,) = TableEncoder(additive=True).fit(rows, y).recipe_.additive.pairs
    assert pair.shape == ((34, 34) if waves == 12 else (10, 10))  # knots, and what is missing
    (pair,) = TableEncoder(additive=True, pair_bins=8).fit(rows, y).recipe_.additive.pairs
    assert pair.shape == (10, 10)


@pytest.mark.parametrize("differing", [150, 10])
def test_a_pair_that_more_is_left_of_has_more_values(differing):
    """Of 150 towns: the second round has all of them where they differ, not the 64 of the first."""
    rng, n = np.random.default_rng(5), 6_000
    town = rng.integers(0, 150, n)
    rows = pd.DataFrame({"a": rng.uniform(-1, 1, n).round(4), "town": np.char.mod("t%d", town)})
    slopes = rng.choice([-3.0, 3.0], 150) * (np.arange(150) >= 150 - differing)
    y = slopes[town] * rows["a"] + 0.1 * rng.normal(size=n)
    encoder = TableEncoder(additive=True, columns={"town": "category"}).fit(rows, y)
    (pair,) = encoder.recipe_.additive.pairs
    assert len(pair.b.values) == 150


def test_an_encoder_takes_what_held_out_rows_approve():
    data = frame()
    X, y = data.drop(columns="y"), data["y"]
    own = TableEncoder(additive=True).fit(X, y).recipe_.additive
    assert own.chosen.form == "pairs" and own.chosen.looked_at == 6
    assert TableEncoder(additive=True).fit(X, y.astype(object)).recipe_.additive == own
    found = [{variable.title for variable in pair.of} for pair in own.pairs]
    assert {"a", "b"} in found and {"c", "town"} in found
    losses = {one.form: one.loss for one in own.chosen.candidates}
    assert losses["pairs"] < losses["splines"] < losses["linear"]
    straight = TableEncoder(additive=True).fit(X, X["a"] + 2 * X["b"]).recipe_
    assert straight.additive is None or not straight.additive.pairs


def test_an_hour_depends_on_the_weekday_in_one_column_of_dates_as_in_two():
    """Later rows of one column of moments lose what those of hour and weekday apart do."""
    rng = np.random.default_rng(0)
    at = pd.Series(pd.date_range("2021-01-01", periods=8000, freq="h"))
    rush = np.exp(-((at.dt.hour - 8) ** 2) / 4) * np.where(at.dt.day_of_week < 5, 1, -1)
    y = 10 * rush + rng.normal(size=len(at))
    apart = pd.DataFrame({"hour": at.dt.hour, "weekday": at.dt.day_name()})
    losses = []
    for rows in (pd.DataFrame({"at": at}), apart):
        model = LinearRegressor(encode="additive", tol=1e-3).fit(rows[:6000], y[:6000])
        losses.append(np.mean((model.predict(rows[6000:]) - y[6000:]) ** 2))
    assert losses[0] < 1.1 * losses[1]
    named = TableEncoder(additive=True, pairs=["at weekday:at time of day"])
    (pair,) = named.fit(pd.DataFrame({"at": at}), y).recipe_.additive.pairs
    assert pair.columns == ("at",)
    same = TableEncoder(additive=True, pairs=["at month:at day of the year"])
    with pytest.raises(BadInput, match="a column with itself"):
        same.fit(pd.DataFrame({"at": at}), y)


@pytest.mark.parametrize("persons", [60, 1000])
def test_numbers_that_name_things_have_a_feature_each(persons):
    rng, n = np.random.default_rng(2), 3000
    who, amount = rng.integers(0, persons, n), rng.integers(0, 60, n)
    y = rng.normal(size=persons)[who] + 0.1 * amount + 0.3 * rng.normal(size=n)
    rows = pd.DataFrame({"who": 1000 + who, "amount": amount, "x": rng.normal(size=n)})
    recipe = TableEncoder(additive=True).fit(rows, y).recipe_
    assert [column.kind for column in recipe.columns] == ["category", "number", "number"]
    assert [one.form for one in recipe.additive.chosen.candidates][2] == "numbers as names"
    plain = TableEncoder(additive=True).fit(rows, 6 * who / persons + rng.normal(size=n)).recipe_
    assert plain.columns[0].kind == "number"
    said = TableEncoder(additive=True, columns={"who": "number"}).fit(rows, y).recipe_
    assert [column.kind for column in said.columns] == ["number"] * 3


def test_columns_of_words_that_say_nothing_are_left_out(tmp_path, capsys):
    """Not one that says something, nor one of which somebody said what it holds."""
    rng = np.random.default_rng(5)
    rows = frame(2500)
    rows["who"] = [f"w{k}" for k in rng.integers(0, 400, len(rows))]
    shop = rng.integers(0, 60, len(rows))
    rows["shop"], rows["y"] = [f"s{k}" for k in shop], rows["y"] + rng.normal(size=60)[shop]
    X, y = rows.drop(columns="y"), rows["y"]
    made = TableEncoder(additive=True).fit(X, y)
    assert [*made.left_out_] == ["who"] and [c.name for c in made.recipe_.columns][-1] == "shop"
    kept = TableEncoder(additive=True, columns={"who": "category"}).fit(X, y)
    assert not kept.left_out_
    rows.to_csv(tmp_path / "rows.csv", index=False)
    source, run = [str(tmp_path / "rows.csv"), "--label", "y"], str(tmp_path / "run")
    assert main(["ingest", *source[:1], str(tmp_path / "a"), *source[1:], "--additive"]) == 0
    assert "'who' was left out: held-out rows" in "".join(capsys.readouterr())
    like = ["--like", str(tmp_path / "a"), "-q"]
    assert main(["ingest", *source[:1], str(tmp_path / "b"), *like]) == 0
    assert main(["train", str(tmp_path / "a"), run, "--lam", "1/n", "--tol", "1e-2", "-q"]) == 0
    figures = []
    for where in ([str(tmp_path / "b")], source):
        assert main(["evaluate", run, *where, "--json", "-q"]) == 0
        figures.append(json.loads(capsys.readouterr().out)["loss"])
    assert figures[0] == pytest.approx(figures[1], rel=1e-12)


@pytest.mark.parametrize("slope", [0.8, 0.0])
def test_numbers_stay_numbers_where_pairs_with_their_curves_lose_less(slope):
    """Every year has an effect of its own; that of x changes slowly from year to year, if it does.

    Names alone are surely better; pairs of x with sixty names have rows too few for each.
    """
    rng, n = np.random.default_rng(2), 1200
    year, x = rng.integers(1000, 1060, n), rng.normal(size=n)
    y = 0.15 * rng.normal(size=60)[year - 1000] + slope * np.sin((year - 1000) / 20) * x
    rows = pd.DataFrame({"year": year, "x": x})
    recipe = TableEncoder(additive=True).fit(rows, y + 0.3 * rng.normal(size=n)).recipe_
    tried = {one.form: one.loss for one in recipe.additive.chosen.candidates}
    assert tried["numbers as names"] < tried["splines"]
    assert recipe.columns[0].kind == ("number" if slope else "category")
    assert len(recipe.additive.pairs) == (slope > 0)


def test_wide_rows_are_held_out_once(monkeypatch):
    rows = frame(600)
    held_out = []
    for most in (choosing.MOST_IN_TURN, 1):
        monkeypatch.setattr(choosing, "MOST_IN_TURN", most)
        recipe = TableEncoder(additive=True).fit(rows.drop(columns="y"), rows["y"]).recipe_
        held_out.append(recipe.additive.chosen.held_out_rows)
    assert held_out == [600, 120]


def test_names_that_are_not_surely_better_are_not_chosen(monkeypatch):
    rng, n = np.random.default_rng(2), 1200
    who = rng.integers(1000, 1060, n)
    rows, y = pd.DataFrame({"who": who, "x": rng.normal(size=n)}), rng.normal(size=60)[who - 1000]
    monkeypatch.setattr(FormTrial, "is_surely_better", lambda *_: False)
    recipe = TableEncoder(additive=True).fit(rows, y + 0.3 * rng.normal(size=n)).recipe_
    assert recipe.columns[0].kind == "number"
    assert recipe.additive.chosen.form == "splines"


def test_rows_choose_by_their_weights(tmp_path):
    """Rows of weight 0 have no say: what is left is chosen as if they were not there."""
    data, other = frame(1500), frame(1500, seed=3).assign(y=lambda of: 5 * of["b"])
    both = pd.concat([data.assign(w=2.0), other.assign(w=0.0)])
    found = {}
    for name, rows in (
        ("alone", data.assign(w=2.0)),
        ("both", both),
        ("blind", both.assign(w=1.0)),
    ):
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
        made = ingest(
            str(tmp_path / f"{name}.csv"), str(tmp_path / name), label="y", weight="w",
            encode="additive",
        )  # fmt: skip
        own = recipe_in(Dataset.open(made.dataset).schema).additive
        found[name] = {pair.name for pair in own.pairs}, own.chosen.candidates[-1].loss
    assert found["both"][0] >= {"a x b", "c x town"} and found["alone"][0] >= {"a x b", "c x town"}
    assert found["both"][1] < 2 * found["alone"][1] < found["blind"][1]


def test_the_error_of_a_difference_is_that_of_its_weighted_mean():
    """A difference that is the same for all rows is sure, however they weigh; 0 is no row."""
    weight, part = np.array([1.0, 4.0, 2.0, 0.0]), (np.arange(0), np.arange(4))
    sample = SimpleNamespace(targets=SampleTargets(np.zeros(4), 2, weight), parts=[part])

    def recorded(losses):
        models = (SampleModels((1.0,), ()),)
        trials = [FormTrial("f", sample, 1, (np.array([weight * own]),), models) for own in losses]
        return trials[1].recorded(trials[0])

    assert recorded((np.ones(4), np.full(4, 0.5))).deviation == pytest.approx(0.0, abs=1e-8)
    of = recorded((np.zeros(4), np.array([1.0, 2.0, 3.0, 9.0])))
    assert of.loss == pytest.approx(15.0 / 7.0)
    far = np.array([1.0, 2.0, 3.0]) - 15.0 / 7.0
    assert of.deviation == pytest.approx(np.sqrt(np.square(weight[:3] * far).sum()) / 7.0)


def test_where_rows_are_read_once_progressive_losses_decide(tmp_path, monkeypatch):
    frame().to_csv(tmp_path / "train.csv", index=False)
    once = Expected(one_pass=True)

    def chosen():
        options = SourceOptions(label="y", encode="additive")
        return recipe_in(open_source([str(tmp_path / "train.csv")], options, None, once).schema)

    own = chosen().additive
    tried = {one.form: one.progressive for one in own.chosen.candidates}
    assert own.chosen.form == "pairs" and tried["pairs"] < tried["splines"]
    assert tried["linear"] is None  # curves are chosen by held-out rows
    monkeypatch.setattr(choosing, "progressive_loss", lambda X, d, targets, lam: float(d))
    own = chosen().additive
    assert own.chosen.form == "splines" and not own.pairs


def numbers(bend):
    rng = np.random.default_rng(4)
    rows = pd.DataFrame(rng.uniform(-1, 1, (2500, 3)).round(4), columns=["a", "b", "c"])
    y = np.sin(4 * rows["a"]) if bend else rows["a"] - rows["b"] + rng.normal(size=2500)
    return rows.assign(y=y.round(4))


#: Tables, whether curves are surely better, and whether the columns are plain numbers.
UNASKED = {
    "bent": (frame(2000), True, False),
    "noise": (frame(2000).assign(y=np.random.default_rng(1).normal(size=2000)), False, False),
    "bent numbers": (numbers(bend=True), True, True),
    "straight numbers": (numbers(bend=False), False, True),
}


@pytest.mark.parametrize("name", UNASKED)
def test_curves_are_taken_unasked_where_they_are_surely_better_and_that_is_said(name, tmp_path):
    """Where they are not, plain numbers are what they are by `--encode linear`: themselves."""
    rows, is_curved, is_plain = UNASKED[name]
    rows.to_csv(tmp_path / "rows.csv", index=False)
    for encode in ("auto", "linear", *(["additive"] if is_plain else [])):
        made = ingest(str(tmp_path / "rows.csv"), str(tmp_path / encode), label="y", encode=encode)
        recipe, notes = recipe_in(Dataset.open(made.dataset).schema), " ".join(made.notes)
        own = recipe and recipe.additive
        assert (own is not None) == (is_curved and encode != "linear")
        assert (recipe is None) == (is_plain and own is None)
        form = own.chosen.form if own else "linear"
        assert (f"{form} (linear" in notes) == (encode != "linear")
        assert encode != "auto" or ("encode=linear" in notes) == is_curved
    model = LinearRegressor(encode="auto", tol=1e-2).fit(rows.drop(columns="y"), rows["y"])
    encoder = getattr(model, "encoder_", None)
    assert (encoder is None) == (is_plain and not is_curved)
    assert (encoder is not None and encoder.recipe_.additive is not None) == is_curved


def test_what_is_asked_for_is_taken():
    data = frame(800)
    X, y = data.drop(columns="y"), data["y"]

    def own(y=y, **asked):
        return TableEncoder(**{"additive": True, **asked}).fit(X, y).recipe_.additive

    assert [p.name for p in own(pairs=["b:town"], y=None).pairs] == ["b x town"]
    assert len(own(pairs=1).pairs) == 1 and not own(additive="splines", y=None).pairs
    assert {s.width for s in own(additive="splines", knots=100).splines} == {128}
    axes = [axis for pair in own(pairs=["a:b"], pair_bins=3).pairs for axis in (pair.a, pair.b)]
    assert [len(axis.knots) for axis in axes] == [4, 4]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"additive": True}, "y is None"),
        ({"additive": "curves"}, "Give True, False or 'splines'"),
        ({"knots": 8}, "are of additive models"),
        ({"additive": True, "pairs": "a"}, "no pair of columns"),
        ({"additive": True, "pairs": ["a:z"]}, "no column 'z' to pair"),
        ({"additive": True, "pairs": ["a:a"]}, "a column with itself"),
    ],
)
def test_what_cannot_be_is_refused(asked, said):
    with pytest.raises((ValueError, BadInput), match=said):
        TableEncoder(**asked).fit(frame(200).drop(columns="y"))


def test_of_few_rows_curves_are_to_be_surely_better():
    """Though somebody asked for them: below 500 rows, where a standard error is large."""
    assert AskedForm().errors(499) == 1.0 and AskedForm().errors(500) == 0.0
    unasked = AskedForm(unasked=True)
    assert unasked.errors(499) == unasked.errors(2000) == 1.0
    outcomes = set()
    for seed in range(6):
        rng = np.random.default_rng(seed)
        x = rng.uniform(-1, 1, (150, 2))
        rows = as_table(pd.DataFrame(x, columns=["a", "b"]))
        cells = [column.combine_chunks() for column in rows.columns]
        y = x[:, 0] + 0.25 * seed * np.abs(x[:, 1]) + 0.5 * rng.normal(size=150)
        today = fitted(rows, RecipeRules(n_rows=150))
        formed = choosing.with_form(today, cells, of_numbers(y), AskedForm(), 0)
        linear, splines = formed.chosen.candidates
        sure = linear.loss - splines.loss > splines.deviation
        assert (formed.chosen.form == "splines") == sure == (formed.recipe.additive is not None)
        outcomes.add((splines.loss < linear.loss, sure))
    assert {(True, True), (True, False)} <= outcomes


# -- commands --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("additive")
    frame().to_csv(folder / "train.csv", index=False)
    frame(500, seed=5).to_csv(folder / "test.csv", index=False)
    source = ["ingest", str(folder / "train.csv")]
    assert main([*source, str(folder / "data"), "--label", "y", "--additive", "-q"]) == 0
    train = ["train", str(folder / "data"), str(folder / "run"), "--tol", "1e-3", "-q"]
    assert main([*train, "--lam", "1/n"]) == 0
    return folder


def test_any_workers_and_memory_make_the_same_data_set(work, tmp_path):
    prints = {Dataset.open(str(work / "data")).manifest.fingerprint}
    for threads in (1, 4):
        made = ingest(
            str(work / "train.csv"), str(tmp_path / str(threads)), label="y", encode="additive",
            threads=threads, memory="600MB",
        )  # fmt: skip
        prints.add(made.fingerprint)
    assert len(prints) == 1


def test_later_files_are_encoded_by_the_recipe(work, tmp_path, capsys):
    like = ["ingest", str(work / "test.csv"), str(tmp_path / "test"), "--like", str(work / "data")]
    assert main([*like, "--label", "y", "-q"]) == 0
    capsys.readouterr()
    said = []
    for rows in ([str(tmp_path / "test")], [str(work / "test.csv"), "--label", "y"]):
        assert main(["evaluate", str(work / "run"), *rows, "--json", "-q"]) == 0
        said.append(json.loads(capsys.readouterr().out))
    assert said[0] == pytest.approx(said[1], rel=1e-12)  # rows are summed in another order
    assert recipe_in(Dataset.open(str(tmp_path / "test")).schema) == recipe_in(
        Dataset.open(str(work / "data")).schema
    )


def test_what_was_chosen_is_reported(work, tmp_path, capsys):
    """With the figure: the loss that `evaluate` tells, in the units of the targets."""
    large = frame()
    large.assign(y=100.0 * large["y"]).to_csv(tmp_path / "train.csv", index=False)
    source = ["ingest", str(tmp_path / "train.csv"), str(tmp_path / "data"), "--label", "y"]
    assert main([*source, "--additive"]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert (
        "The form was chosen by the mean squared loss (half the squared error) of 3,000 rows of "
        "the sample, a fifth held out at a time: pairs (linear" in said
    )
    own, hundredfold = (
        recipe_in(Dataset.open(str(folder / "data")).schema).additive.chosen
        for folder in (work, tmp_path)
    )
    assert hundredfold.loss == pytest.approx(1e4 * own.loss, rel=1e-6)
    rows = str(work / "test.csv")
    assert main(["evaluate", str(work / "run"), rows, "--label", "y", "--json", "-q"]) == 0
    told = json.loads(capsys.readouterr().out)["loss"]
    assert 0.25 < own.loss / told < 4.0  # of another lam, and other rows
    assert main(["inspect", str(work / "data"), "--json", "-q"]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert {"a", "a curve"} <= set(columns) and any(" x " in name for name in columns)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--pairs", "3"], "--pairs is of additive models"),
        (["--additive", "splines", "--pairs", "3"], "has no pairs"),
        (["--additive", "--pairs", "a"], "'a' is no pair of columns"),
        (["--additive", "--knots", "1"], "--knots"),
        (["--additive", "--pairs", "a:q"], "no column 'q' to pair"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(words, said, work, tmp_path, capsys):
    source = ["ingest", str(work / "test.csv"), str(tmp_path / "d"), "--label", "y", "-q"]
    assert main([*source, *words]) == 2
    assert said in capsys.readouterr().err


def test_the_short_option_is_spelled_out():
    assert spelled_out(["t", "--additive"]) == ["t", "--encode", "additive"]
    assert spelled_out(["--additive", "splines", "t"]) == ["--encode", "splines", "t"]
    assert spelled_out(["--additive", "t"]) == ["--encode", "additive", "t"]
    assert spelled_out(["--additive=splines"]) == ["--encode", "splines"]


# -- odd columns -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [60, 700])
@pytest.mark.parametrize("targets", ["numbers", "two", "rare", "one"])
def test_odd_columns_have_shapes_that_add_up(n, targets):
    rng = np.random.default_rng(n)
    x = rng.normal(size=n)
    data = pd.DataFrame({
        "a:b": np.full(n, 3.0), "nan": np.full(n, np.nan), "gaps": np.where(rng.random(n) < 0.97, np.nan, x),
        "two": rng.integers(0, 2, n).astype(float), "huge": x * 1e60, "tiny": x * 1e-60, "heavy": np.exp(8 * x),
        "spike": np.where(rng.random(n) < 0.7, 0, x), "far": 1e9 + rng.integers(0, 50, n),
        "inf": np.where(rng.random(n) < 0.1, np.inf, x), "yes": x > 0, "word": rng.choice(["é", ","], n),
        "one": np.full(n, "x"), "day": np.full(n, np.datetime64("2024-01-01", "s")),
        "at": np.datetime64("2024-01-01T00:00:00") + rng.integers(0, 900 * 86_400, n),
        "text": [" ".join(rng.choice(list("abcdef"), 6)) for _ in range(n)],
        "gone": np.full(n, np.datetime64("NaT", "s")), "vast": np.where(np.arange(n) < 2, 1e308, x),
    })  # fmt: skip
    y = {
        "numbers": x * data["two"], "two": np.where(x > 0, "u", "v"), "one": np.full(n, 1.5),
        "rare": np.where(np.arange(n) == 5, "rare", np.where(x > 0, "u", "v")),
    }[targets]  # fmt: skip
    encoder = TableEncoder(additive=True).fit(data, y)
    recipe, X = encoder.recipe_, encoder.transform(data)
    assert np.isfinite(X.data).all()
    if recipe.additive is None:
        return
    coef = rng.normal(size=recipe.n_outputs)
    shapes = shapes_of(recipe, coef, 0.3)
    table = as_table(data)
    cells = [table.column(column.name).combine_chunks() for column in recipe.columns]
    variables = VariablesOfRows(recipe.columns, cells)
    score = shapes.constant + sum(values_of(function, variables) for function in shapes.functions)
    score += sum(X[:, own] @ coef[own] for _, own in shapes.rest)
    np.testing.assert_allclose(score, X @ coef + 0.3, rtol=1e-9, atol=1e-8)


def test_wide_rows_and_little_memory_mean_fewer_rows():
    asked = AskedForm(memory=1 << 30)
    assert asked.most_rows(10) == 25_000 and asked.most_rows(1000) == 5000
    assert asked._replace(memory=64 << 20).most_rows(10) == 6250
    for memory, entries in product((64 << 20, 128 << 20, 1 << 30), (1000, 5000, 20_000)):
        rows = asked._replace(memory=memory).most_rows(entries)
        assert rows == 50 or rows * entries * 160 <= memory  # bytes of an entry, measured


@pytest.mark.parametrize("shares", [(0.97, 0.03), (0.9, 0.07, 0.03)])
def test_models_of_the_sample_charge_the_intercept_from_the_best_constant(shares):
    """Where columns say nothing, scores are the log odds, or log shares, whatever lam is."""
    n, classes = 2_000, len(shares)
    y = np.repeat(np.arange(classes), np.round(n * np.array(shares)).astype(int)).astype(float)
    alike = np.where(np.arange(n) % 2, 1.0, -1.0).astype(np.float32)  # in all classes
    X = SparseTable(alike, np.zeros(n, np.int32), np.arange(n + 1), y, None)
    targets = SampleTargets(y if classes > 2 else np.where(y == 1.0, 1.0, -1.0), classes)
    models = fitted_models(X, 1, targets, (GRID[0],))
    found = models.scores(0, row_view(X))
    log = np.log(shares)
    expected = log - log.mean() if classes > 2 else log[1:] - log[:1]
    means = found.reshape(-1, n).mean(axis=1)
    np.testing.assert_allclose(means - means.mean() * (classes > 2), expected, atol=0.05)


def test_forms_are_compared_on_the_features_that_rows_have():
    """Of all features of two columns of ids no vector is made: the rows have few of them."""
    many, n = 40_000, 1000
    words = pa.table({name: [f"{name}{k}" for k in range(many)] for name in "ab"})
    recipe = fitted(words, RecipeRules(20, None, False, kinds=dict.fromkeys("ab", "hash")))
    cells = [column.combine_chunks() for column in words.slice(0, n).columns]
    form, all_of = EncodedForm.of(recipe, cells), encoded_as(recipe, cells)
    data, indices, indptr = all_of.sparse(np.float32)
    assert form.features == all_of.n_outputs > 4 * many and form.d <= 2 * n
    assert (form.table.data == data).all() and (form.table.indptr == indptr).all()
    assert (form.present[form.table.indices] == indices).all()
    for start, stop in ((0, many), (many, form.features), (7, 7)):
        found = form.present[form.own(start, stop)]
        assert found.tolist() == sorted({k for k in indices.tolist() if start <= k < stop})
    targets = SampleTargets(np.where(np.arange(n) % 3, 1.0, -1.0), 2)
    fitted_models(form.table, form.d, targets, GRID)  # compiled
    tracemalloc.start()
    models = fitted_models(form.table, form.d, targets, GRID)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * form.features
    sample = SimpleNamespace(targets=targets, parts=[(np.arange(n), np.arange(n))])
    trial = FormTrial("", sample, form.features, (np.zeros((len(GRID), 1)),), (models,))
    without = losses_without(trial, form, slice(0, form.features))
    np.testing.assert_allclose(without, targets.losses(np.full(n, models.models[0].intercept)))
