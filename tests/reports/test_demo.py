from __future__ import annotations

import dataclasses
import json
import os
import stat
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from laplacianshot import LaplacianShot
from laplacianshot.cli.demo_run import demo_methods, demo_repeats, run_demo
from laplacianshot.datasets import load_digits
from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.methods import make_method
from laplacianshot.episodes.results import Evaluation, Evaluations, Setting
from laplacianshot.episodes.whole_set import evaluate_whole_set
from laplacianshot.reports.demo import DemoResult, draw_demo, spread_rows


def made_up(**accuracies: list[float]) -> DemoResult:
    methods = demo_methods(100, 10, 1)
    columns = {name: accuracies.get(name.replace("-", "_"), [0.1, 0.1, 0.1]) for name in methods}
    found = Evaluations(tuple(Evaluation(name, Setting(tasks=3), np.array(v)) for name, v in columns.items()))
    digits = FeatureSet(np.zeros((100, 64)), np.arange(100) % 10)
    return DemoResult(methods, {1: found}, (), digits, 0, 3, 1, interrupted=False, picture=Path("demo.png"))


def test_the_demo_compares_the_three_recipes_with_what_is_usual_on_whole_data_sets():
    assert list(demo_methods(1797, 10, 1)) == [
        *("default", "paper", "reference", "nearest-prototype", "1-nearest-neighbor", "logistic-regression"),
        *("label-spreading-rbf", "label-spreading-knn"),
    ]


def test_each_recipe_says_with_which_constants_it_ran():
    default, paper, reference = list(demo_methods(1797, 10, 1).values())[:3]
    assert "lam 6.90, n_neighbors 13" in default.settings
    assert "lam 0.7, n_neighbors 3" in paper.settings
    assert "lam 0.7, n_neighbors 3" in reference.settings


def test_the_comparison_is_that_of_the_same_seed_run_by_hand(few_digits, small_result):
    methods = {"reference": LaplacianShot.reference()}
    by_hand = evaluate_whole_set(few_digits.features, few_digits.labels, methods, per_class=2, repeats=3, seed=0)
    found = small_result.evaluations["reference"].accuracies
    np.testing.assert_array_equal(found, by_hand["reference"].accuracies)


def test_the_curve_rises_through_the_demos_own_number_of_labels(small_result):
    assert list(small_result.curve) == [1, 2, 5, 10, 20]
    assert small_result.curve[2] is small_result.evaluations
    assert small_result.curve[20]["default"].mean > small_result.curve[1]["default"].mean


def test_the_curve_leaves_out_more_labels_than_a_class_has(few_digits):
    rows = np.concatenate([np.flatnonzero(few_digits.labels == c)[:10] for c in range(10)])
    ten = FeatureSet(few_digits.features[rows], few_digits.labels[rows])
    assert demo_repeats(ten, 50, 3) == {3: 50, 1: 10, 2: 10, 5: 10}
    assert demo_repeats(load_digits(), 4, 1) == {1: 4, 2: 4, 5: 4, 10: 4, 20: 4}


def test_progress_is_reported_before_the_first_repeat_and_after_each(few_digits):
    steps: list[str] = []
    run_demo(few_digits, repeats=1, progress=steps.append)
    plan = demo_repeats(few_digits, 1, 1)
    assert len(steps) == len(plan) + sum(plan.values())
    assert steps[0] == "1 label per class"
    assert steps[-1] == "20 labels per class"


def test_the_traces_of_the_proven_recipes_never_rise(small_result):
    default, paper, _ = small_result.recipes
    for fitted in (default, paper):
        assert np.all(np.diff(fitted.objective_) <= 1e-9 * np.abs(fitted.objective_[1:]))
    assert np.all(paper.bound_ >= paper.objective_ - 1e-9 * np.abs(paper.objective_))


def test_an_interruption_keeps_the_repeats_that_were_finished(few_digits):
    calls = 0

    def interrupted_at_the_third(progress_text: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:  # before the first repeat, after it and after the second
            raise KeyboardInterrupt

    result = run_demo(few_digits, repeats=50, progress=interrupted_at_the_third)
    assert result.interrupted
    assert [one.n_tasks for one in result.evaluations] == [2] * 8
    assert result.to_dict()["repeats"] == 2
    assert result.to_dict()["picture"] is None
    assert "interrupted after 2 of 50 random choices" in result.tables()[0].notes[0]


def test_an_interruption_before_the_first_repeat_leaves_nothing_but_says_so(few_digits, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LaplacianShot, "fit", interrupt)
    result = run_demo(few_digits, repeats=2)
    assert result.interrupted
    assert result.evaluations is None
    assert result.tables() == ()
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
    estimators = {"default": LaplacianShot(), "nearest-prototype": make_method("nearest-prototype")}
    found = evaluate_whole_set(digits.features, digits.labels, estimators, per_class=1, repeats=8, seed=0)
    difference = found.difference("default", "nearest-prototype")
    assert difference.clear
    assert difference.mean > 0.05


def test_the_picture_is_a_png_of_decent_size(small_result, tmp_path):
    path = tmp_path / "demo.png"
    dataclasses.replace(small_result, picture=path).save_figure()
    height, width = imread(path).shape[:2]
    assert (width, height) == (1755, 1040)
    assert path.stat().st_size < 300_000
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo.png"]


def test_the_picture_can_be_read_by_whom_the_umask_allows(small_result, tmp_path):
    old = os.umask(0o022)
    try:
        dataclasses.replace(small_result, picture=tmp_path / "demo.svg").save_figure()
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "demo.svg").stat().st_mode) == 0o644


def test_a_failure_leaves_the_old_picture_and_no_litter(small_result, tmp_path, monkeypatch):
    path = tmp_path / "demo.png"
    path.write_text("old")

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full_disk)
    with pytest.raises(OSError, match="No space"):
        dataclasses.replace(small_result, picture=path).save_figure()
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["demo.png"]


def test_every_method_is_named_in_the_picture(small_result):
    (_, curve) = draw_demo(small_result).subfigs[1].axes
    texts = {text.get_text() for text in curve.get_legend().get_texts()}
    assert {method.title for method in small_result.methods.values()} == texts


def test_a_picture_of_one_repeat_has_no_interval_and_is_drawn(small_result, tmp_path):
    one = {
        count: Evaluations(tuple(dataclasses.replace(e, accuracies=e.accuracies[:1]) for e in found))
        for count, found in small_result.curve.items()
    }
    dataclasses.replace(small_result, curve=one, picture=tmp_path / "demo.png").save_figure()
    assert (tmp_path / "demo.png").stat().st_size > 20_000


def test_nothing_finished_cannot_be_drawn(small_result):
    with pytest.raises(ValueError, match="nothing to draw"):
        draw_demo(dataclasses.replace(small_result, curve={}))


def test_shown_rows_run_at_even_steps_from_the_surest_to_the_least_sure():
    confidence = np.random.default_rng(0).random(30)
    candidates = np.arange(0, 30, 2)
    rows = spread_rows(candidates, -confidence, 5)
    assert len(rows) == 5
    assert set(rows) <= set(candidates)
    assert np.all(np.diff(confidence[rows]) <= 0)
    assert confidence[rows[0]] == confidence[candidates].max()
    assert confidence[rows[-1]] == confidence[candidates].min()


def test_of_few_rows_all_are_shown_and_of_none_none():
    confidence = np.array([0.5, 0.9, 0.7])
    assert spread_rows(np.array([0, 1]), -confidence, 5).tolist() == [1, 0]
    assert spread_rows(np.array([], dtype=np.int64), -confidence, 5).tolist() == []
