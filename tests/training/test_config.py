from __future__ import annotations

import dataclasses
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laplacianshot.datasets.pictures import DATASETS
from laplacianshot.training import TrainConfig, TrainError, config_names, load_config
from laplacianshot.training.config import toml_value
from laplacianshot.training.state import ConfigError


def test_the_defaults_are_those_of_the_paper():
    config = TrainConfig()
    assert (config.learning_rate, config.momentum, config.weight_decay) == (0.1, 0.9, 1e-4)
    assert (config.label_smoothing, config.epochs, config.batch_size) == (0.1, 90, 256)
    assert (config.schedule, config.milestones, config.gamma) == ("milestones", (0.5, 0.75), 0.1)
    assert (config.image_size, config.resize, config.jitter) == (84, 96, 0.4)
    assert (config.validation_shot, config.validation_way, config.validation_tasks) == (1, 5, 500)


@pytest.mark.parametrize(("network", "size"), [("resnet18", 256), ("wrn28_10", 128), ("densenet121", 100)])
def test_each_network_has_its_published_batch_size_unless_another_is_given(network, size):
    assert TrainConfig(network=network).batch_size == size
    assert TrainConfig(network=network, batch_size=32).batch_size == 32


def test_all_settings_are_written_and_read_back(tmp_path):
    path = tmp_path / "config.toml"
    config = TrainConfig(
        network="conv4", learning_rate=3e-7, milestones=(0.25,), crop_scale=(), nesterov=True, base_split='a "b"\n\\é'
    )
    path.write_text(config.to_toml(), encoding="utf-8")
    assert TrainConfig.from_toml(path) == config
    assert set(tomllib.loads(config.to_toml())) == {field.name for field in dataclasses.fields(TrainConfig)}


@given(
    st.recursive(
        st.booleans() | st.integers(-(2**62), 2**62) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda values: st.lists(values, max_size=3),
        max_leaves=5,
    )
)
def test_what_is_written_as_toml_is_read_as_the_same(value):
    assert tomllib.loads(f"key = {toml_value(value)}")["key"] == value


def test_every_setting_is_explained_in_what_is_printed():
    for line in TrainConfig().to_toml().splitlines():
        assert not line or line.startswith("#") or line.partition(" # ")[2]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"learning_rat": 0.1}, "there is no setting 'learning_rat'; did you mean learning_rate?"),
        ({"xyzzy": 1}, "there is no setting 'xyzzy'; there are dataset, network,"),
        ({"epochs": 2.5}, "epochs = 2.5: must be a whole number."),
        ({"epochs": True}, "epochs = True: must be a whole number."),
        ({"epochs": 0}, "epochs = 0: must be at least 1."),
        ({"learning_rate": "0.1"}, "learning_rate = '0.1': must be a number."),
        ({"learning_rate": 0}, "learning_rate = 0.0: must be above 0.0."),
        ({"learning_rate": float("nan")}, "learning_rate = nan: must be a finite number."),
        ({"momentum": 1.0}, "momentum = 1.0: must be below 1.0."),
        ({"milestones": 0.5}, "milestones = 0.5: must be a list of numbers."),
        ({"milestones": [0.5, "x"]}, "milestones = 'x': must be a number."),
        ({"milestones": [0.5, 1.5]}, "milestones = 1.5: must be at most 1.0."),
        ({"nesterov": 1}, "nesterov = 1: must be true or false."),
        ({"nesterov": True, "momentum": 0.0}, "nesterov = true: needs a momentum above 0."),
        ({"dataset": 3}, "dataset = 3: must be a text in quotes."),
        ({"network": "resnet81"}, "network = 'resnet81': did you mean resnet18?"),
        ({"schedule": "?"}, "schedule = '?': there are milestones, every, cosine, constant."),
        ({"batch_size": 10, "accumulate": 4}, "accumulate = 4: must divide batch_size = 10, so that parts are equal."),
        ({"batch_size": 4, "accumulate": 4}, "batch_size = 4: batch normalization needs two pictures"),
        ({"channels": 2}, "channels = 2: must be 1 (gray) or 3 (color)."),
        ({"resize": 80}, "resize = 80: must be at least image_size = 84."),
        ({"crop_scale": [0.5]}, "crop_scale = [0.5]: must be two numbers, the smaller first, or [] for none."),
        ({"schedule": "cosine", "warmup_epochs": 90}, "warmup_epochs = 90.0: must be below epochs = 90."),
    ],
)
def test_what_cannot_be_is_one_line_that_names_it(settings, words):
    with pytest.raises(ConfigError) as raised:
        TrainConfig.from_mapping(settings)
    assert str(raised.value).startswith(words)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"epochs = ", "is not valid TOML"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"epoch = 3", "there is no setting 'epoch'; did you mean epochs?"),
        (b"[optimizer]\nepochs = 3", "there is no setting 'optimizer'"),
    ],
)
def test_errors_in_a_file_begin_with_its_name(tmp_path, content, words):
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(TrainError, match=r"mine\.toml: ") as raised:
        TrainConfig.from_toml(path)
    assert words in str(raised.value)


def test_settings_of_the_machine_are_no_part_of_the_experiment():
    here = TrainConfig(device="cpu", threads=1, workers=0, checkpoint_seconds=1, tensorboard=True, channels_last=False)
    assert here.experiment() == TrainConfig().experiment()
    assert TrainConfig(precision="bfloat16").experiment() != TrainConfig().experiment()


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
        ("?", "there are .*omniglot.*, FILE.toml"),
        ("no/such.toml", "cannot be read"),
        ("../configs/omniglot", "there is no config"),
    ],
)
def test_what_is_no_config_is_said(name, words):
    with pytest.raises(TrainError, match=words):
        load_config(name)
