"""The same bits, whether kernels were compiled in this process or read from disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import laplacianshot

PROGRAM = """
import hashlib, numpy as np
from laplacianshot import FeatureSet, LaplacianShot, evaluate
from laplacianshot.episodes import runners

digest = hashlib.sha256()
solve = runners.joint_tasks

def hashed(*arguments):
    solve(*arguments)
    for array in arguments[-1]:
        digest.update(np.ascontiguousarray(array).tobytes())

runners.joint_tasks = hashed
rng = np.random.default_rng(0)
labels = np.repeat(np.arange(12), 40)
X = (rng.standard_normal((12, 32))[labels] + 1.2 * rng.standard_normal((480, 32))).astype(np.float32)
for method in ("laplacianshot", "laplacianshot-reference"):
    found = evaluate(FeatureSet(X, labels), method, tasks=100)
    digest.update(found.accuracies.tobytes() + found.iterations.tobytes())
truth = np.arange(4200) % 12
X = (rng.standard_normal((12, 16))[truth] + rng.standard_normal((4200, 16))).astype(np.float32)
model = LaplacianShot().fit(X, np.where(np.arange(4200) < 60, truth, -1))
digest.update(model.label_distributions_.tobytes())
print(digest.hexdigest())
"""


@pytest.mark.slow
def test_kernels_from_disk_give_the_same_bits_as_those_compiled_now(tmp_path):
    source = str(Path(laplacianshot.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": source, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    found = [subprocess.check_output(command, env=environment, text=True, timeout=500) for _ in range(2)]
    assert found[0] == found[1]
