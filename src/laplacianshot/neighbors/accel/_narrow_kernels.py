"""Products of many rows with few classes, float32: what the updates spend their time on.

A matrix product first copies its operands into the order in which it reads them, which pays only if each is read often.
With few classes it is not. These kernels read the rows where they are, a tile of sums at a time in registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from laplacianshot.neighbors.accel._vector_kernels import LANES, Vectors, processor_has, vector_code
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.types import Floats

# Rows to a tile of products, and the vectors of coordinates to a tile of sums.
_ROWS = 5
_VECTORS = 4
_COLUMNS = _VECTORS * LANES
# With more classes a matrix product is as fast.
_MAX_CLASSES = 40


def applies(rows: Floats, n_classes: int) -> bool:
    """Whether these kernels apply to rows (n, D) and this number of classes."""
    return (
        rows.dtype == np.float32
        and rows.strides[1] == rows.itemsize
        and len(rows) >= _ROWS
        and rows.shape[1] > 0
        and rows.shape[1] % _COLUMNS == 0
        and 2 <= n_classes <= _MAX_CLASSES
        and processor_has("avx512f")
    )


def _products_of(n_classes: int) -> Any:
    """An intrinsic: ``products[r, c] <- rows_r . classes_c`` for _ROWS rows and ``n_classes`` classes.

    Meanwhile the row at ``ahead`` is fetched.
    """

    @vector_code
    def multiply(
        context: Any,
        rows: Any,
        row_stride: Any,
        classes: Any,
        class_stride: Any,
        n_vectors: Any,
        products: Any,
        product_stride: Any,
        ahead: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            rows, row_stride, classes, class_stride, n_vectors, products, product_stride, ahead = arguments
            code = Vectors(builder)

            def starts(base: Any, stride: Any, count: int) -> list[Any]:
                return [builder.add(base, builder.mul(stride, code.number(i))) for i in range(count)]

            sides = starts(rows, row_stride, _ROWS), starts(classes, class_stride, n_classes)

            def step(i: Any, sums: list[Any]) -> list[Any]:
                offset = code.scaled(i, 4 * LANES)
                code.fetch(ahead, offset)
                x, m = ([code.load(start, offset, code.reals) for start in side] for side in sides)
                return [
                    code.multiply_add(x[r], m[c], sums[r * n_classes + c])
                    for r in range(_ROWS)
                    for c in range(n_classes)
                ]

            zero = code.reals([0.0] * LANES)
            sums = code.loop(n_vectors, [zero] * (_ROWS * n_classes), step)
            for r, start in enumerate(starts(products, product_stride, _ROWS)):
                for c in range(n_classes):
                    code.store(code.sum_of_lanes(sums[r * n_classes + c]), start, 4 * c)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 8), generate

    return multiply


def _sums_of(n_classes: int) -> Any:
    """An intrinsic: ``sums[c] += sum_r weights[r, c] rows_r`` for _COLUMNS coordinates and ``n_classes`` classes."""

    @vector_code
    def add(
        context: Any,
        weights: Any,
        weight_stride: Any,
        rows: Any,
        row_stride: Any,
        n_rows: Any,
        sums: Any,
        sum_stride: Any,
    ) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            weights, weight_stride, rows, row_stride, n_rows, sums, sum_stride = arguments
            code = Vectors(builder)
            starts = [builder.add(sums, builder.mul(sum_stride, code.number(c))) for c in range(n_classes)]
            places = [(start, 4 * LANES * v) for start in starts for v in range(_VECTORS)]

            def step(i: Any, totals: list[Any]) -> list[Any]:
                row = builder.add(rows, builder.mul(i, row_stride))
                weight = builder.add(weights, builder.mul(i, weight_stride))
                x = [code.load(row, 4 * LANES * v, code.reals) for v in range(_VECTORS)]
                y = [code.spread(code.load(weight, 4 * c, code.real)) for c in range(n_classes)]
                return [
                    code.multiply_add(y[c], x[v], totals[c * _VECTORS + v])
                    for c in range(n_classes)
                    for v in range(_VECTORS)
                ]

            zero = code.reals([0.0] * LANES)
            totals = code.loop(n_rows, [zero] * len(places), step)
            for total, place in zip(totals, places, strict=True):
                code.store(builder.fadd(code.load(*place, code.reals), total), *place)
            return context.get_dummy_value()

        return types.void(*[types.intp] * 7), generate

    return add


_multiply_2, _multiply_4 = _products_of(2), _products_of(4)
_add_1, _add_2, _add_5 = _sums_of(1), _sums_of(2), _sums_of(5)


@kernel
def multiply_rows(rows: Floats, classes: Floats, products: Floats) -> None:
    """``products <- rows classes^T`` of (n, D) and (C, D), rows of all contiguous, if :func:`applies`."""
    n, n_classes = len(rows), len(classes)
    steps = rows.shape[1] // LANES
    each = 4 if n_classes >= 4 else 2
    for i in range(0, n, _ROWS):
        # The last tile of either side begins early enough to be full; what it forms again comes out the same.
        top = min(i, n - _ROWS)
        x = rows.ctypes.data + top * rows.strides[0]
        for k in range(0, n_classes, each):
            c = min(k, n_classes - each)
            m = classes.ctypes.data + c * classes.strides[0]
            out = products.ctypes.data + top * products.strides[0] + 4 * c
            ahead = rows.ctypes.data + min(top + _ROWS + k // each, n - 1) * rows.strides[0]
            if each == 4:
                _multiply_4(x, rows.strides[0], m, classes.strides[0], steps, out, products.strides[0], ahead)
            else:
                _multiply_2(x, rows.strides[0], m, classes.strides[0], steps, out, products.strides[0], ahead)


@kernel
def add_class_sums(weights: Floats, rows: Floats, sums: Floats) -> None:
    """``sums += weights^T rows`` of (n, C) and (n, D), rows of all contiguous, if :func:`applies`."""
    n, n_classes = weights.shape
    for d in range(0, rows.shape[1], _COLUMNS):
        x = rows.ctypes.data + 4 * d
        c = 0
        while c < n_classes:
            y = weights.ctypes.data + 4 * c
            out = sums.ctypes.data + c * sums.strides[0] + 4 * d
            if c + 5 <= n_classes:
                _add_5(y, weights.strides[0], x, rows.strides[0], n, out, sums.strides[0])
                c += 5
            elif c + 2 <= n_classes:
                _add_2(y, weights.strides[0], x, rows.strides[0], n, out, sums.strides[0])
                c += 2
            else:
                _add_1(y, weights.strides[0], x, rows.strides[0], n, out, sums.strides[0])
                c += 1
