"""The embedding package without the packages of its extras."""

from __future__ import annotations

import json
import subprocess
import sys
from types import ModuleType

import pytest

import laplacianshot.embedding
from laplacianshot.runtime.extras import require

WITHOUT_TORCH = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == 'torch':
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Block())
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)


def test_the_packages_and_the_list_of_networks_load_no_torch():
    code = """
import json, sys
import laplacianshot.datasets, laplacianshot.embedding
from laplacianshot.embedding import NETWORKS, build_network
print(json.dumps(sorted(sys.modules)))
"""
    done = run(code)
    assert done.returncode == 0, done.stderr
    # Not pyarrow: where pandas is installed scikit-learn loads it, and pandas loads pyarrow.
    assert not {"torch", "PIL", "safetensors", "tensorboard"} & set(json.loads(done.stdout))


def test_building_a_network_without_torch_names_the_extra():
    done = run(WITHOUT_TORCH + "from laplacianshot.embedding import build_network; build_network('conv4')")
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("laplacianshot.runtime.extras.MissingExtra: this needs torch")
    assert 'pip install "laplacianshot[train]"' in last


def test_a_package_that_is_installed_is_returned():
    assert require("json", "train") is json
    assert isinstance(require("json.decoder", "train"), ModuleType)


@pytest.mark.parametrize("module", ["no_such_package", "no_such_package.part"])
def test_a_package_that_is_missing_names_itself_and_the_extra(module):
    with pytest.raises(ModuleNotFoundError, match=r'needs no_such_package, .*"laplacianshot\[train\]"') as caught:
        require(module, "train")
    assert "\n" not in str(caught.value)
    assert 'in a clone: pip install -c constraints.txt ".[train]"' in str(caught.value)


def test_a_package_that_lacks_something_of_its_own_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "half_installed.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_package'"):
        require("half_installed", "train")


def test_every_public_name_can_be_imported_and_no_other():
    for name in laplacianshot.embedding.__all__:
        assert getattr(laplacianshot.embedding, name) is not None
    assert set(laplacianshot.embedding.__all__) <= set(dir(laplacianshot.embedding))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        laplacianshot.embedding.nonsense  # noqa: B018
