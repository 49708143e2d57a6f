"""The first use on a fresh machine: nothing is compiled for a small set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import laplacianshot

PROGRAM = """
import sys
from laplacianshot.cli.app import run
from laplacianshot.runtime.compilation import on_compile

compiled = []
with on_compile(lambda: compiled.append(1)):
    code = run(sys.argv[1:])
print(f"{len(compiled)} compiled", file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "command",
    [
        ["label", "v.npy", "--labels", "l.csv", "-o", "o.csv", "--suggest", "5", "--reject", "0.1", "--relabel"],
        ["suggest", "v.npy", "-n", "5"],
    ],
    ids=["label", "suggest"],
)
def test_labeling_a_thousand_vectors_compiles_nothing(tmp_path, command):
    rng = np.random.default_rng(0)
    truth = np.arange(1000) % 10
    np.save(tmp_path / "v.npy", (rng.standard_normal((10, 64))[truth] + rng.standard_normal((1000, 64))).astype("f4"))
    (tmp_path / "l.csv").write_text("id,label\n" + "".join(f"{i},c{truth[i]}\n" for i in range(30)))
    fresh = {"NUMBA_CACHE_DIR": str(tmp_path / "numba"), "LAPLACIANSHOT_CACHE": str(tmp_path / "cache")}
    source = {"PYTHONPATH": str(Path(laplacianshot.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *command],
        cwd=tmp_path,
        env=os.environ | fresh | source,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "0 compiled"
