from __future__ import annotations

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.labels import merge_given, read_labels
from laplacianshot.labeling.outputs import write_rows
from laplacianshot.labeling.sources import open_source
from tests.labeling.files import ODD_NAMES, pictures, result_of, written


@pytest.fixture
def photos(tmp_path):
    return open_source(pictures(tmp_path / "photos", "a.png", "b.png", "sub/c.png", "sub/a.png"))


@pytest.fixture
def rows(tmp_path):
    np.save(tmp_path / "v.npy", np.eye(5))
    return open_source(tmp_path / "v.npy")


def labels(tmp_path, content, source, name="labels.csv", encoding="utf-8"):
    found = read_labels(written(tmp_path / name, content, encoding), source)
    assert len(found) == len(source)
    return {i: label for i, label in zip(source.ids, found, strict=True) if label is not None}


def test_labels_come_in_the_order_of_the_source(tmp_path, photos):
    path = written(tmp_path / "labels.csv", "id,label\nsub/c.png,dog\na.png,cat\n")
    assert read_labels(path, photos) == ("cat", None, None, "dog")


def test_rows_of_vectors_are_numbered_from_zero(tmp_path, rows):
    assert read_labels(written(tmp_path / "l.csv", "id,label\n0,x\n4,y\n"), rows) == ("x", None, None, None, "y")


def test_other_columns_and_their_order_do_not_matter(tmp_path, rows):
    assert labels(tmp_path, "note,Label,who,ID\nhm,x,me,3\n", rows) == {"3": "x"}


@pytest.mark.filterwarnings("ignore:.*Windows-1252")
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encodings_and_line_ends_of_spreadsheets_are_read(tmp_path, rows, encoding, end):
    content = end.join(["id,label", "0,Möwe", "1,Krähe", ""])
    assert labels(tmp_path, content, rows, encoding=encoding) == {"0": "Möwe", "1": "Krähe"}


def test_an_unknown_encoding_is_an_error(tmp_path, rows):
    with pytest.raises(LabelingError, match=r"labels\.csv .*save it as UTF-8"):
        labels(tmp_path, "id,label\n0,чайка\n1,ворона\n", rows, encoding="cp1251")


def test_blank_labels_and_blanks_around_labels_are_ignored(tmp_path, rows):
    assert labels(tmp_path, "id,label\n0, x \n1,\n2,  \n3\n9,\n", rows) == {"0": "x"}


def test_accents_may_be_written_in_two_ways(tmp_path, rows):
    found = labels(tmp_path, "id,label\n0,caf\u00e9\n1,cafe\u0301\n", rows)
    assert set(found.values()) == {"caf\u00e9"}


def test_the_same_label_may_be_given_twice(tmp_path, rows):
    assert labels(tmp_path, "id,label\n0,x\n1,y\n0,x\n", rows) == {"0": "x", "1": "y"}


@pytest.mark.parametrize("name", ["l.jsonl", "l.json", "l.parquet", "l.tsv"])
def test_other_tables_hold_labels_as_well(tmp_path, rows, name):
    records = [{"id": 0, "label": "x"}, {"id": 2, "label": "y"}]
    path = tmp_path / name
    match path.suffix:
        case ".jsonl":
            written(path, "\n".join(map(json.dumps, records)))
        case ".json":
            written(path, json.dumps(records))
        case ".parquet":
            pq.write_table(pa.Table.from_pylist(records), path)
        case ".tsv":
            written(path, "id\tlabel\n0\tx\n2\ty\n")
    assert read_labels(path, rows) == ("x", None, "y", None, None)


# Ids


def test_ids_of_odd_names_are_found(tmp_path):
    source = open_source(pictures(tmp_path / "photos", *ODD_NAMES))
    write_rows(result_of(source.ids, [f"class {i % 2}" for i in range(len(source))]), tmp_path / "out.csv")
    text = (tmp_path / "out.csv").read_bytes().decode().replace("predicted", "given")
    assert set(labels(tmp_path, text, source)) == set(ODD_NAMES)


