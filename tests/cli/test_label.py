"""``laplacianshot label`` as a user runs it."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from laplacianshot.cli.app import run
from tests.datasets.stores import write_store
from tests.labeling.drawings import CLASSES, draw_folder, first_of_each, write_labels


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def place(tmp_path, monkeypatch, cache):
    """A folder with pictures and labels, from where the command is called, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(cache))
    truth = draw_folder(tmp_path / "photos", per_class=6)
    write_labels(tmp_path / "labels.csv", first_of_each(truth, 2))
    return tmp_path, truth


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_folder_and_a_few_labels_give_every_label(place, capsys):
    folder, truth = place
    assert run(["label", "photos", "--labels", "labels.csv", "-o", "all.csv", "--suggest", "4"]) == 0
    rows = rows_of(folder / "all.csv")
    assert list(rows[0]) == ["id", "label", "confidence", "origin", "suggestion", "written"]
    assert {row["id"]: row["label"] for row in rows} == truth
    assert [row["origin"] for row in rows].count("given") == 6
    assert all(0 <= float(row["confidence"]) <= 1 for row in rows)
    assert sorted(row["suggestion"] for row in rows if row["suggestion"]) == ["1", "2", "3", "4"]
    shown = capsys.readouterr().out
    assert "What to label next" in shown
    assert "all.csv" in shown


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_every_format_of_output_says_the_same(place, ending):
    folder, truth = place
    assert run(["label", "photos", "--labels", "labels.csv", "-o", f"all.{ending}"]) == 0
    if ending == "jsonl":
        rows = [json.loads(line) for line in (folder / "all.jsonl").read_text(encoding="utf-8").splitlines()]
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(folder / "all.parquet").to_pylist()
    assert {row["id"]: row["label"] for row in rows} == truth


