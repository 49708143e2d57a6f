from __future__ import annotations

import json
import math

import pytest
import torch
from safetensors.torch import save_file

from laplacianshot.training.checkpoint import MODEL, Checkpoint
from laplacianshot.training.state import Best, EpochRecord, TrainError, TrainState
from tests.training.drawings import same_tensors, tiny

RECORD = EpochRecord(1, 0.1, 1 / 3, 0.1 + 0.2, 0.25, 0.01, 1e3 / 7, math.pi)
STATE = TrainState(
    epoch=1, step=4, loss_sum=1e16 / 3, correct=5, seen=32, train_seconds=0.1, history=(RECORD,), best=Best(1, 0.25)
)


def make(**tensors: torch.Tensor) -> Checkpoint:
    return Checkpoint(tiny(), ("a", "b\u2028 'ü'"), "key", STATE, tensors)


def test_a_checkpoint_is_read_as_it_was_written(tmp_path):
    generator = torch.Generator().manual_seed(0)
    maps = torch.randn(2, 3, 4, 5, generator=generator).contiguous(memory_format=torch.channels_last)
    tensors = {"model.w": maps, "model.count": torch.tensor(7), "momentum.w": torch.randn(3, generator=generator)}
    written = Checkpoint(tiny(), ("a", "b\u2028 'ü'"), "key", STATE, tensors)
    written.write(tmp_path / "x.safetensors")
    read = Checkpoint.read(tmp_path / "x.safetensors")
    assert (read.config, read.class_names, read.data_key, read.state) == (tiny(), written.class_names, "key", STATE)
    assert same_tensors(dict(read.tensors), tensors)


def test_parts_lose_their_prefix_and_only_keeps_it():
    checkpoint = make(**{"model.w": torch.zeros(1), "momentum.w": torch.ones(1)})
    assert list(checkpoint.part(MODEL)) == ["w"]
    assert list(checkpoint.only(MODEL).tensors) == ["model.w"]


def test_the_json_file_beside_repeats_all_but_the_tensors(tmp_path):
    make(w=torch.zeros(3)).write(tmp_path / "x.safetensors")
    document = json.loads((tmp_path / "x.json").read_text(), parse_constant=pytest.fail)
    assert document["config"]["network"] == "conv4"
    assert document["class_names"] == ["a", "b\u2028 'ü'"]
    assert document["state"]["best"] == {"epoch": 1, "validation": 0.25}
    assert document["state"]["history"][0]["loss"] == 1 / 3


def test_a_new_checkpoint_takes_the_place_of_the_old_one_and_leaves_nothing_else(tmp_path):
    for value in (1.0, 2.0):
        make(w=torch.tensor(value)).write(tmp_path / "x.safetensors")
    assert Checkpoint.read(tmp_path / "x.safetensors").tensors["w"] == 2.0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.safetensors"]


def test_a_file_that_is_no_checkpoint_is_one_line_that_names_it(tmp_path):
    path = tmp_path / "x.safetensors"
    with pytest.raises(TrainError, match=r"x\.safetensors: cannot be read"):
        Checkpoint.read(path)
    path.write_bytes(b"")
    with pytest.raises(TrainError, match="is not a complete safetensors file"):
        Checkpoint.read(path)
    make(w=torch.zeros(1000)).write(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(TrainError, match="is not a complete safetensors file"):
        Checkpoint.read(path)
    save_file({"w": torch.zeros(3)}, path)
    with pytest.raises(TrainError, match="is not a checkpoint of laplacianshot train"):
        Checkpoint.read(path)
    save_file({"w": torch.zeros(3)}, path, {"laplacianshot": json.dumps({**make().header(), "version": 99})})
    with pytest.raises(TrainError, match="another version"):
        Checkpoint.read(path)
