from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import laplacianshot
from laplacianshot import FeatureSet, LaplacianShot, evaluate, tune
from laplacianshot.cli.app import run
from laplacianshot.reports.reproduction import RUN_TITLE
from laplacianshot.runtime.files import FolderLock
from tests.reproduce.conftest import COMMAND
from tests.reproduce.shapes import SETTING, draw_shapes

ROOT = Path(__file__).resolve().parents[2]
STEPS = ("train", "extract", "tune", "evaluate", "report")


def results(folder: Path) -> dict:
    return json.loads((folder / "out" / "report" / "results.json").read_text(encoding="utf-8"))


def evaluations(document: dict, title: str) -> dict[str, dict]:
    """Those of one protocol, by method."""
    (group,) = [g for g in document["evaluation"]["results"] if g["setting"]["protocol"] == title]
    return {one["method"]: one for one in group["evaluations"]}


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Time of change and content of each file; the lock is everybody's."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def same_in_every_run(folder: Path) -> dict[str, bytes | str]:
    """All of a report but times, dates and environment."""
    report = folder / "out" / "report"
    found: dict[str, bytes | str] = {"results.json": (report / "results.json").read_bytes()}
    found |= {path.name: path.read_bytes() for path in report.glob("*.svg") if not path.name.startswith("time-")}
    found["report.md"] = (report / "report.md").read_text(encoding="utf-8").partition(f"\n# {RUN_TITLE}\n")[0]
    return found


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_killed_in_every_step_ends_with_the_report_of_one_that_was_not(finished, fresh, stride):
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{Path(laplacianshot.__file__).parents[1]}"}
    command = [sys.executable, "-m", "tests.reproduce.killing", str(stride), *COMMAND]
    done = subprocess.run(command, cwd=fresh, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found, wanted = same_in_every_run(fresh), same_in_every_run(finished)
    assert found.keys() == wanted.keys()
    assert [name for name in wanted if found[name] != wanted[name]] == []


def test_every_step_leaves_its_record_and_the_report_tells_of_all_of_them(finished):
    for step in STEPS:
        record = json.loads((finished / "out" / step / "step.json").read_text(encoding="utf-8"))
        assert record["step"] == step
        assert record["seconds"] > 0
    report = finished / "out" / "report"
    page, text = ((report / name).read_text(encoding="utf-8") for name in ("index.html", "report.md"))
    for title in ("Ablation", "Convergence", "Transforms", "Tuning", "Time", "numpy", "laplacianshot-paper"):
        assert title in page
        assert title in text
    notes = json.loads((report / "run.json").read_text(encoding="utf-8"))
    assert notes["command"] == "laplacianshot " + " ".join(COMMAND)
    assert {"numpy", "torch", "cores"} <= notes["environment"].keys()
    assert [step["step"] for step in notes["steps"]] == list(STEPS[:-1])


def test_the_numbers_are_those_of_tune_and_evaluate_on_the_extracted_features(finished):
    features = FeatureSet.load(finished / "out" / "extract" / "features")
    size = {"way": 3, "shot": 1, "query": 5}
    tuned = tune(features, "laplacianshot-reference", tasks=10, split="val", **size)
    found = results(finished)
    (entry,) = [
        one for one in found["tuning"] if (one["method"], one["transform"]) == ("laplacianshot-reference", "cl2")
    ]
    assert (entry["lam"], entry["n_neighbors"]) == (tuned.lam, tuned.n_neighbors)
    reference = LaplacianShot.reference(lam=tuned.lam, n_neighbors=tuned.n_neighbors)
    for protocol in ("balanced", "dirichlet"):
        again = evaluate(features, reference, tasks=40, split="novel", protocol=protocol, **size)
        assert evaluations(found, protocol)["laplacianshot-reference"]["mean"] == again.mean
    assert evaluations(found, "balanced")["simpleshot-cl2"]["mean"] > 0.5


def test_no_result_depends_on_the_clock(finished):
    def keys(document) -> set[str]:
        parts = document.values() if isinstance(document, dict) else document if isinstance(document, list) else ()
        return set(document if isinstance(document, dict) else ()).union(*map(keys, parts))

    assert [key for key in keys(results(finished)) if "second" in key or "finished" in key or "command" in key] == []


def test_a_second_run_passes_over_everything_and_changes_nothing(copied, ran):
    before = snapshot(copied / "out")
    assert ran() == []
    assert snapshot(copied / "out") == before


def test_another_number_of_tasks_evaluates_and_reports_again_and_nothing_else(copied, ran):
    before = snapshot(copied / "out")
    assert ran("--tasks", "60") == ["evaluate", "report"]
    after = snapshot(copied / "out")
    kept = [name for name in before if not name.startswith(("evaluate", "report"))]
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    assert evaluations(results(copied), "balanced")["laplacianshot"]["tasks"] == 60


def test_other_pictures_train_again_and_what_was_trained_before_is_kept(copied, ran, capsys):
    weights = (copied / "out" / "train" / "best.safetensors").read_bytes()
    one = next((copied / "pictures" / "base").rglob("*.png"))
    os.utime(one, ns=(1, 1))
    assert ran("--steps", "train", "--set", "epochs=1") == ["train"]
    (aside,) = (copied / "out").glob("train-*")
    assert (aside / "best.safetensors").read_bytes() == weights
    # What came of the former training no longer counts.
    assert run([*COMMAND, "--set", "epochs=1", "--steps", "evaluate"]) == 2
    assert "extract comes first" in capsys.readouterr().err


def test_a_run_of_laplacianshot_train_is_gone_on_with(copied, ran):
    theirs = copied / "out" / "train"
    weights = (theirs / "best.safetensors").read_bytes()
    shutil.move(theirs, copied / "trained")
    shutil.rmtree(copied / "out")
    (copied / "out").mkdir()
    shutil.move(copied / "trained", theirs)
    for name in ("begun.json", "step.json", "clock.json"):
        (theirs / name).unlink(missing_ok=True)
    assert ran("--steps", "train") == ["train"]
    assert (theirs / "best.safetensors").read_bytes() == weights
    record = json.loads((theirs / "step.json").read_text(encoding="utf-8"))
    state = json.loads((theirs / "last.json").read_text(encoding="utf-8"))["state"]
    assert record["seconds"] >= round(sum(epoch["seconds"] for epoch in state["history"]), 3)


def test_tasks_of_another_domain_are_centered_at_the_base_classes_of_the_first(copied, ran):
    draw_shapes(copied / "others", per_class=8, seed=1)
    (copied / "shapes.toml").write_text('target = "folder"\n' + SETTING, encoding="utf-8")
    assert ran("--target-data", "others") == ["extract-folder", "evaluate-folder", "report-folder"]
    home = FeatureSet.load(copied / "out" / "extract" / "features")
    away = FeatureSet.load(copied / "out" / "extract-folder" / "features")
    assert list(away.splits) == ["novel"]
    again = evaluate(away, "laplacianshot", way=3, query=5, tasks=40, split="novel", base_mean=home.base_mean())
    found = json.loads((copied / "out" / "report-folder" / "results.json").read_text(encoding="utf-8"))
    assert evaluations(found, "balanced")["laplacianshot"]["mean"] == again.mean
    assert not np.allclose(home.base_mean(), away.features.mean(axis=0))


@pytest.mark.parametrize("pattern", ["train/last.safetensors", "evaluate/transforms*.npz"])
def test_after_ctrl_c_the_last_line_says_how_to_go_on(fresh, monkeypatch, capsys, ran, pattern):
    replace, left = Path.replace, 1

    def interrupting(self: Path, target: Path) -> Path:
        nonlocal left
        if left and Path(target).match(pattern):
            left = 0
            signal.raise_signal(signal.SIGINT)
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", interrupting)
    assert run(COMMAND) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("interrupted: ")
    assert last.endswith("laplacianshot " + " ".join(COMMAND))
    assert "report" in ran()


def test_two_runs_on_one_output_are_one_too_many(copied, capsys):
    with FolderLock(copied / "out"):
        assert run(COMMAND) == 2
    assert "is writing there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["shape"], "there is no setting 'shape'; there are omniglot, cub-conv4"),
        (["omniglo"], "did you mean omniglot?"),
        (["no.toml"], "no.toml: cannot be read"),
        (["cub-conv4"], "there is no cub84.npz"),
        (["shapes.toml", "--data", "nowhere"], "nowhere: file or folder not found"),
        (["shapes.toml", "-o", "shapes.toml"], "this is a file"),
        (["shapes.toml", "-o", "no/such/folder"], "make it first"),
        (["shapes.toml", "--steps", "train,cook"], "there is no step 'cook'"),
        (["shapes.toml", "--steps", "report"], "train comes first"),
        (["shapes.toml", "--set", "epochs"], "write NAME=VALUE"),
        (["shapes.toml", "--set", "epoch=1"], "did you mean epochs?"),
        (["shapes.toml", "--tasks", "1"], "--tasks"),
        ([], "give a SETTING"),
    ],
)
def test_bad_input_is_one_line_that_names_the_fault(fresh, capsys, arguments, named):
    if arguments and "--data" not in arguments:
        arguments = [*arguments, "--data", "pictures"]
    if arguments and "-o" not in arguments:
        arguments = [*arguments, "-o", "out"]
    assert run(["reproduce", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert named in err


def test_tasks_that_cannot_be_drawn_are_an_error_before_the_training(fresh, capsys):
    (fresh / "shapes.toml").write_text(SETTING.replace("ways = [3]", "ways = [5]"), encoding="utf-8")
    assert run(COMMAND) == 2
    assert "5" in capsys.readouterr().err
    assert not (fresh / "out" / "train").exists()


def test_a_folder_of_another_setting_is_left_alone(copied, capsys):
    (copied / "shapes.toml").rename(copied / "forms.toml")
    assert run(["reproduce", "forms.toml", *COMMAND[2:]]) == 2
    assert "holds a run of shapes" in capsys.readouterr().err


def test_a_picture_that_cannot_be_read_is_named_and_left_out_if_asked(fresh, capsys, ran):
    (fresh / "pictures" / "novel" / "yellow box" / "00.png").write_bytes(b"no picture")
    assert run([*COMMAND, "--steps", "train"]) == 2
    assert "00.png" in capsys.readouterr().err
    assert run([*COMMAND, "--on-error", "skip", "--steps", "train", "--set", "epochs=1"]) == 0
    assert "left out: " in capsys.readouterr().err
