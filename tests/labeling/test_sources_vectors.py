from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from laplacianshot.datasets.feature_store import Manifest, StoreKey, lock_store
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.sources import open_source
from tests.datasets.stores import write_store

X = np.random.default_rng(0).standard_normal((6, 4))


def npz(tmp_path, **arrays):
    np.savez(tmp_path / "v.npz", **arrays)
    return tmp_path / "v.npz"


def test_a_npy_file_stays_on_the_disk(tmp_path):
    np.save(tmp_path / "v.npy", X)
    source = open_source(tmp_path / "v.npy")
    assert isinstance(source.vectors, np.memmap)
    np.testing.assert_array_equal(source.vectors, X)
    assert (source.kind, source.ids, source.given) == ("vectors", tuple("012345"), (None,) * 6)
    np.testing.assert_array_equal(source.load(2), X[2])
    assert source.preview(2) == "2"


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint16", "int64", ">f8", ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_dtype_and_order_of_numbers_is_taken(tmp_path, dtype, order):
    values = np.asarray(np.round(10 * np.abs(X)), dtype=dtype, order=order)
    np.save(tmp_path / "v.npy", values)
    vectors = open_source(tmp_path / "v.npy").vectors
    np.testing.assert_array_equal(vectors, values)
    assert vectors.dtype.isnative


def test_zero_and_duplicated_rows_are_rows_like_any_other(tmp_path):
    np.save(tmp_path / "v.npy", np.zeros((3, 2)))
    source = open_source(tmp_path / "v.npy")
    assert len(source) == 3
    assert source.content_hash(0) == source.content_hash(2)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_an_error_that_names_it(tmp_path, value):
    bad = X.copy()
    bad[3, 1] = value
    np.save(tmp_path / "v.npy", bad)
    with pytest.raises(LabelingError, match=r"v\.npy: features\[3, 1\] is -?(nan|inf)"):
        open_source(tmp_path / "v.npy")


@pytest.mark.parametrize(
    "array",
    [np.zeros(5), np.zeros((2, 3, 4)), np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 2), dtype=complex),
     np.array([["a"]]), np.zeros((2, 2), dtype=bool), np.array(5.0)],
)  # fmt: skip
def test_an_array_that_is_not_a_matrix_of_numbers_is_an_error(tmp_path, array):
    np.save(tmp_path / "v.npy", array)
    with pytest.raises(LabelingError, match=r"v\.npy: features (must|have)"):
        open_source(tmp_path / "v.npy")


def test_python_objects_are_not_read(tmp_path):
    np.save(tmp_path / "v.npy", np.array([{}, {}]), allow_pickle=True)
    np.savez(tmp_path / "v.npz", features=np.array([{}, {}]))
    for name in ("v.npy", "v.npz"):
        with pytest.raises(LabelingError, match=f"{name}[ :]"):
            open_source(tmp_path / name)


@pytest.mark.parametrize("name", ["v.npy", "v.npz", "v.parquet"])
def test_a_damaged_file_is_an_error(tmp_path, name):
    np.save(tmp_path / "v.npy", X)
    np.savez(tmp_path / "v.npz", features=X)
    pq.write_table(pa.table({"features": X.tolist()}), tmp_path / "v.parquet")
    whole = (tmp_path / name).read_bytes()
    for data in (b"", b"nonsense", whole[: len(whole) // 2]):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(LabelingError, match=name):
            open_source(tmp_path / name)


def test_a_file_under_the_other_ending_is_an_error_that_says_so(tmp_path):
    np.savez(tmp_path / "v.npz", features=X)
    (tmp_path / "v.npz").rename(tmp_path / "v.npy")
    with pytest.raises(LabelingError, match=r"holds several arrays; call it \.npz"):
        open_source(tmp_path / "v.npy")
    np.save(tmp_path / "w.npy", X)
    (tmp_path / "w.npy").rename(tmp_path / "w.npz")
    with pytest.raises(LabelingError, match=r"holds a single array; give an \.npz file"):
        open_source(tmp_path / "w.npz")


def test_columns_of_arrays_are_an_error(tmp_path):
    np.save(tmp_path / "v.npy", X)
    with pytest.raises(LabelingError, match="id column 'id': arrays have no columns"):
        open_source(tmp_path / "v.npy", id_column="id")


# .npz


def test_an_npz_holds_features_labels_and_ids(tmp_path):
    labels = np.array(["cat", "", "dog", "", "", ""])
    source = open_source(npz(tmp_path, features=X, labels=labels, ids=np.array(list("abcdef"))))
    assert source.ids == tuple("abcdef")
    assert source.given == ("cat", None, "dog", None, None, None)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.float64])