def test_from_nothing_a_few_items_are_suggested_and_the_file_can_be_given_back(place, capsys):
    folder, truth = place
    assert run(["label", "photos", "--suggest", "6", "-o", "first.csv"]) == 0
    rows = rows_of(folder / "first.csv")
    expected = [row for row in rows if row["suggestion"]]
    assert len(expected) == 6
    assert {row["label"] for row in rows} == {""}
    for row in expected:
        row["label"] = truth[row["id"]]
    with (folder / "first.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    assert run(["label", "photos", "--labels", "first.csv", "-o", "all.csv"]) == 0
    assert sum(row["origin"] == "given" for row in rows_of(folder / "all.csv")) == 6


def test_predictions_that_are_given_back_do_not_count_and_the_command_says_so(place, capsys):
    folder, truth = place
    assert run(["label", "photos", "--labels", "labels.csv", "-o", "all.csv"]) == 0
    capsys.readouterr()
    assert run(["label", "photos", "--labels", "all.csv", "-o", "again.csv"]) == 0
    n = len(truth)
    note = f"note: all.csv: {n - 6} of its {n} labels are predictions of laplacianshot and do not count; "
    assert note in capsys.readouterr().err
    assert (folder / "again.csv").read_bytes() == (folder / "all.csv").read_bytes()


def test_json_has_every_item_and_nothing_else_is_printed(place, capsys):
    _, truth = place
    assert run(["label", "photos", "--labels", "labels.csv", "--json", "--reject", "0.1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {item["id"] for item in found["items"]} == set(truth)
    assert found["counts"] == {"given": 6, "predicted": 11, "rejected": 1}
    assert found["classes"] == list(CLASSES)


def test_the_page_and_the_tasks_of_label_studio_are_written(place, capsys):
    folder, truth = place
    arguments = ["label", "photos", "--labels", "labels.csv", "-o", "all.csv", "--report", "page"]
    assert run([*arguments, "--export", "label-studio"]) == 0
    page = (folder / "page" / "index.html").read_text(encoding="utf-8")
    assert all(name in page for name in CLASSES)
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert len(json.loads((folder / "all.label-studio.json").read_text(encoding="utf-8"))) == len(truth)
    said = capsys.readouterr().out
    written = [Path(line.removeprefix("Written: ")) for line in said.splitlines() if line.startswith("Written: ")]
    assert written == [
        folder / name for name in ("all.csv", "all.label-studio.json", "all.label-studio.xml", "page/index.html")
    ]
    assert all(path.is_file() for path in written)
    (hint,) = (line for line in said.splitlines() if "Label Studio" in line)
    assert f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={folder.resolve()}, and has {folder.resolve() / 'photos'} " in hint


def test_texts_and_vectors_need_no_files_of_label_studio(place, capsys):
    folder, _ = place
    np.save(folder / "v.npy", np.repeat(np.eye(2, 4), 10, axis=0))
    write_labels(folder / "given.csv", {"0": "a", "19": "b"})
    assert run(["label", "v.npy", "--labels", "given.csv", "--export", "label-studio"]) == 0
    said = capsys.readouterr().out
    assert "paste v.label-studio.xml" in said
    assert "then import v.label-studio.json." in said
    assert "LOCAL_FILES" not in said


def test_a_class_that_label_studio_cannot_hold_is_one_line(place, capsys):
    folder, _ = place
    np.save(folder / "v.npy", np.repeat(np.eye(2, 4), 10, axis=0))
    write_labels(folder / "given.csv", {"0": "a\x01", "19": "b"})
    assert run(["label", "v.npy", "--labels", "given.csv", "--export", "label-studio"]) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith("error: --export: classes 'a\\x01'")


@pytest.mark.parametrize("undo", [["sort", "--undo", "sorted"], ["label", "--undo", "sorted/laplacianshot-undo.jsonl"]])
@pytest.mark.parametrize("how", ["copy", "link"])
def test_pictures_are_sorted_into_folders_and_removed_again(place, capsys, how, undo):
    folder, truth = place
    before = {path: path.read_bytes() for path in folder.rglob("*.*")}
    assert run(["label", "photos", "--labels", "labels.csv", "--apply", how, "sorted"]) == 0
    assert {path.name for path in (folder / "sorted").iterdir() if path.is_dir()} == set(CLASSES)
    assert sum(1 for _ in (folder / "sorted").rglob("*.png")) == len(truth)
    assert run(undo) == 0
    assert {path: path.read_bytes() for path in folder.rglob("*.*")} == before
    assert not (folder / "sorted").exists()


def test_class_folders_beside_unlabeled_pictures_are_labels(place, capsys):
    folder, truth = place
    given = first_of_each(truth, 2)
    for name, label in truth.items():
        target = folder / "shelf" / (label if name in given else "unlabeled") / name.replace("/", "-")
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / "photos" / name).rename(target)
    assert run(["label", "shelf", "-o", "all.csv"]) == 0
    rows = {row["id"]: row for row in rows_of(folder / "all.csv")}
    assert len(rows) == len(truth)
    assert sum(row["origin"] == "given" for row in rows.values()) == 6
    for name, label in truth.items():
        found = rows[f"{label if name in given else 'unlabeled'}/{name.replace('/', '-')}"]
        assert found["label"] == label
    out, err = capsys.readouterr()
    assert "The folders are read as classes: 6 pictures" in out
    # Said before the work begins, with the way back.
    assert err.startswith("note: FOLDERS ARE READ AS CLASSES: ")
    assert err.splitlines()[0].endswith("run again with --folders-are-paths.")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "Missing argument 'SOURCE'"),
        (["nowhere", "--labels", "labels.csv"], "nowhere"),
        (["photos"], "--suggest"),
        (["photos", "--labels", "nowhere.csv"], "nowhere.csv"),
        (["photos", "--labels", "labels.csv", "-o", "all.txt"], ".csv, .jsonl, .parquet"),
        (["photos", "--labels", "labels.csv", "-o", "no/all.csv"], "make it first"),
        (["photos", "--labels", "labels.csv", "--reject", "2"], "--reject"),
        (["photos", "--labels", "labels.csv", "--encoder", "efficientnet-lite1"], "did you mean efficientnet-lite0?"),
        (["photos", "--labels", "labels.csv", "--encoder", "minilm-l6"], "minilm-l6"),
        (["labels.csv", "--apply", "copy", "sorted"], "is not a folder of pictures"),
        (["photos", "--apply", "copying", "sorted"], "'--apply': 'copying' is not one of 'copy', 'link'"),
        (["photos", "--graph", "cell"], "'--graph': 'cell' is not one of"),
        (["--undo", "nothing.jsonl"], "nothing.jsonl"),
    ],
)
def test_bad_input_is_one_line(place, refused, arguments, named):
    refused(["label", *arguments], named)


