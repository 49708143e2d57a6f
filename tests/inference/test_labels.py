import warnings

import numpy as np
import pandas as pd
import pytest

from laplacianshot.inference.labels import encode_labels


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        ([1, -1, 0, 1], [0, 1], [1, -1, 0, 1]),
        ([7, 3, -1, -5], [-5, 3, 7], [2, 1, -1, 0]),
        ([1.0, np.nan, 0.0, -1.0], [0.0, 1.0], [1, -1, 0, -1]),
        (["b", "a", "", None, np.nan], ["a", "b"], [1, 0, -1, -1, -1]),
        (np.array(["b", "a", ""]), ["a", "b"], [1, 0, -1]),
        ([True, False, None], [False, True], [1, 0, -1]),
        (np.array([True, False]), [False, True], [1, 0]),
        ([3, None, 2], [2, 3], [1, -1, 0]),
        (pd.Series(["x", None, "y"]), ["x", "y"], [0, -1, 1]),
        (pd.Series([1, None, 2], dtype="Int64"), [1, 2], [0, -1, 1]),
        (pd.Series(["x", "y", None], dtype="category"), ["x", "y"], [0, 1, -1]),
        (np.array([1, -1, 0], dtype=np.int8), [0, 1], [1, -1, 0]),
        (np.array([1, 0], dtype=np.uint8), [0, 1], [1, 0]),
        (["cat", -1, "ant"], ["ant", "cat"], [1, -1, 0]),
        ([True, np.nan, False], [False, True], [1, -1, 0]),
        (pd.Series([True, None, False], dtype="boolean"), [False, True], [1, -1, 0]),
        (pd.Series([2**60 + 1, None, 2**60], dtype="Int64"), [2**60, 2**60 + 1], [1, -1, 0]),
        (np.ma.array([1, 2, 0], mask=[False, True, False]), [0, 1], [1, -1, 0]),
    ],
    ids=str,
)
def test_labels_become_class_numbers(y, classes, codes):
    encoded = encode_labels(y)
    assert encoded.classes.tolist() == classes
    assert encoded.codes.tolist() == codes


@pytest.mark.parametrize("y", [["a", 1], [True, 1, None], ["a", True], [("a",), ("b",)]])
def test_labels_of_different_types_are_refused(y):
    values = np.empty(len(y), dtype=object)
    values[:] = y
    with pytest.raises(TypeError, match="mixes labels of different types"):
        encode_labels(values)


def test_a_list_of_numbers_and_strings_is_not_turned_into_strings():
    with pytest.raises(TypeError, match="int, str"):
        encode_labels([1, "a", None])


@pytest.mark.parametrize("y", [[-1, -1], ["", None], [np.nan, np.nan]])
def test_no_label_at_all_is_refused(y):
    with pytest.raises(ValueError, match="no labeled row among 2"):
        encode_labels(y)


def test_measurements_are_no_labels():
    with pytest.raises(ValueError, match="continuous"):
        encode_labels([0.5, 1.25, 2.75])


@pytest.mark.parametrize("word", ["-1", "nan", "None", "<NA>", " "])
def test_a_word_for_nothing_is_a_class_with_a_warning(word):
    with pytest.warns(UserWarning, match="use None, NaN or ''"):
        encoded = encode_labels(np.array([word, "a", ""]))
    assert encoded.classes.tolist() == sorted([word, "a"])


def test_nullable_columns_keep_the_type_of_their_labels():
    assert encode_labels(pd.Series([1, None, 2], dtype="Int64")).classes.dtype.kind == "i"
    assert encode_labels(pd.Series([True, None, False], dtype="boolean")).classes.dtype == bool


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 1 has no strings of variable length")
def test_numpys_own_strings_are_labels():
    encoded = encode_labels(np.array(["b", "", "a"], dtype=np.dtypes.StringDType()))
    assert encoded.classes.tolist() == ["a", "b"]
    assert encoded.codes.tolist() == [1, -1, 0]


def test_dates_are_no_labels():
    with pytest.raises(TypeError, match="dtype datetime64"):
        encode_labels(np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"))


def test_one_label_a_class_is_nothing_to_warn_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(encode_labels([*range(40), -1, -1]).classes) == 40
