"""What importing the package costs, and what it needs."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import laplacianshot

SOURCE = Path(laplacianshot.__file__).parent
EXTRAS = ["matplotlib", "typer", "rich", "pandas", "torch", "onnxruntime", "ray", "fastapi"]
FIT = """
import numpy as np
from laplacianshot import LaplacianShot
X = np.random.default_rng(0).standard_normal((40, 4))
y = np.array([0, 1] + [-1] * 38)
for make in (LaplacianShot, LaplacianShot.paper, LaplacianShot.reference):
    assert make().fit(X, y).predict(X).shape == (40,)
"""
# Too large for numpy alone: kernels are compiled, few of them as the graph is given.
COMPILED_FIT = """
import numpy as np, scipy.sparse as sp
from laplacianshot import LaplacianShot
from laplacianshot.runtime.compilation import on_compile
from laplacianshot.runtime.limits import SMALL_ROWS
n = SMALL_ROWS + 1
X = np.random.default_rng(0).standard_normal((n, 2))
y = np.array([0, 1] + [-1] * (n - 2))
compiled = []
with on_compile(lambda: compiled.append(1)):
    fitted = LaplacianShot.reference(graph=sp.eye_array(n, format="csr"), rectify=False).fit(X, y)
assert fitted.transduction_.shape == (n,)
print(len(compiled))
"""
FIRST_USE = """
import sys
import numpy as np
from sklearn.datasets import load_digits
from laplacianshot import LaplacianShot
X, digits = load_digits(return_X_y=True)
y = np.where(np.arange(len(X)) < 50, digits, -1)
fitted = [make().fit(X, y) for make in (LaplacianShot, LaplacianShot.paper, LaplacianShot.reference)]
fitted.append(LaplacianShot(base_mean="support").fit(X.astype(np.float32), y))
assert all(len(model.predict(X[:100])) == 100 for model in fitted)
assert "numba" not in sys.modules, "a first fit should not even load numba"
from laplacianshot import bound_optimize
from laplacianshot.runtime.compilation import on_compile
compiled = []
with on_compile(lambda: compiled.append(1)):
    LaplacianShot(memory="1GB").fit(X, y).affinity_
    bound_optimize(fitted[1].unary_, fitted[1].affinity_, lam=0.7)
assert not compiled
"""
EVALUATE = """
import numpy as np
from laplacianshot import FeatureSet, evaluate, tune
rows = FeatureSet(np.random.default_rng(0).standard_normal((60, 4)), np.arange(60) % 3)
assert evaluate(rows, ["laplacianshot", "simpleshot-cl2"], way=3, query=5, tasks=3)[0].n_tasks == 3
assert tune(rows, way=3, query=5, tasks=3, split=None, neighbor_split=None).lam > 0
"""


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_import_loads_neither_numba_nor_scikit_learn():
    code = "import sys, json, laplacianshot; print(json.dumps(sorted(sys.modules)))"
    loaded = json.loads(run(code).stdout)
    assert not {"numba", "sklearn", "scipy", "numpy"} & set(loaded)


def test_importing_the_estimator_compiles_nothing():
    code = """
import numba.core.compiler as compiler
compiled = []
original = compiler.compile_extra
compiler.compile_extra = lambda *a, **k: (compiled.append(a), original(*a, **k))[1]
import laplacianshot.inference
from laplacianshot.neighbors import kernels as neighbor_kernels
from laplacianshot.engine import round_kernels
kernels = [k for m in (neighbor_kernels, round_kernels) for k in vars(m).values() if hasattr(k, "overloads")]
assert len(kernels) >= 5 and not compiled and not any(k.overloads for k in kernels), (compiled, kernels)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_importing_the_episodes_compiles_nothing():
    code = """
import numba.core.compiler as compiler
compiled = []
original = compiler.compile_extra
compiler.compile_extra = lambda *a, **k: (compiled.append(a), original(*a, **k))[1]
import laplacianshot.episodes
from laplacianshot.episodes import _sampling_kernels
from laplacianshot.episodes import _bound_kernels
from laplacianshot.episodes import _gram_kernels
from laplacianshot.episodes import _joint_kernels
modules = (_sampling_kernels, _bound_kernels, _gram_kernels, _joint_kernels)
kernels = [k for m in modules for k in vars(m).values() if hasattr(k, "overloads")]
assert len(kernels) >= 20 and not compiled and not any(k.overloads for k in kernels), (compiled, kernels)
"""
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_the_core_works_without_any_extra():
    block = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Block())
"""
    done = run(block + FIT + EVALUATE)
    assert done.returncode == 0, done.stderr


def test_every_public_name_can_be_imported_and_no_other():
    for name in laplacianshot.__all__:
        assert getattr(laplacianshot, name) is not None
    assert set(laplacianshot.__all__) <= set(dir(laplacianshot))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        laplacianshot.nonsense  # noqa: B018


def test_the_package_says_that_it_is_typed():
    assert (SOURCE / "py.typed").exists()


def test_a_first_fit_of_a_small_set_compiles_nothing(tmp_path):
    done = run(FIRST_USE, NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_kernels_run_where_no_cache_folder_is_writable(tmp_path):
    copy = tmp_path / "site" / "laplacianshot"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    # A file where a folder is wanted cannot be written into, not even by root.
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    for folder in [copy, *(path for path in copy.rglob("*") if path.is_dir())]:
        (folder / "__pycache__").write_text("")
    environment = {"PYTHONPATH": str(copy.parent), "NUMBA_CACHE_DIR": str(blocked / "numba"), "HOME": str(blocked)}
    check = "import laplacianshot; assert laplacianshot.__file__.startswith(" + repr(str(tmp_path)) + ")\n"
    done = run(check + FIT + COMPILED_FIT, XDG_CACHE_HOME=str(blocked), PYTHONDONTWRITEBYTECODE="1", **environment)
    assert done.returncode == 0, done.stderr


def test_a_full_disk_under_the_cache_is_no_error(tmp_path):
    code = """
import errno
from numba.core.caching import FunctionCache
tried = []
def full(self, sig, data):
    tried.append(sig)
    raise OSError(errno.ENOSPC, "No space left on device")
FunctionCache._save_overload = full
"""
    done = run(code + FIT + COMPILED_FIT + "assert tried", NUMBA_CACHE_DIR=str(tmp_path))
    assert done.returncode == 0, done.stderr


def test_a_damaged_cache_is_replaced(tmp_path):
    def compiled():
        done = run(COMPILED_FIT, NUMBA_CACHE_DIR=str(tmp_path))
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    def files():
        found = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert {path.suffix for path in found} == {".nbi", ".nbc"}
        return found

    first = compiled()
    assert first > 0
    assert compiled() == 0
    for size in (lambda path: path.stat().st_size // 2, lambda path: 0):
        for path in files():
            os.truncate(path, size(path))
        assert compiled() == first
        assert compiled() == 0
