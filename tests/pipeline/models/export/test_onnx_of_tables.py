"""Models of tables as ONNX: the whole recipe inside, the same numbers as the recipe itself."""

import numpy as np
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
    model_of,
    recipe_of,
    table,
)


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
