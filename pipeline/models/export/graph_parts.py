"""Nodes and constants of an ONNX graph, collected while it is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

#: Types of a graph's own, as ONNX counts them.
INT64, DOUBLE = 7, 11
ONNXRUNTIME = "com.microsoft"
TREES_AND_LABELS = "ai.onnx.ml"


class GraphParts:
    """Nodes, constants and inputs of a graph; values are known by their names.

    Attributes
    ----------
    nodes, constants, inputs : lists of ONNX's own
    domains : set
        Of operators other than ONNX's own.
    """

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: dict[str, Any] = {}
        self.domains: set[str] = set()
        self._known: dict[tuple[str, Any], str] = {}

    def input(self, name: str, kind: int, width: int = 1) -> str:
        """Return an input (n, width); the same one for the same name."""
        from onnx import helper  # noqa: PLC0415 - an extra

        if name not in self.inputs:
            self.inputs[name] = helper.make_tensor_value_info(name, kind, [None, width])
        return name

    def constant(self, array: Any) -> str:
        """Return a constant; small ones that are equal are one."""
        from onnx import numpy_helper  # noqa: PLC0415

        values = np.asarray(array)
        key = (f"{values.dtype}{values.shape}", values.tobytes() if values.size < 64 else None)
        if key[1] is None or values.dtype.kind == "O" or key not in self._known:
            name = f"fewpass/constant{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(values, name))
            if key[1] is None or values.dtype.kind == "O":
                return name
            self._known[key] = name
        return self._known[key]

    def op(
        self, kind: str, *inputs: str, domain: str = "", output: str | None = None, **how: Any
    ) -> str:
        """Return the first output of an operator."""
        return self.ops(kind, *inputs, domain=domain, outputs=[output], **how)[0]

    def ops(
        self, kind: str, *inputs: str, outputs: list[str | None], domain: str = "", **how: Any
    ) -> list[str]:
        """Return the outputs of an operator; those without a name get one."""
        from onnx import helper  # noqa: PLC0415

        if domain:
            self.domains.add(domain)
        n = len(self.nodes)
        names = [name or f"fewpass/{kind}{n}.{k}" for k, name in enumerate(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **how))
        return names

    def number(self, value: float) -> str:
        """Return a constant of float64."""
        return self.constant(np.float64(value))

    def whole(self, *values: int) -> str:
        """Return a constant (m,) of int64."""
        return self.constant(np.array(values, np.int64))

    def side_by_side(self, columns: Sequence[str]) -> str:
        """Return columns (n, 1) as one matrix."""
        return columns[0] if len(columns) == 1 else self.op("Concat", *columns, axis=1)
