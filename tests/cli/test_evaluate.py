from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numba import njit
from rich.console import Console
from rich.progress import Progress

import laplacianshot
from laplacianshot import Evaluations, FeatureSet, evaluate
from laplacianshot.cli.app import run
from laplacianshot.cli.terminal import compilation_shown, print_table, watcher
from laplacianshot.episodes.methods import METHODS
from laplacianshot.reports.table import Table, row

FEW = ["--tasks", "30", "--methods", "laplacianshot,laplacianshot-reference,simpleshot-cl2"]

# A process of its own that tells how many tasks are done.
TOLD = """
import sys
from laplacianshot import cli
from laplacianshot.cli import terminal

def watcher(bar):
    return lambda what: lambda done, total: print("done", what, file=sys.stderr, flush=True)

terminal.watcher = watcher
cli.main(sys.argv[1:])
"""


def document(capsys) -> dict:
    return json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def test_a_table_of_all_methods_is_printed_best_first(birds, capsys):
    assert run(["evaluate", str(birds), *FEW]) == 0
    out, err = capsys.readouterr()
    assert "5-way 1-shot, balanced" in out
    assert out.index("laplacianshot ") < out.index("simpleshot-cl2 ")
    assert re.search(r"laplacianshot +\d\d\.\d\d ± \d\.\d\d +\+\d+\.\d\d ± \d\.\d\d +best", out)
    assert "30 tasks, 15 queries per class, seed 0, center: base mean" in out
    assert err == "note: tasks are drawn from split novel.\n"


def test_the_bar_says_when_kernels_are_compiled():
    with Progress(disable=True) as bar, compilation_shown(bar):
        watch = watcher(bar)
        watch("getting ready")
        # Kernels without a place on disk.
        assert njit(lambda value: value + 1)(1) == 2
        assert njit(lambda value: value + 2)(1) == 3
        assert [line.description for line in bar.tasks] == ["getting ready (compiling for this machine, once)"]
        watch("3 methods")(1, 2)
        assert [line.description for line in bar.tasks] == ["3 methods"]


def test_the_numbers_are_those_of_evaluate(birds, capsys):
    assert run(["evaluate", str(birds), *FEW, "--json", "--shot", "5", "--seed", "3"]) == 0
    result = document(capsys)["results"][0]
    features = FeatureSet.load(birds)
    expected = evaluate(features, "laplacianshot-reference", shot=5, tasks=30, seed=3, split="novel")
    entry = next(e for e in result["evaluations"] if e["method"] == "laplacianshot-reference")
    assert entry["mean"] == expected.mean
    assert entry["ci95"] == expected.ci95
    assert entry["setting"]["center"] == "base mean"


def test_json_is_one_strict_document_about_everything(birds, capsys):
    assert run(["evaluate", str(birds), *FEW, "--json", "--ablation", "--convergence", "--timing"]) == 0
    found = document(capsys)
    assert found["laplacianshot"] == laplacianshot.__version__
    assert found["features"]["split"] == "novel"
    assert found["features"]["split_classes"] == 7
    assert found["command"].startswith("laplacianshot evaluate '")
    assert found["interrupted"] is False
    assert found["published"] is None
    assert [entry["method"] for entry in found["ablation"][0]["evaluations"]] == [
        "prototype",
        "laplacian",
        "rectified",
        "both",
    ]
    assert [trace["method"] for trace in found["convergence"]] == [
        "laplacianshot",
        "laplacianshot-paper",
        "laplacianshot-reference",
    ]
    assert found["convergence"][0]["tasks_with_a_rise"] == found["convergence"][1]["tasks_with_a_rise"] == 0


def test_each_combination_of_the_lists_is_a_setting(birds, capsys):
    lists = ["--way", "3,5", "--shot", "1,5", "--protocol", "balanced,dirichlet,inat"]
    assert run(["evaluate", str(birds), "--tasks", "5", "--methods", "simpleshot-cl2", *lists, "--json"]) == 0
    settings = [result["setting"] for result in document(capsys)["results"]]
    found = [(s["protocol"], s["way"], s["shot"]) for s in settings[:8]]
    assert found == [(p, w, s) for p in ("balanced", "dirichlet") for w in (3, 5) for s in (1, 5)]
    assert [s["protocol"] for s in settings[8:]] == ["inat"]


