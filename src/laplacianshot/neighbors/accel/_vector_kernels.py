"""Vector code written out for the compiler, where it would not find it in a loop: for 512-bit registers.

:class:`Vectors` writes such code. The narrow products, of many rows with few classes in float32, are what the updates
spend their time on. A matrix product first copies its operands into the order in which it reads them, which pays only
if each is read often; with few classes it is not. These kernels read the rows where they are, a tile of sums at a time
in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import llvm_version_info
from numba import types
from numba.core import config
from numba.core.registry import cpu_target
from numba.extending import intrinsic

from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.types import Floats

# Numbers of 32 bits in a register.
LANES = 16
# Rows to a tile of products, and the vectors of coordinates to a tile of sums.
_ROWS = 5
_VECTORS = 4
_COLUMNS = _VECTORS * LANES
# With more classes a matrix product is as fast.
_MAX_CLASSES = 40
# How the compiler calls the function that fetches, by the kind of its pointers.
_FETCH = "llvm.prefetch.p0" if llvm_version_info >= (17,) else "llvm.prefetch.p0i8"


@cache
def processor_has(*features: str) -> bool:
    """Whether numba compiles for a processor with these features, by the compiler's names."""
    if getattr(config, "DISABLE_JIT", 0):
        return False
    known = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    return {f"+{feature}" for feature in features} <= set(known)


def vector_code(write: Any) -> Any:
    """A function that kernels call, and whose code is written out: ``write`` returns its types and what writes it."""
    return intrinsic(write)


class Vectors:
    """The vectors that an intrinsic works with, and how its code gets at memory by addresses."""

    def __init__(self, builder: Any) -> None:
        self.builder = builder
        self.word, self.index, self.real = ir.IntType(32), ir.IntType(64), ir.FloatType()
        self.words, self.reals = ir.VectorType(self.word, LANES), ir.VectorType(self.real, LANES)

    def number(self, value: int) -> Any:
        return ir.Constant(self.index, value)

    def scaled(self, value: Any, factor: int, plus: int = 0) -> Any:
        """``value * factor + plus``."""
        return self.builder.add(self.builder.mul(value, self.number(factor)), self.number(plus))

    def place(self, base: Any, offset: Any, kind: Any) -> Any:
        """The pointer to a value of this kind, a number of bytes after an address."""
        offset = self.number(offset) if isinstance(offset, int) else offset
        return self.builder.inttoptr(self.builder.add(base, offset), kind.as_pointer())

    def load(self, base: Any, offset: Any, kind: Any) -> Any:
        return self.builder.load(self.place(base, offset, kind), align=4)

    def store(self, value: Any, base: Any, offset: Any) -> None:
        self.builder.store(value, self.place(base, offset, value.type), align=4)

    def spread(self, value: Any) -> Any:
        """A vector that has the value in all lanes."""
        kind = ir.VectorType(value.type, LANES)
        undefined = ir.Constant(kind, ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(self.word, 0))
        return self.builder.shuffle_vector(first, undefined, ir.Constant(self.words, [0] * LANES))

    def fetch(self, base: Any, offset: Any) -> None:
        """Prefetch what is a number of bytes after an address."""
        byte = ir.IntType(8).as_pointer()
        name, kind = _FETCH, ir.FunctionType(ir.VoidType(), [byte, self.word, self.word, self.word])
        found = self.builder.module.globals.get(name) or ir.Function(self.builder.module, kind, name)
        # To be read, kept in the second level, as data.
        how = [ir.Constant(self.word, choice) for choice in (0, 2, 1)]
        self.builder.call(found, [self.place(base, offset, ir.IntType(8)), *how])

    def smaller(self, one: Any, other: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered("<", one, other), one, other)

    def call(self, name: str, *arguments: Any) -> Any:
        """A function of the compiler that returns what it is given."""
        kind = ir.FunctionType(arguments[0].type, [argument.type for argument in arguments])
        found = self.builder.module.globals.get(name)
        return self.builder.call(found or ir.Function(self.builder.module, kind, name), arguments)

    def multiply_add(self, one: Any, other: Any, added: Any) -> Any:
        return self.call(f"llvm.fma.v{LANES}f32", one, other, added)

    def sum_of_lanes(self, vector: Any) -> Any:
        width = LANES
        while width > 1:
            width //= 2
            kind = ir.VectorType(self.word, width)
            low, high = (
                self.builder.shuffle_vector(vector, vector, ir.Constant(kind, list(range(first, first + width))))
                for first in (0, width)
            )
            vector = self.builder.fadd(low, high)
        return self.builder.extract_element(vector, ir.Constant(self.word, 0))

    def loop(self, count: Any, values: Sequence[Any], step: Callable[[Any, list[Any]], list[Any]]) -> list[Any]:
        """``values <- step(i, values)`` for i in 0..count, at least once; all of them stay in registers."""
        build = self.builder
        before, body, after = build.block, build.append_basic_block("step"), build.append_basic_block("done")
        build.branch(body)
        build.position_at_end(body)
        i = build.phi(self.index)
        carried = [build.phi(value.type) for value in values]
        results = step(i, carried)
        following = build.add(i, self.number(1))
        for phi, first, next_ in zip([i, *carried], [self.number(0), *values], [following, *results], strict=True):
            phi.add_incoming(first, before)
            phi.add_incoming(next_, body)
        build.cbranch(build.icmp_signed("<", following, count), body, after)
        build.position_at_end(after)
        return results


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
        context: Any, rows: Any, row_stride: Any, classes: Any, class_stride: Any, n_vectors: Any, products: Any,
        product_stride: Any, ahead: Any,
    ) -> Any:  # fmt: skip
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
        context: Any, weights: Any, weight_stride: Any, rows: Any, row_stride: Any, n_rows: Any, sums: Any,
        sum_stride: Any,
    ) -> Any:  # fmt: skip
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
    if n == 0:
        # Written-out loops take their first step before they ask.
        return
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
