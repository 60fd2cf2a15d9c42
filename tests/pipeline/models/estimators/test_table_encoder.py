"""Tables as people have them: by hand, in any frame, and cut as files are."""

import datetime as dt

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import murmurhash3_32

from fewpass import LinearClassifier, TableEncoder
from fewpass.pipeline.errors import BadInput


def frame(n=600, seed=0):
    """Words, numbers with gaps and a heavy tail, booleans and times."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 400, n)
    return pd.DataFrame(
        {
            "income": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(3.0, 2.0, n)),
            "age": rng.integers(18, 90, n),
            "city": rng.choice(["Bern", "Oslo", "Rome", None], n, p=[0.5, 0.3, 0.1, 0.1]),
            "member": rng.random(n) < 0.5,
            "seen": pd.Timestamp("2026-01-01") + pd.to_timedelta(days * 24 + days % 5, unit="h"),
        }
    )


def columns_of(encoder, X):
    names = encoder.get_feature_names_out()
    return pd.DataFrame(encoder.transform(X).toarray(), columns=names)


# -- by hand ---------------------------------------------------------------------------------------


def test_numbers_are_clipped_and_standardised_with_their_logarithm_beside():
    X = frame(2000)
    found = columns_of(TableEncoder().fit(X), X)
    known = X.income.dropna()
    low, high = known.quantile([0.005, 0.995])
    clipped = X.income.clip(low, high)
    for name, values in (("income", clipped), ("income log1p", np.log1p(clipped))):
        expected = (values - values.mean()) / values.std(ddof=0)
        np.testing.assert_allclose(found[name], expected.fillna(0.0), atol=1e-12)
    assert (found["income is missing"] == X.income.isna()).all()
    age = X.age.clip(*X.age.quantile([0.005, 0.995]))
    np.testing.assert_allclose(found["age"], (age - age.mean()) / age.std(ddof=0), atol=1e-12)
    assert "age is missing" not in found


def test_a_value_has_a_column_and_so_has_what_is_rare_or_missing():
    X = pd.DataFrame({"city": ["Bern"] * 900 + ["Oslo"] * 1095 + ["Rome"] + [None] * 4})
    encoder = TableEncoder().fit(X)
    assert list(encoder.get_feature_names_out()) == [
        "city=Bern", "city=Oslo", "city rare or unseen", "city is missing",
    ]  # fmt: skip
    found = encoder.transform(pd.DataFrame({"city": ["Oslo", "Rome", "Paris", None]})).toarray()
    assert found.tolist() == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_many_values_are_hashed_with_a_sign():
    X = pd.DataFrame({"url": [f"/page/{k}" for k in range(1500)] + [None]})
    encoder = TableEncoder(bits=6).fit(X)
    found = encoder.transform(X)
    assert found.shape == (1501, 65)
    for k in (0, 7, 1499):
        code = murmurhash3_32(f"url=/page/{k}")
        assert found[k, abs(code) % 64] == (1.0 if code >= 0 else -1.0)
    assert found[1500, 64] == 1.0
    assert (np.diff(found.indptr) == 1).all()


def test_times_become_days_weekdays_months_and_hours():
    when = [*pd.to_datetime(["2026-03-02 05:00", "2026-03-08 23:00"]), None]
    found = columns_of(TableEncoder().fit(pa.table({"at": when})), pa.table({"at": when}))
    first, second, none = (found.loc[k][found.loc[k] != 0.0] for k in range(3))
    assert set(first.index) == {"at", "at weekday=Mon", "at month=3", "at hour=5"}
    assert set(second.index) == {"at", "at weekday=Sun", "at month=3", "at hour=23"}
    assert list(none.index) == ["at is missing"]
    said = [*when[:2], None]
    text = pa.table({"at": ["" if one is None else str(one) for one in said]})
    assert columns_of(TableEncoder().fit(text), text).equals(found)  # empty text says nothing
    dates = pa.table({"on": pa.array([dt.date(2026, 1, 1), dt.date(2026, 1, 3)])})
    assert not [n for n in TableEncoder().fit(dates).get_feature_names_out() if "hour" in n]


def test_bins_stand_for_ranges_between_quantiles():
    X = pd.DataFrame({"x": [*np.arange(100.0), np.nan]})
    found = TableEncoder(bins=4).fit(X).transform(X).toarray()
    assert found.sum(axis=0).tolist() == [25.0, 25.0, 25.0, 25.0, 1.0]
    assert (found.sum(axis=1) == 1.0).all()
    words = pd.DataFrame({"x": [*map(str, range(200)), "oops"]})  # is missing, as among numbers
    assert TableEncoder(bins=4).fit_transform(words).toarray()[-1].tolist() == [0, 0, 0, 0, 1]


# -- laws ------------------------------------------------------------------------------------------


def test_all_frames_are_the_same_table():
    X = frame()
    encoder = TableEncoder().fit(X)
    arrow = pa.Table.from_pandas(X, preserve_index=False)
    for other in (arrow, pl.from_arrow(arrow), X[X.columns[::-1]], X.assign(more=1)):
        assert (encoder.transform(other) != encoder.transform(X)).nnz == 0
    again = clone(encoder).fit(arrow)
    assert again.recipe_ == encoder.recipe_


def test_a_sample_decides_and_the_seed_draws_it():
    X = frame(2000)
    small = TableEncoder(sample_rows=200, random_state=1).fit(X)
    assert small.recipe_ == TableEncoder(sample_rows=200, random_state=1).fit(X).recipe_
    assert small.recipe_ != TableEncoder(sample_rows=200, random_state=2).fit(X).recipe_


def test_a_dask_frame_is_encoded_lazily_and_trained_from():
    X = frame(2000)
    y = (X.age > 50).map({True: "old", False: "young"})
    collection = dd.from_pandas(X, npartitions=4)
    encoder = TableEncoder().fit(collection)
    assert encoder.recipe_ == TableEncoder().fit(X).recipe_
    found = encoder.transform(collection)
    assert (found.compute() != encoder.transform(X)).nnz == 0
    stored = LinearClassifier(memory="130MB", tol=1e-12)
    model = stored.fit(found, dd.from_pandas(y, npartitions=4))
    there = LinearClassifier(tol=1e-12).fit(encoder.transform(X), y)
    np.testing.assert_allclose(model.coef_, there.coef_, atol=1e-5)


def test_targets_of_parquet_files_are_cut_as_their_rows(tmp_path):
    """Dask reads several files at once for the one column of targets."""
    rows = frame().assign(bought=lambda table: table["age"].fillna(0) > 40)
    for k in range(6):
        rows[k::6].to_parquet(tmp_path / f"{k}.parquet")
    stored = dd.read_parquet(tmp_path)
    X, y = stored.drop(columns="bought"), stored["bought"]
    chain = make_pipeline(TableEncoder(), LinearClassifier(lam=1e-3)).fit(X, y)
    assert len(y.to_delayed()) < y.npartitions == 6, "this is what the test is about"
    assert chain.predict(X).compute().shape == (len(rows),)
    whole = pd.concat([rows[k::6] for k in range(6)])
    again = make_pipeline(TableEncoder(), LinearClassifier(lam=1e-3))
    again.fit(whole.drop(columns="bought"), whole["bought"])
    assert np.mean(chain.predict(whole) == again.predict(whole)) == 1.0


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bits", "bins", "most_values", "least_rows", "sample_rows"])
@pytest.mark.parametrize("given", [0, -3, 2.5, "many"])
def test_a_number_that_is_none_is_named(name, given):
    with pytest.raises(ValueError, match=f"{name} is {given!r}. Give a number from"):
        TableEncoder(**{name: given}).fit(frame())


def test_what_becomes_no_numbers_is_named():
    encoder = TableEncoder().fit(frame())
    with pytest.raises(ValueError, match="no column 'city', which there was before"):
        encoder.transform(frame().drop(columns="city"))
    with pytest.raises(ValueError, match=r"Column 'age' holds .*string.* but was a number column"):
        encoder.transform(frame().assign(age="old"))
    with pytest.raises(ValueError, match="Column 'tags' holds list"):
        TableEncoder().fit(pa.table({"tags": [[["a"]], [["b", "c"]]]}))
    with pytest.raises(ValueError, match="0 rows"):
        TableEncoder().fit(frame()[:0])
    with pytest.raises(ValueError, match="is of no one type"):
        TableEncoder().fit(pd.DataFrame({"mixed": [1, "two", 3.0]}))
    with pytest.raises(BadInput, match="Column 'x1' of X is of no one type"):
        TableEncoder().fit(np.array([["a", 1], ["b", "two"]], object))