def test_each_number_of_present_classes_is_a_setting(birds, capsys):
    lists = ["--protocol", "balanced,present", "--present", "1,5", "--total-queries", "12"]
    assert run(["evaluate", str(birds), "--tasks", "5", "--methods", "simpleshot-cl2", *lists, "--json"]) == 0
    settings = [result["setting"] for result in document(capsys)["results"]]
    assert [(s["protocol"], s["present"], s["total_queries"]) for s in settings] == [
        ("balanced", None, None),
        ("present", 1, 12),
        ("present", 5, 12),
    ]


def test_several_settings_end_in_an_overview(birds, capsys):
    assert run(["evaluate", str(birds), *FEW, "--shot", "1,5"]) == 0
    out = capsys.readouterr().out
    assert "Gain over simpleshot-cl2, points" in out
    assert "5w 1s  5w 5s" in out


def test_the_ablation_begins_at_the_prototype_and_ends_at_the_reference(birds, capsys):
    assert run(["evaluate", str(birds), *FEW, "--json", "--ablation", "--lam", "0.4"]) == 0
    found = document(capsys)
    methods = {entry["method"]: entry["mean"] for entry in found["results"][0]["evaluations"]}
    terms = {entry["method"]: entry["mean"] for entry in found["ablation"][0]["evaluations"]}
    assert terms["both"] == methods["laplacianshot-reference"]
    assert terms["prototype"] == pytest.approx(methods["simpleshot-cl2"], abs=1e-9)


def test_constants_reach_the_two_recipes_and_are_reported(birds, capsys):
    given = ["--lam", "0", "--no-rectify"]
    assert run(["evaluate", str(birds), *FEW, "--json", *given]) == 0
    found = document(capsys)
    means = {entry["method"]: entry["mean"] for entry in found["results"][0]["evaluations"]}
    assert means["laplacianshot-reference"] == pytest.approx(means["simpleshot-cl2"], abs=1e-9)
    assert "but lam 0.0, rectify False" in found["methods"]["laplacianshot-reference"]
    assert "but" not in found["methods"]["laplacianshot"]


