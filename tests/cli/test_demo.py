from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from laplacianshot import datasets
from laplacianshot.cli.app import run
from laplacianshot.datasets import load_digits
from laplacianshot.datasets.feature_set import FeatureSet

# A process of its own that has few digits and reports every finished repeat.
FEW_DIGITS = """
import itertools
import sys
import numpy as np
from laplacianshot import cli, datasets
from laplacianshot.cli import demo_run as demo
from laplacianshot.datasets.feature_set import FeatureSet

everything = datasets.load_digits()
rows = np.concatenate([np.flatnonzero(everything.labels == c)[:22] for c in range(10)])
few = FeatureSet(everything.features[rows], everything.labels[rows])
datasets.load_digits = lambda: few

def reporting(*args, done, **kwargs):
    numbers = itertools.count()
    return evaluate(*args, done=lambda: print("finished", next(numbers), file=sys.stderr, flush=True), **kwargs)

evaluate, demo.evaluate_whole_set = demo.evaluate_whole_set, reporting
cli.main(sys.argv[1:])
"""


@pytest.fixture
def few_digits(monkeypatch, tmp_path) -> FeatureSet:
    """Twenty-two digits of each class in place of all, in a folder of their own."""
    everything = load_digits()
    rows = np.concatenate([np.flatnonzero(everything.labels == c)[:22] for c in range(10)])
    few = FeatureSet(everything.features[rows], everything.labels[rows])
    monkeypatch.setattr(datasets, "load_digits", lambda: few)
    monkeypatch.chdir(tmp_path)
    return few


@pytest.mark.usefixtures("few_digits")
def test_the_demo_prints_a_table_a_verdict_and_where_the_picture_is(capsys):
    assert run(["demo", "--repeats", "2"]) == 0
    out = capsys.readouterr().out
    for title in ("LaplacianShot default", "LaplacianShot paper", "LaplacianShot reference", "Nearest prototype"):
        assert title in out
    for title in ("1-nearest-neighbor", "Logistic regression", "LabelSpreading rbf", "LabelSpreading knn"):
        assert title in out
    assert "is best with" in out
    assert f"Written: {Path.cwd() / 'laplacianshot-demo.png'}" in out
    assert "LaplacianShot().fit(X, y)" in out
    assert Path("laplacianshot-demo.png").read_bytes().startswith(b"\x89PNG")
    table = out.splitlines()[1:10]
    assert table[0].startswith("scikit-learn's digits")
    assert max(len(line) for line in table) <= 80


@pytest.mark.usefixtures("few_digits")
def test_json_is_one_document_and_nothing_else(capsys):
    assert run(["demo", "--repeats", "2", "--seed", "3", "--labels-per-class", "2", "-o", "a b.png", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seed"] == 3
    assert document["labels_per_class"] == 2
    assert document["repeats"] == document["repeats_asked"] == 2
    assert document["interrupted"] is False
    assert [method["place"] for method in document["methods"]] == list(range(1, 9))
    means = [method["accuracy"]["mean"] for method in document["methods"]]
    assert means == sorted(means, reverse=True)
    assert document["methods"][0]["behind_best"] is None
    assert document["methods"][1]["behind_best"]["mean"] == pytest.approx(means[1] - means[0])
    assert Path(document["picture"]) == Path.cwd() / "a b.png"
    assert Path("a b.png").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--repeats", "0"], "--repeats"),
        (["--repeats", "many"], "--repeats"),
        (["--labels-per-class", "0"], "--labels-per-class"),
        (["--labels-per-class", "22"], "at most 21"),
        (["--seed", "-1"], "--seed"),
        (["--output", "missing/demo.png"], "no folder"),
        (["--output", "demo.gif"], ".png"),
        (["--output", "demo"], ".png"),
        (["--output", "folder.png"], "folder"),
        (["--output", "file.txt/demo.png"], "no folder"),
        (["--output", "line\nbreak/demo.png"], "no folder"),
    ],
)
@pytest.mark.usefixtures("few_digits")
def test_bad_input_is_one_line_on_stderr_code_2_and_no_work(arguments, named, refused, monkeypatch):
    Path("folder.png").mkdir()
    Path("file.txt").touch()
    monkeypatch.setattr("laplacianshot.cli.demo_run.run_demo", lambda *_, **__: pytest.fail("worked on bad input"))
    refused(["demo", *arguments], named)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that not even root can write to")
@pytest.mark.usefixtures("few_digits")
def test_a_folder_that_cannot_be_written_is_found_out_before_the_work(capsys, monkeypatch):
    monkeypatch.setattr("laplacianshot.cli.demo_run.run_demo", lambda *_, **__: pytest.fail("worked in vain"))
    assert run(["demo", "-o", "/proc/demo.png"]) == 2
    assert "cannot write there" in capsys.readouterr().err


@pytest.mark.usefixtures("few_digits")
def test_a_disk_that_fills_up_costs_the_picture_but_not_the_table(capsys, monkeypatch):
    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full_disk)
    assert run(["demo", "--repeats", "1"]) == 1
    out, err = capsys.readouterr()
    assert "is best with" in out
    assert err == f"error: could not write {Path.cwd() / 'laplacianshot-demo.png'} (No space left on device).\n"
    assert list(Path.cwd().iterdir()) == []


def test_ctrl_c_prints_the_finished_repeats_and_leaves_with_130(interrupted):
    out, err = interrupted(FEW_DIGITS, ["demo", "--repeats", "100000"], "finished 2")
    assert "Partial result, interrupted after " in out
    assert " of 100000 random choices" in out
    assert "LaplacianShot default" in out
    assert "interrupted: " in err.splitlines()[-1]


def test_the_installed_command_labels_all_digits(tmp_path, environment):
    command = [sys.executable, "-m", "laplacianshot", "demo", "--repeats", "1", "--json", "-o", "demo.png"]
    script = Path(sys.executable).with_name("laplacianshot")
    if script.exists():
        command[:3] = [str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    document = json.loads(done.stdout)
    assert document["unlabeled"] == 1787
    assert (tmp_path / "demo.png").stat().st_size > 20_000
