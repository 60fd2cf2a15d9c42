"""A table with a column of every kind, and models on it: what all exports are tried on."""

import datetime as dt

import numpy as np
import pyarrow as pa

from fewpass.pipeline.calibration import Sigmoid, Softmax, Steps
from fewpass.pipeline.models.export.plain_model import PlainModel
from fewpass.pipeline.tables.encoding.additive_recipe import Additive
from fewpass.pipeline.tables.encoding.applying import encoded
from fewpass.pipeline.tables.encoding.cells import UNITS_OF_TIME, read_numbers
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.moments import read_moments
from fewpass.pipeline.tables.encoding.pair_tables import (
    HatAxis,
    LevelAxis,
    PairTable,
    masses_text,
)
from fewpass.pipeline.tables.encoding.splines import Spline
from fewpass.pipeline.tables.encoding.terms import ListCell, MomentCell, NumberCell, TwoCells

WORDS = ["good", "Bad", "film", "o'clock", "É1", "ñandú", "x"]
LISTS = ("tags", "map")


def gaps(rng, values, share=0.1):
    return [None if gone else v for v, gone in zip(values, rng.random(len(values)) < share)]


def table(n=1200, seed=0):
    """Rows of every kind of column, with gaps."""
    rng = np.random.default_rng(seed)
    pick = lambda of, p=None: gaps(rng, rng.choice(of, n, p=p).tolist())  # noqa: E731
    days = [dt.date(2019, 1, 1) + dt.timedelta(int(d)) for d in rng.integers(0, 1500, n)]
    amounts = np.where(rng.random(n) < 0.3, 0.0, np.exp(rng.normal(3, 2, n))).round(2)
    texts = [
        " ".join(rng.choice(WORDS, rng.integers(0, 9))) + rng.choice([".", " -- ", ",  ", ""])
        + rng.choice(WORDS) for _ in range(n)
    ]  # fmt: skip
    return pa.table({
        "age": pa.array(gaps(rng, rng.integers(18, 90, n).tolist()), pa.int64()),
        "paid": pa.array(gaps(rng, amounts.tolist()), pa.float64()),
        "rooms": pa.array(rng.integers(1, 9, n).astype(float)),
        "price": pa.array(gaps(rng, [f"${a:,.2f}" for a in amounts]), pa.string()),
        "preis": pa.array([f"{a:,.2f} €".translate(str.maketrans(",.", ".,")) for a in amounts]),
        "took": pa.array([f"{int(a) % 24}:{int(a) % 60:02d}:07" for a in amounts]),
        "city": pa.array(pick(["Bern", "Oslo", "Rome", "it's \\ \"x\""], [0.5, 0.3, 0.15, 0.05])),
        "user": pa.array(gaps(rng, [f"u{k}" for k in rng.integers(0, 400, n)])),
        "shop": pa.array(pick(["a", "b", "c"])),
        "day": pa.array(gaps(rng, [d.isoformat() for d in days])),
        "us": pa.array(gaps(rng, [d.strftime("%m/%d/%Y") for d in days])),
        "at": pa.array(gaps(rng, [f"{d} {k % 24:02d}:30:00" for k, d in enumerate(days)])),
        "typed": pa.array(gaps(rng, days), pa.date32()),
        "ts": pa.array([int(k) for k in rng.integers(1_500_000_000_000, 1_600_000_000_000, n)]),
        "review": pa.array(gaps(rng, texts)),
        "title": pa.array(texts),
        "embedding": pa.array([None if k % 9 == 0 else rng.normal(size=3).tolist() for k in range(n)]),
        "tags": pa.array(gaps(rng, [rng.choice(WORDS, k % 4).tolist() for k in range(n)])),
        "map": pa.array(
            [[(w, float(k % 5)) for w in WORDS[: k % 4]] for k in range(n)],
            pa.map_(pa.string(), pa.float64()),
        ),
    })  # fmt: skip


#: Dates as people and programs write them.
DATES = {
    "long": "%d %B %Y", "english": "%A, %B %d, %Y", "mail": "%a, %d %b %Y %H:%M:%S GMT",
    "log": "%d/%b/%Y:%H:%M:%S +0200", "utc": "%d.%m.%Y %H:%M:%S UTC", "iso": "%Y-%m-%dT%H:%M:%S+05:30",
    "spaced": "%Y-%m-%d %H:%M:%S -0800", "logged": "%Y-%m-%d %H:%M:%S,123", "zulu": "%Y-%m-%dT%H:%M:%SZ",
    "fraction": "%m/%d/%Y %H:%M:%S.5", "compact": "%Y%m%dT%H%M%SZ", "ctime": "%a %b %d %H:%M:%S %Y",
    "half": "%Y-%m-%d %I:%M:%S %p",
}  # fmt: skip


