"""What tables become with default options: no column lost, none invented, rows held out exactly."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass import LinearClassifier, TableEncoder, ingest
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.scaling import resolved
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.additive import of_table
from fewpass.pipeline.tables.additive.choosing import with_form
from fewpass.pipeline.tables.additive.rules import AskedForm
from fewpass.pipeline.tables.encoding.applying import encoded
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.encoding.schema import described_columns
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts, ListedTargets
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.held_out_rows import stratified
from fewpass.pipeline.tables.readers.source import SplitBy
from fewpass.pipeline.tables.readers.split_column import (
    SplitColumn,
    counted,
    threshold_of,
)
from fewpass.pipeline.tables.stream.first_rows import FirstRows
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import DenseTable

N = 400


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    zips = np.array([f"981{k:02d}" for k in rng.integers(1, 30, n)], object)
    price = rng.lognormal(2, 1.5, n).round(2).astype(str).astype(object)
    zips[n // 2], price[n // 3] = "98115-4820", "call us"
    day = (np.datetime64("2026-01-01") + rng.integers(0, 90, n)).astype(str)
    kind = rng.choice(["new", "old"], n)
    return pd.DataFrame({
        "key": [f"k{k * 7919 % 99991:05d}" for k in range(n)], "zip": zips, "price": price, "day": day,
        "kind": kind, "sold": np.where(rng.random(n) < 0.3 + 0.4 * (kind == "new"), "yes", "no"),
    })  # fmt: skip


def recipe_of(column, **rules):
    return fitted(pa.table({"x": column}), RecipeRules(n_rows=len(column), **rules)).columns[0]


# -- columns ---------------------------------------------------------------------------------------


def test_a_flag_of_few_rows_is_kept_and_no_larger_than_a_word():
    flags = np.zeros(4000)
    flags[::500] = 1.0  # clipped at 99.5 % it would be a column of zeros
    one = recipe_of(flags)
    values = encoded(Recipe(columns=(one,)), pa.table({"x": flags})).toarray()
    assert values.shape == (4000, 1)
    np.testing.assert_allclose(values[0] - values[1], 1.0)
    alone = np.zeros(4000)
    alone[7] = 1e9  # a row tells nothing of others
    assert not encoded(Recipe(columns=(recipe_of(alone),)), pa.table({"x": alone})).nnz


def test_phrases_to_choose_from_are_words_and_all_others_text():
    phrases = [f"this is answer number {word} of all" for word in ("one", "two", "three")]
    assert recipe_of(phrases * 40).kind == "category"
    assert recipe_of([f"{phrases[k % 3]} and {k}" for k in range(120)]).kind == "text"
    assert recipe_of([f"Type {k % 7}        " for k in range(9)]).kind == "category"  # of one width


def test_curves_that_nobody_asked_for_need_targets_to_be_compared_by():
    rng = np.random.default_rng(0)
    cells = [pa.array(rng.uniform(size=3000))]
    today = fitted(pa.table({"x": cells[0]}), RecipeRules())
    made = with_form(today, cells, None, AskedForm(unasked=True), 0)
    assert made.recipe == today
    assert with_form(today, cells, None, AskedForm(), 0).recipe.additive is not None
    for labels, classes in ((30, 30), (101, None)):  # of words; so many whole numbers are amounts
        words = [f"w{k % labels}" for k in range(3000)]
        targets, _ = of_table.targets_in(pa.array(words), None, "auto")
        assert (targets and targets.classes) == classes
        numbers = of_table.targets_in(
            pa.array([float(word[1:]) for word in words]), "plain", "auto"
        )[0]
        assert numbers.classes == 0


@given(st.lists(st.integers(0, N), max_size=4), st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_rows_are_encoded_the_same_however_they_are_cut(cuts, seed):
    frame = table(seed).drop(columns="sold")
    encoder = TableEncoder().fit(frame)
    whole = encoder.transform(frame)
    ends = sorted({0, N, *cuts})
    parts = [encoder.transform(frame[a:b]).toarray() for a, b in pairwise(ends)]
    np.testing.assert_array_equal(np.vstack(parts), whole.toarray())
    read = Recipe.model_validate_json(encoder.recipe_.model_dump_json())
    assert (encoded(read, pa.Table.from_pandas(frame)) != whole).nnz == 0


@given(st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_rare_words_among_numbers_are_missing_and_named(words):
    cells = [str(k / 8) for k in range(1000)]
    for k in range(words):
        cells[k * 20] = f"odd {k}"
    column = recipe_of(cells)
    if words > 10:  # more than one in a hundred
        assert column.kind == "category"
        return
    assert (column.kind, column.n_words, column.has_missing) == ("number", words, True)
    assert column.missing_share == pytest.approx(words / 1000)
    said = "1 that is no number" if words == 1 else f"{words} that are no numbers"
    assert words == 0 or f"among them {said} ('odd 0'" in column.summary
    X = encoded(Recipe(columns=(column,)), pa.table({"x": [*cells, "never seen"]})).toarray()
    assert X[:, 1].sum() == words + 1 and X[-1].tolist() == [0.0, 1.0, *X[0, 2:]]


def test_a_heavy_tail_has_its_logarithm_beside_it():
    rng = np.random.default_rng(0)
    numbers = rng.lognormal(0, 2, 2000)
    column = recipe_of(numbers)
    assert column.outputs[:2] == ["x", "x log1p"] and "with log1p" in column.summary
    X = encoded(Recipe(columns=(column,)), pa.table({"x": numbers})).toarray()
    for target in (
        np.clip(numbers, column.low, column.high),
        np.log1p(numbers.clip(column.low, column.high)),
    ):
        design = np.column_stack([np.ones(2000), X])
        residual = target - design @ np.linalg.lstsq(design, target, rcond=None)[0]
        assert np.abs(residual).max() <= 1e-9 * np.abs(target).max()  # nothing of either is lost


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([f"981{k % 30:02d}" for k in range(N)] + ["98115-4820"], "category"),
        ([f"{k % 100:04d}" for k in range(N)], "category"),
        ([f"{k % 100 + 1900}" for k in range(N)], "number"),  # years
        ([f"{k % 30 + 10000}.5" for k in range(N)] + ["10000-1"], "number"),
    ],
)
def test_codes_are_categories(cells, kind):
    assert recipe_of(cells).kind == kind


def test_ids_are_left_out_and_said(tmp_path):
    frame = table().assign(row=np.arange(N))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    done = ingest(tmp_path / "rows.csv", tmp_path / "data", label="sold")
    told = dict(done.encoded)
    assert told["key"] == "nothing: left out, an id: 400 different values in 400 rows"
    assert told["row"].startswith("nothing: left out") and "zip" in told
    assert sum("was left out" in note for note in done.notes) == 2
    assert described_columns(Dataset.open(str(tmp_path / "data")).schema) == done.encoded
    kept = ingest(tmp_path / "rows.csv", tmp_path / "kept", label="sold", column={"key": "hash"})
    assert "hashed" in dict(kept.encoded)["key"]
    # rows to predict, and test rows, need no ids
    frame.drop(columns=["key", "row"]).to_csv(tmp_path / "later.csv", index=False)
    ingest(tmp_path / "later.csv", tmp_path / "later", like=str(tmp_path / "data"))
    encoder = TableEncoder().fit(frame.drop(columns="sold"))
    assert set(encoder.left_out_) == {"key", "row"}
    assert TableEncoder().fit(frame[["key"]]).left_out_ == {}


def test_python_says_what_columns_hold(tmp_path):
    frame = table().assign(zip=[str(98100 + k % 30) for k in range(N)])
    X, y = frame.drop(columns="sold"), frame["sold"]
    asked = {"zip": "category", "day": "drop"}
    encoder = TableEncoder(columns=asked).fit(X)
    kinds = {column.name: column.kind for column in encoder.recipe_.columns}
    assert kinds["zip"] == "category" and "day" not in kinds
    model = LinearClassifier(columns=asked, lam=0.1).fit(X, y)
    assert model.encoder_.recipe_ == encoder.recipe_
    frame.to_csv(tmp_path / "rows.csv", index=False)
    files = LinearClassifier(columns=asked, lam=0.1).fit(tmp_path / "rows.csv", "sold")
    assert files.encoder_.recipe_ == encoder.recipe_
    np.testing.assert_allclose(files.decision_function(X), model.decision_function(X), atol=1e-3)
    for wrong in ({"zap": "category"}, {"zip": "colour"}, "zip"):
        with pytest.raises(ValueError, match=r"zap|colour|NAME=KIND"):
            TableEncoder(columns=wrong).fit(X)


@given(st.integers(2, 3000))
@settings(max_examples=20, deadline=None)
def test_a_hash_is_at_most_eight_times_as_wide_as_there_are_values(values):
    column = recipe_of([f"v{k % values}" for k in range(6000)], kinds={"x": "hash"})
    assert 2 * values < 1 << column.bits <= 8 * values


def test_days_end_where_those_seen_do():
    days = [str(np.datetime64("2026-01-01") + k) for k in range(200)]
    column = recipe_of(days)
    X = encoded(
        Recipe(columns=(column,)), pa.table({"x": ["2025-01-01", days[0], days[-1], "2031-05-07"]})
    ).toarray()
    assert X[0, 0] == X[1, 0] < X[2, 0] == X[3, 0]
    years = recipe_of([str(np.datetime64("2020-01-01") + k) for k in range(1461)])
    cells = pa.table({"x": ["2025-05-07", "2031-05-07", "2012-05-08", "2020-05-08", "2023-05-07"]})
    X = encoded(Recipe(columns=(years,)), cells).toarray()[:, 0] * years.deviation
    np.testing.assert_allclose([X[0], X[2]], [X[1], X[3]], atol=1.0)  # days of a leap year
    assert X[0] - X[4] == pytest.approx(731.0)  # half the range of several years is a trend
    part = fitted(pa.table({"x": days}), RecipeRules()).columns[0]  # of a longer table
    assert part.last is None


def test_dates_are_said_to_end_where_they_do():
    days = np.datetime64("2010-01-05") + np.arange(0, 365 * 6)
    assert "from 2010-01-05 to 2016-01-03, a trend to 2019-01-01," in recipe_of(days).summary
    assert "from 2010-01-05 to 2010-04-14," in recipe_of(days[:100]).summary


def test_words_share_columns_where_classes_are_many():
    rng = np.random.default_rng(0)
    texts = pa.table({"x": [" ".join(map(str, rng.integers(0, 50_000, 40))) for _ in range(2000)]})
    bits = [fitted(texts, RecipeRules(classes=k)).columns[0].bits for k in (1, 16, 64, 10_000)]
    assert bits == [17, 17, 16, 14]  # of 120,000 words and pairs no more than eight share one


# -- targets ---------------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
TARGETS = {
    "minutes late": (np.round(RNG.normal(0, 30, 9000)), False),
    "home runs": (RNG.negative_binomial(1, 0.08, 9000), False),
    "ages": (np.clip(np.round(RNG.normal(45, 15, 9000)), 18, 90), False),
    "a sign of two": (np.where(RNG.random(900) < 0.5, -1, 1), True),
    "stars": (RNG.integers(1, 6, 900), True),
    "letters": (RNG.integers(1, 27, 9000), True),
    "topics": (RNG.choice(105, 9000, p=RNG.dirichlet(np.ones(105))), True),
    "weights": (RNG.integers(0, 9, 900) / 2, False),
    "births, most of them doubled": (
        np.round(np.exp(RNG.normal(4.2, 0.9, 9000)).clip(1, 400))
        * np.where(RNG.random(9000) < 0.6, 2, 1),
        False,
    ),
    "minutes, most of them rounded": (
        np.where(RNG.random(9000) < 0.5, 5 * RNG.geometric(0.02, 9000), RNG.geometric(0.004, 9000)),
        False,
    ),
    "loans, most of them of whole hundreds": (
        np.where(
            RNG.random(9000) < 0.8,
            100 * RNG.integers(10, 400, 9000),
            25 * RNG.integers(40, 500, 9000),
        ),
        False,
    ),
    "codes, next to all of them with a zero behind": (
        RNG.choice(
            10 * RNG.permutation(980)[:300] + (RNG.random(300) < 0.05),
            9000,
            p=RNG.dirichlet(np.ones(300)),
        ),
        True,
    ),
    "places": (RNG.choice(800, 9000, p=RNG.dirichlet(np.ones(800))), True),
    "chin-ups of fifteen men": ([5, 2, 12, 12, 13, 4, 8, 6, 15, 17, 17, 13, 14, 1, 6], False),
    "digits, some of them once": ([*range(10), 3, 3, 1, 0, 7], True),
    "three stars of few guests": ([1, 3, 2, 2, 1], True),
    "two of a kind": ([3, 7, 3], True),
    "a few of many ratings": ([3, 5, 6, 8] * 3, True),
    "scores of four tests, each of them in steps of its own": (
        np.concatenate(
            [
                RNG.normal(500 + 40 * k, 45, n).clip(350, 750).round() // 4 * 4 + k
                for k, n in enumerate((5500, 2500, 1500, 500))
            ]
        ),
        False,
    ),
}


@pytest.mark.parametrize("name", TARGETS)
def test_amounts_are_regressed_on_and_codes_are_labels(name):
    targets, labels = TARGETS[name]
    counts = LabelCounts("auto")
    counts.count(ListedTargets(np.asarray(targets, float)), 0)
    assert counts.is_classification() == labels


# -- scaling ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "kind"),
    [
        (RNG.normal(3, 1, (200, 4)), "standard"),
        (RNG.normal(3, 1, (200, 4)) * (RNG.random((200, 4)) < 0.3), "none"),
        (255.0 * RNG.random((200, 50)) * (RNG.random((200, 50)) < 0.2), "rms"),
        (np.ones((200, 4)), "none"),
        (RNG.normal(3, 1, (200, 2001)), "none"),
        (RNG.normal(3, 1, (19, 4)), "none"),
    ],
)
def test_few_dense_columns_are_standardised_whatever_their_sizes(X, kind):
    assert resolved("auto", DenseTable(X, np.zeros(len(X)), None), encoded=False) == kind


def test_columns_by_their_mean_square_have_mean_square_one(tmp_path):
    X = RNG.normal(2, 3, (300, 3)) * [1.0, 10.0, 0.0]
    np.save(tmp_path / "rows.npy", np.column_stack([X, X[:, 0] > 2]))
    ingest(tmp_path / "rows.npy", tmp_path / "data", scale="rms", dtype="float64")
    stored = Dataset.open(str(tmp_path / "data"))
    rows = np.vstack([stored.read_stored(k).X for k in range(stored.n_chunks)])
    np.testing.assert_allclose((rows**2).mean(axis=0), [1.0, 1.0, 0.0], atol=1e-12)


# -- rows that are held out ------------------------------------------------------------------------


@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=300), st.floats(0.05, 0.9), st.integers(0, 9)
)
def test_shares_are_exact_and_of_every_label(labels, share, seed):
    target = np.asarray(labels, float)
    held_out = stratified(target, np.random.default_rng(seed), share)
    assert abs(held_out.sum() - share * len(target)) < 1.0
    for label in set(labels):
        own = target == label
        assert abs(held_out[own].sum() - share * own.sum()) < 1.0 + 1e-9
    assert (held_out == stratified(target, np.random.default_rng(seed), share)).all()


def test_every_row_has_the_same_chance_however_often_its_target_is_there():
    target = np.repeat([0.0, 1.0, 2.0, 3.0, 4.0], [1, 2, 3, 5, 1])
    draws = [stratified(target, np.random.default_rng(seed), 0.3) for seed in range(4000)]
    assert abs(np.mean(draws, axis=0) - 0.3).max() < 4.5 * (0.3 * 0.7 / 4000) ** 0.5


def test_258_rows_have_51_or_52_held_out(tmp_path):
    table(n=258).to_csv(tmp_path / "rows.csv", index=False)
    ingest(tmp_path / "rows.csv", tmp_path / "data", label="sold", test_fraction=0.2)
    assert Dataset.open(str(tmp_path / "data-test")).n_rows in (51, 52)


@given(st.lists(st.integers(0, 30), min_size=2, max_size=200), st.floats(0.05, 0.9))
def test_the_rows_from_a_threshold_on_are_nearest_to_the_share(numbers, share):
    keys = np.asarray(numbers, float)
    if len(set(numbers)) < 2:
        return
    split = SplitColumn.of("x", "by", pa.array(keys), 0, SourceOptions())
    found = threshold_of(split, [keys[::2], keys[1::2]], share)
    apart = {t: abs((keys >= t).mean() - share) for t in sorted(set(numbers))[1:]}
    assert apart[found] == pytest.approx(min(apart.values()))


@pytest.mark.parametrize(
    ("cells", "last", "options"),
    [
        ([f"Jan-{year % 100:02d}" for year in range(1940, 2014)], "Jan-13", {}),
        (["2022-01-01", "2023-06-30", *["2099-12-31"] * 20] * 30, "2023-06-30", {}),
        (["03/04/2026", "04/03/2026"], "03/04/2026", {"column": {"x": "date:dmy"}}),
        (["2026-01-02", "2026-01-01", "late", "late"], "2026-01-02", {"null_values": ("late",)}),
        (["1.234", "7.5", "31.1"], "1.234", {"column": {"x": "number:comma"}}),
    ],
)
def test_rows_are_held_out_by_what_their_column_says(cells, last, options):
    """Years of two digits, missing ones and the order of days and months are those of a recipe."""
    cells = pa.array(cells)
    keys = SplitColumn.of("x", "by", cells, 0, SourceOptions(**options)).keys(cells)
    assert cells[int(np.argmax(keys))].as_py() == last


def test_later_rows_are_held_out_by_days_as_the_recipe_reads_them(tmp_path):
    """None of them tells whether days or months come first, and those before did."""
    days = {"first": [f"{1 + k % 28:02d}/01/2026" for k in range(200)]}
    days["later"] = ["12/03/2026", "01/04/2026"] * 50
    for name, when in days.items():
        rows = pd.DataFrame({"when": when, "y": np.arange(len(when)) % 2})
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
    options = SourceOptions(label="y", encode="linear")
    schema = open_source([str(tmp_path / "first.csv")], options).schema
    expected = Expected(schema, split=SplitBy("when", "by", 0), held_out=0.5)
    options = SourceOptions(label="y")
    source = open_source([str(tmp_path / "later.csv")], options, expected=expected)
    (piece,) = source.pieces(1 << 20)
    held_out = source.parse(piece).split >= source.threshold()
    assert held_out.tolist() == [False, True] * 50


def test_many_keys_are_counted_in_little_memory():
    parts = np.random.default_rng(0).random((40, 500))
    keys, counts = counted(parts, most=1000)
    assert len(keys) <= 1000 and counts.sum() == 20_000
    exact = np.quantile(parts, 0.8)
    assert abs(counts[keys >= exact].sum() / 20_000 - 0.2) < 40 / 1000  # as often


@pytest.mark.parametrize("how", ["test_by", "test_group"])
def test_rows_are_held_out_by_a_column(how, tmp_path):
    """Even by one that is left out; straight from the file they are the same."""
    frame = table(n=3000)
    frame["shop"], frame["at"] = [f"s{k % 37}" for k in range(len(frame))], np.arange(len(frame))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    column = "day" if how == "test_by" else "shop"
    split, read = {how: column, "test_fraction": 0.25}, {"label": "at", "drop": ("zip", column)}
    ingest(tmp_path / "rows.csv", tmp_path / "data", **split, **read)
    train, test = (targets_in(tmp_path / name) for name in ("data", "data-test"))
    assert sorted([*train, *test]) == list(range(3000))
    assert abs(len(test) / 3000 - 0.25) < 0.04
    values = [set(frame[column].iloc[rows]) for rows in (train, test)]
    assert not values[0] & values[1]
    assert how == "test_group" or max(values[0]) < min(values[1])
    source = SourceReading(sources=(str(tmp_path / "rows.csv"),), options=read, **split)
    straight = FirstRows(TrainingPlan(dataset="rows", source=source), threads=2).received
    assert sorted(straight.held_out.table().target) == sorted(test)


def targets_in(path):
    data = Dataset.open(str(path))
    return np.concatenate([data.read_stored(k).target for k in range(data.n_chunks)]).astype(int)


@pytest.mark.parametrize(
    ("settings_", "said"),
    [
        ({"test_by": "day"}, "test_fraction how many"),
        ({"test_by": "day", "test_group": "zip", "test_fraction": 0.2}, "Leave one of them out"),
        ({"test_by": "kind", "test_fraction": 0.2}, "holds words"),
        ({"test_by": "month", "test_fraction": 0.2}, "no column 'month'"),
        ({"test_by": "sold", "test_fraction": 0.2}, "is the label"),
        ({"test_by": "day", "test_fraction": 0.2, "encode": "none"}, "encode=none"),
    ],
)
def test_what_rows_cannot_be_held_out_by_is_refused(settings_, said, tmp_path):
    table().to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(ValueError, match=said):
        ingest(tmp_path / "rows.csv", tmp_path / "data", label="sold", **settings_)


def test_formats_without_columns_hold_out_at_random(tmp_path):
    (tmp_path / "rows.svm").write_text("".join(f"{k % 2} 1:{k}\n" for k in range(50)))
    with pytest.raises(BadInput, match="this format has none"):
        ingest(tmp_path / "rows.svm", tmp_path / "data", test_by="1", test_fraction=0.2)
