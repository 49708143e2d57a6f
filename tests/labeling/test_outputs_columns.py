"""What an output keeps of its source, and what it takes back after people have changed it."""

from __future__ import annotations

import csv
import datetime
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from laplacianshot import label_source
from laplacianshot.labeling.labels import read_labels
from laplacianshot.labeling.outputs import columns_of_result, write_rows, write_suggestions
from laplacianshot.labeling.sources import open_source
from tests.labeling.files import read_output as read
from tests.labeling.files import result_of, written

ENDINGS = ["csv", "jsonl", "parquet"]
OURS = ["id", "label", "confidence", "origin", "suggestion"]


def labeled(source, labels, **changes):
    """A result of a source with these labels."""
    return result_of(source.ids, labels, source=source, rows=np.arange(len(source)), **changes)


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_columns_of_the_source_are_kept_behind_ours(tmp_path, ending):
    source = open_source(
        written(tmp_path / "t.csv", 'id,message,customer,note\n7,"a, b",Ann,\n8,,Bob,late\n9,c,Cy,"two\nlines"\n'),
        text_column="message",
    )
    write_rows(labeled(source, ["x", "y"]), tmp_path / f"out.{ending}")
    rows = read(tmp_path / f"out.{ending}")
    assert list(rows[0]) == [*OURS, "message", "customer", "note", "written"]
    assert [(row["message"], row["customer"], row["note"]) for row in rows] == [
        ("a, b", "Ann", ""),
        ("c", "Cy", "two\nlines"),
    ]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_column_that_has_a_name_of_ours_gets_another_one(tmp_path, ending):
    source = open_source(
        written(tmp_path / "t.csv", "text,Confidence,origin,source_origin,label,id\none,low,here,o,,5\ntwo,high,,,,5\n")
    )
    write_rows(labeled(source, ["x", "y"]), tmp_path / f"out.{ending}")
    first = read(tmp_path / f"out.{ending}")[0]
    assert list(first) == [
        *OURS,
        "text",
        "source_Confidence",
        "source_source_origin",
        "source_origin",
        "source_id",
        "written",
    ]
    kept = ("source_Confidence", "source_source_origin", "source_origin", "source_id")
    assert [first[name] for name in kept] == ["low", "here", "o", "5"]
    assert (first["label"], first["origin"]) == ("x", "given")


def test_other_names_are_said_in_a_note(tmp_path):
    rows = np.repeat(np.eye(2, 4), 20, axis=0) + 0.01 * np.arange(40)[:, None]
    frame = pd.DataFrame({"embedding": list(rows), "origin": "web"})
    result = label_source(frame, {0: "x", 20: "y"})
    note = "Columns of the source that have a name of ours get another in the output: origin is source_origin."
    assert note in result.notes
    assert "source_origin" in columns_of_result(result)