def test_an_unknown_id_of_the_labels_file_is_named(place, refused):
    folder, truth = place
    write_labels(folder / "labels.csv", {**first_of_each(truth), "not there.png": "box"})
    refused(["label", "photos", "--labels", "labels.csv", "-o", "all.csv"], "not there.png")
    assert not (folder / "all.csv").exists()


def test_ctrl_c_leaves_no_output_and_says_how_to_go_on(place, until):
    folder, _ = place
    with until(("Vectors", 0), "wait", ["label", "photos", "--labels", "labels.csv", "-o", "all.csv"]) as process:
        while (line := process.stderr.readline()) != "waiting\n":
            assert line, "the command ended before the event"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
    assert process.returncode == 130, err
    assert "the same command continues from there" in err
    assert "Traceback" not in err
    assert not (folder / "all.csv").exists()


def test_vectors_of_a_memory_map_are_labeled_in_place(place):
    folder, _ = place
    rng = np.random.default_rng(0)
    np.save(folder / "v.npy", (np.eye(2, 4)[np.repeat([0, 1], 30)] + 0.1 * rng.random((60, 4))).astype(np.float16))
    write_labels(folder / "given.csv", {"0": "a", "59": "b"})
    assert run(["label", "v.npy", "--labels", "given.csv", "-o", "all.csv"]) == 0
    assert [row["label"] for row in rows_of(folder / "all.csv")] == ["a"] * 30 + ["b"] * 30


def test_labels_that_belong_to_other_rows_are_reported(place, capsys):
    folder, _ = place
    rng = np.random.default_rng(0)
    truth = np.arange(200) % 4
    np.save(folder / "v.npy", np.eye(4, 8)[truth] + 0.2 * rng.standard_normal((200, 8)))
    right = {str(row): f"c{truth[row]}" for row in range(20)}
    write_labels(folder / "given.csv", right)
    assert run(["label", "v.npy", "--labels", "given.csv", "-o", "all.csv"]) == 0
    assert "could be checked" not in capsys.readouterr().out
    shuffled = rng.permutation(list(right.values())).tolist()
    write_labels(folder / "given.csv", dict(zip(right, shuffled, strict=True)))
    assert run(["label", "v.npy", "--labels", "given.csv", "-o", "all.csv"]) == 0
    assert "Of 20 given labels that could be checked, " in capsys.readouterr().out


# Before the first vector, after the first vectors, before the fit, and before the output gets its name.
KILLS = [("Vectors", 0), ("Vectors", 1), ("Labels", 0), ("rename", 0)]


@pytest.mark.parametrize(
    "event", [KILLS[1], *(pytest.param(event, marks=pytest.mark.slow) for event in (KILLS[0], *KILLS[2:]))]
)
def test_a_run_that_was_killed_ends_with_the_same_output(place, until, cache, tmp_path, event):
    """benchmarks/labeling/kills.py kills 50 times, at random moments."""
    folder, _ = place
    command = ["label", "photos", "--labels", "labels.csv", "--suggest", "3", "-o"]
    assert run([*command, "whole.csv"]) == 0
    # A cache without vectors but with the network, which takes longest to make.
    own = tmp_path / "own cache"
    shutil.copytree(cache, own, ignore=lambda _, names: [name for name in names if name.startswith("vectors")])
    with until(event, "die", [*command, "out.csv"], LAPLACIANSHOT_CACHE=str(own)) as process:
        process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    assert not (folder / "out.csv").exists()
    with until(("none", 0), "die", [*command, "out.csv"], LAPLACIANSHOT_CACHE=str(own)) as process:
        _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert (folder / "out.csv").read_bytes() == (folder / "whole.csv").read_bytes()


