"""A linear model as an ONNX graph, made with onnx's helpers only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fewpass.pipeline.calibration import Sigmoid, Softmax, Steps
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.plain_model import PlainModel

OPSET, IR = 17, 9  # supported by all recent runtimes


def onnx_model(model: PlainModel) -> Any:
    """Return the graph from rows X (n, d), float64, to labels and scores, or to predictions.

    Outputs are `label` (n,), `scores` (n,) or (n, K) and, for the logistic loss or a calibrated
    run, `probabilities` (n, K); for regression `prediction` (n,).  BadInput for a calibration
    without a graph.
    """
    from onnx import TensorProto, checker, helper  # noqa: PLC0415 - an extra

    model.require_no_offset("The graph")
    double = TensorProto.DOUBLE
    X = helper.make_tensor_value_info("X", double, [None, model.coef.shape[1]])
    nodes, values = (list(part) for part in zip(*_parts(model), strict=True))
    made = helper.make_model(
        helper.make_graph(
            [node for node in nodes if node is not None], "fewpass", [X], list(_outputs(model)),
            [value for value in values if value is not None],
        ),
        opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR, producer_name="fewpass",
    )  # fmt: skip
    checker.check_model(made)
    return made


Part = tuple[Any, Any]  # a node, or a constant


def constant(name: str, array: Any) -> Part:
    """Return a constant of the graph."""
    from onnx import numpy_helper  # noqa: PLC0415

    return None, numpy_helper.from_array(np.asarray(array), name)


def node(kind: str, inputs: str, output: str, **how: Any) -> Part:
    """Return a node with one output."""
    from onnx import helper  # noqa: PLC0415

    return helper.make_node(kind, inputs.split(), [output], **how), None


def _parts(model: PlainModel) -> Iterator[Part]:
    """Yield the graph's nodes and its constants."""
    one = len(model.coef) == 1
    yield constant("coef", np.ascontiguousarray(model.coef.T))
    yield constant("intercept", model.intercept)
    yield node("MatMul", "X coef", "products")
    yield node("Add", "products intercept", "columns")
    numbers = "prediction" if model.bounds is None else "unclipped"
    scores = "scores" if model.classes is not None or model.has_response else numbers
    if one:
        yield constant("columns_axis", np.array([1], np.int64))
        yield node("Squeeze", "columns columns_axis", scores)
    else:
        yield node("Identity", "columns", scores)
    if model.has_response:
        yield node("Exp", "scores", numbers)
    if model.classes is None:
        yield from _clipped(model)
        return
    yield constant("classes", _classes(model))
    if one:
        yield constant("zero", np.float64(0.0))
        yield node("Greater", "scores zero", "is_second")
        yield node("Cast", "is_second", "best", to=7)  # int64
    else:
        yield node("ArgMax", "scores", "best", axis=1, keepdims=0)
    yield node("Gather", "classes best", "label")
    if model.has_probabilities:
        yield from _probabilities(model)


def _clipped(model: PlainModel) -> Iterator[Part]:
    """Yield the nodes that clip predicted numbers, where they are."""
    if model.bounds is not None:
        lowest, highest = model.bounds
        yield constant("lowest", np.float64(lowest))
        yield constant("highest", np.float64(highest))
        yield node("Clip", "unclipped lowest highest", "prediction")


def _probabilities(model: PlainModel) -> Iterator[Part]:
    """Yield the nodes from scores to probabilities, in columns (n, 1) or (n, K)."""
    calibration, one = model.calibration, len(model.coef) == 1
    scores = "columns"
    if isinstance(calibration, Steps):
        raise BadInput(
            "ONNX has no steps, and the run's calibration is isotonic. Choose .safetensors, or "
            "train with `calibrate=platt`."
        )
    if calibration is not None:
        offsets = [calibration.offset] if isinstance(calibration, Sigmoid) else calibration.offsets
        yield constant("slope", np.float64(calibration.slope))
        yield constant("offsets", np.array(offsets))
        yield node("Mul", "columns slope", "sloped")
        yield node("Add", "sloped offsets", "calibrated")
        scores = "calibrated"
    if isinstance(calibration, Softmax) or (calibration is None and model.is_multinomial):
        yield node("Softmax", scores, "probabilities", axis=1)
        return
    yield node("Sigmoid", scores, "shares")
    if one:
        yield constant("certain", np.float64(1.0))
        yield node("Sub", "certain shares", "first_share")
        yield node("Concat", "first_share shares", "probabilities", axis=1)
    else:
        yield constant("classes_axis", np.array([1], np.int64))
        yield node("ReduceSum", "shares classes_axis", "total")
        yield node("Div", "shares total", "probabilities")


def _outputs(model: PlainModel) -> Iterator[Any]:
    from onnx import TensorProto, helper  # noqa: PLC0415

    double = TensorProto.DOUBLE
    several = [None, len(model.coef)] if len(model.coef) > 1 else [None]
    if model.classes is None:
        yield helper.make_tensor_value_info("prediction", double, [None])
        return
    words = _classes(model).dtype.kind not in "if"
    kind = TensorProto.STRING if words else helper.np_dtype_to_tensor_dtype(_classes(model).dtype)
    yield helper.make_tensor_value_info("label", kind, [None])
    yield helper.make_tensor_value_info("scores", double, several)
    if model.has_probabilities:
        yield helper.make_tensor_value_info("probabilities", double, [None, len(model.classes)])


def _classes(model: PlainModel) -> Any:
    """Return the labels in a type of ONNX: int64, float64 or text."""
    assert model.classes is not None, "only classifiers have labels"
    kind = model.classes.dtype.kind
    if kind in "biu":
        return model.classes.astype(np.int64)
    if kind == "f":
        return model.classes.astype(np.float64)
    if not all(isinstance(label, str) for label in model.classes.tolist()):
        raise BadInput("ONNX has numbers or text for labels. Choose another format.")
    return model.classes.astype(object)
