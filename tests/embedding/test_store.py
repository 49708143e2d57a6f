"""The feature store: what is written is read, what is stale, unfinished or damaged is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacianshot import FeatureSet
from laplacianshot.embedding.store import (
    FeatureStore,
    IncompleteStore,
    Skipped,
    StaleStore,
    StoreError,
    StoreInUse,
    StoreKey,
    arrays_hash,
    item_key,
    view_text,
)

KEY = StoreKey("w0", "Center(crop=84)", "d0")
VECTORS = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)
LABELS = np.arange(10) % 4
SPLIT = np.where(LABELS < 2, "base", "novel")
CLASS_NAMES = ("ant", "bee", "cat", "dog")
NAMES = np.array([f"birds/№ {i}.jpg" for i in range(10)])


def run(code: str, *arguments: object, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **options)


# --- what is written is read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_store_gives_back_what_was_written(tmp_path, dtype):
    store = FeatureStore.write(tmp_path / "s", VECTORS, LABELS, SPLIT, CLASS_NAMES, NAMES, dtype=dtype)
    for found in (store, FeatureStore.open(tmp_path / "s"), FeatureStore.open(str(tmp_path / "s"))):
        assert found.complete
        assert (found.n_rows, len(found), found.dim, found.dtype) == (10, 10, 3, dtype)
        assert repr(found) == f"FeatureStore(10 rows x 3, {dtype})"
        np.testing.assert_array_equal(found.features, VECTORS.astype(dtype))
        np.testing.assert_array_equal(found.labels, LABELS)
        np.testing.assert_array_equal(found.split, SPLIT)
        np.testing.assert_array_equal(found.names, NAMES)
        assert tuple(found.class_names) == CLASS_NAMES
        assert found.skipped == ()
        assert found.item_keys is None


def test_vectors_lie_row_by_row_little_endian_in_one_file(tmp_path):
    FeatureStore.write(tmp_path / "s", VECTORS)
    assert (tmp_path / "s" / "vectors.bin").read_bytes() == VECTORS.astype("<f4").tobytes()


def test_features_are_mapped_and_cannot_be_changed(tmp_path):
    features = FeatureStore.write(tmp_path / "s", VECTORS).features
    assert isinstance(features, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        features[0, 0] = 1


def test_arrays_beside_the_vectors_are_as_they_were_given(tmp_path):
    store = FeatureStore.write(tmp_path / "s", VECTORS)
    assert (store.labels, store.split, store.class_names, store.names) == (None, None, None, None)


@pytest.mark.parametrize(
    "features",
    [VECTORS.astype(np.float64), np.asfortranarray(VECTORS), VECTORS[::-1], VECTORS.astype(">f4"), VECTORS.tolist()],
    ids=["float64", "fortran", "reversed", "big-endian", "list"],
)
def test_any_layout_of_the_same_numbers_is_stored_alike(tmp_path, features):
    np.testing.assert_array_equal(
        FeatureStore.write(tmp_path / "s", features).features, np.asarray(features, dtype=np.float32)
    )


def test_a_feature_set_reads_a_store_without_a_copy(tmp_path):
    store = FeatureStore.write(tmp_path / "s", VECTORS, LABELS, SPLIT, CLASS_NAMES, dtype="float16")
    found = FeatureSet.load(store.path)
    assert isinstance(found.features, np.memmap)
    assert found.features.dtype == np.float16
    assert found.class_names == CLASS_NAMES
    np.testing.assert_array_equal(found.features, store.features)
    np.testing.assert_array_equal(found.labels, LABELS)
    np.testing.assert_array_equal(found.split, SPLIT)
    np.testing.assert_allclose(found.base_mean(), VECTORS.astype(np.float16)[SPLIT == "base"].mean(0, np.float64))


def test_a_feature_set_needs_labels(tmp_path):
    FeatureStore.write(tmp_path / "s", VECTORS)
    with pytest.raises(ValueError, match="s holds no labels"):
        FeatureSet.load(tmp_path / "s")


def test_rows_of_several_appends_follow_one_another(tmp_path):
    with FeatureStore.create(tmp_path / "s", KEY, 10, 3) as writer:
        for start, stop in [(0, 1), (1, 1), (1, 7), (7, 10)]:
            writer.append(VECTORS[start:stop])
        writer.finish(LABELS)
    np.testing.assert_array_equal(FeatureStore.open(tmp_path / "s").features, VECTORS)


def test_skipped_items_have_no_row_and_are_listed(tmp_path):
    broken = Skipped(1, "broken\n.jpg", "the file is empty")
    with FeatureStore.create(tmp_path / "s", KEY, 3, 3) as writer:
        writer.append(VECTORS[:2], skipped=[broken])
        writer.finish([0, 1])
    store = FeatureStore.open(tmp_path / "s")
    assert store.skipped == (broken,)
    assert len(store) == 2


def test_an_empty_store_can_be_opened(tmp_path):
    assert FeatureStore.write(tmp_path / "s", np.empty((0, 3))).features.shape == (0, 3)


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"weights": "w1"}, "other weights"),
        ({"view": "Center(crop=80)"}, r"another view \(Center\(crop=84\), not Center\(crop=80\)\)"),
        ({"data": "d1"}, "other data"),
        ({"code": 2}, "another version of the code"),
        ({"weights": "w1", "data": "d1"}, "other weights and other data"),
    ],
)
def test_another_key_is_refused_with_the_part_that_changed(tmp_path, changes, said):
    FeatureStore.write(tmp_path / "s", VECTORS, key=KEY)
    other = replace(KEY, **changes)
    assert other.digest != KEY.digest
    with pytest.raises(StaleStore, match=f"s was made with {said}") as refused:
        FeatureStore.open(tmp_path / "s", other)
    assert refused.value.changed == tuple(changes)
    with pytest.raises(StaleStore, match=said):
        FeatureStore.create(tmp_path / "s", other, 10, 3)
    assert FeatureStore.open(tmp_path / "s", KEY).key == KEY


@pytest.mark.parametrize(
    ("n", "dim", "dtype", "keyed", "changed"),
    [
        (10, 3, "float16", False, "dtype"),
        (11, 3, "float32", False, "rows"),
        (10, 4, "float32", False, "dim"),
        (None, 3, "float32", False, "rows"),
        (10, 3, "float32", True, "item keys"),
    ],
)
def test_another_shape_is_refused_too(tmp_path, n, dim, dtype, keyed, changed):
    FeatureStore.write(tmp_path / "s", VECTORS, key=KEY)
    with pytest.raises(StaleStore, match=f"s was made with {changed}") as refused:
        FeatureStore.create(tmp_path / "s", KEY, n, dim, dtype, keyed=keyed)
    assert refused.value.changed == (changed,)


def test_a_stale_store_is_replaced_where_this_is_asked_for(tmp_path):
    FeatureStore.write(tmp_path / "s", VECTORS, LABELS, SPLIT, key=KEY)
    other = replace(KEY, weights="w1")
    FeatureStore.write(tmp_path / "s", -VECTORS, LABELS, key=other, overwrite=True)
    store = FeatureStore.open(tmp_path / "s", other)
    np.testing.assert_array_equal(store.features, -VECTORS)
    assert store.split is None


def test_a_store_of_the_same_key_is_kept_whatever_is_asked_for(tmp_path):
    FeatureStore.write(tmp_path / "s", VECTORS, key=KEY)
    before = (tmp_path / "s" / "vectors.bin").stat().st_mtime_ns
    FeatureStore.write(tmp_path / "s", VECTORS, key=KEY, overwrite=True)
    assert (tmp_path / "s" / "vectors.bin").stat().st_mtime_ns == before


def test_a_store_of_arrays_is_keyed_by_all_of_them(tmp_path):
    FeatureStore.write(tmp_path / "s", VECTORS, LABELS)
    FeatureStore.write(tmp_path / "s", VECTORS, LABELS)
    for features, labels in [(VECTORS + 1, LABELS), (VECTORS, LABELS + 1), (VECTORS, None)]:
        with pytest.raises(StaleStore, match="other data"):
            FeatureStore.write(tmp_path / "s", features, labels)


def test_the_hash_of_arrays_sees_names_dtypes_shapes_and_bytes_but_no_order():
    first = {"a": np.arange(6), "b": np.ones((2, 3), np.float32)}
    assert arrays_hash(first) == arrays_hash(dict(reversed(first.items())))
    others = [
        {**first, "a": np.arange(6).reshape(2, 3)},
        {**first, "a": np.arange(6, dtype=np.int32)},
        {**first, "a": np.arange(1, 7)},
        {"a": first["a"], "c": first["b"]},
        {"a": first["a"]},
    ]
    assert len({arrays_hash(arrays) for arrays in [first, *others]}) == 6
    assert arrays_hash(first) != arrays_hash(first, "conv4")


def test_the_hash_of_tensors_takes_every_dtype():
    torch = pytest.importorskip("torch")
    tensors = {
        "half": torch.ones(2, dtype=torch.bfloat16),
        "count": torch.tensor(3),
        "strided": torch.arange(6.0).reshape(2, 3).T,
    }
    before = arrays_hash(tensors)
    assert before == arrays_hash({name: tensor.clone() for name, tensor in tensors.items()})
    tensors["half"][1] = 2
    assert arrays_hash(tensors) != before


def test_a_view_is_known_by_all_its_parameters():
    @dataclass(frozen=True)
    class Center:
        crop: int = 84
        mean: tuple[float, ...] = (0.5, 0.25)

    assert view_text(Center()) == "Center(crop=84, mean=(0.5, 0.25))"
    assert view_text(Center(mean=(0.5, 0.3))) != view_text(Center())
    with pytest.raises(TypeError, match="view must be a data class"):
        view_text(lambda pictures, rows: None)


# --- item keys --------------------------------------------------------------------------------------------------------


@settings(max_examples=10, deadline=None)
@given(st.lists(st.binary(max_size=3), unique=True, min_size=1, max_size=20), st.integers(4, 8))
def test_rows_are_found_by_the_content_of_their_items(tmp_path_factory, contents, block):
    path = tmp_path_factory.mktemp("store") / "s"
    keys = [item_key(content) for content in contents]
    vectors = np.arange(2.0 * len(keys)).reshape(-1, 2)
    for start in range(0, len(keys), block):
        # Opened anew each time, as by a run that finds a few more pictures.
        with FeatureStore.create(path, replace(KEY, data=""), keyed=True) as writer:
            assert writer.lookup(keys).tolist() == [*range(start), *[-1] * (len(keys) - start)]
            writer.append(vectors[start : start + block], keys[start : start + block])
            assert writer.lookup(keys[start : start + 1]).tolist() == [start]
    store = FeatureStore.open(path, replace(KEY, data=""))
    assert store.complete
    assert store.item_keys == tuple(keys)
    assert store.lookup([*reversed(keys), item_key(b"none of them")]).tolist() == [*reversed(range(len(keys))), -1]
    np.testing.assert_array_equal(store.features[store.lookup(keys)], vectors)


def test_a_growing_store_is_whole_for_readers_at_every_commit(tmp_path):
    keys = [item_key(bytes([i])) for i in range(10)]
    with FeatureStore.create(tmp_path / "s", KEY, keyed=True) as writer:
        with pytest.raises(IncompleteStore):
            FeatureStore.open(tmp_path / "s")
        writer.append(VECTORS[:4], keys[:4])
        writer.commit()
        early = FeatureStore.open(tmp_path / "s")
        writer.append(VECTORS[4:], keys[4:])
        assert len(FeatureStore.open(tmp_path / "s")) == 4
    np.testing.assert_array_equal(early.features, VECTORS[:4])
    np.testing.assert_array_equal(FeatureStore.open(tmp_path / "s").features, VECTORS)


def test_an_item_is_stored_once(tmp_path):
    keys = [item_key(bytes([i])) for i in range(3)]
    with FeatureStore.create(tmp_path / "s", KEY, keyed=True) as writer:
        writer.append(VECTORS[:1], keys[:1])
        with pytest.raises(ValueError, match="in the store twice"):
            writer.append(VECTORS[:2], keys[:2])
        with pytest.raises(ValueError, match="in the store twice"):
            writer.append(VECTORS[:2], [keys[1], keys[1]])
        with pytest.raises(ValueError, match="1 item keys for 2 rows"):
            writer.append(VECTORS[:2], keys[1:2])
        with pytest.raises(ValueError, match=r"64 hexadecimal digits.*got 'abc'"):
            writer.append(VECTORS[:1], ["abc"])
        assert writer.rows == 1


def test_a_store_without_item_keys_says_so(tmp_path):
    with FeatureStore.create(tmp_path / "s", KEY, 1, 3) as writer:
        with pytest.raises(StoreError, match="no item keys"):
            writer.lookup([])
        with pytest.raises(ValueError, match="made without item keys"):
            writer.append(VECTORS[:1], [item_key(b"")])
        writer.append(VECTORS[:1])
        writer.finish()
    with pytest.raises(StoreError, match="no item keys"):
        FeatureStore.open(tmp_path / "s").lookup([])


# --- rows that do not fit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vectors", "dtype", "said"),
    [
        ([[1.0, np.nan, 0.0]], "float32", "row 1 holds NaN or infinity"),
        ([[1.0, 0.0, 0.0], [1.0, -np.inf, 0.0]], "float32", "row 2 holds NaN or infinity"),
        ([[1e5, 0.0, 0.0]], "float16", "row 1 holds 100000, which is too large for float16"),
        ([[1e39, 0.0, 0.0]], "float32", r"row 1 holds 1e\+39, which is too large for float32"),
        ([[1.0, 0.0]], "float32", "vectors have 2 features a row, the store has 3"),
        ([1.0, 0.0, 0.0], "float32", r"vectors must be numbers of shape \(b, D\)"),
        ([["1", "2", "3"]], "float32", r"vectors must be numbers of shape \(b, D\)"),
        (np.ones((2, 3)), "float32", "3 items are more than the 2 of the store"),
    ],
)
def test_rows_that_do_not_fit_are_refused_and_change_nothing(tmp_path, vectors, dtype, said):
    n = 3 if "row 2" in said else 2
    with FeatureStore.create(tmp_path / "s", KEY, n, None, dtype) as writer:
        writer.append(VECTORS[:1])
        with pytest.raises(ValueError, match=said):
            writer.append(vectors)
        writer.append(VECTORS[1:n])
        writer.finish()
    np.testing.assert_array_equal(FeatureStore.open(tmp_path / "s").features, VECTORS[:n].astype(dtype))


def test_another_dtype_and_other_sides_are_refused(tmp_path):
    with pytest.raises(ValueError, match="dtype must be one of float16, float32, got 'float64'"):
        FeatureStore.create(tmp_path / "s", KEY, 10, 3, "float64")
    with pytest.raises(ValueError, match=r"labels must have shape \(10,\)"):
        FeatureStore.write(tmp_path / "s", VECTORS, LABELS[:9])
    with pytest.raises(ValueError, match="labels must be integers, strings or bools, got object"):
        FeatureStore.write(tmp_path / "s", VECTORS, np.array([None] * 10))
    with pytest.raises(ValueError, match=r"features must be numbers of shape \(n, D\)"):
        FeatureStore.write(tmp_path / "s", [1.0, 2.0])
    assert not (tmp_path / "s").exists()


def test_a_finished_store_takes_nothing_more(tmp_path):
    FeatureStore.write(tmp_path / "s", VECTORS, key=KEY)
    with FeatureStore.create(tmp_path / "s", KEY, 10, 3) as writer:
        assert writer.complete
        with pytest.raises(ValueError, match="the store is complete"):
            writer.append(VECTORS[:1])


def test_a_store_that_may_grow_has_no_end(tmp_path):
    with FeatureStore.create(tmp_path / "s", KEY) as writer, pytest.raises(ValueError, match="may always grow"):
        writer.finish()


# --- folders that are no store ----------------------------------------------------------------------------------------


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(StoreError, match=r"nothing is no feature store: it has no manifest\.json"):
        FeatureStore.open(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file is no feature store"):
        FeatureStore.open(tmp_path / "file")
    with pytest.raises(StoreError, match="file is a file; a store is a folder of its own"):
        FeatureStore.create(tmp_path / "file", KEY)


def test_a_folder_with_other_files_is_never_written_to(tmp_path):
    (tmp_path / "thesis.tex").write_text("ten years of work")
    with pytest.raises(StoreError, match=r"holds other files, such as 'thesis\.tex'"):
        FeatureStore.create(tmp_path, KEY, overwrite=True)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be understood"),
        (b"\xff\xfe", "cannot be understood"),
        (b"[]", "cannot be understood"),
        (b"{}", "cannot be understood"),
        (b'{"format": 1}', "cannot be understood"),
        (b'{"format": 99}', "has format 99, and this version reads format 1"),
    ],
)
def test_a_manifest_that_is_none_is_refused_and_may_be_replaced(tmp_path, content, said):
    FeatureStore.write(tmp_path / "s", VECTORS, key=KEY)
    (tmp_path / "s" / "manifest.json").write_bytes(content)
    with pytest.raises(StoreError, match=said):
        FeatureStore.open(tmp_path / "s")
    with pytest.raises(StoreError, match=said):
        FeatureStore.write(tmp_path / "s", VECTORS, key=KEY)
    FeatureStore.write(tmp_path / "s", VECTORS, key=KEY, overwrite=True)


@pytest.mark.parametrize("name", ["vectors.bin", "item_keys.bin", "labels.npy"])
def test_truncated_files_are_refused(tmp_path, name):
    keys = [item_key(bytes([i])) for i in range(10)]
    FeatureStore.write(tmp_path / "s", VECTORS, LABELS, key=KEY, item_keys=keys)
    os.truncate(tmp_path / "s" / name, 100)
    store = FeatureStore.open(tmp_path / "s")
    with pytest.raises(StoreError, match=f"{name} is damaged"):
        _ = store.features, store.labels, store.lookup(keys)


def test_pickled_labels_are_not_read(tmp_path):
    FeatureStore.write(tmp_path / "s", VECTORS, LABELS)
    np.save(tmp_path / "s" / "labels.npy", np.array([None] * 10, dtype=object), allow_pickle=True)
    with pytest.raises(StoreError, match=r"labels\.npy is damaged"):
        _ = FeatureStore.open(tmp_path / "s").labels


# --- kills, interrupts, two writers, full disks -----------------------------------------------------------------------


def test_an_unfinished_store_is_refused_and_says_how_to_go_on(tmp_path):
    with FeatureStore.create(tmp_path / "s", KEY, 10, 3) as writer:
        writer.append(VECTORS[:4])
        with pytest.raises(IncompleteStore, match="4 of 10 items are done"):
            writer.finish(LABELS)
    for read in (FeatureStore.open, FeatureSet.load):
        with pytest.raises(IncompleteStore, match=r"4 of 10 items are done; run the same extraction again"):
            read(tmp_path / "s")


def test_an_exception_in_the_block_keeps_what_was_added(tmp_path):
    class Interrupted(BaseException):
        pass

    def work() -> None:
        with FeatureStore.create(tmp_path / "s", KEY, 10, 3) as writer:
            writer.append(VECTORS[:4])
            raise Interrupted

    with pytest.raises(Interrupted):
        work()
    with FeatureStore.create(tmp_path / "s", KEY, 10) as writer:
        assert (writer.rows, writer.items) == (4, 4)


def test_bytes_after_the_last_commit_are_not_trusted(tmp_path):
    keys = [item_key(bytes([i])) for i in range(10)]
    with FeatureStore.create(tmp_path / "s", KEY, 10, 3, keyed=True) as writer:
        writer.append(VECTORS[:4], keys[:4])
    for name in ("vectors.bin", "item_keys.bin"):
        with (tmp_path / "s" / name).open("ab") as file:
            file.write(b"half a row")
    with FeatureStore.create(tmp_path / "s", KEY, 10, 3, keyed=True) as writer:
        writer.append(VECTORS[4:], keys[4:])
        writer.finish()
    store = FeatureStore.open(tmp_path / "s")
    np.testing.assert_array_equal(store.features, VECTORS)
    assert store.lookup(keys).tolist() == list(range(10))


WRITE_FOR_EVER = """
    import sys
    import numpy as np
    from laplacianshot.embedding.store import FeatureStore, StoreKey
    with FeatureStore.create(sys.argv[1], StoreKey("w0", "Center(crop=84)", "d0"), 10**9, 3) as writer:
        while True:
            writer.append(np.arange(3.0 * writer.rows, 3.0 * writer.rows + 21).reshape(7, 3) % 4096)
            writer.commit()
            print(writer.rows, flush=True)