@pytest.fixture
def many(place):
    """20,000 rows of 20 classes, in a memory-mapped file, and a few labels."""
    folder, _ = place
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 20, 20_000)
    rows = rng.standard_normal((20, 24))[truth] + 0.3 * rng.standard_normal((20_000, 24))
    np.save(folder / "big.npy", rows.astype(np.float16))
    firsts = [np.flatnonzero(truth == c)[place] for c in range(20) for place in range(2)]
    write_labels(folder / "given.csv", {str(row): f"c{truth[row]:02d}" for row in firsts})
    return folder, truth


@pytest.mark.parametrize(
    ("memory", "printed"),
    [("1MB", "memory=1 MB cannot be kept"), ("lots", "memory is 'lots'; give bytes, or text such as '8GB'")],
)
def test_a_budget_that_is_not_enough_is_reported_in_one_line(many, refused, memory, printed):
    refused(["label", "big.npy", "--labels", "given.csv", "-o", "all.csv", "--memory", memory], printed)
    assert not Path("all.csv").exists()


def test_a_large_run_that_was_killed_takes_up_the_stages_it_had_finished(many, until):
    folder, truth = many
    command = ["label", "big.npy", "--labels", "given.csv", "--graph", "cells"]
    own = {"LAPLACIANSHOT_CACHE": str(folder / "own cache")}
    with until(("Graph", 0), "die", [*command, "-o", "out.csv"], **own) as process:
        process.communicate(timeout=300)
    assert process.returncode == -signal.SIGKILL
    kept = {path: path.read_bytes() for path in folder.glob("own cache/stages/neighbors-*/*")}
    assert kept
    with until(("none", 0), "die", [*command, "-o", "out.csv", "--json"], **own) as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    # With the seconds that the search took.
    assert {path: path.read_bytes() for path in kept} == kept
    settings = json.loads(out)["settings"]
    assert settings["graph"] == "cells"
    assert settings["graph_recall"] > 0.9
    rows = rows_of(folder / "out.csv")
    assert np.mean([row["label"] == f"c{c:02d}" for row, c in zip(rows, truth, strict=True)]) > 0.95
    assert run([*command, "-o", "whole.csv", "--no-cache"]) == 0
    assert (folder / "whole.csv").read_bytes() == (folder / "out.csv").read_bytes()


def test_a_feature_store_is_labeled(many):
    folder, truth = many
    rows = np.load(folder / "big.npy", mmap_mode="r")[:600]
    labels = np.where(np.arange(600) < 100, truth[:600], -1)
    names = [f"picture {row}" for row in range(600)]
    write_store(folder / "store", rows, labels, class_names=[f"c{c:02d}" for c in range(20)], names=names)
    assert run(["label", "store", "-o", "out.csv"]) == 0
    found = rows_of(folder / "out.csv")
    assert [row["id"] for row in found] == names
    assert np.mean([row["label"] == f"c{c:02d}" for row, c in zip(found, truth, strict=False)]) > 0.95