def dates_as_written(n=100):
    """Rows of dates, a column for every way to write them."""
    hours = np.random.default_rng(4).integers(0, 24 * 700, n)
    moments = [dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=int(k)) for k in hours]
    return pa.table({name: [m.strftime(how) for m in moments] for name, how in DATES.items()})


def flags_and_codes(spelling):
    """Rows of true and false, and of whole numbers that are names: as words, or typed."""
    flags, codes = [True, False, None] * 40, [3.0, 1.0, 2.0, None] * 30
    if spelling == "typed":
        return pa.table({"flag": pa.array(flags), "code": pa.array(codes)})
    spelt = {
        "Python": str, "Excel": lambda f: str(f).upper(), "JSON": lambda f: str(f).lower(),
        "nobody": lambda f: str(f).swapcase(),
    }  # fmt: skip
    return pa.table({
        "flag": [None if f is None else spelt[spelling](f) for f in flags],
        "code": [None if c is None else str(int(c)) for c in codes],
    })  # fmt: skip


#: How flags are spelled in rows learnt from, and in rows to score.
SPELLINGS = [
    ("Python", "Excel"), ("Excel", "JSON"), ("JSON", "typed"), ("typed", "Python"),
    ("Python", "nobody"),
]  # fmt: skip


KINDS = {
    "rooms": "bins:5", "user": "hash", "review": "text", "title": "chars", "ts": "date",
}  # fmt: skip


def recipe_of(rows, **kinds):
    """Return the recipe of some columns."""
    known = {name: kind for name, kind in (KINDS | kinds).items() if name in rows.column_names}
    crosses = [("city", "shop")] if {"city", "shop"} <= set(rows.column_names) else []
    return fitted(rows, RecipeRules(bits=6, kinds=known, crosses=crosses))


def with_curves(recipe):
    """Return a recipe with curves and functions of two columns next to its own columns."""
    rng = np.random.default_rng(3)
    spline = lambda column, part, *knots: Spline(  # noqa: E731
        name=column, column=column, part=part, knots=knots, levels=3
    )
    splines = (
        spline("paid", "", 0.0, 5.0, 20.0, 21.5, 300.0), spline("age", "", 20.0, 70.0),
        spline("at", "time of day", 0.5, 11.0, 23.0), spline("day", "day of the year", 1.0, 59.5, 366.0),
        spline("typed", "days", 0.0, 400.0, 1499.0),
    )  # fmt: skip
    axes = {
        "paid": HatAxis(column="paid", knots=(1.0, 10.0, 55.5, 200.0)),
        "age": HatAxis(column="age", knots=(18.0, 90.0)),
        "at": HatAxis(column="at", part="time of day", knots=(0.0, 7.0, 24.0)),
        "city": LevelAxis(column="city", values=("Rome", "Bern")),
        "shop": LevelAxis(column="shop", values=("c", "a", "b")),
        "day": LevelAxis(column="day", part="weekday", values=("Sun", "Sat", "Mon")),
        "us": LevelAxis(column="us", part="month", values=("3", "12")),
    }  # fmt: skip
    pairs = []
    for a, b in (("paid", "age"), ("paid", "city"), ("day", "at"), ("city", "shop"), ("us", "day")):
        size = len(axes[a].names) * len(axes[b].names)
        masses = masses_text(rng.integers(0, 4, size).astype(float))
        pairs.append(PairTable(name=f"{a} x {b}", a=axes[a], b=axes[b], cells=masses))
    additive = Additive(splines=splines, pairs=tuple(pairs), rows=1200)
    return recipe.model_copy(update={"additive": additive})


def model_of(recipe, name, seed=0):
    """Return a model with weights drawn at random, of one of the kinds of `MODELS`."""
    how = dict(MODELS[name])
    rng = np.random.default_rng(seed)
    K = how.pop("scores", 1)
    coef = rng.normal(size=(K, recipe.n_outputs)) * 0.2
    plain = {"lam": 1e-4, "feature_names": None, "certificate": None, "recipe": recipe}
    return PlainModel(coef, rng.normal(size=K), **plain | how)


