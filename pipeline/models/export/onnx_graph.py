"""A linear model as an ONNX graph, made with onnx's helpers only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fewpass.pipeline.calibration import Calibration, Sigmoid, Softmax, Steps
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.export.graph_parts import (
    DOUBLE,
    INT64,
    ONNXRUNTIME,
    TREES_AND_LABELS,
    GraphParts,
)
from fewpass.pipeline.models.export.model_form import (
    NumberOutput,
    form_of,
    outcome_of,
)
from fewpass.pipeline.models.export.onnx_steps import interpolated
from fewpass.pipeline.models.export.onnx_table import table_scores
from fewpass.pipeline.models.export.plain_model import PlainModel

OPSET, IR = 17, 9  # supported by all recent runtimes
#: Words are joined and cut since then.
OPSET_OF_WORDS = 20
#: One column in so many has a weight: the graph picks these, and has no others.
FEW = 4
_VERSIONS = {ONNXRUNTIME: 1, TREES_AND_LABELS: 3}


def onnx_model(model: PlainModel) -> Any:
    """Return the graph from rows to labels and scores, or to predictions.

    Inputs are X (n, d), float64; of a table one by the name of each column (see
    `fewpass.pipeline.models.export.onnx_table`).  Outputs have the names and shapes that skl2onnx
    gives them: `label` (n,) and, for the logistic loss or a calibrated run, `probabilities` (n, K);
    for regression `variable` (n, 1).  `scores` (n,) or (n, K) are another one, behind.

    BadInput for a column without a graph.
    """
    from onnx import checker, helper  # noqa: PLC0415 - an extra

    model.require_no_offset("The graph")
    graph = GraphParts()
    _put(graph, model)
    opset = OPSET if model.recipe is None else OPSET_OF_WORDS
    domains = [helper.make_opsetid(name, _VERSIONS[name]) for name in sorted(graph.domains)]
    made = helper.make_model(
        helper.make_graph(
            graph.nodes, "fewpass", [*graph.inputs.values()], list(_outputs(model)),
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", opset), *domains], ir_version=IR,
        producer_name="fewpass",
    )  # fmt: skip
    checker.check_model(made)
    return made


def _put(graph: GraphParts, model: PlainModel) -> None:
    """Put the way from inputs to outputs into a graph."""
    columns, one, how = _scores(graph, model), len(model.coef) == 1, outcome_of(model)
    if isinstance(how, NumberOutput):
        _put_numbers(graph, how, columns)
        return
    if one:
        scores = graph.op("Squeeze", columns, graph.whole(1), output="scores")
        best = graph.op("Cast", graph.op("Greater", scores, graph.number(0.0)), to=INT64)
    else:
        scores = graph.op("Identity", columns, output="scores")
        best = graph.op("ArgMax", scores, axis=1, keepdims=0)
    graph.op("Gather", graph.constant(_classes(model)), best, output="label")
    if how.probabilities is not None:
        _put_probabilities(graph, how.probabilities, columns, len(model.coef))


def _scores(graph: GraphParts, model: PlainModel) -> str:
    """Return the scores (n, K), one column for two classes and for regression."""
    if model.recipe is not None:
        return table_scores(graph, form_of(model).columns, model.intercept)
    X, coef = graph.input("X", DOUBLE, model.coef.shape[1]), model.coef
    used = np.flatnonzero(coef.any(axis=0))
    if 0 < FEW * len(used) <= coef.shape[1]:
        X, coef = graph.op("Gather", X, graph.constant(used), axis=1), coef[:, used]
    products = graph.op("MatMul", X, graph.constant(np.ascontiguousarray(coef.T)))
    return graph.op("Add", products, graph.constant(model.intercept))


def _put_numbers(graph: GraphParts, how: NumberOutput, scores: str) -> None:
    """Put predicted numbers (n, 1) into a graph, clipped where they are."""
    numbers = graph.op("Exp", scores) if how.response == "exp" else scores
    if how.clip is None:
        graph.op("Identity", numbers, output="variable")
        return
    low, high = (graph.number(bound) for bound in how.clip)
    graph.op("Clip", numbers, low, high, output="variable")


def _put_probabilities(graph: GraphParts, how: Calibration, scores: str, n_scores: int) -> None:
    """Put the way from scores (n, K) to probabilities into a graph."""
    if isinstance(how, Steps):
        _put_shares(graph, interpolated(graph, scores, how.scores, how.p))
        return
    offsets = [how.offset] if isinstance(how, Sigmoid) else how.offsets
    sloped = graph.op("Mul", scores, graph.number(how.slope))
    scores = graph.op("Add", sloped, graph.constant(np.array(offsets)))
    if isinstance(how, Softmax):
        graph.op("Softmax", scores, axis=1, output="probabilities")
        return
    shares = graph.op("Sigmoid", scores)
    if n_scores == 1:
        _put_shares(graph, shares)
    else:
        shares = graph.op("Max", shares, graph.number(1e-300))  # of zeros: equal shares
        total = graph.op("ReduceSum", shares, graph.whole(1), keepdims=1)
        graph.op("Div", shares, total, output="probabilities")


def _put_shares(graph: GraphParts, second: str) -> None:
    """Put the probabilities of two classes into a graph, by those of the second one (n, 1)."""
    first = graph.op("Sub", graph.number(1.0), second)
    graph.op("Concat", first, second, axis=1, output="probabilities")


def _outputs(model: PlainModel) -> Iterator[Any]:
    from onnx import TensorProto, helper  # noqa: PLC0415

    double = TensorProto.DOUBLE
    several = [None, len(model.coef)] if len(model.coef) > 1 else [None]
    if model.classes is None:
        yield helper.make_tensor_value_info("variable", double, [None, 1])
        return
    words = _classes(model).dtype.kind not in "if"
    kind = TensorProto.STRING if words else helper.np_dtype_to_tensor_dtype(_classes(model).dtype)
    yield helper.make_tensor_value_info("label", kind, [None])
    if model.has_probabilities:
        yield helper.make_tensor_value_info("probabilities", double, [None, len(model.classes)])
    yield helper.make_tensor_value_info("scores", double, several)


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
