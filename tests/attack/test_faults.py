"""A disk that fails at any call: nothing acknowledged is lost, and nothing is half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import laplacianshot

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
COMPILER = next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)

pytestmark = pytest.mark.skipif(
    COMPILER is None or sys.platform != "linux", reason="the shim needs Linux and a C compiler"
)

# Every such call fails in turn; in `make test-all` every single one.
STRIDES = {"studio": 9, "save": 1, "store": 2, "cache": 12, "label": 2, "extract": 40, "train": 30}


@pytest.fixture(scope="session")
def shim(tmp_path_factory) -> Path:
    """What makes calls fail, compiled."""
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", library, HERE / "shim.c", "-ldl"], check=True, timeout=120)
    return library


@pytest.mark.parametrize(
    ("work", "stride"),
    [*STRIDES.items(), *(pytest.param(work, 1, marks=pytest.mark.slow) for work in STRIDES)],
)
@pytest.mark.timeout(1800)
def test_nothing_acknowledged_is_lost_and_nothing_half_written(work, stride, shim, tmp_path):
    environment = os.environ | {
        "LD_PRELOAD": str(shim),
        "PYTHONPATH": os.pathsep.join([str(Path(laplacianshot.__file__).parents[1]), str(ROOT)]),
        # Children are forked: no thread may run in their parent.
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [sys.executable, "-m", "tests.attack.faulty", work, str(tmp_path), str(stride)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1700, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) >= 2
