"""ONNX files written node by node, without torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from laplacianshot.runtime.extras import require

if TYPE_CHECKING:
    from laplacianshot.runtime.types import Floats

# Old enough for every onnxruntime that we support.
_OPSET = 17


class OnnxGraph:
    """A graph with one input and one output, both with batches along the first axis."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._onnx: Any = require("onnx", "label")
        self._nodes: list[Any] = []
        self._arrays: list[Any] = []

    def constant(self, array: Any, *, wide: bool = False) -> str:
        """Name of an array of weights; floating-point ones become float32, or float64 if ``wide``."""
        kind = (np.float64 if wide else np.float32) if np.asarray(array).dtype.kind == "f" else None
        name = f"c{len(self._arrays)}"
        self._arrays.append(self._onnx.numpy_helper.from_array(np.ascontiguousarray(array, dtype=kind), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Name of what a new node gives."""
        name = f"n{len(self._nodes)}"
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def nodes(self, kind: str, count: int, *inputs: str, **attributes: Any) -> tuple[str, ...]:
        """Names of what a new node with several outputs gives."""
        names = tuple(f"n{len(self._nodes)}_{place}" for place in range(count))
        self._nodes.append(self._onnx.helper.make_node(kind, list(inputs), list(names), **attributes))
        return names

    def cast(self, x: str, kind: str) -> str:
        """Name of the same numbers in another type, such as ``"DOUBLE"``."""
        return self.node("Cast", x, to=getattr(self._onnx.TensorProto, kind))

    def linear(self, x: str, weight: Floats, bias: Floats) -> str:
        """``x W^T + b``."""
        product = self.node("MatMul", x, self.constant(weight.T))
        return self.node("Add", product, self.constant(bias))

    def to_bytes(
        self,
        source: tuple[str, str, tuple[str | int, ...]],
        result: tuple[str, tuple[str | int, ...]],
        *,
        output: str = "vectors",
        facts: dict[str, str] | None = None,
    ) -> bytes:
        """The content of an ONNX file, from (name, type, shape) of the input and (node, shape) of the float32 output.

        The type is spelled as in ONNX, such as ``"UINT8"``; a str in a shape stands for any size. ``facts`` are
        metadata of the file.
        """
        helper, types = self._onnx.helper, self._onnx.TensorProto
        name, kind, shape = source
        self._nodes.append(helper.make_node("Identity", [result[0]], [output]))
        inputs = [helper.make_tensor_value_info(name, getattr(types, kind), shape)]
        outputs = [helper.make_tensor_value_info(output, types.FLOAT, result[1])]
        graph = helper.make_graph(self._nodes, self._name, inputs, outputs, self._arrays)
        opsets = [helper.make_opsetid("", _OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="laplacianshot")
        if facts:
            helper.set_model_props(model, facts)
        self._onnx.checker.check_model(model)
        content: bytes = model.SerializeToString(deterministic=True)
        return content
