from __future__ import annotations

import numpy as np
import pytest

from laplacianshot.training.state import ConfigError
from tests.training.drawings import make_plan, tiny


def test_the_base_classes_are_trained_on_and_the_others_are_not(pictures):
    plan = make_plan(tiny(), pictures)
    assert set(pictures.split[plan.rows]) == {"base"}
    assert set(pictures.split[plan.validation_rows]) == {"val"}
    assert plan.class_names == ("square 0", "square 1", "square 2", "square 3")


def test_an_epoch_takes_every_picture_once_in_an_order_of_its_own(pictures):
    plan = make_plan(tiny(), pictures)
    first, second = plan.order(0), plan.order(1)
    np.testing.assert_array_equal(np.sort(first), plan.rows)
    np.testing.assert_array_equal(np.sort(second), plan.rows)
    assert (first != second).any()
    np.testing.assert_array_equal(first, make_plan(tiny(), pictures).order(0))
    assert (first != make_plan(tiny(seed=1), pictures).order(0)).any()


@pytest.mark.parametrize(
    ("batch_size", "processes", "steps"), [(8, 1, 6), (20, 1, 3), (47, 1, 1), (46, 1, 2), (48, 2, 1), (46, 2, 1)]
)
def test_a_last_step_of_fewer_than_two_pictures_a_process_is_left_out(pictures, batch_size, processes, steps):
    assert make_plan(tiny(batch_size=batch_size), pictures, processes).steps(processes) == steps


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_the_shares_of_all_processes_make_up_each_step(pictures, processes):
    plan = make_plan(tiny(batch_size=20), pictures, processes)
    per_process = [plan.shares(rank, processes) for rank in range(processes)]
    for step in range(plan.steps(processes)):
        places = [i for _, mine in per_process for i in range(mine[step].start, mine[step].stop)]
        assert places == list(range(20 * step, min(20 * (step + 1), 48)))
        assert per_process[0][0][step] == len(places)


@pytest.mark.parametrize(
    ("settings", "processes", "words"),
    [
        ({"base_split": "bse"}, 1, "base_split = 'bse': .*splits are base, val, novel"),
        ({"validation_split": "test"}, 1, "validation_split = 'test': "),
        ({"validation_way": 5}, 1, "validation_split = 'val': "),
        ({"validation_query": 15}, 1, "validation_split = 'val': "),
        ({"batch_size": 9}, 2, "batch_size = 9: must be a multiple of accumulate times the number of processes, 1 x 2"),
        ({"batch_size": 256}, 32, "48 pictures are too few for 32 processes"),
    ],
)
def test_what_the_pictures_do_not_allow_is_said_before_training(pictures, settings, processes, words):
    with pytest.raises(ConfigError, match=words):
        make_plan(tiny(**settings), pictures, processes)


def test_a_single_class_cannot_be_trained_on(pictures):
    split = np.where(pictures.labels == 0, "base", "val")
    with pytest.raises(ConfigError, match="has 1 class"):
        make_plan(tiny(), pictures.with_split(split))


def test_a_plan_knows_other_pictures_from_its_own(pictures):
    key = make_plan(tiny(), pictures).data_key
    assert make_plan(tiny(seed=3), pictures).data_key == key
    swapped = pictures.with_split(np.where(pictures.split == "novel", "test", pictures.split))
    assert make_plan(tiny(), swapped).data_key != key
