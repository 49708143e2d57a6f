from __future__ import annotations

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.sources import open_source
from tests.labeling.files import written


def rows(source):
    return list(zip(source.ids, source.texts, source.given, strict=True))


def test_a_csv_gives_a_text_a_row_with_labels_and_blanks(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text,label\ngood day,hello\nsee you,\n"))
    assert rows(source) == [("0", "good day", "hello"), ("1", "see you", None)]
    assert (source.kind, source.load(1), source.preview(1), source.file(1)) == ("texts", "see you", "see you", None)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_of_every_system_are_read(tmp_path, end):
    source = open_source(written(tmp_path / "t.csv", end.join(["text,label", "a,x", "", "b,y", ""])))
    assert rows(source) == [("0", "a", "x"), ("1", "b", "y")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"])
def test_encodings_are_detected(tmp_path, encoding):
    source = open_source(
        written(tmp_path / "t.csv", "text,label\nfür Zoë – “naïve” café,süß\nplain words,\n", encoding)
    )
    assert rows(source) == [("0", "für Zoë – “naïve” café", "süß"), ("1", "plain words", None)]


def test_utf_8_is_not_taken_for_something_else(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text\nпривет, мир\n".replace(",", "") + "你好 🐦\n"))
    assert source.texts == ("привет мир", "你好 🐦")


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("cp1251", "Привет мир и всем привет"),
        ("cp1251", f"{'photos/img.jpg ' * 50}чайка"),
        ("cp1250", "źdźbło, żółw"),
        ("cp1253", "καλημέρα"),
        ("gbk", "你好世界你好世界"),
        ("shift-jis", "こんにちは世界"),
        ("euc-kr", "안녕하세요"),
    ],
)
def test_an_unknown_encoding_is_an_error(tmp_path, encoding, text):
    with pytest.raises(LabelingError, match="save it as UTF-8"):
        open_source(written(tmp_path / "t.csv", f'text\n"{text}"\n', encoding))


@pytest.mark.parametrize(
    "text",
    [
        "Où êtes-vous née ? C’était créé à Noël, l’été – 20 € à 3 m², n° 5 « œuvre »",
        "Größe, Übermut, naß: „Straße“ … 50 % ± 2 µm × 3",
        "¿Qué? ¡Mañana! años, pingüino, col·lecció, 1.ª vez",
        "São João, coração, não",
        "Ærø, Ålesund, blåbærsyltetøy, Þórður",
    ],
)
@pytest.mark.filterwarnings("ignore:.*Windows-1252")
def test_western_languages_in_windows_1252_are_read(tmp_path, text):
    assert open_source(written(tmp_path / "t.csv", f'text\n"{text}"\n', "cp1252")).texts == (text,)


def test_a_file_that_is_not_text_is_an_error(tmp_path):
    (tmp_path / "t.csv").write_bytes(bytes(range(256)) * 4)
    with pytest.raises(LabelingError, match="save it as UTF-8"):
        open_source(tmp_path / "t.csv")


def test_a_text_cut_within_a_character_is_an_error_that_says_where(tmp_path):
    (tmp_path / "t.csv").write_bytes("text\nhello\n".encode("utf-16") + b"\x00")
    with pytest.raises(LabelingError, match=r"t\.csv is not text in utf-16: byte 24 cannot be read"):
        open_source(tmp_path / "t.csv")


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1))
def test_any_text_survives_a_csv_of_python(tmp_path, texts):
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow(["text"])
        writer.writerows([text] for text in ["first", *texts])
    source = open_source(tmp_path / "t.csv")
    assert source.texts == tuple(text for text in ["first", *texts] if text.strip())


def test_quotes_commas_and_newlines_within_fields_are_kept(tmp_path):
    source = open_source(written(tmp_path / "t.csv", 'text,label\n"a, ""b""\nc",x\n"d",y\n'))
    assert source.texts == ('a, "b"\nc', "d")


def test_a_field_may_be_huge(tmp_path):
    long = "word " * 100_000
    assert open_source(written(tmp_path / "t.csv", f"text\n{long}\n")).texts == (long,)
    assert csv.field_size_limit() < len(long)


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_semicolons_and_tabs_of_spreadsheets_separate_as_well(tmp_path, delimiter):
    source = open_source(written(tmp_path / "t.csv", f"text{delimiter}label\none, two{delimiter}x\n"))
    assert rows(source) == [("0", "one, two", "x")]


def test_a_tsv_has_tabs(tmp_path):
    assert open_source(written(tmp_path / "t.tsv", "text\tlabel\na, b\tx\n")).texts == ("a, b",)


def test_a_quote_that_is_never_closed_is_an_error_that_names_the_line(tmp_path):
    with pytest.raises(LabelingError, match=r"t\.csv, line 3: .*put texts with quotes"):
        open_source(written(tmp_path / "t.csv", 'text,label\na,x\n"b,y\n'))


def test_a_row_with_too_many_fields_is_an_error_that_names_the_line(tmp_path):
    with pytest.raises(LabelingError, match=r"t\.csv, line 3: 3 fields under 2 column names"):
        open_source(written(tmp_path / "t.csv", "text,label\na,x\nb, c,y\n"))


