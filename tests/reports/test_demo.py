from __future__ import annotations

import json

import numpy as np
import pytest

from laplacianshot.cli import demo_run as demo
from laplacianshot.cli.demo_run import curve_labels, demo_methods, demo_steps, run_demo
from laplacianshot.datasets import load_digits
from laplacianshot.episodes.whole_set import Comparison, Repeat, run_repeats
from laplacianshot.reports.demo import DemoResult


def made_up(**accuracies: list[float]) -> DemoResult:
    names = [method.name for method in demo_methods(100, 10, 1)]
    columns = {name: accuracies.get(name.replace("-", "_"), [0.1, 0.1, 0.1]) for name in names}
    repeats = tuple(
        Repeat({name: values[r] for name, values in columns.items()}, dict.fromkeys(names, 0.5)) for r in range(3)
    )
    comparison = Comparison(1, repeats)
    return DemoResult(demo_methods(100, 10, 1), comparison, (comparison,), None, 0, 3, 1, 100, 10, False)


def test_the_demo_compares_the_three_recipes_with_what_is_usual_on_whole_data_sets():
    names = [method.name for method in demo_methods(1797, 10, 1)]
    assert names == [
        *("default", "paper", "reference", "nearest-prototype", "1-nearest-neighbor", "logistic-regression"),
        *("label-spreading-rbf", "label-spreading-knn"),
    ]


def test_each_recipe_says_with_which_constants_it_ran():
    default, paper, reference = demo_methods(1797, 10, 1)[:3]
    assert "lam 6.90, n_neighbors 13" in default.settings
    assert "lam 0.7, n_neighbors 3" in paper.settings
    assert "lam 0.7, n_neighbors 3" in reference.settings


def test_the_comparison_is_that_of_the_same_seed_run_by_hand(few_digits, small_result):
    methods = {"reference": small_result.method("reference").estimator}
    by_hand = Comparison(
        2, tuple(run_repeats(few_digits.features, few_digits.labels, methods, per_class=2, repeats=3, seed=0))
    )
    np.testing.assert_array_equal(small_result.comparison.accuracies("reference"), by_hand.accuracies("reference"))


def test_the_curve_rises_through_the_demos_own_number_of_labels(small_result):
    assert [point.per_class for point in small_result.curve] == [1, 2, 5, 10, 20]
    assert small_result.curve[1] is small_result.comparison
    assert small_result.curve[-1].accuracy("default").mean > small_result.curve[0].accuracy("default").mean


def test_the_curve_leaves_out_more_labels_than_a_class_has():
    assert curve_labels(3, 10) == (1, 2, 3, 5)
    assert curve_labels(1, 174) == (1, 2, 5, 10, 20)


def test_progress_is_reported_as_often_as_promised(few_digits):
    steps: list[str] = []
    run_demo(few_digits, repeats=1, progress=steps.append)
    assert len(steps) + 1 == demo_steps(few_digits, 1, 1)  # the last is the picture's
    assert steps[0] == "1 label per class"
    assert steps[-1] == "20 labels per class"


def test_the_traces_of_the_proven_recipes_never_rise(small_result):
    for trace in small_result.example.traces:
        if trace.name != "reference":
            assert np.all(np.diff(trace.objective) <= 1e-9 * np.abs(trace.objective[1:]))
        if trace.bound is not None:
            assert np.all(trace.bound >= trace.objective - 1e-9 * np.abs(trace.objective))


def test_an_interruption_keeps_the_repeats_that_were_finished(few_digits, monkeypatch):
    calls = 0

    def interrupted_at_the_third(progress_text: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:  # after the kernels, the first and the second repeat
            raise KeyboardInterrupt

    result = run_demo(few_digits, repeats=50, progress=interrupted_at_the_third)
    assert result.interrupted
    assert len(result.comparison.repeats) == 2
    assert len(result.standings()) == 8
    assert result.to_dict()["repeats"] == 2


def test_an_interruption_before_the_first_repeat_leaves_nothing_but_says_so(few_digits, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_example", interrupt)
    result = run_demo(few_digits, repeats=2)
    assert result.interrupted
    assert result.standings() == ()
    assert result.verdict() == "Nothing was finished."
    json.dumps(result.to_dict(), allow_nan=False)


def test_the_verdict_reports_a_loss_of_the_default_plainly():
    result = made_up(
        default=[0.80, 0.82, 0.84], label_spreading_rbf=[0.90, 0.91, 0.92], nearest_prototype=[0.6, 0.6, 0.6]
    )
    assert result.verdict() == (
        "LabelSpreading rbf is best with 91.0%. LaplacianShot default is number 2 of 8 with 82.0%: "
        "9.0 ± 1.1 points behind the best, 22.0 ± 2.3 points ahead of the nearest prototype."
    )


def test_the_verdict_reports_a_win_of_the_default_as_plainly():
    result = made_up(default=[0.9, 0.9, 0.9], paper=[0.8, 0.8, 0.8], nearest_prototype=[0.7, 0.7, 0.7])
    assert result.verdict() == (
        "LaplacianShot default is best with 90.0%: 10.0 ± 0.0 points ahead of LaplacianShot paper, "
        "20.0 ± 0.0 points ahead of the nearest prototype."
    )


def test_the_verdict_says_when_the_default_loses_to_the_nearest_prototype():
    result = made_up(default=[0.5, 0.5, 0.5], nearest_prototype=[0.6, 0.6, 0.6])
    assert "10.0 ± 0.0 points behind the nearest prototype" in result.verdict()


def test_the_dictionary_is_json_even_with_one_repeat(few_digits):
    document = run_demo(few_digits, repeats=1).to_dict()
    assert json.loads(json.dumps(document, allow_nan=False))["methods"][0]["accuracy"]["ci95"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"repeats": 0}, "repeats"), ({"labels_per_class": 22}, "1 to 21"), ({"seed": -1}, "seed")],
)
def test_bad_numbers_are_refused(few_digits, arguments, message):
    with pytest.raises(ValueError, match=message):
        run_demo(few_digits, **arguments)


def test_on_all_digits_the_default_beats_the_nearest_prototype():
    digits = load_digits()
    estimators = {m.name: m.estimator for m in demo_methods(1797, 10, 1) if m.name in ("default", "nearest-prototype")}
    repeats = run_repeats(digits.features, digits.labels, estimators, per_class=1, repeats=8, seed=0)
    difference = Comparison(1, tuple(repeats)).difference("default", "nearest-prototype")
    assert difference.clear
    assert difference.mean > 0.05