def test_the_number_minus_one_means_no_label(tmp_path, dtype):
    source = open_source(npz(tmp_path, features=X, labels=np.array([0, -1, 2, -1, -3, 1], dtype=dtype)))
    assert source.given == ("0", None, "2", None, "-3", "1")


def test_nan_means_no_label(tmp_path):
    source = open_source(npz(tmp_path, features=X, labels=np.array([0, np.nan, 2, 1, 1, 1])))
    assert source.given == ("0", None, "2", "1", "1", "1")


def test_bools_are_labels(tmp_path):
    assert open_source(npz(tmp_path, features=X[:2], labels=np.array([True, False]))).given == ("True", "False")


def test_class_names_give_numbers_a_name(tmp_path):
    names = np.array(["wren", "robin"])
    source = open_source(npz(tmp_path, features=X, labels=np.array([0, 1, -1, 1, 0, -1]), class_names=names))
    assert source.given == ("wren", "robin", None, "robin", "wren", None)
    with pytest.raises(LabelingError, match=r"labels\[2\] is 2, and there are 2 class_names"):
        open_source(npz(tmp_path, features=X, labels=np.array([0, 1, 2, 1, 0, -1]), class_names=names))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"labels": np.zeros(5)}, r"'labels' has shape \(5,\), and there are 6 rows"),
        ({"labels": np.full(6, 0.5)}, "'labels' holds fractions"),
        ({"labels": np.zeros(6, dtype=complex)}, "'labels' has dtype complex128"),
        ({"ids": np.arange(5)}, r"'ids' has shape \(5,\)"),
        ({"ids": np.array([1, 2, 2, 3, 4, 5])}, r"'ids' holds ids more than once \(rows 1 and 2 are both '2'\)"),
    ],
)
def test_arrays_beside_the_features_must_fit(tmp_path, arrays, message):
    with pytest.raises(LabelingError, match=message):
        open_source(npz(tmp_path, features=X, **arrays))


def test_an_npz_without_features_is_an_error_that_names_what_is_there(tmp_path):
    with pytest.raises(LabelingError, match="no array 'features'; it holds X, y"):
        open_source(npz(tmp_path, X=X, y=np.zeros(6)))


# Parquet


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 4), pa.large_list(pa.float64()), pa.list_(pa.int16())]
)
def test_lists_of_numbers_are_vectors(tmp_path, kind):
    values = np.round(10 * X)
    column = pa.array(values.tolist(), type=kind)
    table = pa.table({"name": list("abcdef"), "embedding": column, "label": ["x", None, "y", "", None, None]})
    pq.write_table(table, tmp_path / "v.parquet", row_group_size=2)
    source = open_source(tmp_path / "v.parquet", id_column="name")
    np.testing.assert_array_equal(source.vectors, values)
    assert source.ids == tuple("abcdef")
    assert source.given == ("x", None, "y", None, None, None)


