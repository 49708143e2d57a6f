from __future__ import annotations

import json

import numpy as np
import pytest

from laplacianshot.episodes.results import Setting, Tuning, mean_interval
from laplacianshot.reports.tuning import (
    Tuned,
    TuningReport,
    bar_lengths,
    lam_figure,
    lam_table,
    neighbors_table,
    write_tuning,
)

LAMS = np.array([0.1, 0.5, 1.0])


@pytest.fixture
def tuned() -> Tuned:
    rng = np.random.default_rng(0)
    shared = 0.05 * rng.standard_normal(40)
    accuracies = np.array([0.70, 0.80, 0.75])[:, None] + shared + 0.005 * rng.standard_normal((3, 40))
    setting = Setting(tasks=40, split="val", center="base mean")
    by_neighbors = np.stack([accuracies, accuracies - 0.1])
    tuning = Tuning(0.5, 3, LAMS, np.array([3, 5]), accuracies, by_neighbors, setting, "val", "base", 1.0)
    return Tuned(tuning, tuple(mean_interval(row + 0.02) for row in accuracies), "novel")


def texts(table, column):
    return [entry.cells[column].text for entry in table.rows]


def test_the_chosen_lambda_is_bold_and_others_are_compared_with_it_on_the_same_tasks(tuned):
    table = lam_table(tuned)
    assert texts(table, 0) == ["0.1", "0.5", "1"]
    assert [entry.bold for entry in table.rows] == [False, True, False]
    assert texts(table, 2)[1] == "best"
    gap = tuned.tuning.lam_accuracies[0] - tuned.tuning.lam_accuracies[1]
    ci95 = 1.96 * gap.std(ddof=1) / np.sqrt(40)
    assert texts(table, 2)[0] == f"{100 * gap.mean():+.2f} ± {100 * ci95:.2f}"
    assert table.head == ("Lambda", "val, %", "To the best", "novel, %", "")


def test_without_test_classes_there_is_no_such_column(tuned):
    assert lam_table(Tuned(tuned.tuning), bars=False).head == ("Lambda", "val, %", "To the best")


def test_the_chosen_number_of_neighbors_is_bold_and_ready_for_the_next_command(tuned):
    table = neighbors_table(tuned.tuning, "laplacianshot-paper")
    assert [entry.bold for entry in table.rows] == [True, False]
    assert "--lam 0.5 --neighbors 3" in table.notes[0]
    # The command takes no constants for the default recipe.
    assert "LaplacianShot(lam=0.5, n_neighbors=3)" in neighbors_table(tuned.tuning, "laplacianshot").notes[0]


def test_bars_grow_with_the_values_and_never_vanish():
    bars = bar_lengths([0.1, 0.15, 0.2])
    assert [len(bar) for bar in bars] == [1, 8, 16]
    assert bar_lengths([0.3, 0.3]) == ["█" * 16] * 2


def test_the_figure_shows_both_curves_and_the_choice(tuned):
    (axes,) = lam_figure(tuned).axes
    choice, validation, test = axes.lines
    assert set(choice.get_xdata()) == {0.5}
    np.testing.assert_allclose(validation.get_ydata(), 100 * tuned.tuning.lam_accuracies.mean(axis=1))
    np.testing.assert_allclose(test.get_ydata(), 100 * tuned.tuning.lam_accuracies.mean(axis=1) + 2)


def test_the_page_has_the_numbers_and_says_when_it_is_partial(tuned, tmp_path):
    report = TuningReport(
        "laplacianshot-paper", (tuned,), interrupted=True, file="<birds>.npz", command="laplacianshot tune"
    )
    write_tuning(report, tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "&lt;birds&gt;.npz" in page
    assert "Partial result" in page
    for point in report.to_dict()["results"][0]["test"]["lams"]:
        assert f"{100 * point['mean']:.2f} ± {100 * point['ci95']:.2f}" in page


def test_the_dictionary_is_strict_json(tuned):
    document = json.loads(json.dumps(TuningReport("b", (tuned, Tuned(tuned.tuning))).to_dict(), allow_nan=False))
    assert document["results"][1]["test"] is None
    assert document["results"][0]["lam"] == 0.5
