from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import laplacianshot
from laplacianshot.datasets.feature_set import FeatureSet

FEATURES = np.arange(12.0).reshape(6, 2)
LABELS = np.array([7, -1, 7, 3, -1, 7])
SPLIT = np.array(["base", "novel", "base", "novel", "base", "val"])


@pytest.fixture
def small() -> FeatureSet:
    return FeatureSet(FEATURES, LABELS, SPLIT)


def test_the_package_offers_the_class_at_its_top():
    assert laplacianshot.FeatureSet(FEATURES, LABELS).n_classes == 3


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([7, -1, 7, 3, -1, 7], [-1, 3, 7]),
        (np.array([7, 1, 7, 3, 1, 7], dtype=np.uint8), [1, 3, 7]),
        (["b", "a", "b", "ü", "a", "b"], ["a", "b", "ü"]),
        (np.array(["b", "a", "b", "c", "a", "b"], dtype=object), ["a", "b", "c"]),
        ([True, False, True, True, False, True], [False, True]),
        (np.array([np.int8(5), 9, 5, 9, 9, 5], dtype=object), [5, 9]),
    ],
)
def test_labels_of_any_kind_are_encoded_and_can_be_had_back(labels, classes):
    found = FeatureSet(FEATURES, labels)
    assert found.classes.tolist() == classes
    assert found.labels.tolist() == list(labels)
    assert sorted(set(found.codes.tolist())) == list(range(len(classes)))
    assert found.class_names == tuple(str(label) for label in classes)


def test_sizes_are_those_of_the_arrays(small):
    assert (small.n_rows, small.dim, small.n_classes, len(small)) == (6, 2, 3, 6)
    assert repr(small) == "FeatureSet(6 rows x 2, 3 classes, splits base 3, novel 2, val 1)"
    assert repr(FeatureSet(FEATURES, LABELS)) == "FeatureSet(6 rows x 2, 3 classes, no splits)"


def test_rows_are_grouped_by_class_in_file_order(small):
    order, starts = small.class_rows
    groups = [order[starts[c] : starts[c + 1]].tolist() for c in range(3)]
    assert groups == [[1, 4], [3], [0, 2, 5]]


def test_a_set_cannot_be_changed_by_accident(small):
    with pytest.raises(AttributeError):
        small.codes = np.zeros(6)
    with pytest.raises(ValueError, match="read-only"):
        small.codes[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        small.class_rows.order[0] = 1


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64, np.uint16])
def test_features_stay_as_they_are_stored(dtype):
    features = FEATURES.astype(dtype)
    found = FeatureSet(features, LABELS)
    assert found.features.dtype == dtype
    assert np.shares_memory(found.features, features)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_memory_mapped_features_are_not_copied(tmp_path, dtype):
    np.save(tmp_path / "rows.npy", FEATURES.astype(dtype))
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    found = FeatureSet(mapped, LABELS, SPLIT)
    assert isinstance(found.features, np.memmap)
    assert np.shares_memory(found.features, mapped)
    assert np.shares_memory(found.with_split(SPLIT[::-1]).features, mapped)


def test_fortran_ordered_read_only_and_byte_swapped_features_are_taken():
    for features in (np.asfortranarray(FEATURES), FEATURES.astype(">f8")):
        features.flags.writeable = False
        found = FeatureSet(features, LABELS).features
        np.testing.assert_array_equal(found, FEATURES)
        assert found.dtype.isnative


def test_class_names_are_looked_up_by_label():
    found = FeatureSet(FEATURES, [3, 1, 3, 1, 1, 3], class_names=["a", "b", "c", "d"])
    assert found.class_names == ("b", "d")
    assert FeatureSet(FEATURES, np.arange(6) > 2, class_names=np.array(["no", "yes"])).class_names == ("no", "yes")
    assert FeatureSet(FEATURES, list("abcabc"), class_names=["c", "b", "a", "z"]).class_names == ("a", "b", "c")


def test_rows_of_a_split_are_ascending_row_numbers(small):
    assert small.splits == {"base": 3, "novel": 2, "val": 1}
    assert small.rows().tolist() == list(range(6))
    assert small.rows("base").tolist() == [0, 2, 4]


def test_a_selection_holds_the_rows_and_classes_of_its_split():
    found = FeatureSet(FEATURES, [2, 1, 2, 0, 1, 2], SPLIT, class_names=["a", "b", "c", "d"]).select("base")
    np.testing.assert_array_equal(found.features, FEATURES[[0, 2, 4]])
    assert found.labels.tolist() == [2, 2, 1]
    assert found.class_names == ("b", "c")
    assert found.codes.tolist() == [1, 1, 0]
    assert found.splits == {"base": 3}


def test_a_selection_of_adjacent_rows_shares_their_memory():
    whole = FeatureSet(FEATURES, LABELS, ["base"] * 4 + ["novel"] * 2)
    assert np.shares_memory(whole.select("novel").features, FEATURES)
    np.testing.assert_array_equal(whole.select("novel").features, FEATURES[4:])