@pytest.mark.parametrize("spelling", ["./sub/c.png", "sub\\c.png", " sub/c.png ", "photos/sub/c.png", "{absolute}"])
def test_paths_may_be_spelled_in_other_ways(tmp_path, photos, spelling):
    spelling = spelling.format(absolute=tmp_path / "photos" / "sub" / "c.png")
    assert labels(tmp_path, f"id,label\n{spelling},x\n", photos) == {"sub/c.png": "x"}


def test_a_path_counts_as_it_stands_before_it_is_spelled_in_another_way(tmp_path):
    source = open_source(pictures(tmp_path / "sub", "a.png", "sub/a.png"))
    assert labels(tmp_path, "id,label\nsub/a.png,x\n", source) == {"sub/a.png": "x"}


def test_accents_in_names_may_be_written_in_two_ways(tmp_path):
    source = open_source(pictures(tmp_path / "photos", "cafe\u0301.png"))
    assert labels(tmp_path, "id,label\ncaf\u00e9.png,x\n", source) == {"cafe\u0301.png": "x"}


def test_names_that_differ_in_accents_alone_are_kept_apart(tmp_path):
    names = ("caf\u00e9.png", "cafe\u0301.png")
    source = open_source(pictures(tmp_path / "photos", *names))
    if len(source) < 2:
        pytest.skip("this system takes the two names for one")
    assert labels(tmp_path, f"id,label\n{names[0]},x\n{names[1]},y\n", source) == {names[0]: "x", names[1]: "y"}


def test_numbers_in_floating_point_are_row_numbers(tmp_path, rows):
    assert labels(tmp_path, "id,label\n3.0,x\n", rows) == {"3": "x"}


def test_ids_are_values_of_the_id_column_under_either_name(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "key,text\nk1,a\nk2,b\n"), id_column="key")
    assert labels(tmp_path, "id,label\nk2,x\n", source) == {"k2": "x"}
    assert labels(tmp_path, "id,key,label\n0,k2,x\n", source) == {"k2": "x"}


