"""``laplacianshot suggest`` as a user runs it."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from laplacianshot.cli.app import run


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Vectors of three classes, from where the command is called."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    truth = np.arange(90) % 3
    np.save(tmp_path / "v.npy", np.eye(3, 6)[truth] + 0.1 * rng.standard_normal((90, 6)))
    return tmp_path, truth


def rows_of(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def fill_in(path, truth):
    rows = rows_of(path)
    for row in rows:
        row["label"] = f"c{truth[int(row['id'])]}"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_the_file_is_filled_in_and_given_back_again_and_again(place, capsys):
    folder, truth = place
    assert run(["suggest", "v.npy", "-n", "4", "-o", "first.csv"]) == 0
    assert "What to label first" in capsys.readouterr().out
    rows = rows_of(folder / "first.csv")
    assert [(row["label"], row["suggestion"]) for row in rows] == [("", str(rank)) for rank in range(1, 5)]
    fill_in(folder / "first.csv", truth)
    assert run(["suggest", "v.npy", "--labels", "first.csv", "-n", "3", "-o", "next.csv"]) == 0
    assert "What to label next" in capsys.readouterr().out
    more = rows_of(folder / "next.csv")
    assert [row["suggestion"] for row in more] == ["1", "2", "3", "", "", "", ""]
    assert {row["id"]: row["label"] for row in more[3:]} == {r["id"]: r["label"] for r in rows_of(folder / "first.csv")}
    assert not {row["id"] for row in more[:3]} & {row["id"] for row in rows}
    fill_in(folder / "next.csv", truth)
    assert run(["label", "v.npy", "--labels", "next.csv", "-o", "all.csv"]) == 0
    found = rows_of(folder / "all.csv")
    assert [row["label"] for row in found] == [f"c{c}" for c in truth]
    assert sum(row["origin"] == "given" for row in found) == 7


def test_suggestions_are_those_of_label(place):
    folder, _ = place
    assert run(["suggest", "v.npy", "-n", "5", "-o", "first.csv"]) == 0
    assert run(["label", "v.npy", "--suggest", "5", "-o", "all.csv"]) == 0
    ranked = sorted((int(row["suggestion"]), row["id"]) for row in rows_of(folder / "all.csv") if row["suggestion"])
    assert [row["id"] for row in rows_of(folder / "first.csv")] == [name for _, name in ranked]


def test_json_lists_the_suggestions_in_order_and_nothing_else_is_printed(place, capsys):
    assert run(["suggest", "v.npy", "-n", "5", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)["suggestions"]
    assert [item["suggestion"] for item in found] == [1, 2, 3, 4, 5]
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "Missing argument 'SOURCE'"),
        (["nowhere.npy"], "file or folder not found"),
        (["v.npy", "-n", "0"], "'-n'"),
        (["v.npy", "-o", "out.txt"], ".csv, .jsonl, .parquet"),
        (["v.npy", "--labels", "no.csv"], "no.csv"),
    ],
)
def test_bad_input_is_one_line(place, refused, arguments, named):
    refused(["suggest", *arguments], named)
