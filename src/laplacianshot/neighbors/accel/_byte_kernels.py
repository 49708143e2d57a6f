"""Kernels of the search by bytes: distances bounded by products of rows that are rounded to eight bits.

Products are formed by an instruction of the processor, ``vpdpbusd``: 64 products of bytes, added by fours to 16 sums.
No library that the core depends on offers them and no compiler finds the instruction in a loop, so the tile that it
makes is written out here for the compiler. It takes signed bytes on one side and unsigned ones on the other: columns
are stored as ``code + 128``, and the sums of a row begin at ``-128 sum_d code_d``.

Rows lie in strips of ``STRIP`` and columns in panels of ``PANEL``, a group of four bytes of each in turn: the order in
which a tile reads them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from laplacianshot.neighbors.accel._vector_kernels import LANES, Vectors, vector_code
from laplacianshot.runtime.compilation import kernel
from laplacianshot.runtime.kernel_parts import form_products, sift
from laplacianshot.runtime.types import Floats, Ints

STRIP, PANEL, GROUP = 8, 48, 4
# What is known about a point: half its squared length, the scale of its codes and, from above, its length, the length
# of what rounding lost, the length of what it left, and how far off the half may be.
FACTS = 6
_HALF, _SCALE, _LENGTH, _ERROR, _ROUNDED, _SLACK = range(FACTS)
_INSTRUCTION = "llvm.x86.avx512.vpdpbusd.512"
# Registers to a row of a tile.
_VECTORS = PANEL // LANES
LARGEST_CODE = 127
# Rows with no larger entry have no codes: they would have to be divided by next to nothing.
_MIN_ENTRY = 1e-30
# How often the interval in which a limit is searched is halved.
_HALVINGS = 10


def _sums(code: Vectors, strip: Any, panel: Any, n_groups: Any, begins: Any) -> list[list[Any]]:
    """``begins_r + sum_d strip_rd panel_cd`` of a tile: vectors of integers, _VECTORS to each row."""

    def step(group: Any, sums: list[Any]) -> list[Any]:
        columns = [
            code.load(panel, code.scaled(group, GROUP * PANEL, 4 * LANES * v), code.words) for v in range(_VECTORS)
        ]
        added = []
        for r in range(STRIP):
            row = code.spread(code.load(strip, code.scaled(group, GROUP * STRIP, 4 * r), code.word))
            added += [code.call(_INSTRUCTION, sums[r * _VECTORS + v], columns[v], row) for v in range(_VECTORS)]
        return added

    starts = [code.spread(code.load(begins, 4 * r, code.word)) for r in range(STRIP) for _ in range(_VECTORS)]
    sums = code.loop(n_groups, starts, step)
    return [sums[r * _VECTORS : (r + 1) * _VECTORS] for r in range(STRIP)]


def _bounds(
    code: Vectors, sums: list[list[Any]], row_facts: Any, panel_facts: Any, apart: Any, lowers: Any, lowers_stride: Any,
    minima: Any, minima_stride: Any,
) -> None:  # fmt: skip
    """Store lower bounds, and upper ones where they are less than what the minima hold."""
    build = code.builder
    facts = [
        [code.load(panel_facts, 4 * (PANEL * fact + LANES * v), code.reals) for v in range(_VECTORS)]
        for fact in range(FACTS)
    ]
    for r in range(STRIP):
        half, scale, length, error, slack = (
            code.spread(code.load(row_facts, 4 * (FACTS * r + fact), code.real))
            for fact in (_HALF, _SCALE, _LENGTH, _ERROR, _SLACK)
        )
        lowers_of_row = build.add(lowers, code.scaled(lowers_stride, r))
        minima_of_row = build.add(minima, code.scaled(minima_stride, r))
        for v in range(_VECTORS):
            right = 4 * LANES * v
            product = build.fmul(build.fmul(scale, facts[_SCALE][v]), build.sitofp(sums[r][v], code.reals))
            key = build.fsub(build.fadd(half, facts[_HALF][v]), product)
            key = build.fadd(key, code.load(apart, 4 * PANEL * r + right, code.reals))
            blur = build.fadd(build.fmul(error, facts[_ROUNDED][v]), build.fmul(length, facts[_ERROR][v]))
            blur = build.fadd(blur, build.fadd(slack, facts[_SLACK][v]))
            code.store(build.fsub(key, blur), lowers_of_row, right)
            least = code.load(minima_of_row, right, code.reals)
            code.store(code.smaller(build.fadd(key, blur), least), minima_of_row, right)


@vector_code
def _bound_tile(
    context: Any, strip: Any, panel: Any, n_groups: Any, begins: Any, row_facts: Any, panel_facts: Any, apart: Any,
    lowers: Any, lowers_stride: Any, minima: Any, minima_stride: Any,
) -> Any:  # fmt: skip
    """Bound half squared distances of a strip and a panel from both sides.

    With ``x = s q + e``, ``|x.y - s_x s_y q_x.q_y| <= |e_x| |s_y q_y| + |x| |e_y|``. ``apart`` (STRIP, PANEL) is added
    to both bounds. Arguments are addresses, and strides in bytes.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        strip, panel, n_groups, begins, *rest = arguments
        code = Vectors(builder)
        _bounds(code, _sums(code, strip, panel, n_groups, begins), *rest)
        return context.get_dummy_value()

    return types.void(*[types.intp] * 11), generate