def test_the_base_mean_is_that_of_the_base_rows(small):
    np.testing.assert_allclose(small.base_mean(), FEATURES[[0, 2, 4]].mean(axis=0))
    np.testing.assert_allclose(small.base_mean("novel"), FEATURES[[1, 3]].mean(axis=0))
    assert small.base_mean("nowhere") is None
    assert FeatureSet(FEATURES, LABELS).base_mean() is None


def test_the_base_mean_of_many_scattered_float16_rows_is_taken_in_float64():
    rng = np.random.default_rng(0)
    features = rng.normal(3, 1, (20_000, 3)).astype(np.float16)
    split = np.where(rng.random(20_000) < 0.7, "base", "novel")
    found = FeatureSet(features, np.zeros(20_000, dtype=int), split).base_mean()
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, features[split == "base"].astype(np.float64).mean(axis=0), rtol=1e-12)


def test_classes_are_split_by_fractions_without_tearing_a_class_apart():
    labels = np.random.default_rng(0).integers(0, 77, 2000)
    whole = FeatureSet(np.zeros((2000, 1)), labels)
    found = whole.split_by_class({"base": 0.5, "val": 0.2, "novel": 0.3}, seed=0)
    counts = {name: len(np.unique(found.codes[found.rows(name)])) for name in found.splits}
    # 38.5, 15.4 and 23.1 classes: the one left over goes to the largest remainder.
    assert counts == {"base": 39, "val": 15, "novel": 23}
    assert sum(counts.values()) == 77
    np.testing.assert_array_equal(found.split, whole.split_by_class({"base": 0.5, "val": 0.2, "novel": 0.3}).split)
    assert (found.split != whole.split_by_class({"base": 0.5, "val": 0.2, "novel": 0.3}, seed=1).split).any()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"base": 0.5, "novel": 0.4}, "sum to 1"),
        ({"base": 1.5, "novel": -0.5}, "above 0"),
        ({"base": 0.5, "novel": float("nan")}, "above 0"),
        ({"base": 0.99, "novel": 0.01}, "'novel' would get no class of 3"),
        ({}, "sum to 1"),
    ],
)
def test_parts_that_do_not_divide_the_classes_are_refused(parts, message):
    whole = FeatureSet(FEATURES, [2, 1, 2, 0, 1, 2], class_names=["a", "b", "c"])
    with pytest.raises(ValueError, match=message):
        whole.split_by_class(parts)


def test_a_negative_seed_of_a_split_is_refused(small):
    with pytest.raises(ValueError, match="seed must be an integer of at least 0, got -1"):
        small.split_by_class({"base": 0.5, "novel": 0.5}, seed=-1)


def damaged(value: float, dtype: type = np.float64):
    features = np.zeros((9000, 3), dtype=dtype)
    features[8123, 2] = value
    return features


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (np.zeros(6), r"shape \(n, D\).*got shape \(6,\)"),
        (np.zeros((6, 0)), "at least one row and one column"),
        (np.zeros((0, 2)), "at least one row and one column"),
        (damaged(np.nan), r"features\[8123, 2\] is nan"),
        (damaged(-np.inf, np.float16), r"features\[8123, 2\] is -inf"),
        (np.zeros((6, 2), dtype=complex), "dtype complex128; convert"),
        (np.zeros((6, 2), dtype=bool), "dtype bool; convert"),
        (np.array([["a", "b"]] * 6), "dtype <U1; convert"),
        ([[1.0, 2.0], [3.0]], "features must be an array"),
        (sparse.eye_array(6).tocsr(), "toarray"),
        (np.ma.masked_invalid(damaged(np.nan)), "masked array"),
    ],
)
def test_features_that_are_no_finite_table_are_refused(features, message):
    with pytest.raises(ValueError, match=message) as error:
        FeatureSet(features, np.zeros(6, dtype=int))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], r"labels must have shape \(6,\).*got shape \(2,\)"),
        (np.zeros((6, 1), dtype=int), r"got shape \(6, 1\)"),
        ([0.0, 1, 2, 3, 4, 5], "dtype object; use integers"),
        (np.arange(6.0), "dtype float64; use integers"),
        (["a", 1, "b", 2, "c", 3], "dtype object"),
        (["a", None, "b", "b", "c", "c"], "none missing"),
        (["a", "", "b", "b", "c", "c"], r"labels\[1\] is an empty string"),
        (np.ma.masked_equal([0, 1, 2, 3, 4, 5], 3), "labels are masked"),
    ],
)
def test_labels_that_name_no_class_for_each_row_are_refused(labels, message):
    with pytest.raises(ValueError, match=message):
        FeatureSet(FEATURES, labels)


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (["base"], r"split must have shape \(6,\)"),
        (np.arange(6) > 2, "dtype bool; use a string"),
        (["base", None, "base", "base", "base", "base"], "dtype object"),
    ],
)
def test_a_split_that_is_no_string_for_each_row_is_refused(split, message):
    with pytest.raises(ValueError, match=message):
        FeatureSet(FEATURES, LABELS, split)


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([0, 1, 2, 0, 1, 2], ["a", "b"], "labels go from 0 to 2, but the 2 class_names"),
        ([-1, 1, 2, 0, 1, 2], ["a", "b", "c"], "labels go from -1 to 2"),
        (list("abcabc"), ["a", "b"], "labels hold 'c'"),
        ([0, 1, 2, 0, 1, 2], [1, 2, 3], "sequence of strings"),
        ([0, 1, 2, 0, 1, 2], [["a", "b", "c"]], "sequence of strings"),
    ],
)
def test_class_names_that_do_not_fit_the_labels_are_refused(labels, names, message):
    with pytest.raises(ValueError, match=message):
        FeatureSet(FEATURES, labels, class_names=names)