def test_a_short_row_is_filled_up_with_blanks(tmp_path):
    assert rows(open_source(written(tmp_path / "t.csv", "text,label\na\nb,y\n"))) == [("0", "a", None), ("1", "b", "y")]


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff"])
def test_an_empty_file_is_an_error(tmp_path, content):
    with pytest.raises(LabelingError, match="is empty; its first line must name the columns"):
        open_source(written(tmp_path / "t.csv", content))
    with pytest.raises(LabelingError, match="is empty; each line must be a JSON object"):
        open_source(written(tmp_path / "t.jsonl", content.strip("\ufeff")))


def test_a_table_without_rows_is_an_error(tmp_path):
    with pytest.raises(LabelingError, match="has no rows"):
        open_source(written(tmp_path / "t.csv", "text,label\n"))


def test_rows_without_text_are_skipped_and_keep_their_numbers(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text,label\na,x\n  ,y\nb,z\n"))
    assert rows(source) == [("0", "a", "x"), ("2", "b", "z")]
    assert [(skipped.id, skipped.reason) for skipped in source.skipped] == [("1", "its 'text' is blank")]


def test_nothing_but_blank_texts_is_an_error(tmp_path):
    with pytest.raises(LabelingError, match="there is nothing to label; the first of 2: its 'text' is blank"):
        open_source(written(tmp_path / "t.csv", "text,label\n,x\n,y\n"))


# Columns


def test_the_only_column_beside_ids_and_labels_holds_the_texts(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "id,utterance,label\na,one,x\nb,two,\n"))
    assert rows(source) == [("a", "one", "x"), ("b", "two", None)]


def test_several_columns_are_asked_about(tmp_path):
    path = written(tmp_path / "t.csv", "title,body\none,two\n")
    with pytest.raises(LabelingError, match="choose one of 'title', 'body' with --text-column"):
        open_source(path)
    assert open_source(path, text_column="body").texts == ("two",)


def test_columns_are_found_in_any_case(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "Other, TEXT ,Label\no,a,x\n"))
    assert rows(source) == [("0", "a", "x")]


@pytest.mark.parametrize("option", ["text_column", "id_column", "label_column"])
def test_a_column_that_is_not_there_is_an_error_that_names_those_that_are(tmp_path, option):
    with pytest.raises(LabelingError, match="column 'nope' is not a column; the columns are 'text', 'label'"):
        open_source(written(tmp_path / "t.csv", "text,label\na,x\n"), **{option: "nope"})


def test_two_columns_of_one_name_are_an_error(tmp_path):
    with pytest.raises(LabelingError, match="several columns are called 'text'"):
        open_source(written(tmp_path / "t.csv", "text,text\na,x\n"))


def test_another_column_may_hold_the_labels(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text,intent\na, x \nb,\n"), label_column="intent")
    assert source.given == ("x", None)


def test_ids_are_those_of_the_column_that_is_named(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "key,text\nk1,a\nk2,b\n"), id_column="key")
    assert (source.ids, source.id_column) == (("k1", "k2"), "key")
    assert source.id_name == "values of 'key'"


def test_a_column_id_counts_without_being_named_if_it_tells_rows_apart(tmp_path):
    assert open_source(written(tmp_path / "t.csv", "id,text\n7,a\n8,b\n")).ids == ("7", "8")
    for content in ("id,text\n7,a\n7,b\n", "id,text\n7,a\n,b\n"):
        source = open_source(written(tmp_path / "t.csv", content), text_column="text")
        assert (source.ids, source.id_column) == (("0", "1"), None)


def test_ids_that_occur_twice_are_an_error_that_names_the_rows(tmp_path):
    path = written(tmp_path / "t.csv", "key,text\nk,a\nj,b\nk,c\n")
    with pytest.raises(LabelingError, match=r"'key' holds ids more than once \(rows 0 and 2 are both 'k'\)"):
        open_source(path, id_column="key")


def test_blank_ids_are_an_error_that_names_the_rows(tmp_path):
    path = written(tmp_path / "t.csv", "key,text\nk,a\n,b\n ,c\n")
    with pytest.raises(LabelingError, match="'key' is blank in rows 1, 2"):
        open_source(path, id_column="key")


OUTPUT = """\
id,utterance,label,confidence,origin,suggestion,dispute
a,one,x,1.000000,given,,
b,two,x,0.900000,predicted,1,
c,three,,0.300000,rejected,,
d,four,y,1.000000,,,
"""


def test_labels_that_we_predicted_before_are_ignored_and_counted(tmp_path):
    with pytest.warns(UserWarning, match=r"t\.csv: 1 of its 3 labels are predictions of laplacianshot and do not"):
        source = open_source(written(tmp_path / "t.csv", OUTPUT))
    assert rows(source) == [("a", "one", "x"), ("b", "two", None), ("c", "three", None), ("d", "four", "y")]


