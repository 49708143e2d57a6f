from __future__ import annotations

import pytest

from laplacianshot.datasets.pictures import DATASETS
from laplacianshot.training import TrainError, config_names, load_config

PAPER = [
    *(f"{data}-{network}" for data in ("mini", "tiered") for network in ("resnet18", "wrn", "mobilenet", "densenet")),
    *(f"inat-{network}" for network in ("resnet18", "resnet50", "wrn")),
    "cub-resnet18",
]


@pytest.mark.parametrize("name", config_names())
def test_every_config_is_valid_and_says_what_it_is_for(name):
    config = load_config(name)
    assert config.dataset in DATASETS
    assert config_names()[name].endswith(".")


@pytest.mark.parametrize("name", PAPER)
def test_configs_of_the_paper_have_its_settings(name):
    config = load_config(name)
    data = name.partition("-")[0]
    assert config.dataset == data
    assert (config.learning_rate, config.momentum, config.weight_decay) == (0.1, 0.9, 1e-4)
    assert (config.label_smoothing, config.image_size, config.resize, config.jitter) == (0.1, 84, 96, 0.4)
    assert config.epochs == (120 if name == "mini-wrn" else 90)
    assert config.batch_size == {"wrn28_10": 128, "densenet121": 100}.get(config.network, 256)
    assert config.schedule == ("every" if data in ("tiered", "inat") else "milestones")
    assert config.validation_split == ("" if data == "inat" else "val")


def test_values_can_be_replaced_and_the_batch_size_follows_the_network():
    config = load_config("mini-resnet18", {"network": "wrn28_10", "epochs": 3})
    assert (config.network, config.epochs, config.batch_size) == ("wrn28_10", 3, 128)
    assert load_config("mini-resnet18", {"network": "wrn28_10", "batch_size": 32}).batch_size == 32


def test_a_config_is_found_by_its_path_too(tmp_path):
    (tmp_path / "mine.toml").write_text('network = "conv4"\n')
    assert load_config(str(tmp_path / "mine.toml")).network == "conv4"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("mini-resnet", "there is no config 'mini-resnet'; did you mean mini-resnet"),
        ("?", "there are .*omniglot.*; or give a .toml file"),
        ("no/such.toml", "cannot be read"),
        ("../configs/omniglot", "there is no config"),
    ],
)
def test_what_is_no_config_is_said(name, words):
    with pytest.raises(TrainError, match=words):
        load_config(name)