@pytest.fixture
def named(tmp_path, monkeypatch):
    """Vectors of three classes, and vectors of their names, from where the command is called."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((3, 48))
    truth = np.arange(90) % 3
    np.save("v.npy", centers[truth] + 0.6 * rng.standard_normal((90, 48)))
    np.savez("names.npz", names=centers, class_names=["ant", "bee", "cat"])
    return tmp_path, np.array(["ant", "bee", "cat"])[truth]


def test_names_of_classes_are_enough(named, capsys):
    folder, truth = named
    assert run(["label", "v.npy", "--classes", "names.npz", "--class-shares", "equal", "-o", "all.csv"]) == 0
    assert [row["label"] for row in rows_of(folder / "all.csv")] == truth.tolist()
    assert "counted in full, as no label speaks for or against" in capsys.readouterr().out


def test_scores_of_another_model_are_enough(named):
    folder, truth = named
    with (folder / "scores.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "ant", "bee", "cat"])
        writer.writerows([i, *(0.8 if name == truth[i] else 0.1 for name in ("ant", "bee", "cat"))] for i in range(30))
    assert run(["label", "v.npy", "--prior", "scores.csv", "-o", "all.csv"]) == 0
    assert [row["label"] for row in rows_of(folder / "all.csv")] == truth.tolist()


def test_sentences_are_labeled_from_the_names_of_their_classes(tmp_path, monkeypatch, cache):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(cache))
    texts = {
        "weather": ["Will it rain tomorrow?", "How cold is it in Oslo today?", "Is a storm coming this weekend?"],
        "restaurant": ["Book a table for two tonight.", "Find me a place for dinner.", "Reserve a bistro for lunch."],
    }
    rows = [(text, name) for name, said in texts.items() for text in said]
    Path("texts.csv").write_text("text\n" + "\n".join(text for text, _ in rows) + "\n", encoding="utf-8")
    Path("names.txt").write_text("weather: questions on the weather\nrestaurant\n", encoding="utf-8")
    assert run(["label", "texts.csv", "--classes", "names.txt", "-o", "all.csv"]) == 0
    assert [row["label"] for row in rows_of(tmp_path / "all.csv")] == [name for _, name in rows]
    assert run(["suggest", "texts.csv", "--classes", "weather, restaurant", "-n", "2", "-o", "next.csv"]) == 0
    assert len(rows_of(tmp_path / "next.csv")) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--classes", "ant, bee"], "the classes need vectors too"),
        (["--classes", "nowhere.npz"], "there is no file 'nowhere.npz'"),
        (["--classes", "names.npz", "--class-shares", "half"], "there is no file 'half'"),
        (["--prior", "nowhere.csv"], "there is no file 'nowhere.csv'"),
    ],
)
def test_bad_knowledge_is_one_line_and_exit_code_2(named, capsys, arguments, message):
    assert run(["label", "v.npy", *arguments, "-o", "all.csv"]) == 2
    err = capsys.readouterr().err
    assert message in err
    assert len(err.strip().splitlines()) == 1


def test_pictures_need_an_encoder_with_a_text_side(place, capsys):
    assert run(["label", "photos", "--classes", "circle, square", "-o", "all.csv"]) == 2
    assert "'efficientnet-lite0' has no text side" in capsys.readouterr().err


def archive(folder: Path, truth: dict[str, str], *names: str) -> None:
    """Move the pictures of ``photos`` into these folders of ``archive`` in turn; "" is the archive itself."""
    for number, name in enumerate(truth):
        target = folder / "archive" / names[number % len(names)] / name.replace("/", "-")
        target.parent.mkdir(parents=True, exist_ok=True)
        (folder / "photos" / name).rename(target)


@pytest.mark.parametrize("names", [("2023", "2024", "misc", ""), ("2023", "2024", "misc")])
def test_the_folders_of_an_archive_do_not_become_classes(place, capsys, names):
    folder, truth = place
    archive(folder, truth, *names)
    assert run(["suggest", "archive", "-n", "4", "-o", "first.csv"]) == 0
    rows = rows_of(folder / "first.csv")
    assert [row["label"] for row in rows] == [""] * 4
    said = capsys.readouterr().err
    assert said.startswith("note: folders are not read as classes: ")
    assert "misc (" in said.splitlines()[0]
    assert said.splitlines()[0].endswith("run again with --classes-from-folders.")
    # Without labels there is nothing to do, and the way is named.
    assert run(["label", "archive"]) == 2
    assert "read its 3 folders as classes (--classes-from-folders)" in capsys.readouterr().err
    assert run(["label", "archive", "--classes-from-folders", "-o", "all.csv"]) == 0
    assert {row["label"] for row in rows_of(folder / "all.csv")} == {"2023", "2024", "misc"}


def test_with_labels_nobody_is_told_about_folders(place, capsys):
    folder, truth = place
    archive(folder, truth, "2023", "2024", "misc")
    ids = {path.name: str(path.relative_to(folder / "archive")) for path in (folder / "archive").rglob("*.png")}
    given = {ids[name.replace("/", "-")]: label for name, label in first_of_each(truth, 2).items()}
    write_labels(folder / "labels.csv", given)
    assert run(["label", "archive", "--labels", "labels.csv", "-o", "all.csv"]) == 0
    assert "folders" not in "".join(capsys.readouterr())
    assert {row["label"] for row in rows_of(folder / "all.csv")} == set(CLASSES)


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo terminals here")
@pytest.mark.parametrize(
    ("names", "answer", "classes"),
    [
        (("cats", "dogs", "unlabeled"), "\n", True),
        (("cats", "dogs", "unlabeled"), "no\n", False),
        (("cats", "dogs"), "perhaps\ny\n", True),
        (("2023", "misc"), "\n", False),
    ],
)
def test_at_a_terminal_one_is_asked_whether_folders_are_classes(place, environment, names, answer, classes):
    folder, truth = place
    archive(folder, truth, *names)
    person, terminal = os.openpty()
    os.write(person, answer.encode())
    command = [sys.executable, "-m", "laplacianshot", "label", "archive", "-o", "all.csv"]
    done = subprocess.run(
        command, stdin=terminal, stdout=subprocess.PIPE, stderr=terminal, env=environment, check=False
    )
    said = os.read(person, 100_000).decode()
    os.close(terminal)
    os.close(person)
    assert f"{names[0]} (" in said
    assert said.count("Are these folders the classes? [") == answer.count("\n")
    assert done.returncode == (0 if classes else 2)
    if classes:
        assert {row["label"] for row in rows_of(folder / "all.csv")} == set(names) - {"unlabeled"}


def test_outside_a_terminal_a_line_tells_every_few_seconds_where_the_work_is(place, capsys, monkeypatch):
    monkeypatch.setattr("laplacianshot.cli.terminal.FIRST_LINE", 0.01)
    monkeypatch.setattr("laplacianshot.cli.terminal.LINE_EVERY", 0.01)
    assert run(["label", "photos", "--labels", "labels.csv", "--no-cache", "-o", "all.csv"]) == 0
    lines = capsys.readouterr().err.splitlines()
    told = [re.fullmatch(r"(\w+):( [\d,]+ of [\d,]+)? after \d+ s", line) for line in lines]
    assert {"Vectors", "Labels"} <= {line[1] for line in told if line is not None}


def test_all_of_the_time_is_accounted_for(place, capsys):
    assert run(["label", "photos", "--labels", "labels.csv", "-o", "all.csv", "--report", "page"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Time: "))
    total = float(re.match(r"Time: ([\d.]+) s", line)[1])
    parts = dict(re.findall(r"([\w./]+) ([\d.]+)[,)]", line))
    assert {"Start", "Reading", "Vectors", "Labels", "all.csv", "page/"} <= set(parts)
    assert sum(map(float, parts.values())) == pytest.approx(total, abs=0.05 * (len(parts) + 2))
    assert run(["label", "photos", "--labels", "labels.csv", "--json"]) == 0
    seconds = json.loads(capsys.readouterr().out)["seconds"]
    assert sum(seconds.values()) == pytest.approx(2 * seconds["Total"])
    assert seconds["Other"] < 0.5 * seconds["Total"]


def test_what_was_copied_where_is_said(place, capsys):
    folder, truth = place
    assert run(["label", "photos", "--labels", "labels.csv", "--apply", "copy", "sorted"]) == 0
    out, err = capsys.readouterr()
    n = len(truth) // 3
    counts = f"ball/ ({n}), box/ ({n}), kite/ ({n})"
    assert f"note: {len(truth)} pictures were copied into {folder / 'sorted'}: {counts}; photos stays as it is." in err
    assert "Undo it with: laplacianshot sort --undo sorted" in out
