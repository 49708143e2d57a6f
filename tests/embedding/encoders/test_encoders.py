"""Encoders by name."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from laplacianshot.embedding.encoders import DEFAULTS, ENCODERS, EncoderError, open_encoder


def test_the_default_depends_on_the_kind():
    assert open_encoder(None, "pictures").name == DEFAULTS["pictures"] == "efficientnet-lite0"
    assert open_encoder(None, "texts").name == DEFAULTS["texts"] == "minilm-l6"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("efficientnet-lite", r"no encoder 'efficientnet-lite'; did you mean efficientnet-lite0\?"),
        ("qwertz", "no encoder 'qwertz'; there are efficientnet-lite0, minilm-l6, onnx:FILE, "),
        ("", "no encoder ''"),
        ("onnx", "no encoder 'onnx'"),
        ("onnx:", r"'onnx:' lacks what comes after the colon; write onnx:FILE\."),
        ("minilm-l6:fast", r"no encoder 'minilm-l6:fast'; did you mean minilm-l6\?"),
        ("onnx:nowhere.onnx", r"'onnx:nowhere.onnx': there is no file 'nowhere.onnx'\."),
        ("checkpoint:nowhere", "'checkpoint:nowhere': nowhere: cannot be read"),
        ("minilm-l6", "'minilm-l6' is for texts, and the items are pictures"),
    ],
)
def test_what_there_is_not_is_refused_in_one_line(name, said):
    with pytest.raises(EncoderError, match=said) as refused:
        open_encoder(name, "pictures")
    assert "\n" not in str(refused.value)


def test_pictures_are_refused_by_what_reads_texts_and_the_other_way_round():
    with pytest.raises(EncoderError, match="is for pictures, and the items are texts"):
        open_encoder("efficientnet-lite0", "texts")


@pytest.mark.parametrize(("option", "value"), [("kind", "sounds"), ("threads", 0)])
def test_wrong_options_are_named(option, value):
    with pytest.raises(ValueError, match=option):
        open_encoder(None, **{"kind": "pictures", option: value})


def test_the_list_of_encoders_loads_no_package_of_an_extra():
    code = """
import json, sys
from laplacianshot.embedding.encoders import ENCODERS, open_encoder
import laplacianshot.embedding.encoding
print(json.dumps(sorted(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    extras = {"torch", "PIL", "onnx", "onnxruntime", "tokenizers", "safetensors", "transformers"}
    assert not extras & set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("name", "module", "kind"), [("minilm-l6", "tokenizers", "texts"), ("timm:x", "timm", "pictures")]
)
def test_a_missing_package_is_named_with_its_extra(name, module, kind):
    code = f"""
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split('.')[0] == {module!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
from laplacianshot.embedding.encoders import open_encoder
open_encoder({name!r}, {kind!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1
    extra = "timm" if module == "timm" else "label"
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"laplacianshot.runtime.extras.MissingExtra: this needs {module}")
    assert f'pip install "laplacianshot[{extra}]"' in last


def test_every_encoder_is_described():
    assert all(ENCODERS.values())