"""


def test_a_kill_at_any_moment_leaves_whole_rows(tmp_path):
    rng = np.random.default_rng(0)
    reached = 0
    for _ in range(6):
        command = [sys.executable, "-c", textwrap.dedent(WRITE_FOR_EVER), str(tmp_path / "s")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(int(rng.integers(1, 40))):
                said = int(process.stdout.readline())
            process.send_signal(signal.SIGKILL)
        with FeatureStore.create(tmp_path / "s", KEY, 10**9) as writer:
            assert writer.rows >= said > reached
            assert writer.rows % 7 == 0
            reached = writer.rows
            written = np.fromfile(tmp_path / "s" / "vectors.bin", "<f4")
            np.testing.assert_array_equal(written, np.arange(3.0 * reached) % 4096)
        assert not list((tmp_path / "s").glob(".partial-*"))


def test_a_second_writer_is_refused_in_this_process_and_in_another(tmp_path):
    code = """
        import sys
        from laplacianshot.embedding.store import FeatureStore, StoreInUse, StoreKey
        try:
            FeatureStore.create(sys.argv[1], StoreKey("w0", "Center(crop=84)", "d0"), 10, 3, overwrite=True)
        except StoreInUse as error:
            sys.exit(str(error))
    """
    with FeatureStore.create(tmp_path / "s", KEY, 10, 3):
        with pytest.raises(StoreInUse, match="is writing there"):
            FeatureStore.create(tmp_path / "s", KEY, 10, 3)
        assert "is writing there" in run(code, tmp_path / "s").stderr
    assert run(code, tmp_path / "s").returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_worker_forked_by_a_killed_writer_does_not_keep_the_lock(tmp_path):
    code = """
        import os, signal, sys, time
        from laplacianshot.embedding.store import FeatureStore, StoreKey
        writer = FeatureStore.create(sys.argv[1], StoreKey("w0", "Center(crop=84)", "d0"), 10, 3)
        ready, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(1)
            os.write(tell, b"!")
            time.sleep(600)
            os._exit(0)
        os.read(ready, 1)
        print(child, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
    try:
        os.kill(child, 0)
        FeatureStore.create(tmp_path / "s", KEY, 10, 3).close()
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_full_disk_is_an_error_and_what_was_committed_stays(tmp_path):
    pytest.importorskip("resource", reason="the system has no limit on the size of files")
    code = """
        import resource, sys
        import numpy as np
        from laplacianshot.embedding.store import FeatureStore, StoreKey
        vectors = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32).repeat(500, axis=1)
        resource.setrlimit(resource.RLIMIT_FSIZE, (45_000, 45_000))
        try:
            with FeatureStore.create(sys.argv[1], StoreKey("w0", "Center(crop=84)", "d0"), 10) as writer:
                for row in range(10):
                    writer.append(vectors[row:row + 1])
                    writer.commit()
        except OSError as error:
            sys.exit(str(error))
    """
    said = run(code, tmp_path / "s").stderr
    assert "File too large; 7 of 10 items are done and kept: mend this and run it again to go on" in said
    assert "Traceback" not in said
    wide = VECTORS.repeat(500, axis=1)
    with FeatureStore.create(tmp_path / "s", KEY, 10) as writer:
        assert writer.rows == 7
        writer.append(wide[7:])
        writer.finish(LABELS)
    np.testing.assert_array_equal(FeatureStore.open(tmp_path / "s").features, wide)


def test_a_writer_that_failed_takes_nothing_more(tmp_path):
    with FeatureStore.create(tmp_path / "s", KEY, 10, 3) as writer:
        writer.append(VECTORS[:2])
        writer.commit()
        writer.append(VECTORS[2:4])
        # The file is closed under the writer: a real OSError of the system.
        os.close(writer._files["vectors.bin"].fileno())
        with pytest.raises(OSError, match="2 of 10 items are done and kept"):
            writer.commit()
        with pytest.raises(StoreError, match="writing has failed before"):
            writer.append(VECTORS[4:5])
    with FeatureStore.create(tmp_path / "s", KEY, 10, 3) as writer:
        assert writer.rows == 2


# --- exports ----------------------------------------------------------------------------------------------------------


def test_an_npz_export_is_the_same_feature_set(tmp_path):
    store = FeatureStore.write(tmp_path / "s", VECTORS, LABELS, SPLIT, CLASS_NAMES, NAMES, dtype="float16")
    store.export(tmp_path / "all of it.npz")
    found, wanted = FeatureSet.load(tmp_path / "all of it.npz"), FeatureSet.load(tmp_path / "s")
    np.testing.assert_array_equal(found.features, wanted.features)
    np.testing.assert_array_equal(found.labels, wanted.labels)
    np.testing.assert_array_equal(found.split, wanted.split)
    assert found.class_names == wanted.class_names
    assert found.features.dtype == np.float16
    with np.load(tmp_path / "all of it.npz", allow_pickle=False) as archive:
        np.testing.assert_array_equal(archive["names"], NAMES)


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_parquet_export_has_a_line_a_row(tmp_path, dtype):
    parquet = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    # More rows than a row group.
    vectors = rng.standard_normal((5000, 4)).astype(dtype)
    labels = rng.integers(0, 4, 5000)
    names = np.array([f"{i}.jpg" for i in range(5000)])
    split = np.where(labels < 2, "base", "novel")
    store = FeatureStore.write(tmp_path / "s", vectors, labels, split, CLASS_NAMES, names)
    store.export(tmp_path / "all.parquet")
    table = parquet.read_table(tmp_path / "all.parquet")
    assert table.column_names == ["name", "label", "class_name", "split", "features"]
    found = np.stack(table["features"].to_numpy())
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, vectors)
    assert table["name"].to_pylist() == names.tolist()
    assert table["label"].to_pylist() == labels.tolist()
    assert table["class_name"].to_pylist() == [CLASS_NAMES[label] for label in labels]
    assert table["split"].to_pylist() == split.tolist()