def test_columns_of_numbers_are_vectors_together(tmp_path):
    columns = {"id": [3, 2, 1], "f0": [0.5, 1, 2], "f1": [3, 4, 5], "label": [0, -1, 1]}
    pq.write_table(pa.table(columns), tmp_path / "v.parquet")
    source = open_source(tmp_path / "v.parquet")
    np.testing.assert_array_equal(source.vectors, [[0.5, 3], [1, 4], [2, 5]])
    assert (source.ids, source.given) == (("3", "2", "1"), ("0", None, "1"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"v": [[1.0, 2], [3]]}, "'v' holds 2 numbers in row 0 and 1 in row 1"),
        ({"v": [[1.0, 2], None]}, "'v' has gaps"),
        ({"v": [[1.0, 2], [3, None]]}, "'v' has gaps in its lists"),
        ({"v": [[1.0, 2], [3, float("nan")]]}, r"features\[1, 1\] is nan"),
        ({"a": [1.0, None], "b": [1.0, 2.0]}, "'a' has gaps"),
        ({"v": [[1.0], [2]], "w": [[1.0], [2]]}, "several columns hold lists of numbers, 'v', 'w'"),
        ({"when": [True, False]}, "none of the columns 'when' holds texts or numbers"),
        ({"v": [[], []]}, r"got shape \(2, 0\)"),
    ],
)
def test_vectors_of_parquet_must_be_whole(tmp_path, columns, message):
    schema = pa.schema([("v", pa.list_(pa.float64()))]) if columns == {"v": [[], []]} else None
    pq.write_table(pa.table(columns, schema=schema), tmp_path / "v.parquet")
    with pytest.raises(LabelingError, match=message):
        open_source(tmp_path / "v.parquet")


def test_a_text_column_that_is_named_wins_over_vectors(tmp_path):
    pq.write_table(pa.table({"text": ["a", "b"], "v": [[1.0], [2.0]]}), tmp_path / "v.parquet")
    assert open_source(tmp_path / "v.parquet").kind == "vectors"
    assert open_source(tmp_path / "v.parquet", text_column="text").kind == "texts"


def test_the_shared_feature_files_are_sources(shared):
    source = open_source(shared("data/banking77/minilm_int8.npz"))
    assert (source.kind, source.vectors.shape[1]) == ("vectors", 384)
    assert None not in source.given


class TestStore:
    def test_rows_stay_on_the_disk_and_have_their_names_and_labels(self, tmp_path):
        write_store(tmp_path / "s", X, [0, -1, 1, -1, -1, -1], class_names=["a", "b"], names=list("uvwxyz"))
        source = open_source(tmp_path / "s")
        assert isinstance(source.vectors, np.memmap)
        np.testing.assert_array_equal(source.vectors, X.astype(np.float32))
        assert (source.kind, source.ids) == ("vectors", tuple("uvwxyz"))
        assert source.given == ("a", None, "b", None, None, None)

    def test_labels_of_a_file_come_in_place_of_its_own(self, tmp_path):
        write_store(tmp_path / "s", X, list("abcabc"))
        assert open_source(tmp_path / "s", labels_file=True).given == (None,) * 6
        assert open_source(tmp_path / "s").given == tuple("abcabc")

    def test_names_that_are_not_all_different_are_not_used_as_ids(self, tmp_path):
        write_store(tmp_path / "s", X, names=list("uuwxyz"))
        assert open_source(tmp_path / "s").ids == tuple("012345")

    def test_one_that_is_not_finished_is_refused(self, tmp_path):
        with lock_store(tmp_path / "s", StoreKey("", "", "x"), "float32") as folder:
            Manifest(StoreKey("", "", "x"), "float32", 4, 6, items=3).write(folder)
            (folder / "vectors.bin").write_bytes(b"")
        with pytest.raises(LabelingError, match="3 of 6 items are done"):
            open_source(tmp_path / "s")

    def test_columns_are_refused(self, tmp_path):
        write_store(tmp_path / "s", X)
        with pytest.raises(LabelingError, match="feature stores have no columns"):
            open_source(tmp_path / "s", text_column="text")
