"""The first use on a fresh machine: nothing is compiled for a small set."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

import laplacianshot

PROGRAM = """
import sys
from laplacianshot.cli.app import run
from laplacianshot.runtime.compilation import on_compile

label = "label v.npy --labels l.csv -o o.csv --suggest 5 --reject 0.1 --relabel"
compiled = []
with on_compile(lambda: compiled.append(1)):
    codes = [run(command.split()) for command in (label, "suggest v.npy -n 5")]
print(f"{len(compiled)} compiled", file=sys.stderr)
sys.exit(max(codes))
"""


def test_labeling_a_thousand_vectors_and_suggesting_some_compiles_nothing(tmp_path):
    rng = np.random.default_rng(0)
    truth = np.arange(1000) % 10
    np.save(tmp_path / "v.npy", (rng.standard_normal((10, 64))[truth] + rng.standard_normal((1000, 64))).astype("f4"))
    (tmp_path / "l.csv").write_text("id,label\n" + "".join(f"{i},c{truth[i]}\n" for i in range(30)))
    fresh = {"NUMBA_CACHE_DIR": str(tmp_path / "numba"), "LAPLACIANSHOT_CACHE": str(tmp_path / "cache")}
    source = {"PYTHONPATH": str(Path(laplacianshot.__file__).parents[1])}
    program = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(program, cwd=tmp_path, env=os.environ | fresh | source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "0 compiled"