def test_a_label_that_was_written_into_a_rejected_row_counts(tmp_path):
    path = written(tmp_path / "t.csv", OUTPUT.replace("c,three,,0.3", "c,three,y,0.3"))
    with pytest.warns(UserWarning, match=r"1 of its 4 labels are predictions of laplacianshot"):
        assert open_source(path).given == ("x", None, "y", "y")


def test_labels_in_a_column_of_the_users_own_count_whatever_we_predicted(tmp_path):
    path = written(tmp_path / "t.csv", "text,label,origin,truth\na,x,predicted,z\nb,y,given,\n")
    assert open_source(path, label_column="truth").given == ("z", None)


def test_columns_called_origin_of_other_tables_are_ignored(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text,label,origin\na,x,France\nb,y,given\n"))
    assert source.given == ("x", "y")


def test_numbers_that_we_wrote_are_not_features(tmp_path):
    ours = {"label": ["x", "x"], "confidence": [1, 0.9], "origin": ["given", "predicted"], "suggestion": [None, 1]}
    pq.write_table(pa.table({"f0": [0.0, 1.0], "f1": [2.0, 3.0], **ours}), tmp_path / "t.parquet")
    with pytest.warns(UserWarning, match="predictions of laplacianshot"):
        source = open_source(tmp_path / "t.parquet")
    assert source.given == ("x", None)
    assert source.vectors.tolist() == [[0, 2], [1, 3]]


# JSON Lines


def lines(path, *records):
    return written(path, "".join(json.dumps(record) + "\n" for record in records))


def test_json_lines_may_lack_fields_and_hold_numbers(tmp_path):
    path = lines(
        tmp_path / "t.jsonl", {"text": "a", "label": "x"}, {"text": 5, "label": 3}, {"text": "c"}, {"other": 1}
    )
    source = open_source(path, text_column="text")
    assert rows(source) == [("0", "a", "x"), ("1", "5", "3"), ("2", "c", None)]
    assert [skipped.id for skipped in source.skipped] == ["3"]


def test_the_number_minus_one_and_null_mean_no_label(tmp_path):
    path = lines(tmp_path / "t.jsonl", *({"text": "a", "label": label} for label in (-1, None, float("nan"), 0, -2)))
    assert open_source(path).given == (None, None, None, "0", "-2")


def test_a_line_separator_of_unicode_ends_no_line_of_json(tmp_path):
    path = written(tmp_path / "t.jsonl", '{"text": "a\u2028b\x85c"}\r\n\r\n{"text": "d"}')
    assert open_source(path).texts == ("a\u2028b\x85c", "d")


@pytest.mark.parametrize("line", ["{", "[" * 100_000, "[1]", "5"])
def test_a_line_that_is_not_an_object_is_an_error_that_names_it(tmp_path, line):
    with pytest.raises(LabelingError, match=r"t\.jsonl, line 2: not (a )?JSON"):
        open_source(written(tmp_path / "t.jsonl", '{"text": "a"}\n' + line))


def test_half_a_character_is_content_but_no_id(tmp_path):
    path = written(tmp_path / "t.jsonl", '{"text": "\\ud800", "key": "\\ud800"}\n')
    assert len(open_source(path, text_column="text").content_hash(0)) == 16
    with pytest.raises(LabelingError, match="half characters in rows 0"):
        open_source(path, text_column="text", id_column="key")


# Parquet


def test_strings_of_a_parquet_file_are_texts(tmp_path):
    pq.write_table(pa.table({"n": [1, 2], "words": ["a", "b"], "label": ["x", None]}), tmp_path / "t.parquet")
    assert rows(open_source(tmp_path / "t.parquet")) == [("0", "a", "x"), ("1", "b", None)]


def test_texts_and_labels_may_be_dictionaries_of_pandas_categories(tmp_path):
    column = pa.array(["a", "b", "a"]).dictionary_encode()
    pq.write_table(pa.table({"text": column, "label": column}), tmp_path / "t.parquet")
    assert rows(open_source(tmp_path / "t.parquet")) == [("0", "a", "a"), ("1", "b", "b"), ("2", "a", "a")]


def test_a_damaged_parquet_file_is_an_error(tmp_path):
    pq.write_table(pa.table({"text": ["a"] * 100}), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    for data in (b"", b"PAR1", whole[: len(whole) // 2]):
        (tmp_path / "t.parquet").write_bytes(data)
        with pytest.raises(LabelingError, match="cannot be read as Parquet"):
            open_source(tmp_path / "t.parquet")


def test_a_folder_called_like_a_column_adds_no_column(tmp_path):
    (tmp_path / "label=cat").mkdir()
    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "label=cat" / "t.parquet")
    assert open_source(tmp_path / "label=cat" / "t.parquet").given == (None,)


# Others


@pytest.mark.parametrize("name", ["t.xlsx", "t.txt", "t", "t.pkl", "t.json"])
def test_other_files_are_an_error_that_says_what_to_give(tmp_path, name):
    with pytest.raises(LabelingError, match=r"are not read; give a folder of pictures, a \.csv"):
        open_source(written(tmp_path / name, "text\na\n"))


def test_equal_texts_have_equal_hashes(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "text\na\nb\na\n"))
    assert source.content_hash(0) == source.content_hash(2) != source.content_hash(1)
