"""Sources, labels and scores that a program holds in memory, and ids that are whole numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from laplacianshot import label_source
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.labels import take_labels
from laplacianshot.labeling.sources import open_source
from tests.labeling.files import written


def vectors(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return np.repeat(np.eye(2, 8), n // 2, axis=0) + 0.1 * rng.standard_normal((n, 8))


def messages(n=6):
    return pd.DataFrame({"message": [f"text {i}" for i in range(n)], "customer": list("abcdef")[:n]})


@pytest.mark.parametrize("make", [lambda frame: frame, pa.Table.from_pandas])
def test_a_table_in_memory_is_read_as_its_file(make, tmp_path):
    frame = messages().assign(label=["x", "", "y", None, "", ""])
    frame.to_parquet(tmp_path / "t.parquet")
    held, filed = (open_source(one, text_column="message") for one in (make(frame), tmp_path / "t.parquet"))
    assert (held.ids, held.given, held.texts) == (filed.ids, filed.given, filed.texts)
    assert held.given == ("x", None, "y", None, None, None)
    assert held.kind == "texts"


def test_the_index_of_a_frame_is_its_ids_so_that_labels_by_index_meet_the_right_rows():
    frame = messages().iloc[[4, 2, 0]]
    source = open_source(frame, text_column="message")
    assert source.ids == ("4", "2", "0")
    assert take_labels({2: "x", 4: "y"}, source) == ("y", "x", None)
    assert take_labels(pd.Series({0: "x", 4: "y"}), source) == ("y", None, "x")


def test_a_usual_index_is_row_numbers_and_one_with_doubles_is_replaced_by_them_with_a_warning():
    assert open_source(messages(), text_column="message").id_column is None
    twice = pd.concat([messages(2), messages(2)])
    with pytest.warns(UserWarning, match="index holds values more than once, so ids are row numbers"):
        assert open_source(twice, text_column="message").ids == ("0", "1", "2", "3")


def test_an_id_column_comes_before_the_index():
    frame = messages(3).assign(id=[30, 10, 20]).set_index(pd.Index([7, 8, 9]))
    source = open_source(frame, text_column="message")
    assert (source.ids, source.id_column, source.whole_ids) == (("30", "10", "20"), "id", True)


def test_gaps_of_pandas_are_blanks():
    frame = pd.DataFrame({"text": ["one", None, pd.NA, "two"], "label": [np.nan, "x", pd.NA, "y"]})
    source = open_source(frame)
    assert (source.texts, source.given) == (("one", "two"), (None, "y"))
    assert [skipped.id for skipped in source.skipped] == ["1", "2"]


def test_columns_may_be_called_by_numbers_and_hold_values_of_several_types():
    frame = pd.DataFrame({0: ["one", "two"], 1: [{"a"}, 3.5]})
    assert open_source(frame, text_column=0).texts == ("one", "two")


def test_vectors_of_a_frame_are_a_column_of_lists_or_all_columns_of_numbers():
    rows = vectors(6)
    lists = pd.DataFrame({"id": range(6), "embedding": list(rows)})
    numbers = pd.DataFrame(rows).assign(label=["x", "y", "", "", "", ""])
    for frame in (lists, numbers):
        source = open_source(frame)
        assert source.kind == "vectors"
        np.testing.assert_allclose(source.vectors, rows)
    assert open_source(numbers).given[:3] == ("x", "y", None)


def test_a_frame_is_labeled_from_whole_numbers():
    frame = pd.DataFrame({"embedding": list(vectors())}, index=np.arange(100, 160))
    result = label_source(frame, {100: "left", np.int64(130): "right"})
    assert result.labels == ("left",) * 30 + ("right",) * 30
    assert result.ids[:2] == ("100", "101")


def test_an_array_is_labeled_and_labels_may_be_one_per_item():
    rows = vectors()
    by_id = label_source(rows, {0: "left", 30: "right"})
    y = np.full(60, -1)
    y[[0, 30]] = 1, 2
    in_order = label_source(rows, y)
    assert by_id.labels == ("left",) * 30 + ("right",) * 30
    assert in_order.labels == ("1",) * 30 + ("2",) * 30
    assert by_id.settings["source"] == "array"


def test_texts_may_be_a_list():
    source = open_source(["one", "two", " "])
    assert (source.kind, source.texts, len(source.skipped)) == ("texts", ("one", "two"), 1)
    assert open_source(np.array(["one", "two"])).texts == ("one", "two")


def test_labels_and_scores_may_be_frames():
    rows = vectors()
    labels = pd.DataFrame({"id": [0, 30, 5], "label": ["left", "right", None]})
    prior = pd.DataFrame({"id": np.arange(60), "left": 0.5, "right": 0.5})
    result = label_source(rows, labels, prior=prior)
    assert result.counts()["given"] == 2
    assert result.settings["prior"] == "DataFrame"


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        (np.zeros(4), {}, r"shape \(4,\) is neither vectors"),
        ([[1.0, 2.0], [3.0]], {}, "source: .*shape"),
        (3, {}, "a int of shape .* is neither vectors"),
        (np.zeros((3, 2)), {"text_column": "text"}, "arrays have no columns"),
        (pd.DataFrame({"text": []}), {}, "DataFrame has no rows"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), {}, r"choose one of 'a', 'b' with --text-column \(text_column"),
        (pd.DataFrame([["x", "y"]], columns=["a", "a"]), {}, "several columns are called 'a'"),
        (np.array([[1.0, np.nan]]), {}, "array: .*is nan"),
    ],
)
def test_what_cannot_be_a_source_is_an_error_of_one_line(source, options, said):
    with pytest.raises(LabelingError, match=said) as caught:
        open_source(source, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({77: "x"}, "no item of array has the id 77; ids are row numbers from 0"),
        ({0: "x", "0": "y"}, "'0' has two labels, 'x' and 'y'"),
        (["x", "y"], "2 labels and 60 items; give one for each item"),
        (pd.DataFrame({"item": [0], "label": ["x"]}), "DataFrame has no column 'id'"),
    ],
)
def test_labels_that_do_not_fit_are_an_error(labels, said):
    with pytest.raises(LabelingError, match=said):
        label_source(vectors(), labels)


def test_ids_of_a_file_may_be_whole_numbers_in_a_mapping(tmp_path):
    source = open_source(written(tmp_path / "t.csv", "id,text\n7,one\n8,two\n"))
    assert take_labels({7: "x", 8.0: "y"}, source) == ("x", "y")
