"""Models of tables as ONNX: the whole recipe inside, the same numbers as the recipe itself."""

import numpy as np
import pyarrow as pa
import pytest
from onnxruntime import InferenceSession
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.export_formats import as_onnx, export
from tests.pipeline.models.export.exported_rows import (
    LISTS,
    MODELS,
    expected_of,
    feeds_of,
    model_of,
    recipe_of,
    table,
    with_curves,
)


@pytest.fixture(scope="module")
def rows():
    return table().drop_columns([*LISTS])


@pytest.fixture(scope="module")
def recipe(rows):
    return with_curves(recipe_of(rows))


def answers(model, rows):
    session = InferenceSession(as_onnx(model))
    feeds = feeds_of(model.recipe, rows)
    assert {one.name for one in session.get_inputs()} == set(feeds)
    names = [output.name for output in session.get_outputs()]
    got = dict(zip(names, session.run(None, feeds), strict=True))
    return {"prediction": got["variable"][:, 0]} if "variable" in got else got


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_column_and_of_model(rows, recipe, name):
    assert {type(one).__name__ for one in recipe.columns} == {
        "Number", "Bins", "Category", "Hashed", "Text", "Date", "EmbeddingColumn",
    }  # fmt: skip
    model = model_of(recipe, name)
    got, wanted = answers(model, rows), expected_of(model, rows)
    assert set(got) == set(wanted)
    for key, values in wanted.items():
        if key == "label":
            assert [str(a) for a in got[key]] == [
                str(int(a) if isinstance(a, np.bool_) else a) for a in values
            ]
        else:
            np.testing.assert_allclose(got[key], values, rtol=1e-10, atol=1e-10)


def test_rows_that_the_sample_does_not_have(rows, recipe):
    """Nothing at all, unseen words, far numbers, days before and after, and no word in any text."""
    model = model_of(recipe, "numbers")._replace(bounds=None)
    empty = pa.table({f.name: pa.nulls(1, f.type) for f in rows.schema}, schema=rows.schema)
    odd = {
        "age": -5, "paid": 1e30, "rooms": 1e9, "city": "Zürich", "user": "nobody", "shop": "",
        "day": "1931-02-28", "us": "12/31/2099", "at": "2030-01-01 23:59:59", "review": "?!",
        "ts": -1, "title": "a",
    }  # fmt: skip
    strange = pa.concat_tables(
        [
            empty,
            pa.Table.from_pylist([rows.slice(0, 1).to_pylist()[0] | odd], schema=rows.schema),
        ]
    )
    for some in (empty, strange, strange.slice(1)):
        got, wanted = answers(model, some)["prediction"], expected_of(model, some)["prediction"]
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("column", LISTS)
def test_lists_of_words_are_refused_by_name(column, tmp_path):
    rows = table(200).select(["age", column])
    model = model_of(recipe_of(rows), "numbers")
    with pytest.raises(
        BadInput, match=rf"Column '{column}' is not for ONNX: tensors hold no lists"
    ):
        export(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_names_that_would_be_taken_for_others_are_refused():
    rows = table(200).select(["age", "city"]).rename_columns(["label", "city"])
    with pytest.raises(BadInput, match="'label' has the name of an output of ONNX models"):
        as_onnx(model_of(recipe_of(rows), "numbers"))


@pytest.mark.parametrize("name", ["two classes", "softmax", "numbers"])
def test_a_model_takes_the_place_of_one_of_skl2onnx(name):
    """Both take the same feeds, and their outputs have the same names, shapes and kinds of type."""
    from skl2onnx import to_onnx  # a second

    some = table(200).select(["age", "city"]).drop_null()
    ours = model_of(recipe_of(some), name)
    frame, labels = some.to_pandas().astype({"age": np.float32}), ours.classes
    inner = LinearRegression() if labels is None else LogisticRegression()
    targets = np.arange(len(frame)) % 7 if labels is None else np.resize(labels, len(frame))
    encoder = make_column_transformer((OneHotEncoder(), ["city"]), (StandardScaler(), ["age"]))
    theirs = make_pipeline(encoder, inner).fit(frame, targets)
    options = None if labels is None else {"zipmap": False}
    made = to_onnx(theirs, frame, options=options).SerializeToString()
    feeds = {column: frame[[column]].to_numpy() for column in frame}
    wanted = _faces(made, feeds)
    found = _faces(as_onnx(ours), feeds | {"age": feeds["age"].astype(np.float64)})
    assert found[0] == wanted[0]
    extra = [] if labels is None else ["scores"]
    assert [*found[1]] == [*wanted[1], *extra]
    assert found[1].items() >= wanted[1].items()


def _faces(model, feeds):
    """Return widths of inputs, and shapes and kinds of outputs, by name."""
    session = InferenceSession(model)
    outputs = zip(session.get_outputs(), session.run(None, feeds), strict=True)
    return (
        {one.name: one.shape[1:] for one in session.get_inputs()},
        {one.name: (found.shape, found.dtype.kind) for one, found in outputs},
    )
