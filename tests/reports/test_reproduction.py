from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from laplacianshot.episodes.plans import Tuned
from laplacianshot.episodes.results import Setting, Tuning
from laplacianshot.reports.reproduction import (
    RUN_TITLE,
    Reproduction,
    StepTime,
    accuracy_table,
    standing_table,
    write_reproduction,
)
from laplacianshot.training.state import EpochRecord
from tests.reports.made_up import MEANS, evaluations, report

SETTING = Setting(tasks=200, center="base mean")


def reproduction(published: str | None = "cub/resnet18", seconds: float = 1.0) -> Reproduction:
    """A report with everything in it, that took so long."""
    curve = np.stack([evaluations(SETTING, {"a": mean})[0].accuracies for mean in (0.7, 0.8)])
    lams, neighbors = np.array([0.1, 0.5]), np.array([3])
    tuning = Tuning(0.5, 3, lams, neighbors, curve, curve[None], SETTING, "val", "base", seconds)
    pair = {"simpleshot-cl2": 0.7, "laplacianshot-reference cl2": 0.78}
    whole = report(timing=False, published=published, command="")
    untimed = tuple(type(g)(tuple(replace(one, seconds=math.nan) for one in g)) for g in whole.evaluations)
    return Reproduction(
        name="birds",
        title="Birds & <co>",
        facts={"Network": "resnet18"},
        config={"epochs": 2},
        epochs=tuple(EpochRecord(n, 0.1, 3.0 - n, 0.5, 0.6, 0.01, 100 / seconds, seconds) for n in (1, 2)),
        best_epoch=1,
        tuned=(("laplacianshot-reference", "cl2", Tuned(tuning)),),
        evaluation=replace(whole, evaluations=untimed),
        transforms=(evaluations(SETTING, pair),),
        pairs=(("cl2", *pair),),
        times=(evaluations(SETTING),),
        steps=(StepTime("train", seconds, "2030-01-01T00:00:00+00:00"),),
        environment={"numpy": "2.0"},
        command="laplacianshot reproduce birds",
    )


def test_published_figures_and_ours_stand_in_one_table_best_first():
    table = standing_table("cub/resnet18", evaluations(SETTING))
    names = [entry.cells[0].text for entry in table.rows]
    accuracies = [float(entry.cells[1].text.split()[0]) for entry in table.rows]
    assert accuracies == sorted(accuracies, reverse=True)
    assert {"LaplacianShot", "Chen", "laplacianshot", "simpleshot-cl2"} <= set(names)
    assert "bd-cspn" not in names
    statuses = {entry.cells[3].text for entry in table.rows if entry.bold}
    assert statuses == {"this run"}
    assert {"corrected", "superseded"} <= {entry.cells[3].text for entry in table.rows}


def test_where_nothing_was_published_there_is_no_table():
    assert standing_table("cub/resnet18", evaluations(replace(SETTING, way=20))) is None
    assert reproduction(published=None).published_tables() == ()


def test_what_published_figures_are_worth_is_said_in_the_page_and_in_the_text(tmp_path):
    write_reproduction(reproduction(), tmp_path)
    for name in ("index.html", "report.md"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "Hungarian matching" in text
        assert "trainings of their own" in text
    assert "Birds &amp; &lt;co&gt;" in (tmp_path / "index.html").read_text(encoding="utf-8")


def test_results_are_the_same_however_long_the_run_took_and_the_run_tells_the_time(tmp_path):
    pages = []
    for seconds in (1.0, 77.0):
        folder = tmp_path / str(seconds)
        folder.mkdir()
        write_reproduction(reproduction(seconds=seconds), folder)
        text = (folder / "report.md").read_text(encoding="utf-8").partition(f"\n# {RUN_TITLE}\n")
        pages.append(((folder / "results.json").read_bytes(), text[0]))
        assert json.loads((folder / "run.json").read_text(encoding="utf-8"))["steps"][0]["seconds"] == seconds
        assert text[2]
    assert pages[0] == pages[1]


def test_every_file_of_the_report_is_there_and_the_text_links_to_its_figures(tmp_path):
    write_reproduction(reproduction(), tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    drawn = {path.stem for path in tmp_path.glob("*.svg")}
    assert {"training", "accuracy-5-way-1-shot-balanced", "time-5-way-1-shot-balanced"} <= drawn
    for name in drawn:
        assert name.startswith("time-") or f"]({name}.svg)" in text
    assert "nan" not in (tmp_path / "results.csv").read_text(encoding="utf-8")


def test_the_accuracy_table_is_made_of_what_the_file_holds():
    table = accuracy_table(json.loads(json.dumps(reproduction().results())))
    assert table.head == ("Method", "5w 1s", "5w 5s")
    assert [entry.cells[0].text for entry in table.rows] == list(MEANS)
    first = evaluations(SETTING, slow=50)["laplacianshot"]
    (row,) = [entry for entry in table.rows if entry.cells[0].text == "laplacianshot"]
    assert row.bold
    assert row.cells[1].text == f"{100 * first.mean:.2f} ± {100 * first.ci95:.2f}"


@pytest.mark.parametrize("key", ["cub/resnet18", "mini/wrn28_10"])
def test_the_last_of_the_tables_beside_published_figures_carries_the_warnings(key):
    tables = reproduction(published=key).published_tables()
    assert tables
    assert any("never corrected" in note for note in tables[-1].notes)