def test_another_column_of_labels_is_kept_under_its_name(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text,topic,label\none,x,old\ntwo,,new\n"), label_column="topic")
    columns = columns_of_result(labeled(source, ["x", "y"]))
    assert (columns["topic"], columns["source_label"], columns["label"]) == (["x", ""], ["old", "new"], ["x", "y"])


def test_an_output_labeled_again_has_each_column_once(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text,customer,origin\none,Ann,web\ntwo,Bob,shop\n"))
    write_rows(labeled(source, ["x", "y"]), tmp_path / "a.csv", relabel=True)
    again = open_source(tmp_path / "a.csv", text_column="text")
    write_rows(labeled(again, ["x", "y"]), tmp_path / "b.csv", relabel=True)
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


@pytest.mark.parametrize("ending", ENDINGS)
def test_values_keep_their_types_as_far_as_the_file_has_them(tmp_path, ending):
    day = datetime.date(2024, 11, 16)
    table = pa.table(
        {
            "id": [11, 12],
            "text": ["one", "two"],
            "day": [day, None],
            "share": [0.1234567891, float("nan")],
            "tags": [["a", "b"], []],
            "raw": [b"\x00\xff", b""],
        }
    )
    write_rows(labeled(open_source(table), ["x", "y"]), tmp_path / f"out.{ending}")
    first, second = read(tmp_path / f"out.{ending}")
    expected = {
        "csv": ("11", "2024-11-16", "0.1234567891", '["a", "b"]', ""),
        "jsonl": (11, "2024-11-16", 0.1234567891, ["a", "b"], None),
        "parquet": (11, day, 0.1234567891, ["a", "b"], None),
    }[ending]
    assert (first["id"], first["day"], first["share"], first["tags"], second["day"]) == expected
    # Text files cannot hold bytes.
    assert ("raw" in first) == (ending == "parquet")


@pytest.mark.parametrize("ending", ENDINGS)
def test_half_a_character_and_values_of_several_types_are_written(tmp_path, ending):
    source = open_source(written(tmp_path / "t.jsonl", '{"text": "\\ud800", "n": 1}\n{"text": "b", "n": "two"}\n'))
    write_rows(labeled(source, ["x", "y"]), tmp_path / f"out.{ending}")
    assert [str(row["n"]) for row in read(tmp_path / f"out.{ending}")] == ["1", "two"]


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_whole_numbers_are_whole_numbers_again(tmp_path, ending):
    for source in (open_source(np.zeros((2, 3))), open_source(pa.table({"id": [0, 1], "text": ["a", "b"]}))):
        write_rows(labeled(source, ["x", "y"]), tmp_path / f"out.{ending}")
        assert [row["id"] for row in read(tmp_path / f"out.{ending}")] == [0, 1]
    words = open_source(written(tmp_path / "t.csv", "id,text\n007,a\n8,b\n"))
    write_rows(labeled(words, ["x", "y"]), tmp_path / f"out.{ending}")
    assert [row["id"] for row in read(tmp_path / f"out.{ending}")] == ["007", "8"]


def test_vectors_are_not_repeated_in_the_output(tmp_path):
    source = open_source(pa.table({"features": [[1.0, 2.0], [3.0, 5.0]], "note": ["n", "m"]}))
    assert list(columns_of_result(labeled(source, ["x", "y"]))) == [*OURS, "note", "written"]


def test_rows_that_were_left_out_are_left_out_of_the_columns(tmp_path):
    table = pa.table({"text": ["one", " ", "two", "three"], "note": ["a", "b", "c", "d"]})
    result = labeled(open_source(table), ["x", "y", "x"]).of_items(np.array([0, 2]))
    assert columns_of_result(result)["note"].to_pylist() == ["a", "d"]


def test_a_cell_of_the_source_that_is_a_formula_is_made_harmless_on_request(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text,note\none,=1+1\ntwo,fine\n"))
    for safe, cell in ((False, "=1+1"), (True, "'=1+1")):
        write_rows(labeled(source, ["x", "y"]), tmp_path / "out.csv", safe_csv=safe)
        assert read(tmp_path / "out.csv")[0]["note"] == cell


def test_suggestions_keep_the_columns_as_well(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "message,customer\none,Ann\ntwo,Bob\n"), text_column="message")
    result = labeled(source, ["x", ""], suggestions=np.array([0, 1]))
    write_suggestions(result, tmp_path / "next.csv")
    assert read(tmp_path / "next.csv") == [
        {"id": "1", "label": "", "suggestion": "1", "text": "two", "message": "two", "customer": "Bob"},
        {"id": "0", "label": "x", "suggestion": "", "text": "one", "message": "one", "customer": "Ann"},
    ]


# A person changes labels in our output.


@pytest.fixture
def rows():
    return open_source(np.zeros((6, 3)))


LABELS = ["x", "y", "x", "y", "x", ""]


def as_excel(path):
    """The file as a spreadsheet saves it: semicolons, CRLF, a byte order mark, short decimals."""
    with path.open(newline="", encoding="utf-8") as file:
        table = list(csv.reader(file))
    for row in table[1:]:
        row[2] = f"{float(row[2]):g}"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=";", lineterminator="\r\n").writerows(table)


def as_pandas(path):
    frame = {".csv": pd.read_csv, ".jsonl": lambda p: pd.read_json(p, lines=True), ".parquet": pd.read_parquet}
    made = frame[path.suffix](path)
    match path.suffix:
        case ".csv":
            made.to_csv(path, index=False)
        case ".jsonl":
            made.to_json(path, orient="records", lines=True)
        case _:
            made.to_parquet(path)


def change(path, row, label):
    """Write another label into a row, as a person does."""
    table = pd.read_csv(path, sep=None, engine="python", dtype=str, keep_default_na=False, encoding="utf-8-sig")
    table.loc[row, "label"] = label
    table.to_csv(path, index=False)


@pytest.mark.parametrize("tool", [None, as_excel, as_pandas])
def test_a_label_that_a_person_changed_counts_as_given_and_is_said_in_one_line(tmp_path, rows, tool):
    path = tmp_path / "out.csv"
    write_rows(labeled(rows, LABELS), path)
    if tool is not None:
        tool(path)
    change(path, 2, "z")
    with pytest.warns(UserWarning, match="you changed") as caught:
        assert read_labels(path, rows) == ("x", "y", "z", None, None, None)
    assert [str(one.message).split(": ", 1)[1] for one in caught] == [
        "1 label that you changed counts; 2 of its 5 labels are predictions of laplacianshot and do not count; write "
        "'given' under origin for those that you have checked."
    ]


@pytest.mark.parametrize("ending", ENDINGS)
def test_nothing_counts_as_changed_after_pandas_has_written_the_file_anew(tmp_path, rows, ending):
    path = tmp_path / f"out.{ending}"
    # Numbers as labels, and a row without one, become floating point.
    write_rows(labeled(rows, ["1", "2", "1", "2", "1", ""]), path)
    as_pandas(path)
    with pytest.warns(UserWarning, match=r": 3 of its 5 labels are predictions"):
        given = read_labels(path, rows)
    assert [label is None for label in given] == [False, False, True, True, True, True]


def test_nothing_counts_as_changed_where_pandas_makes_numbers_of_one_column_alone(tmp_path, rows):
    path = tmp_path / "out.csv"
    write_rows(labeled(rows, ["1", "2", "1", "2", "1", "2"]), path)
    frame = pd.read_csv(path)
    frame["label"] = frame["label"].astype(float)
    frame.loc[5, "label"] = np.nan
    frame.to_csv(path, index=False)
    with pytest.warns(UserWarning, match=r"3 of its 5 labels are predictions"):
        assert sum(label is not None for label in read_labels(path, rows)) == 2


def test_a_class_renamed_everywhere_is_still_a_prediction(tmp_path, rows):
    path = tmp_path / "out.csv"
    write_rows(labeled(rows, ["heron", "coot", "heron", "coot", "heron", ""]), path)
    path.write_text(path.read_text().replace("heron", "grey heron"))
    with pytest.warns(UserWarning, match="3 of its 5 labels"):
        assert read_labels(path, rows)[:3] == ("grey heron", "coot", None)


def test_a_label_that_a_person_removed_is_none(tmp_path, rows):
    path = tmp_path / "out.csv"
    write_rows(labeled(rows, LABELS), path)
    change(path, 2, "")
    with pytest.warns(UserWarning, match="2 of its 4 labels"):
        assert read_labels(path, rows)[2] is None


def test_a_changed_frame_counts_as_the_changed_file(tmp_path, rows):
    write_rows(labeled(rows, LABELS), tmp_path / "out.parquet")
    frame = pd.read_parquet(tmp_path / "out.parquet")
    frame.loc[3, "label"] = "z"
    with pytest.warns(UserWarning, match="DataFrame: 1 label that you changed counts"):
        assert read_labels(frame, rows) == ("x", "y", None, "z", None, None)


def test_the_file_may_be_the_source_of_the_next_run(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text,customer\n" + "".join(f"t{i},c{i}\n" for i in range(6))))
    path = tmp_path / "out.csv"
    write_rows(labeled(source, LABELS), path)
    change(path, 4, "y")
    with pytest.warns(UserWarning, match="1 label that you changed counts"):
        assert open_source(path, text_column="text").given == ("x", "y", None, None, "y", None)


def test_rows_may_be_sorted_and_left_out(tmp_path, rows):
    path = tmp_path / "out.csv"
    write_rows(labeled(rows, LABELS), path)
    change(path, 2, "y")
    frame = pd.read_csv(path).sort_values("confidence").iloc[:4]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        given = read_labels(frame, rows)
    assert given[2] == "y"