MODELS = {
    "two classes": {"classes": np.array(["no", "yes"]), "loss": "logistic"},
    "two classes, no probabilities": {"classes": np.array([0, 1]), "loss": "hinge"},
    "Platt": {
        "classes": np.array([0, 1]), "loss": "hinge", "calibration": Sigmoid(-1.5, 0.25),
    },
    "isotonic": {
        "classes": np.array([False, True]), "loss": "hinge",
        "calibration": Steps((-1.0, 0.0, 0.5, 2.0), (0.05, 0.3, 0.6, 0.9)),
    },
    "softmax": {"classes": np.array(["a", "b", "c"]), "loss": "softmax", "scores": 3},
    "one against the rest": {"classes": np.array([1, 2, 3]), "loss": "logistic", "scores": 3},
    "softmax calibrated": {
        "classes": np.array(["a", "b", "c"]), "loss": "hinge", "scores": 3,
        "calibration": Softmax(1.5, (0.25, -0.5, 0.25)),
    },
    "numbers": {"classes": None, "loss": "squared", "bounds": (-0.5, 1.25)},
    "counts": {"classes": None, "loss": "poisson"},
}  # fmt: skip


def expected_of(model, rows):
    """Return what a model gives for rows: label and probabilities, or prediction."""
    scores = encoded(model.recipe, rows) @ model.coef.T + model.intercept
    if model.classes is None:
        prediction = np.exp(scores[:, 0]) if model.has_response else scores[:, 0]
        return {
            "prediction": prediction if model.bounds is None else np.clip(prediction, *model.bounds)
        }
    one = len(model.coef) == 1
    best = (scores[:, 0] > 0).astype(int) if one else scores.argmax(axis=1)
    made = {"label": model.classes[best], "scores": scores[:, 0] if one else scores}
    if model.has_probabilities:
        given = made["scores"]
        if model.calibration is not None:
            p = model.calibration.probabilities(given)
        elif model.is_multinomial:
            p = Softmax(1.0, (0.0,) * len(model.coef)).probabilities(given)
        else:
            p = Sigmoid(1.0, 0.0).probabilities(given)
            p = p if p.ndim == 1 else p / p.sum(axis=1, keepdims=True)
        made["probabilities"] = np.column_stack([1 - p, p]) if p.ndim == 1 else p
    return made


def of_sql(got):
    """Return the answers of a statement under the names of `expected_of`."""
    of = lambda name: np.array(got.column(name).to_pylist())  # noqa: E731
    if "score" not in got.column_names:
        return {"prediction": of("predicted")}
    probable = [name for name in got.column_names if name.startswith("probability_")]
    found = {"label": of("predicted"), "score": of("score")}
    return found | ({"probabilities": np.column_stack([*map(of, probable)])} if probable else {})


def assert_answers(got, wanted):
    """Require what a way gave to be what is expected, as far as it gives that."""
    assert ("probabilities" in got) == ("probabilities" in wanted)
    for name, values in got.items():
        expected = wanted.get(name)
        if name == "label":
            as_word = lambda v: str(int(v) if isinstance(v, bool | np.bool_) else v)  # noqa: E731
            assert [*map(as_word, values)] == [*map(as_word, expected)]
            continue
        if name == "score":
            scores = wanted["scores"]
            expected = scores.max(axis=1) if scores.ndim == 2 else scores
        found = np.reshape(values, np.shape(expected))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=name)


def feeds_of(recipe, rows):
    """Return rows as ONNX models take them: columns (n, 1), as those of skl2onnx do."""
    feeds = {}
    for one in recipe.described():
        for name in one.columns if not isinstance(one.read, TwoCells) else ():
            cells = rows.column(name).combine_chunks()
            if isinstance(one.read, NumberCell):
                numbers = read_numbers(cells, one.read.written, one.read.missing).values
                feeds[name] = numbers.reshape(-1, 1)
            elif isinstance(one.read, MomentCell):
                is_number = one.read.form in UNITS_OF_TIME
                feeds[name] = (
                    read_numbers(cells) if is_number else
                    read_moments(cells, one.read.form, one.read.missing)
                ).values.reshape(-1, 1)  # fmt: skip
            elif isinstance(one.read, ListCell):
                size = len(one.terms[0].mean)
                feeds[name] = np.array([cell or [np.nan] * size for cell in cells.to_pylist()])
            else:
                feeds[name] = np.array(cells.fill_null("").to_pylist(), object).reshape(-1, 1)
    return feeds