def test_without_splits_all_rows_are_used_and_the_center_is_the_tasks_own(digits, capsys):
    assert run(["evaluate", str(digits), *FEW, "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert "all rows" in err
    assert result["features"]["split"] is None
    assert result["results"][0]["setting"]["center"] == "task"
    means = {entry["method"]: entry["mean"] for entry in result["results"][0]["evaluations"]}
    assert means["laplacianshot"] > means["simpleshot-cl2"]


def test_the_center_may_come_from_elsewhere(birds, make_features, tmp_path, capsys):
    other = make_features("other.npz", base=5, novel=5)
    vector = tmp_path / "mean.npy"
    np.save(vector, FeatureSet.load(other).base_mean())
    means = {}
    for name, base in (("own", []), ("file", [str(other)]), ("vector", [str(vector)]), ("task", ["task"])):
        assert run(["evaluate", str(birds), *FEW, "--json", *(["--base-mean", *base] if base else [])]) == 0
        result = document(capsys)["results"][0]
        means[name] = result["evaluations"][2]["mean"]
        assert result["setting"]["center"] == ("task" if name == "task" else "base mean")
    assert means["file"] == means["vector"]
    assert len(set(means.values())) == 3


def test_slow_methods_run_fewer_tasks_and_are_marked(birds, capsys):
    methods = ["--methods", "simpleshot-cl2,label-spreading-rbf", "--tasks", "20", "--slow-tasks", "4"]
    assert run(["evaluate", str(birds), *methods]) == 0
    out = capsys.readouterr().out
    assert re.search(r"label-spreading-rbf +\d+\.\d\d ± \d+\.\d\d†", out)
    assert "† on the first of the 20 tasks only: label-spreading-rbf 4" in out


def test_csv_has_the_numbers_of_the_json(birds, tmp_path, capsys):
    path = tmp_path / "out.csv"
    path.write_text("old")
    assert run(["evaluate", str(birds), *FEW, "--shot", "1,5", "--csv", str(path), "--json"]) == 0
    found = [e for result in document(capsys)["results"] for e in result["evaluations"]]
    with path.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [(line["method"], float(line["mean"])) for line in lines] == [(e["method"], e["mean"]) for e in found]
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.csv"]


def test_the_report_is_a_folder_with_a_page_that_loads_nothing(birds, tmp_path, capsys):
    folder = tmp_path / "a new folder"
    more = ["--ablation", "--convergence", "--timing"]
    assert run(["evaluate", str(birds), *FEW, *more, "--report", str(folder)]) == 0
    out = capsys.readouterr().out
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert f"Written: {folder / 'index.html'}" in out
    assert "http" not in page
    result = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    for entry in result["results"][0]["evaluations"]:
        text = f"{100 * entry['mean']:.2f} ± {100 * entry['ci95']:.2f}"
        assert text in page
        assert text in out
    for title in ("Ablation", "Convergence", "Time", "Methods", "How to read this"):
        assert f">{title}</h2>" in page


def test_published_figures_stand_beside_ours_where_the_features_can_be_theirs(make_features, capsys):
    path = make_features("cub.npz", rows=17, dim=512, base=3, novel=50)
    few = ["--tasks", "5", "--methods", "simpleshot-cl2,laplacianshot-reference", "--published", "cub/resnet18"]
    assert run(["evaluate", str(path), *few, "--way", "5,20", "--shot", "1"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"LaplacianShot +79\.90 +\d+\.\d\d ± \d+\.\d\d +corrected", out)
    assert "the user's claim" in out
    assert "Hungarian" in out
    assert out.count("79.90") == 1
    assert "There is no published figure of CUB, ResNet-18 for these tasks." in out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--methods", "laplacianshott"], "did you mean laplacianshot?"),
        (["--methods", ""], "--methods"),
        (["--methods", "bd-cspn,,ridge"], "--methods"),
        (["--protocol", "balancd"], "did you mean balanced?"),
        (["--split", "test"], "base, val, novel"),
        (["--way", "8"], "way=8"),
        (["--way", "five"], "--way 'five'"),
        (["--way", "0"], "--way '0'"),
        (["--shot", "30"], "largest class has 24 rows"),
        (["--shot", "5-2"], "--shot '5-2'"),
        (["--shot", "-1"], "--shot"),
        (["--query", "0"], "--query"),
        (["--tasks", "0"], "--tasks"),
        (["--tasks", "many"], "--tasks"),
        (["--seed", "-1"], "--seed"),
        (["--alpha", "0", "--protocol", "dirichlet"], "alpha"),
        (["--alpha", "nan", "--protocol", "dirichlet"], "alpha"),
        (["--protocol", "present"], "--present"),
        (["--present", "2"], "--protocol present is missing"),
        (["--protocol", "present", "--present", "0"], "--present '0'"),
        (["--protocol", "present", "--present", "6"], "present=6 is above the way=5"),
        (["--total-queries", "75"], "--total-queries"),
        (["--total-queries", "0", "--protocol", "dirichlet"], "--total-queries"),
        (["--lam", "-1"], "--lam"),
        (["--lam", "0.5", "--methods", "bd-cspn"], "--lam"),
        (["--neighbors", "0"], "--neighbors"),
        (["--threads", "0"], "--threads"),
        (["--base-mean", "missing.npz"], "missing.npz"),
        (["--base-mean", "text.npy"], "text.npy"),
        (["--base-mean", "short.npy"], "short.npy"),
        (["--protocol", "inat-leaking-labels", "--methods", "bd-cspn"], "inat-leaking-labels"),
        (["--published", "cub/resnet19"], "cub/resnet18"),
        (["--published", "cub/resnet18"], "50 classes"),
        (["--csv", "out.txt"], "--csv"),
        (["--csv", "nowhere/out.csv"], "no folder"),
        (["--csv", "folder.csv"], "folder"),
        (["--report", "file.txt"], "--report file.txt: this is a file"),
        (["--report", "nowhere/out"], "no folder"),
        (["--bogus"], "--bogus"),
    ],
)
def test_bad_input_is_one_line_on_stderr_code_2_and_no_work(arguments, named, birds, refused, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("folder.csv").mkdir()
    Path("file.txt").touch()
    Path("text.npy").write_text("not an array")
    np.save("short.npy", np.zeros(3))
    monkeypatch.setattr("laplacianshot.episodes.plans.evaluate", lambda *_, **__: pytest.fail("worked on bad input"))
    refused(["evaluate", str(birds), *arguments], named)


def test_a_file_that_is_no_feature_file_is_one_line(tmp_path, refused, monkeypatch, birds):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("text.npz").write_text("hello")
    Path("cut.npz").write_bytes(birds.read_bytes()[:2000])
    np.save("single.npy", np.zeros((3, 2)))
    np.savez("unlabeled.npz", features=np.zeros((3, 2)))
    np.savez("nan.npz", features=np.full((3, 2), np.nan), labels=np.arange(3))
    np.savez("objects.npz", features=np.array([[1, None]], dtype=object), labels=np.arange(1))
    bad = ["missing.npz", *sorted(path.name for path in Path().iterdir())]
    assert len(bad) == 8
    for name in bad:
        refused(["evaluate", name], name)
    refused(["evaluate"], "FEATURES")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that not even root can write to")
@pytest.mark.parametrize("arguments", [["--csv", "/proc/out.csv"], ["--report", "/proc/out"], ["--report", "/proc"]])
def test_an_output_that_cannot_be_written_is_found_out_before_the_work(arguments, birds, refused):
    refused(["evaluate", str(birds), *arguments], "cannot write there")


def test_a_disk_that_fills_up_costs_the_file_but_not_the_table(birds, tmp_path, capsys, monkeypatch):
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("laplacianshot.runtime.files.os.fdopen", full_disk)
    path = tmp_path / "out.csv"
    assert run(["evaluate", str(birds), *FEW, "--csv", str(path)]) == 1
    out, err = capsys.readouterr()
    assert "laplacianshot-reference" in out
    assert err.splitlines()[-1] == f"error: could not write {path} (No space left on device)."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("timing", [[], ["--timing"]])
def test_ctrl_c_prints_what_was_finished_and_leaves_with_130(timing, birds, interrupted):
    # Slow enough that it cannot be over before the signal comes.
    slow = ["--methods", "simpleshot-cl2,logistic-regression", "--tasks", "20000", "--slow-tasks", "20000"]
    last = "logistic-regression" if timing else "2 methods"
    arguments = ["evaluate", str(birds), "--shot", "1,5", *slow, "--csv", "out.csv", *timing]
    out, err = interrupted(TOLD, arguments, f"done 5-way 1-shot, balanced: {last}")
    assert "Partial result: the run was interrupted." in out
    assert re.search(r"logistic-regression +\d+\.\d\d ± \d+\.\d\d†", out)
    assert "5-shot" not in out
    assert err.splitlines()[-1] == "interrupted: this is what was finished. No file was written."


def test_ctrl_c_before_anything_was_finished_is_code_130_and_still_json(birds, capsys, monkeypatch):
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("laplacianshot.episodes.plans.evaluate", interrupt)
    assert run(["evaluate", str(birds), "--json"]) == 130
    found = document(capsys)
    assert found["interrupted"] is True
    assert found["results"] == []


def test_a_method_that_had_no_turn_before_ctrl_c_is_left_out(birds, capsys, monkeypatch):
    def interrupted(*args: object, **kwargs: object) -> Evaluations:
        first, *others = evaluate(*args, **kwargs)
        none = replace(first, accuracies=np.empty(0), interrupted=True)
        return Evaluations((none, *(replace(other, interrupted=True) for other in others)))

    monkeypatch.setattr("laplacianshot.episodes.plans.evaluate", interrupted)
    assert run(["evaluate", str(birds), *FEW, "--json"]) == 130
    (result,) = document(capsys)["results"]
    assert [entry["method"] for entry in result["evaluations"]] == ["laplacianshot-reference", "simpleshot-cl2"]


def test_methods_can_be_listed_without_a_file(capsys):
    assert run(["evaluate", "anything", "--methods", "help"]) == 0
    out = capsys.readouterr().out
    for name, entry in METHODS.items():
        assert name in out
        assert entry.settings in out


def test_all_and_fast_are_groups_of_methods(birds, capsys):
    for group, names in (("all", list(METHODS)), ("fast", [n for n, entry in METHODS.items() if not entry.slow])):
        assert run(["evaluate", str(birds), "--methods", group, "--tasks", "2", "--slow-tasks", "2", "--json"]) == 0
        assert list(document(capsys)["methods"]) == names


def test_a_narrow_screen_loses_the_last_columns_first():
    wide = Table("Birds", ("Method", "Accuracy", "Time"), (row("laplacianshot", "95.00 ± 0.10", "0.123"),), spare=1)
    for width, shown in ((80, True), (30, False)):
        console = Console(width=width, record=True, force_terminal=True, file=open(os.devnull, "w"))  # noqa: PTH123, SIM115
        print_table(console, wide)
        text = console.export_text()
        assert "95.00 ± 0.10" in text
        assert ("0.123" in text) is shown
