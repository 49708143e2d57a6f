"""Kernels on disk: compiled once, and whoever waits for it is told."""

from __future__ import annotations

import importlib.util

from numba import njit

from laplacianshot.runtime.compilation import on_compile

MODULE = """
from laplacianshot.runtime.compilation import kernel

@kernel
def twice(value):
    return 2 * value
"""


def test_a_kernel_that_is_on_disk_is_not_compiled_again(tmp_path):
    path = tmp_path / "kernels_of_a_test.py"
    path.write_text(MODULE)
    told = []
    for _ in range(2):
        # Loaded anew, as a second process would.
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        with on_compile(lambda: told.append("compiling")):
            assert module.twice(21) == 42
            assert module.twice(4) == 8
    assert told == ["compiling"]


def test_what_is_compiled_outside_is_not_told():
    told = []
    with on_compile(lambda: told.append("compiling")):
        pass
    assert njit(lambda value: value + 1)(1) == 2
    assert not told