@vector_code
def _not_above(context: Any, values: Any, limit: Any) -> Any:
    """Which of the PANEL float32 at this address are not above the limit, a bit each."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, limit = arguments
        kind = ir.VectorType(ir.FloatType(), PANEL)
        undefined = ir.Constant(kind, ir.Undefined)
        first = builder.insert_element(undefined, limit, ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), PANEL), [0] * PANEL)
        limits = builder.shuffle_vector(first, undefined, zeros)
        values = builder.load(builder.inttoptr(address, kind.as_pointer()), align=4)
        bits = builder.bitcast(builder.fcmp_ordered("<=", values, limits), ir.IntType(PANEL))
        return builder.zext(bits, ir.IntType(64))

    return types.uint64(types.intp, types.float32), generate


@vector_code
def _not_above_each(context: Any, values: Any, limits: Any) -> Any:
    """Which of the PANEL float32 at an address are not above their own limits at the other, a bit each."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(ir.FloatType(), PANEL)
        values, limits = (builder.load(builder.inttoptr(a, kind.as_pointer()), align=4) for a in arguments)
        bits = builder.bitcast(builder.fcmp_ordered("<=", values, limits), ir.IntType(PANEL))
        return builder.zext(bits, ir.IntType(64))

    return types.uint64(types.intp, types.intp), generate


