from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from laplacianshot import FeatureSet, tune
from laplacianshot.cli.app import run
from laplacianshot.episodes.tuning import LAMS

FEW = ["--tasks", "20", "--lams", "0.1,1", "--neighbors", "3,5"]


def test_lambda_and_neighbors_are_printed_with_the_curve(birds, capsys):
    assert run(["tune", str(birds), *FEW]) == 0
    out, err = capsys.readouterr()
    assert all(re.match(r"Compiling|.*: after \d+ s$", line) for line in err.splitlines())
    for shot in (1, 5):
        assert re.search(rf"5-way {shot}-shot, balanced: lambda (0\.1|1)\n", out)
        assert re.search(rf"5-way {shot}-shot, balanced: [35] neighbors", out)
    assert re.search(r"Lambda +val, % +To the best +novel, %", out)
    assert re.search(r"Neighbors +base, %", out)
    assert re.search(r"1 +\d+\.\d\d ± \d+\.\d\d .*[█▏]", out)
    assert re.search(r"--lam (0\.1|1) --neighbors [35]", out)


def test_the_numbers_are_those_of_tune(birds, capsys):
    assert run(["tune", str(birds), "--tasks", "20", "--shot", "1", "--recipe", "paper", "--seed", "2", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]
    features = FeatureSet.load(birds)
    expected = tune(features, "laplacianshot-paper", shot=1, tasks=20, seed=2)
    assert found["lam"] == expected.lam
    assert found["n_neighbors"] == expected.n_neighbors
    assert [point["lam"] for point in found["lams"]] == list(LAMS)
    assert [point["mean"] for point in found["lams"]] == [point.mean for point in expected.lam_curve]
    chosen = {"shot": 1, "tasks": 20, "seed": 2, "split": "novel", "neighbors": (expected.n_neighbors,)}
    shown = tune(features, "laplacianshot-paper", **chosen)
    assert found["test"]["split"] == "novel"
    assert [point["mean"] for point in found["test"]["lams"]] == [point.mean for point in shown.lam_curve]


def test_the_test_classes_have_no_say(make_features, birds, capsys):
    assert run(["tune", str(birds), *FEW, "--json"]) == 0
    with_test = json.loads(capsys.readouterr().out)["results"]
    assert run(["tune", str(birds), *FEW, "--json", "--test-split", "base"]) == 0
    other = json.loads(capsys.readouterr().out)["results"]
    for one, two in zip(with_test, other, strict=True):
        assert one["test"] != two["test"]
        keys = ("lam", "n_neighbors", "lams", "neighbors")
        assert [one[key] for key in keys] == [two[key] for key in keys]


def test_parts_can_be_chosen(birds, capsys):
    parts = ["--split", "novel", "--neighbor-split", "val", "--test-split", "base", "--shot", "1"]
    assert run(["tune", str(birds), *FEW, *parts, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["results"]
    assert (found["lam_split"], found["neighbor_split"], found["test"]["split"]) == ("novel", "val", "base")


def test_a_file_without_splits_is_tuned_on_all_rows_with_a_word_of_warning(digits, capsys):
    assert run(["tune", str(digits), *FEW, "--shot", "1", "--json", "--recipe", "default"]) == 0
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert "no splits" in err
    assert document["method"] == "laplacianshot"
    assert document["results"][0]["lam_split"] is None
    assert document["results"][0]["test"] is None


def test_the_report_has_the_papers_lambda_figure(birds, tmp_path, capsys):
    folder = tmp_path / "report"
    assert run(["tune", str(birds), *FEW, "--report", str(folder)]) == 0
    names = sorted(path.name for path in folder.iterdir())
    figures = [f"lambda-5-way-{shot}-shot-balanced.svg" for shot in (1, 5)]
    assert names == sorted(["index.html", "results.json", "tables.md", *figures])
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "http" not in page
    assert page.count("<svg") == 2
    for point in json.loads((folder / "results.json").read_text(encoding="utf-8"))["results"][0]["lams"]:
        assert f"{100 * point['mean']:.2f} ± {100 * point['ci95']:.2f}" in page
    assert "Written" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--recipe", "best"], "--recipe"),
        (["--split", "test"], "base, val, novel"),
        (["--neighbor-split", "train"], "--neighbor-split train"),
        (["--test-split", "train"], "--test-split train"),
        (["--lams", "0.1,-1"], "--lams"),
        (["--lams", "0.1,inf"], "--lams"),
        (["--lams", "a"], "--lams"),
        (["--neighbors", "3,0"], "--neighbors"),
        (["--way", "7"], "way=7"),
        (["--tasks", "0"], "--tasks"),
        (["--protocol", "inat"], "--protocol inat"),
        (["--protocol", "even"], "balanced"),
        (["--report", "file.txt"], "--report"),
        (["--base-mean", "missing.npy"], "missing.npy"),
    ],
)
def test_bad_input_is_one_line_on_stderr_code_2_and_no_work(arguments, named, birds, refused, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("file.txt").touch()
    monkeypatch.setattr("laplacianshot.episodes.plans.tune", lambda *_, **__: pytest.fail("worked on bad input"))
    refused(["tune", str(birds), *arguments], named)


def test_splits_without_val_need_a_choice(make_features, capsys):
    path = make_features("odd.npz", base=6, novel=6)
    assert run(["tune", str(path), *FEW]) == 2
    assert "has no split val; name one of base, novel" in capsys.readouterr().err


def test_ctrl_c_prints_the_settings_that_were_finished(birds, tmp_path, capsys, monkeypatch):
    calls = []

    def interrupted_at_the_third(*args: object, **kwargs: object) -> object:
        calls.append(kwargs["shot"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return tune(*args, **kwargs)

    monkeypatch.setattr("laplacianshot.episodes.plans.tune", interrupted_at_the_third)
    folder = tmp_path / "report"
    assert run(["tune", str(birds), *FEW, "--report", str(folder)]) == 130
    out, err = capsys.readouterr()
    assert "5-way 1-shot" in out
    assert "5-way 5-shot" not in out
    assert err == "interrupted: this is what was finished. No file was written.\n"
    assert not folder.exists()
