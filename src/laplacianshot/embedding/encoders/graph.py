"""ONNX graphs written node by node from arrays of weights: no exporter, no tracing, the same bytes every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats

# Old enough for every onnxruntime that we support.
_OPSET = 17


class Graph:
    """A graph with one input and one output, both with batches along the first axis."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._onnx: Any = require("onnx", "label")
        self._nodes: list[Any] = []
        self._arrays: list[Any] = []

    def constant(self, array: Any) -> str:
        """Name of an array of weights; floating-point ones become float32."""
        kind = np.float32 if np.asarray(array).dtype.kind == "f" else None
        name = f"c{len(self._arrays)}"
        self._arrays.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array, dtype=kind), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Name of what a new node gives."""
        name = f"n{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def linear(self, x: str, weight: Floats, bias: Floats) -> str:
        """``x W^T + b``."""
        product = self.node("MatMul", x, self.constant(weight.T))
        return self.node("Add", product, self.constant(bias))

    def to_bytes(
        self, source: tuple[str, str, tuple[str | int, ...]], result: tuple[str, tuple[str | int, ...]]
    ) -> bytes:
        """The whole as the content of an ONNX file.

        Parameters
        ----------
        source : (name, type, shape)
            Of the input; the type as ONNX spells it, such as ``"UINT8"``; a str in the shape stands for any size.
        result : (node name, shape)
            What the graph gives, float32; it is called ``vectors``.
        """
        helper, types = self._onnx.helper, self._onnx.TensorProto
        name, kind, shape = source
        self._nodes.append(helper.make_node("Identity", [result[0]], ["vectors"]))
        graph = helper.make_graph(
            self._nodes,
            self._name,
            [helper.make_tensor_value_info(name, getattr(types, kind), shape)],
            [helper.make_tensor_value_info("vectors", types.FLOAT, result[1])],
            self._arrays,
        )
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="laplacianshot")
        self._onnx.checker.check_model(model)
        content: bytes = model.SerializeToString(deterministic=True)
        return content