def test_an_unknown_split_is_refused_with_the_known_ones(small):
    for call in (small.rows, small.select):
        with pytest.raises(ValueError, match="split='test' is not in the set; its splits are base, novel, val"):
            call("test")
        with pytest.raises(ValueError, match="no splits"):
            FeatureSet(FEATURES, LABELS).rows("base")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_file_gives_back_what_was_saved(tmp_path, save):
    path = tmp_path / "a set.npz"
    save(path, features=FEATURES.astype(np.float16), labels=LABELS, split=SPLIT, is_test=LABELS > 0)
    for found in (FeatureSet.load(path), FeatureSet.load(str(path))):
        np.testing.assert_array_equal(found.features, FEATURES)
        assert found.features.dtype == np.float16
        np.testing.assert_array_equal(found.labels, LABELS)
        np.testing.assert_array_equal(found.split, SPLIT)


def test_a_file_needs_neither_split_nor_names(tmp_path):
    np.savez(tmp_path / "set.npz", features=FEATURES, labels=LABELS)
    assert FeatureSet.load(tmp_path / "set.npz").split is None


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.npz: file not found"):
        FeatureSet.load(tmp_path / "nothing.npz")
    with pytest.raises(ValueError, match=r"is not a feature store: it has no manifest\.json"):
        FeatureSet.load(tmp_path)


def test_a_file_without_an_array_says_which_are_there(tmp_path):
    np.savez(tmp_path / "set.npz", images=FEATURES, labels=LABELS)
    with pytest.raises(ValueError, match="no array 'features'; it holds images, labels"):
        FeatureSet.load(tmp_path / "set.npz")


def test_arrays_of_objects_are_refused_without_unpickling(tmp_path):
    np.savez(tmp_path / "set.npz", features=FEATURES, labels=np.array(["a", "b", None] * 2, dtype=object))
    with pytest.raises(ValueError, match="'labels' is an array of Python objects"):
        FeatureSet.load(tmp_path / "set.npz")


@pytest.mark.parametrize("content", [b"", b"features,labels\n1,2\n", b"PK\x03\x04 and then nothing", b"\x80\x04N."])
def test_a_file_that_is_no_archive_is_refused(tmp_path, content):
    (tmp_path / "set.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"is not an \.npz file, or is truncated"):
        FeatureSet.load(tmp_path / "set.npz")


def test_a_single_array_is_refused(tmp_path):
    np.save(tmp_path / "set.npy", FEATURES)
    with pytest.raises(ValueError, match="holds a single array"):
        FeatureSet.load(tmp_path / "set.npy")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_a_truncated_or_altered_file_is_refused_wherever_it_is_damaged(tmp_path, save):
    path = tmp_path / "set.npz"
    save(path, features=np.random.default_rng(0).random((40, 8)), labels=np.arange(40) % 4)
    content = path.read_bytes()
    for cut in np.linspace(0, len(content) - 1, 25).astype(int):
        path.write_bytes(content[:cut])
        with pytest.raises(ValueError, match="truncated"):
            FeatureSet.load(path)
    altered = bytearray(content)
    altered[600:640] = bytes(40)
    path.write_bytes(altered)
    with pytest.raises(ValueError, match="'features' is damaged"):
        FeatureSet.load(path)


def test_errors_in_a_file_name_the_file(tmp_path):
    np.savez(tmp_path / "set.npz", features=FEATURES, labels=LABELS[:3])
    with pytest.raises(ValueError, match=r"set\.npz: labels must have shape \(6,\)"):
        FeatureSet.load(tmp_path / "set.npz")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (
            "data/cub/cub_efficientnet_lite0.npz",
            "11788 rows x 1280, 200 classes, splits base 5885, val 2950, novel 2953",
        ),
        ("data/banking77/minilm_int8.npz", "13083 rows x 384, 77 classes, no splits"),
    ],
)
def test_the_shared_files_are_read(shared, name, shown):
    found = FeatureSet.load(shared(name))
    assert repr(found) == f"FeatureSet({shown})"
    assert found.features.dtype == np.float16