def test_a_parquet_export_needs_no_labels(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    FeatureStore.write(tmp_path / "s", VECTORS).export(tmp_path / "all.parquet")
    assert parquet.read_table(tmp_path / "all.parquet").column_names == ["features"]


def test_an_export_of_another_kind_is_refused(tmp_path):
    store = FeatureStore.write(tmp_path / "s", VECTORS)
    with pytest.raises(ValueError, match=r"all\.csv: the name must end in \.npz or \.parquet"):
        store.export(tmp_path / "all.csv")


def test_a_missing_pyarrow_is_one_line_that_names_the_extra(tmp_path):
    code = """
        import sys
        from laplacianshot.embedding.store import FeatureStore
        class Block:
            def find_spec(self, name, path=None, target=None):
                if name.split('.')[0] == "pyarrow":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.meta_path.insert(0, Block())
        try:
            FeatureStore.open(sys.argv[1]).export(sys.argv[2])
        except ModuleNotFoundError as error:
            sys.exit(str(error))
    """
    FeatureStore.write(tmp_path / "s", VECTORS)
    said = run(code, tmp_path / "s", tmp_path / "all.parquet").stderr
    assert said.startswith("this needs pyarrow, which is not installed; install the extra parquet: ")
    assert 'pip install "laplacianshot[parquet]"' in said
    assert said.count("\n") == 1
    assert not (tmp_path / "all.parquet").exists()


def test_the_manifest_can_be_read_by_people(tmp_path):
    FeatureStore.write(tmp_path / "s", VECTORS, LABELS, key=KEY)
    found = json.loads((tmp_path / "s" / "manifest.json").read_text())
    assert found == {
        "format": 1,
        "key": {"weights": "w0", "view": "Center(crop=84)", "data": "d0", "code": 1},
        "dtype": "float32",
        "dim": 3,
        "total": 10,
        "keyed": False,
        "rows": 10,
        "items": 10,
        "skipped": [],
        "complete": True,
    }


def test_importing_the_store_needs_numpy_alone():
    code = "import sys, laplacianshot.embedding.store; sys.exit(str(sorted(sys.modules)))"
    loaded = run(code).stderr
    assert not any(f"'{name}'" in loaded for name in ("torch", "numba", "sklearn", "scipy", "pyarrow", "PIL"))
