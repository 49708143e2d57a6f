from __future__ import annotations

import errno
import os
import sys
import threading

import numpy as np
import pytest

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.outputs import write_rows
from tests.labeling.files import ODD_NAMES, result_of
from tests.labeling.files import read_output as read

ENDINGS = ["csv", "jsonl", "parquet"]
COLUMNS = ["id", "label", "confidence", "origin", "suggestion", "written"]


@pytest.fixture
def result():
    return result_of(["0", "1", "2", "3"], ["x", "y", "x", ""], suggestions=np.array([0, 0, 2, 1]))


def test_a_csv_looks_like_this(tmp_path, result):
    write_rows(result, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_bytes() == (
        b"id,label,confidence,origin,suggestion,written\n"
        b"0,x,1.000000,given,,x\n"
        b"1,y,1.000000,given,,y\n"
        b"2,x,0.500000,predicted,2,x\n"
        b"3,,0.625000,rejected,1,\n"
    )


def test_json_lines_and_parquet_hold_numbers_and_nulls(tmp_path, result):
    for ending in ("jsonl", "parquet"):
        write_rows(result, tmp_path / f"out.{ending}")
        rows = read(tmp_path / f"out.{ending}")
        assert list(rows[0]) == COLUMNS
        assert list(rows[1].values()) == ["1", "y", 1.0, "given", None, "y"]
        assert list(rows[3].values()) == ["3", "", 0.625, "rejected", 1, ""]


@pytest.mark.parametrize("ending", ENDINGS)
def test_disputed_labels_are_a_further_column_and_are_kept(tmp_path, result, ending):
    disputed = result_of(result.ids, result.labels, disputes=np.array([1, -1, -1, -1]))
    write_rows(disputed, tmp_path / f"out.{ending}", relabel=True)
    rows = read(tmp_path / f"out.{ending}")
    assert list(rows[0]) == [*COLUMNS[:-1], "dispute", "written"]
    assert [(row["label"], row["dispute"]) for row in rows] == [("x", "y"), ("y", ""), ("x", ""), ("", "")]


@pytest.mark.parametrize("ending", ENDINGS)
def test_any_id_and_label_come_back(tmp_path, ending):
    labels = ['süß, "quoted"', "two\nlines", "= 1 + 1", "🐦", "\r", *["x"] * (len(ODD_NAMES) - 5)]
    write_rows(result_of(ODD_NAMES, labels), tmp_path / f"out.{ending}")
    rows = read(tmp_path / f"out.{ending}")
    assert [(row["id"], row["label"]) for row in rows] == list(zip(ODD_NAMES, labels, strict=True))


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_same_result_gives_the_same_bytes(tmp_path, result, ending):
    for name in ("one", "two"):
        write_rows(result, tmp_path / f"{name}.{ending}")
    assert (tmp_path / f"one.{ending}").read_bytes() == (tmp_path / f"two.{ending}").read_bytes()


@pytest.mark.parametrize("ending", ENDINGS)
def test_single_and_double_precision_give_the_same_rows(tmp_path, result, ending):
    single = result_of(result.ids, result.labels, confidence=np.array([1, 1, 0.1, 1 / 3], dtype=np.float32))
    double = result_of(result.ids, result.labels, confidence=np.array([1, 1, 0.1, 1 / 3]))
    for name, one in (("one", single), ("two", double)):
        write_rows(one, tmp_path / f"{name}.{ending}")
    assert read(tmp_path / f"one.{ending}") == read(tmp_path / f"two.{ending}")


def test_without_any_label_there_is_no_confidence(tmp_path):
    result = result_of(["a", "b"], ["", ""], origins=("", ""), suggestions=np.array([2, 1]))
    write_rows(result, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "id,label,confidence,origin,suggestion\na,,,,2\nb,,,,1\n"


def test_the_ending_counts_in_any_case(tmp_path, result):
    write_rows(result, tmp_path / "OUT.CSV")
    assert len(read((tmp_path / "OUT.CSV").rename(tmp_path / "out.csv"))) == 4


@pytest.mark.parametrize("name", ["out.txt", "out", "out.csv.gz"])
def test_another_ending_is_an_error(tmp_path, result, name):
    with pytest.raises(LabelingError, match=r"must end in \.csv, \.jsonl, \.parquet"):
        write_rows(result, tmp_path / name)


def test_a_missing_folder_is_an_error(tmp_path, result):
    with pytest.raises(LabelingError, match="there is no folder"):
        write_rows(result, tmp_path / "gone" / "out.csv")


def test_a_folder_in_place_of_the_file_is_an_error_and_nothing_is_left(tmp_path, result):
    (tmp_path / "out.csv").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_rows(result, tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")  # noqa: PTH110
@pytest.mark.parametrize("ending", ENDINGS)
def test_on_a_full_disk_what_was_there_stays(tmp_path, result, ending, monkeypatch):
    path = tmp_path / f"out.{ending}"
    path.write_bytes(b"what was there")
    opened = os.fdopen

    def full(handle, mode):
        os.close(handle)
        return opened(os.open("/dev/full", os.O_WRONLY), mode)

    monkeypatch.setattr("laplacianshot.runtime.files.os.fdopen", full)
    with pytest.raises(OSError, match="space") as caught:
        write_rows(result, path)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == b"what was there"
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_two_runs_on_one_output_leave_one_of_the_two_whole(tmp_path):
    n = 2000
    results = [result_of([str(i) for i in range(n)], [label, "z"] * (n // 2)) for label in ("x", "y")]
    threads = [threading.Thread(target=write_rows, args=(one, tmp_path / "out.csv")) for one in results * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    labels = {row["label"] for row in read(tmp_path / "out.csv")}
    assert labels in ({"x", "z"}, {"y", "z"})
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_kill_leaves_the_old_file_or_the_new_one(tmp_path, ending):
    path = tmp_path / f"out.{ending}"
    results = [result_of([str(i) for i in range(3000)], [label, "z"] * 1500) for label in ("x", "y")]
    write_rows(results[0], path)
    # Before each thing that the writing does to files.
    acts = {"open", "os.rename", "os.remove", "os.link", "os.truncate"}
    number, died = 0, True
    while died:
        number += 1
        child = os.fork()
        if child == 0:
            seen = [0]

            def die(event, arguments, seen=seen, number=number):
                seen[0] += event in acts
                if seen[0] == number:
                    os._exit(9)

            sys.addaudithook(die)
            write_rows(results[number % 2], path)
            os._exit(0)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        rows = read(path)
        assert len(rows) == 3000
        assert {row["label"] for row in rows} in ({"x", "z"}, {"y", "z"})
    assert number > 2
