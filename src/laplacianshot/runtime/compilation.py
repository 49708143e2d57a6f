"""Compiled kernels: numba's ``njit`` with an on-disk cache whose failure is not an error.

A kernel is compiled at its first call, released from the GIL, and kept on disk for the next process. Where no cache
folder is writable, or the disk is full, the kernel is compiled again in each process instead of failing.

Numba keys a cached kernel on the file that defines it; here also on every file of the package with ``kernel`` in its
name. A helper that a kernel calls must live in the same file or in one of those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.event import Event, Listener, install_listener

Function = TypeVar("Function", bound=Callable[..., Any])


class _ForgivingCache(FunctionCache):
    """A cache that may fail: what cannot be read or written is compiled again."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        file = self._cache_file
        file._source_stamp = (file._source_stamp, _parts_stamp())

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError:
            pass
        except Exception:  # a damaged index may fail in any way: replace it
            with suppress(Exception):
                self._cache_file.flush()  # type: ignore[no-untyped-call]
                super().save_overload(sig, data)  # type: ignore[no-untyped-call]

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # a damaged file may fail in any way: compile again
            return None


@cache
def _parts_stamp() -> tuple[tuple[float, int], ...]:
    """When this file and the kernel files of the package were last changed; empty if the package is in an archive."""
    try:
        parts = [Path(__file__), *sorted(Path(__file__).parent.parent.rglob("*kernel*.py"))]
        states = [part.stat() for part in parts]
    except OSError:
        return ()
    return tuple((state.st_mtime, state.st_size) for state in states)


# Part of every kernel that calls it. As a call, the linker would take whichever copy it has seen first, that of the
# caller or one that was compiled alone: with reordered sums the last digits would depend on what ran before.
_INLINED: Any = {"forceinline": True}
# Sums may be reordered, so that they are vectorized; NaN and infinity keep their meaning.
_SUMS_IN_ANY_ORDER = {"contract", "reassoc", "nsz", "arcp"}


def kernel(function: Function) -> Function:
    """Compile ``function`` without the GIL, cached on disk where that is possible. Sums are taken in any order."""
    return _compiled(function, _SUMS_IN_ANY_ORDER)


def inlined_kernel(function: Function) -> Function:
    """The same for a part of kernels that is inlined where it is called."""
    return _compiled(function, _SUMS_IN_ANY_ORDER, inline="always")


def part_kernel(function: Function) -> Function:
    """The same for a part that only kernels call: it has no wrapper for Python, which takes as long to compile."""
    options: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, **_INLINED}
    return cast(Function, njit(nogil=True, fastmath=_SUMS_IN_ANY_ORDER, error_model="numpy", **options)(function))


def ordered_kernel(function: Function) -> Function:
    """The same for arithmetic whose order matters."""
    return _compiled(function, {"contract"})


def _compiled(function: Function, fastmath: set[str], inline: Literal["never", "always"] = "never") -> Function:
    # Nobody takes the address of a kernel as a C function.
    options: Any = {"no_cfunc_wrapper": True, **_INLINED}
    dispatcher: Any = njit(nogil=True, fastmath=fastmath, error_model="numpy", inline=inline, **options)(function)
    # RuntimeError: numba found no writable folder for its cache.
    with suppress(RuntimeError):
        dispatcher._cache = _ForgivingCache(function)
    return cast(Function, dispatcher)


class _CompileListener(Listener):
    """Calls ``callback`` when a compilation begins."""

    def __init__(self, callback: Callable[[], object]) -> None:
        self._callback = callback

    def on_start(self, event: Event) -> None:
        self._callback()

    def on_end(self, event: Event) -> None:
        pass


@contextmanager
def on_compile(callback: Callable[[], object]) -> Iterator[None]:
    """Call ``callback`` for every kernel compiled within the context, on any thread; not for those read from disk."""
    with install_listener("numba:compile", _CompileListener(callback)):
        yield
