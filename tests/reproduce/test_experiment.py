from __future__ import annotations

import json

import pytest

from laplacianshot.cli.app import run
from laplacianshot.datasets.pictures import DATASETS
from laplacianshot.reports.published import load_published
from laplacianshot.reproduce import Protocol, load_experiment, named_experiments
from laplacianshot.training import config_names
from laplacianshot.training.state import ConfigError

NAMES = list(named_experiments())


def test_every_training_config_has_a_setting_and_every_setting_a_config():
    assert {load_experiment(name).source for name in NAMES} == set(config_names())


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_names_data_sets_and_published_figures_that_there_are(name):
    experiment = load_experiment(name)
    assert set(experiment.datasets) <= set(DATASETS)
    published = load_published()
    if experiment.published is not None:
        assert experiment.published in published.keys
        assert experiment.published.endswith(f"/{experiment.config.network}")
    elif name == experiment.source and not name.startswith(("omniglot", "cifarfs")):
        assert f"{name.partition('-')[0]}/{experiment.config.network}" not in published.keys


def test_a_cross_domain_setting_shares_all_but_its_tasks_with_its_source():
    home, away = load_experiment("cub-conv4"), load_experiment("cub-conv4-to-cifarfs")
    assert away.config == home.config
    assert away.protocol == home.protocol
    assert (away.source, away.target) == ("cub-conv4", "cifarfs")
    assert away.published is None


def test_the_test_tasks_are_ten_thousand_as_in_the_paper_unless_another_number_is_given():
    experiment = load_experiment("cub-conv4")
    assert (experiment.protocol.tasks, experiment.protocol.tuning_tasks) == (10_000, 500)
    assert experiment.with_tasks(50).protocol.tasks == 50
    assert experiment.with_tasks(None) == experiment


def test_settings_of_the_training_can_be_replaced():
    assert load_experiment("omniglot", {"epochs": 7}).config.epochs == 7


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"way": [5]}, "did you mean ways?"),
        ({"ways": []}, "ways"),
        ({"ways": [0]}, "ways"),
        ({"ways": ["5"]}, "ways"),
        ({"tasks": 2.5}, "tasks"),
        ({"tasks": True}, "tasks"),
        ({"tasks": [5]}, "tasks"),
        ({"methods": ["laplacian-shot"]}, "did you mean laplacianshot"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_value_that_cannot_be_is_named(values, named):
    with pytest.raises(ConfigError, match=named.replace("?", r"\?")):
        Protocol.from_mapping(values)


def test_a_protocol_comes_back_from_plain_data():
    protocol = Protocol(ways=(5, 20), tasks=7)
    assert Protocol.from_mapping(json.loads(json.dumps(protocol.to_mapping()))) == protocol


def test_the_list_names_every_setting_and_what_its_data_must_be(capsys):
    assert run(["reproduce", "--list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [entry["setting"] for entry in document["settings"]] == NAMES
    assert all(set(entry["datasets"]) <= set(document["datasets"]) for entry in document["settings"])
    assert run(["reproduce", "--list"]) == 0
    out = capsys.readouterr().out
    assert "cub-conv4-to-cifarfs" in out
    assert "omniglot28.npz" in out
