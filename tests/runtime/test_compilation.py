"""Kernels on disk: compiled once, and whoever waits for it is told."""

from __future__ import annotations

import importlib.util
import re

import numpy as np
import pytest
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
        module = loaded(path)
        with on_compile(lambda: told.append("compiling")):
            assert module.twice(21) == 42
            assert module.twice(4) == 8
    assert told == ["compiling"]


def loaded(path):
    """A module, loaded anew as a second process would."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["empty", "cut", "reversed"])
def test_a_damaged_file_on_disk_is_compiled_again_and_replaced(ending, damage, tmp_path):
    path = tmp_path / "kernels_of_a_test.py"
    path.write_text(MODULE)
    assert loaded(path).twice(21) == 42
    files = [file for file in tmp_path.rglob("*") if file.suffix == ending]
    assert files
    for file in files:
        content = file.read_bytes()
        file.write_bytes({"empty": b"", "cut": content[: len(content) // 2], "reversed": content[::-1]}[damage])
    assert loaded(path).twice(21) == 42
    told = []
    with on_compile(lambda: told.append("compiling")):
        assert loaded(path).twice(21) == 42
    assert not told


def test_a_kernel_calls_no_other_kernel(tmp_path):
    # Two copies of a kernel, one compiled alone and one within its caller, may round differently.
    path = tmp_path / "kernels_of_a_test.py"
    lines = [f"        total += x[(i + {step}) % len(x)] * x[i] / (1 + {step} * x[i - {step}])" for step in range(9)]
    body = "\n".join(["def inner(x):", "    total = x[0]", "    for i in range(len(x)):", *lines, "    return total"])
    outer = "@kernel\ndef outer(x):\n    return inner(x) + inner(x[1:]) - inner(x[2:])"
    path.write_text(f"from laplacianshot.runtime.compilation import kernel\n\n@kernel\n{body}\n\n{outer}\n")
    module = loaded(path)
    module.outer(np.ones(50, np.float32))
    (text,) = module.outer.inspect_llvm().values()
    assert "inner" in text
    assert not [line for line in text.splitlines() if re.search(r"\bcall\b.*inner", line)]


def test_what_is_compiled_outside_is_not_told():
    told = []
    with on_compile(lambda: told.append("compiling")):
        pass
    assert njit(lambda value: value + 1)(1) == 2
    assert not told