@vector_code
def _lowest_bit(context: Any, bits: Any) -> Any:
    """The number of the lowest bit that is set; one is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), generate


@kernel
def round_rows(rows: Floats, halves: Floats, strips: Ints, begins: Ints, facts: Floats, start: int, stop: int) -> None:
    """Round rows ``start..stop`` of (n, D) to bytes: ``x = s q + e`` with ``s = max_d |x_d| / 127``.

    strips (., G, STRIP, 4) receive q, begins (n,) ``-128 sum q`` and facts (n, FACTS) what bounds are made of.
    """
    dim = rows.shape[1]
    zero: Any = rows.dtype.type(0)
    one: Any = rows.dtype.type(1)
    top: Any = rows.dtype.type(LARGEST_CODE)
    # Sums of D products, and the few products that a bound is made of, in any order.
    rounding: Any = rows.dtype.type((dim + 32) * 2.0**-24)
    codes = np.zeros(strips.shape[1] * GROUP, dtype=np.int8)
    for i in range(start, stop):
        row = rows[i]
        largest = zero
        for d in range(dim):
            largest = max(largest, abs(row[d]))
        scale = zero
        inverse = zero
        if largest > _MIN_ENTRY:
            scale = largest / top
            inverse = top / largest
        total = np.int32(0)
        squares = zero
        lost = zero
        for d in range(dim):
            code = np.rint(row[d] * inverse)
            codes[d] = np.int8(code)
            total += np.int32(code)
            squares += code * code
            gap = row[d] - scale * code
            lost += gap * gap
        strip = strips[i // STRIP, :, i % STRIP]
        for group in range(strip.shape[0]):
            for byte in range(GROUP):
                strip[group, byte] = codes[GROUP * group + byte]
        begins[i] = np.int32(-128) * total
        length = np.sqrt(halves[i] + halves[i]) * (one + rounding)
        facts[i, _HALF] = halves[i]
        facts[i, _SCALE] = scale
        facts[i, _LENGTH] = length
        facts[i, _ERROR] = np.sqrt(lost) * (one + rounding) + length * rounding
        facts[i, _ROUNDED] = scale * np.sqrt(squares) * (one + rounding)
        facts[i, _SLACK] = halves[i] * rounding


@kernel
def meet_panels(
    rows: Floats, halves: Floats, strips: Ints, begins: Ints, facts: Floats, panels: Ints, panel_facts: Floats,
    minima: Floats, limits: Floats, lowers: Floats, waiting: Ints, counts: Ints, keys: Floats, ids: Ints, start: int,
    stop: int, first: int, last: int,
) -> None:  # fmt: skip
    """Let points ``start..stop``, the first of which begins a strip, meet those of panels ``first..last``.

    Points fall into groups by their number, and of the upper bounds that a point of the strips meets the smallest of
    each group is kept in minima (n, g). Any m of these minima are of m different points: a point that is farther away
    than all of them is not among the m nearest. That distance is the limit, in limits (n,). Points that may be nearer
    wait with their lower bounds in lowers and waiting (n, w), counts (n,) of them. If strips and panels are of
    different points, both sides are updated.
    """
    m = keys.shape[1]
    n_groups, room = minima.shape[1], lowers.shape[1]
    left, n_panels = first * PANEL, last - first
    both = left >= stop or last * PANEL <= start
    bounds = np.empty((STRIP, n_panels * PANEL), dtype=facts.dtype)
    apart = np.zeros((STRIP, PANEL), dtype=facts.dtype)
    for top in range(start, stop, STRIP):
        for p in range(first, last):
            own = p == top // PANEL
            if own:
                for r in range(STRIP):
                    apart[r, top % PANEL + r] = np.inf
            _bound_tile(
                strips.ctypes.data + top // STRIP * strips.strides[0],
                panels.ctypes.data + p * panels.strides[0],
                strips.shape[1],
                begins.ctypes.data + top * begins.strides[0],
                facts.ctypes.data + top * facts.strides[0],
                panel_facts.ctypes.data + p * panel_facts.strides[0],
                apart.ctypes.data,
                bounds.ctypes.data + (p - first) * PANEL * bounds.strides[1],
                bounds.strides[0],
                minima.ctypes.data + top * minima.strides[0] + p * PANEL % n_groups * minima.strides[1],
                minima.strides[0],
            )
            if own:
                apart[:] = 0
        for i in range(top, min(top + STRIP, stop)):
            row = bounds[i - top]
            limit = _lowered(limits[i], minima[i], m)
            for p in range(n_panels):
                values = row.ctypes.data + p * PANEL * row.strides[0]
                hits = _not_above(values, limit)
                while hits != 0:
                    at = p * PANEL + _lowest_bit(hits)
                    hits &= hits - np.uint64(1)
                    if counts[i] == room:
                        limits[i] = limit
                        _make_room(i, rows, halves, limits, lowers, waiting, counts, keys, ids)
                        limit = limits[i]
                    lowers[i, counts[i]] = row[at]
                    waiting[i, counts[i]] = left + at
                    counts[i] += 1
                if both:
                    hits = _not_above_each(values, limits.ctypes.data + (left + p * PANEL) * limits.strides[0])
                    while hits != 0:
                        at = p * PANEL + _lowest_bit(hits)
                        hits &= hits - np.uint64(1)
                        j = left + at
                        if counts[j] == room:
                            _make_room(j, rows, halves, limits, lowers, waiting, counts, keys, ids)
                        lowers[j, counts[j]] = row[at]
                        waiting[j, counts[j]] = i
                        counts[j] += 1
            limits[i] = limit


@kernel
def _make_room(
    i: int, rows: Floats, halves: Floats, limits: Floats, lowers: Floats, waiting: Ints, counts: Ints, keys: Floats,
    ids: Ints,
) -> None:  # fmt: skip
    """Drop some candidates that wait for point i: those beyond its limit, or all but the nearest."""
    m, room = keys.shape[1], lowers.shape[1]
    counts[i] = _nearer_first(lowers[i], waiting[i], limits[i])
    if 4 * counts[i] > 3 * room:
        compare_waiting(rows, halves, limits, lowers, waiting, counts, keys, ids, i, i + 1)
        lowers[i, :m] = keys[i]
        waiting[i, :m] = ids[i]
        counts[i] = m
        limits[i] = min(limits[i], keys[i, 0])


@kernel
def compare_waiting(
    rows: Floats, halves: Floats, limits: Floats, lowers: Floats, waiting: Ints, counts: Ints, keys: Floats, ids: Ints,
    start: int, stop: int,
) -> None:  # fmt: skip
    """The m nearest candidates of points ``start..stop``, compared in full: max-heaps keys and ids (n, m)."""
    for i in range(start, stop):
        count = _nearer_first(lowers[i, : counts[i]], waiting[i, : counts[i]], limits[i])
        near, near_ids, heap, heap_ids = lowers[i, :count], waiting[i, :count], keys[i], ids[i]
        # First those with the smallest lower bounds: they make the limit as low as it can be.
        heap[:] = np.inf
        for e in range(count):
            if near[e] < heap[0]:
                sift(heap, heap_ids, 0, near[e], near_ids[e])
        first = _nearer_first(near, near_ids, heap[0])
        heap[:], heap_ids[:] = np.inf, -1
        _offer_exact(i, rows, halves, near_ids[:first], near[:first], heap, heap_ids)
        last = first + _nearer_first(near[first:], near_ids[first:], min(heap[0], limits[i]))
        _offer_exact(i, rows, halves, near_ids[first:last], near[first:last], heap, heap_ids)


@kernel
def _offer_exact(
    i: int, rows: Floats, halves: Floats, ids: Ints, keys: Floats, heap_keys: Floats, heap_ids: Ints
) -> None:
    """Offer the points with these ids to the max-heap of point i; ``keys`` receive half their squared distances."""
    form_products(rows[i], rows, ids, keys)
    for e in range(len(ids)):
        keys[e] = halves[i] + (halves[ids[e]] - keys[e])
        if keys[e] < heap_keys[0]:
            sift(heap_keys, heap_ids, 0, keys[e], ids[e])


@kernel
def _nearer_first(lowers: Floats, ids: Ints, limit: float) -> int:
    """Move the candidates that are not beyond the limit to the front; return their number."""
    nearer = 0
    for e in range(len(lowers)):
        lower, index = lowers[e], ids[e]
        lowers[e], ids[e] = lowers[nearer], ids[nearer]
        lowers[nearer], ids[nearer] = lower, index
        nearer += lower <= limit
    return nearer


@kernel
def _lowered(limit: Any, minima: Floats, m: int) -> Any:
    """A lower limit, hardly above the m-th of the minima; the same where fewer of them are below it."""
    below = np.int32(0)
    for g in range(len(minima)):
        below += np.int32(minima[g] < limit)
    if below < m:
        return limit
    low = limit
    high = -limit
    for g in range(len(minima)):
        low = min(low, minima[g])
        high = max(high, minima[g] if minima[g] < limit else -limit)
    half: Any = minima.dtype.type(0.5)
    for _ in range(_HALVINGS):
        middle = low + (high - low) * half
        count = np.int32(0)
        for g in range(len(minima)):
            count += np.int32(minima[g] <= middle)
        if count >= m:
            high = middle
        else:
            low = middle
    return high