def test_a_label_of_a_skipped_row_is_left_out(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text,other\na,\n,b\nc,\n"))
    assert labels(tmp_path, "id,label\n0,x\n1,y\n1,z\n2,y\n", source) == {"0": "x", "2": "y"}


def test_unknown_ids_are_an_error_that_names_the_rows(tmp_path, photos):
    content = "id,label\na.png,cat\n" + "".join(f"gone{i}.png,dog\n" for i in range(5))
    message = (
        r"labels\.csv: 5 of 6 labels name items that are not in .*photos: 'gone0\.png' \(line 3\); "
        r"'gone1\.png' \(line 4\); 'gone2\.png' \(line 5\); 2 more; its ids are paths below the folder, such as"
    )
    with pytest.raises(LabelingError, match=message):
        labels(tmp_path, content, photos)


@pytest.mark.parametrize("name", ["-1", "5", "1.5", "x"])
def test_a_row_number_that_is_not_there_is_an_error(tmp_path, rows, name):
    with pytest.raises(LabelingError, match=rf"'{name}' \(line 2\); its ids are row numbers from 0, such as '0'"):
        labels(tmp_path, f"id,label\n{name},cat\n", rows)


def test_a_file_name_alone_is_not_enough_for_a_path(tmp_path, photos):
    with pytest.raises(LabelingError, match=r"'c\.png' \(line 2\)"):
        labels(tmp_path, "id,label\nc.png,x\n", photos)


def test_two_labels_of_an_item_are_an_error_that_names_the_lines(tmp_path, photos):
    content = "id,label\na.png,cat\nb.png,cat\n./a.png,dog\n"
    with pytest.raises(LabelingError, match=r"two labels, 'a\.png' is 'cat' \(line 2\) and 'dog' \(line 4\)"):
        labels(tmp_path, content, photos)


def test_a_label_without_an_id_is_an_error_that_names_the_line(tmp_path, rows):
    with pytest.raises(LabelingError, match=r"labels\.csv, line 3: the label 'y' has no id"):
        labels(tmp_path, "id,label\n0,x\n,y\n", rows)


@pytest.mark.parametrize(
    ("content", "missing"),
    [("0,cat\n1,dog\n", "id"), ("id,class\n0,cat\n", "label"), ("name,label\n0,cat\n", "id"), ("id\n0\n", "label")],
)
def test_a_missing_column_is_an_error_that_says_what_the_first_line_must_be(tmp_path, rows, content, missing):
    with pytest.raises(LabelingError, match=f"has no column '{missing}', .*the first line must be id,label"):
        labels(tmp_path, content, rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [("l.csv", ""), ("l.json", "{"), ("l.json", '{"a": 1}'), ("l.json", "[1]"), ("l.txt", "id,label\n0,x\n")],
)
def test_a_file_that_holds_no_labels_is_an_error_that_names_it(tmp_path, rows, name, content):
    with pytest.raises(LabelingError, match=name):
        labels(tmp_path, content, rows, name=name)


def test_a_missing_file_and_a_folder_are_errors(tmp_path, rows):
    for path in (tmp_path / "gone.csv", tmp_path):
        with pytest.raises(LabelingError, match="file of labels not found"):
            read_labels(path, rows)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_an_error(tmp_path, rows):
    path = written(tmp_path / "l.csv", "id,label\n0,x\n")
    path.chmod(0)
    with pytest.raises(LabelingError, match="cannot be read: Permission denied"):
        read_labels(path, rows)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_of_an_output_of_ours_only_given_labels_count(tmp_path, rows, ending):
    result = result_of(rows.ids, ["x", "y", "x", "y", ""])
    write_rows(result, tmp_path / f"out.{ending}")
    with pytest.warns(UserWarning, match="2 of its 4 labels are predictions of laplacianshot and do not count"):
        assert read_labels(tmp_path / f"out.{ending}", rows) == ("x", "y", None, None, None)


# Together with those of the source


@pytest.fixture
def half(tmp_path):
    return open_source(written(tmp_path / "t.csv", "text,label\na,x\nb,\nc,y\n"))


def test_labels_of_the_source_and_of_the_file_are_put_together(half):
    assert merge_given(half, (None, "y", "y")) == ("x", "y", "y")
    assert merge_given(half, None) == ("x", None, "y")
    assert merge_given(half, ("", " y ", None)) == ("x", "y", "y")


def test_labels_that_disagree_are_an_error_that_names_the_rows(half):
    with pytest.raises(LabelingError, match="the file of labels disagree, '0' is 'x' and 'z'; '2' is 'y'"):
        merge_given(half, ("z", None, "x"))


def test_a_single_class_is_an_error_that_names_the_rows(tmp_path):
    one = open_source(written(tmp_path / "one.csv", "text,label\na,x\nb,\nc,\n"))
    with pytest.raises(LabelingError, match=r"all labels are 'x' \('0', '2'\); label at least one item of another"):
        merge_given(one, (None, None, "x"))
    assert merge_given(one, (None, None, "y")) == ("x", None, "y")


def test_the_word_minus_one_is_an_error(half):
    with pytest.raises(LabelingError, match="the label of '1' is the word '-1'; leave it blank"):
        merge_given(half, (None, "-1", None))


@pytest.mark.parametrize("word", ["nan", "None", "NULL", "N/A"])
def test_words_for_nothing_are_classes_with_a_warning(half, word):
    with pytest.warns(UserWarning, match=f"'{word}' is a class like any other; leave labels blank"):
        assert merge_given(half, (None, word, None))[1] == word


def test_every_message_is_one_line(tmp_path):
    source = open_source(pictures(tmp_path / "photos", "new\nline.png"))
    with pytest.raises(LabelingError) as caught:
        labels(tmp_path, 'id,label\n"other\nline.png",x\n', source)
    assert "\n" not in str(caught.value)
