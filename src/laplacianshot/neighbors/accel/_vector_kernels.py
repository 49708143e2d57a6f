"""Writing out vector code for the compiler, where a loop would not become it: for processors with 512-bit registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from llvmlite import ir
from llvmlite.binding import llvm_version_info
from numba.core import config
from numba.core.registry import cpu_target
from numba.extending import intrinsic

# Numbers of 32 bits in a register.
LANES = 16


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
