"""What a run over tasks says of itself."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from laplacianshot.episodes.results import (
    Convergence,
    Evaluation,
    Evaluations,
    Setting,
    Tuning,
    mean_interval,
    paired_difference,
)

RNG = np.random.default_rng(0)
ONE, TWO, THREE = (np.clip(RNG.normal(mean, 0.1, size=200), 0, 1) for mean in (0.6, 0.7, 0.5))
SETTING = Setting(tasks=200)


def evaluation(method="one", accuracies=ONE, **others) -> Evaluation:
    return Evaluation(method, SETTING, accuracies, **others)


@pytest.fixture
def three() -> Evaluations:
    return Evaluations((evaluation(), evaluation("two", TWO), evaluation("three", THREE[:50])))


def strict_json(value):
    """Through JSON and back; NaN and infinity are no JSON."""
    return json.loads(json.dumps(value, allow_nan=False))


def test_a_setting_reads_as_one_speaks_of_it():
    assert str(Setting()) == "5-way 1-shot, balanced"
    assert str(Setting("dirichlet", 20, 5)) == "20-way 5-shot, dirichlet"
    assert str(Setting(shot=(1, 9))) == "5-way 1-9-shot, balanced"


def test_a_setting_holds_plain_numbers_whatever_it_was_given():
    plain = Setting("balanced", 5, 3, 15, 100, 7, None, 2.0)
    given = Setting(
        "balanced", np.int64(5), np.int32(3), np.int16(15), np.int64(100), np.uint64(7), None, np.float32(2)
    )
    assert given == plain
    assert hash(given) == hash(plain)
    assert Setting(shot=[np.int64(1), 3]).shot == (1, 3)
    strict_json(evaluation(accuracies=ONE, class_names=(), iterations=None).to_dict() | {"setting": vars(given)})


def test_mean_and_interval_are_those_of_scipy():
    found = evaluation()
    assert found.mean == pytest.approx(np.mean(ONE))
    assert found.ci95 == pytest.approx(1.96 * stats.sem(ONE))
    assert (found.interval.low, found.interval.high) == pytest.approx(
        stats.norm.interval(0.95, np.mean(ONE), stats.sem(ONE)), abs=1e-5
    )
    assert found.n_tasks == 200


def test_one_task_says_nothing_about_its_spread():
    assert evaluation(accuracies=ONE[:1]).ci95 == math.inf


def test_a_difference_is_paired():
    found = evaluation("two", TWO).difference(evaluation())
    assert found.mean == pytest.approx(np.mean(TWO - ONE))
    assert found.ci95 == pytest.approx(1.96 * stats.sem(TWO - ONE))
    assert found.clear
    assert not evaluation().difference(evaluation()).clear
    assert found.mean == -evaluation().difference(evaluation("two", TWO)).mean


def test_a_difference_is_over_the_tasks_that_both_have_run():
    few = evaluation("two", TWO[:30]).difference(evaluation())
    assert few.n == 30
    assert few.mean == pytest.approx(np.mean(TWO[:30] - ONE[:30]))

    numbers = np.array([3, 5, 8, 150, 199])
    part = evaluation("two", TWO[numbers], interrupted=True, numbers=numbers)
    for found in (
        part.difference(evaluation()),
        evaluation("two", TWO).difference(replace(part, accuracies=ONE[numbers])),
    ):
        assert found.n == 5
        assert found.mean == pytest.approx(np.mean(TWO[numbers] - ONE[numbers]))
    shared = part.difference(evaluation(accuracies=ONE[:9]))
    assert shared.n == 3
    assert shared.mean == pytest.approx(np.mean((TWO - ONE)[[3, 5, 8]]))
    with pytest.raises(ValueError, match="two and one have run no task in common"):
        part.difference(evaluation(accuracies=ONE[:3]))


def test_methods_that_saw_different_tasks_are_not_compared():
    other = replace(evaluation("two", TWO), setting=replace(SETTING, shot=5))
    with pytest.raises(ValueError, match=r"two and one saw different tasks: 5-way 5-shot, .*5-way 1-shot"):
        other.difference(evaluation())


def test_the_mean_over_classes_leaves_out_those_never_asked_for():
    found = evaluation(class_accuracies=np.array([0.5, np.nan, 1.0]), class_names=("a", "b", "c"))
    assert found.mean_class_accuracy == 0.75
    said = strict_json(found.to_dict())
    assert said["class_accuracies"] == {"a": 0.5, "b": None, "c": 1.0}
    assert said["mean_class_accuracy"] == 0.75


def test_an_evaluation_as_json_holds_plain_numbers():
    found = evaluation(iterations=np.array([2, 4] * 100), seconds=1.5)
    said = strict_json(found.to_dict())
    assert (said["method"], said["tasks"], said["mean_iterations"], said["seconds"]) == ("one", 200, 3.0, 1.5)
    assert said["setting"] == {
        "protocol": "balanced",
        "way": 5,
        "shot": 1,
        "query": 15,
        "tasks": 200,
        "seed": 0,
        "split": None,
        "alpha": 2.0,
        "present": None,
        "total_queries": None,
        "center": "task",
    }
    single = strict_json(evaluation(accuracies=ONE[:1]).to_dict())
    assert (single["ci95"], single["seconds"], single["mean_iterations"]) == (None, None, None)


def test_an_evaluation_shows_its_mean_and_interval():
    shown = repr(evaluation(accuracies=np.array([0.5, 0.75]), seconds=2.0))
    assert shown == "Evaluation(one: 62.50 ± 24.50, 5-way 1-shot, balanced, 2 tasks in 2 s)"


def test_several_methods_are_found_by_number_and_by_name(three):
    assert len(three) == 3
    assert [found.method for found in three] == ["one", "two", "three"] == list(three.names)
    assert three["two"] is three[1]
    assert three[-1].method == "three"
    assert [found.method for found in three[:2]] == ["one", "two"]
    with pytest.raises(KeyError, match="there is no method 'four'; there are: one, two, three"):
        three["four"]


def test_the_best_method_has_the_highest_mean(three):
    assert three.best.method == "two"
    assert repr(three).startswith("Evaluations(3 methods, best two at ")
    assert three.difference("one", "two").mean == pytest.approx(np.mean(ONE - TWO))
    assert three.difference("three", "one").n == 50


def test_several_methods_are_shown_in_one_line_and_printed_as_a_table(three):
    assert repr(three) == f"Evaluations(3 methods, best two at {100 * np.mean(TWO):.2f} ± {196 * stats.sem(TWO):.2f})"
    title, head, *rows = str(three).splitlines()
    assert title == "5-way 1-shot, balanced"
    assert re.split(r"  +", head) == ["Method", "Accuracy, %", "To the best"]
    assert [row.split()[0] for row in rows[:3]] == ["two", "one", "three"]
    assert re.split(r"  +", rows[0]) == ["two", f"{100 * np.mean(TWO):.2f} ± {196 * stats.sem(TWO):.2f}", "best"]
    gap = ONE - TWO
    assert rows[1].endswith(f"  {100 * np.mean(gap):+.2f} ± {196 * stats.sem(gap):.2f}")
    assert "three 50" in rows[-1]  # of fewer tasks
    assert rows[-2].startswith("200 tasks, 15 queries per class, seed 0")


def test_several_methods_as_json_hold_each_ones_difference_to_the_best(three):
    said = strict_json(three.to_dict())
    assert said["best"] == "two"
    gaps = {row["method"]: row["difference_to_best"] for row in said["evaluations"]}
    assert gaps["one"]["mean"] == pytest.approx(np.mean(ONE - TWO))
    assert gaps["one"]["ci95"] == pytest.approx(1.96 * stats.sem(ONE - TWO))
    assert gaps["two"] == {"mean": 0.0, "ci95": 0.0, "tasks": 200}
    assert gaps["three"]["tasks"] == 50


def test_one_interrupted_method_marks_them_all(three):
    assert not three.interrupted
    assert Evaluations((evaluation(), evaluation("two", TWO, interrupted=True))).interrupted


@pytest.fixture
def tuning() -> Tuning:
    by_neighbors = RNG.uniform(size=(2, 3, 50))
    return Tuning(
        lam=0.5,
        n_neighbors=5,
        lams=np.array([0.1, 0.5, 1.0]),
        neighbors=np.array([3, 5]),
        lam_accuracies=RNG.uniform(size=(3, 50)),
        neighbor_accuracies=by_neighbors,
        setting=Setting(tasks=50, split="val"),
        lam_split="val",
        neighbor_split="base",
        seconds=0.1,
    )


def test_curves_of_a_tuning_are_means_with_intervals(tuning):
    for point, values in zip(tuning.lam_curve, tuning.lam_accuracies, strict=True):
        assert (point.mean, point.ci95) == pytest.approx((values.mean(), 1.96 * stats.sem(values)))
    for point, rows in zip(tuning.neighbor_curve, tuning.neighbor_accuracies, strict=True):
        assert point.mean == pytest.approx(rows.mean(axis=1).max())


def test_a_tuning_as_json_holds_both_curves(tuning):
    said = strict_json(tuning.to_dict())
    assert (said["lam"], said["n_neighbors"], said["lam_split"], said["neighbor_split"]) == (0.5, 5, "val", "base")
    assert [point["lam"] for point in said["lams"]] == [0.1, 0.5, 1.0]
    assert [point["n_neighbors"] for point in said["neighbors"]] == [3, 5]
    assert said["lams"][1]["mean"] == pytest.approx(tuning.lam_accuracies[1].mean())
    assert repr(tuning) == "Tuning(lam=0.5, n_neighbors=5, 5-way 1-shot, balanced, 50 tasks)"


def test_rises_are_seen_beyond_rounding_only():
    nan = math.nan
    objective = np.array(
        [
            [9.0, 5.0, 4.0, nan],  # falls
            [9.0, 5.0, 5.1, 4.0],  # rises on its way
            [100.0, 50.0, 50.0005, nan],  # rounding
            [1e-9, -50.0, -50.0001, nan],  # begins near zero
            [1e-9, -50.0, -49.9999, nan],  # the same with rounding
            [3.0, nan, nan, nan],  # one update
        ]
    )
    found = Convergence("one", SETTING, objective, np.array([True] * 6))
    np.testing.assert_array_equal(found.iterations, [3, 4, 3, 3, 3, 1])
    np.testing.assert_array_equal(found.rises, [False, True, False, False, False, False])
    np.testing.assert_array_equal(found.filled[0], [9, 5, 4, 4])
    np.testing.assert_array_equal(found.filled[5], [3, 3, 3, 3])
    assert repr(found) == "Convergence(one: 6 tasks, 2.8 updates on average, 1 with a rise)"


def test_the_interval_of_zero_and_one_has_its_closed_form():
    # Sample standard deviation 1/sqrt(2), over sqrt(2).
    found = mean_interval([0.0, 1.0])
    assert found.mean == 0.5
    assert found.ci95 == pytest.approx(1.96 / 2)
    assert (found.low, found.high) == pytest.approx((0.5 - 0.98, 0.5 + 0.98))


def test_the_interval_is_196_standard_errors():
    values = np.random.default_rng(0).random(40)
    found = mean_interval(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.ci95 == pytest.approx(1.96 * stats.sem(values))
    assert found.n == 40


def test_the_interval_holds_the_true_mean_about_95_times_in_100():
    rng = np.random.default_rng(1)
    intervals = [mean_interval(rng.normal(3, 2, 200)) for _ in range(1000)]
    assert 0.93 < np.mean([found.low <= 3 <= found.high for found in intervals]) < 0.97


def test_equal_values_have_no_spread():
    assert mean_interval([0.25] * 5).ci95 == 0


def test_one_value_tells_nothing_about_its_spread():
    assert mean_interval([0.7]).ci95 == math.inf
    assert not paired_difference([0.7], [0.1]).clear


def test_a_paired_difference_ignores_what_both_share():
    hard_and_easy = np.linspace(0, 1, 50)
    found = paired_difference(hard_and_easy + 0.1, hard_and_easy)
    assert found.mean == pytest.approx(0.1)
    assert found.ci95 == pytest.approx(0, abs=1e-12)
    assert found.clear
    assert mean_interval(hard_and_easy).ci95 > 0.08


def test_a_paired_difference_is_the_interval_of_the_differences():
    rng = np.random.default_rng(2)
    a, b = rng.random(30), rng.random(30)
    difference, plain = paired_difference(a, b), mean_interval(a - b)
    assert (difference.mean, difference.ci95, difference.n) == (plain.mean, plain.ci95, plain.n)
    assert paired_difference(b, a).mean == pytest.approx(-difference.mean)


def test_values_of_different_tasks_are_refused():
    with pytest.raises(ValueError, match="same tasks, got 2 and 3"):
        paired_difference([1, 2], [1, 2, 3])


@pytest.mark.parametrize("values", [[], [[1.0, 2.0]], 3.0])
def test_anything_but_a_row_of_values_is_refused(values):
    with pytest.raises(ValueError, match="non-empty"):
        mean_interval(values)


def test_results_are_frozen_and_say_what_they_are():
    found = mean_interval([0.8, 0.9, 1.0])
    assert repr(found) == "MeanInterval(0.9 ± 0.11, n=3)"
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.mean = 1.0
