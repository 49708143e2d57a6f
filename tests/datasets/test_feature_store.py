"""The feature store: what is written is read, what is stale, unfinished or damaged is refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from laplacianshot import FeatureSet
from laplacianshot.datasets.feature_store import (
    FeatureStore,
    Manifest,
    Skipped,
    StoreError,
    StoreKey,
    lock_store,
)
from tests.datasets.stores import write_store

ROOT = Path(__file__).resolve().parents[2]
KEY = StoreKey("w0", "Center(crop=84)", "d0")
VECTORS = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)
LABELS = np.arange(10) % 4
SPLIT = np.where(LABELS < 2, "base", "novel")
CLASS_NAMES = ("ant", "bee", "cat", "dog")
NAMES = np.array([f"birds/№ {i}.jpg" for i in range(10)])


def run(code: str, *arguments: object, **options) -> subprocess.CompletedProcess:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT, **options)


# --- what is written is read ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_store_gives_back_what_was_written(tmp_path, dtype):
    store = write_store(tmp_path / "s", VECTORS, LABELS, SPLIT, CLASS_NAMES, NAMES, dtype=dtype)
    for found in (store, FeatureStore.open(tmp_path / "s"), FeatureStore.open(str(tmp_path / "s"))):
        assert (len(found), found.dim, found.dtype) == (10, 3, dtype)
        assert repr(found) == f"FeatureStore(10 rows x 3, {dtype})"
        np.testing.assert_array_equal(found.features, VECTORS.astype(dtype))
        np.testing.assert_array_equal(found.labels, LABELS)
        np.testing.assert_array_equal(found.split, SPLIT)
        np.testing.assert_array_equal(found.names, NAMES)
        assert tuple(found.class_names) == CLASS_NAMES
        assert found.skipped == ()


def test_vectors_lie_row_by_row_little_endian_in_one_file(tmp_path):
    write_store(tmp_path / "s", VECTORS)
    assert (tmp_path / "s" / "vectors.bin").read_bytes() == VECTORS.astype("<f4").tobytes()


def test_features_are_mapped_and_cannot_be_changed(tmp_path):
    features = write_store(tmp_path / "s", VECTORS).features
    assert isinstance(features, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        features[0, 0] = 1


def test_arrays_beside_the_vectors_are_as_they_were_given(tmp_path):
    store = write_store(tmp_path / "s", VECTORS)
    assert (store.labels, store.split, store.class_names, store.names) == (None, None, None, None)


@pytest.mark.parametrize(
    "features",
    [VECTORS.astype(np.float64), np.asfortranarray(VECTORS), VECTORS[::-1], VECTORS.astype(">f4")],
    ids=["float64", "fortran", "reversed", "big-endian"],
)
def test_any_layout_of_the_same_numbers_is_stored_alike(tmp_path, features):
    np.testing.assert_array_equal(
        write_store(tmp_path / "s", features).features, np.asarray(features, dtype=np.float32)
    )


def test_a_feature_set_reads_a_store_without_a_copy(tmp_path):
    store = write_store(tmp_path / "s", VECTORS, LABELS, SPLIT, CLASS_NAMES, dtype="float16")
    found = FeatureSet.load(store.path)
    assert isinstance(found.features, np.memmap)
    assert found.features.dtype == np.float16
    assert found.class_names == CLASS_NAMES
    np.testing.assert_array_equal(found.features, store.features)
    np.testing.assert_array_equal(found.labels, LABELS)
    np.testing.assert_array_equal(found.split, SPLIT)
    np.testing.assert_allclose(found.base_mean(), VECTORS.astype(np.float16)[SPLIT == "base"].mean(0, np.float64))


def test_a_feature_set_needs_labels(tmp_path):
    write_store(tmp_path / "s", VECTORS)
    with pytest.raises(ValueError, match="s holds no labels"):
        FeatureSet.load(tmp_path / "s")


def test_skipped_items_have_no_row_and_are_listed(tmp_path):
    broken = Skipped(1, "broken\n.jpg", "the file is empty")
    store = write_store(tmp_path / "s", VECTORS[:2], [0, 1], skipped=(broken,))
    assert store.skipped == (broken,)
    assert len(store) == 2


def test_an_empty_store_can_be_opened(tmp_path):
    assert write_store(tmp_path / "s", np.empty((0, 3))).features.shape == (0, 3)


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
    write_store(tmp_path / "s", VECTORS, key=KEY)
    other = replace(KEY, **changes)
    assert other.digest != KEY.digest
    with pytest.raises(StoreError, match=f"s was made with {said};"):
        FeatureStore.open(tmp_path / "s", other)
    with pytest.raises(StoreError, match=said):
        write_store(tmp_path / "s", VECTORS, key=other)
    assert FeatureStore.open(tmp_path / "s", KEY).key == KEY


def test_another_dtype_is_refused_too(tmp_path):
    write_store(tmp_path / "s", VECTORS, key=KEY)
    with pytest.raises(StoreError, match="s was made with dtype float32, not float16"):
        write_store(tmp_path / "s", VECTORS, key=KEY, dtype="float16")


def test_a_stale_store_is_replaced_where_this_is_asked_for(tmp_path):
    write_store(tmp_path / "s", VECTORS, LABELS, SPLIT, key=KEY)
    other = replace(KEY, weights="w1")
    write_store(tmp_path / "s", -VECTORS, LABELS, key=other, overwrite=True)
    store = FeatureStore.open(tmp_path / "s", other)
    np.testing.assert_array_equal(store.features, -VECTORS)
    assert store.split is None


# --- folders that are no store ----------------------------------------------------------------------------------------


def test_what_is_no_store_is_refused(tmp_path):
    with pytest.raises(StoreError, match=r"nothing is not a feature store: it has no manifest\.json"):
        FeatureStore.open(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file is not a feature store"):
        FeatureStore.open(tmp_path / "file")
    with pytest.raises(StoreError, match="file is a file; a store is a folder of its own"):
        write_store(tmp_path / "file", VECTORS)


def test_a_folder_with_other_files_is_never_written_to(tmp_path):
    (tmp_path / "thesis.tex").write_text("ten years of work")
    with pytest.raises(StoreError, match=r"holds other files, such as 'thesis\.tex'"):
        write_store(tmp_path, VECTORS, overwrite=True)
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
    write_store(tmp_path / "s", VECTORS, key=KEY)
    (tmp_path / "s" / "manifest.json").write_bytes(content)
    with pytest.raises(StoreError, match=said):
        FeatureStore.open(tmp_path / "s")
    with pytest.raises(StoreError, match=said):
        write_store(tmp_path / "s", VECTORS, key=KEY)
    write_store(tmp_path / "s", VECTORS, key=KEY, overwrite=True)


@pytest.mark.parametrize("name", ["vectors.bin", "labels.npy"])
def test_truncated_files_are_refused(tmp_path, name):
    write_store(tmp_path / "s", VECTORS, LABELS, key=KEY)
    os.truncate(tmp_path / "s" / name, 100)
    with pytest.raises(StoreError, match=f"{name} is damaged"):
        FeatureStore.open(tmp_path / "s")


def test_pickled_labels_are_not_read(tmp_path):
    write_store(tmp_path / "s", VECTORS, LABELS)
    np.save(tmp_path / "s" / "labels.npy", np.array([None] * 10, dtype=object), allow_pickle=True)
    with pytest.raises(StoreError, match=r"labels\.npy is damaged"):
        FeatureStore.open(tmp_path / "s")


# --- what version 0.1 wrote -------------------------------------------------------------------------------------------


def test_folders_of_version_0_1_are_read(tmp_path):
    """Also those that could grow and had a key for each row, which this version no longer writes."""
    manifest = {
        "format": 1,
        "key": {"weights": "w0", "view": "Center(crop=84)", "data": "", "code": 1},
        "dtype": "float16",
        "dim": 3,
        "total": None,
        "keyed": True,
        "rows": 10,
        "items": 11,
        "skipped": [{"item": 3, "name": "broken.jpg", "reason": "the file is empty"}],
        "complete": True,
    }
    (tmp_path / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")
    # Bytes after the last commit were never counted.
    (tmp_path / "vectors.bin").write_bytes(VECTORS.astype("<f2").tobytes() + b"half a row")
    (tmp_path / "item_keys.bin").write_bytes(bytes(32 * 10))
    (tmp_path / ".lock").write_text("")
    np.save(tmp_path / "labels.npy", LABELS)
    np.save(tmp_path / "class_names.npy", np.array(CLASS_NAMES))
    store = FeatureStore.open(tmp_path)
    assert repr(store) == "FeatureStore(10 rows x 3, float16)"
    assert store.skipped == (Skipped(3, "broken.jpg", "the file is empty"),)
    found = FeatureSet.load(tmp_path)
    np.testing.assert_array_equal(found.features, VECTORS.astype(np.float16))
    np.testing.assert_array_equal(found.labels, LABELS)
    assert found.class_names == CLASS_NAMES


# --- kills, two writers, full disks -----------------------------------------------------------------------------------


def test_an_unfinished_store_is_refused_and_says_how_to_go_on(tmp_path):
    with lock_store(tmp_path / "s", KEY, "float32") as folder:
        Manifest(KEY, "float32", 0, 10, items=4).write(folder)
    for read in (FeatureStore.open, FeatureSet.load):
        with pytest.raises(StoreError, match=r"4 of 10 items are done; run the same extraction again"):
            read(tmp_path / "s")
    write_store(tmp_path / "s", VECTORS, key=KEY)
    np.testing.assert_array_equal(FeatureStore.open(tmp_path / "s").features, VECTORS)


WRITE_FOR_EVER = """
    import sys
    import numpy as np
    from laplacianshot.datasets.feature_store import StoreKey
    from tests.datasets.stores import write_store
    i = 0
    while True:
        i += 1
        rows = np.full((1000, 3), i, np.float32)
        names = [str(i)] * 1000
        write_store(sys.argv[1], rows, names=names, key=StoreKey("w0", "", str(i)), overwrite=True)
        print(i, flush=True)
"""


def test_a_kill_at_any_moment_leaves_a_whole_store_or_none(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(6):
        command = [sys.executable, "-c", textwrap.dedent(WRITE_FOR_EVER), str(tmp_path / "s")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
            for _ in range(int(rng.integers(1, 40))):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        try:
            store = FeatureStore.open(tmp_path / "s")
        except StoreError:
            continue
        assert (store.features == int(store.key.data)).all()
        assert (store.names == store.key.data).all()
        assert len(store.features) == len(store.names) == 1000


def test_a_second_writer_is_refused_in_this_process_and_in_another(tmp_path):
    code = """
        import sys
        from laplacianshot.datasets.feature_store import StoreError
        from tests.datasets.stores import write_store
        try:
            write_store(sys.argv[1], [[1.0]], overwrite=True)
        except StoreError as error:
            sys.exit(str(error))
    """
    with lock_store(tmp_path / "s", KEY, "float32"):
        with pytest.raises(StoreError, match="is writing there"):
            write_store(tmp_path / "s", VECTORS, key=KEY)
        assert "is writing there" in run(code, tmp_path / "s").stderr
    assert run(code, tmp_path / "s").returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_worker_forked_by_a_killed_writer_does_not_keep_the_lock(tmp_path):
    code = """
        import os, signal, sys, time
        from laplacianshot.datasets.feature_store import StoreKey, lock_store
        with lock_store(sys.argv[1], StoreKey("w0", "Center(crop=84)", "d0"), "float32"):
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
        write_store(tmp_path / "s", VECTORS, key=KEY)
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_full_disk_is_an_error_and_no_store_is_made(tmp_path):
    pytest.importorskip("resource", reason="the system has no limit on the size of files")
    code = """
        import resource, sys
        import numpy as np
        from tests.datasets.stores import write_store
        resource.setrlimit(resource.RLIMIT_FSIZE, (45_000, 45_000))
        try:
            write_store(sys.argv[1], np.ones((100, 300)))
        except OSError as error:
            sys.exit(str(error))
    """
    said = run(code, tmp_path / "s").stderr
    assert "File too large" in said
    assert "Traceback" not in said
    with pytest.raises(StoreError, match="is not a feature store"):
        FeatureStore.open(tmp_path / "s")
    assert write_store(tmp_path / "s", np.ones((100, 300))).features.shape == (100, 300)


# --- exports ----------------------------------------------------------------------------------------------------------


def test_an_npz_export_is_the_same_feature_set(tmp_path):
    store = write_store(tmp_path / "s", VECTORS, LABELS, SPLIT, CLASS_NAMES, NAMES, dtype="float16")
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
def test_a_parquet_export_has_one_line_per_row(tmp_path, dtype):
    parquet = pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(0)
    # More rows than a row group.
    vectors = rng.standard_normal((5000, 4)).astype(dtype)
    labels = rng.integers(0, 4, 5000)
    names = np.array([f"{i}.jpg" for i in range(5000)])
    split = np.where(labels < 2, "base", "novel")
    store = write_store(tmp_path / "s", vectors, labels, split, CLASS_NAMES, names)
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
    write_store(tmp_path / "s", VECTORS).export(tmp_path / "all.parquet")
    assert parquet.read_table(tmp_path / "all.parquet").column_names == ["features"]


def test_an_export_of_another_kind_is_refused(tmp_path):
    store = write_store(tmp_path / "s", VECTORS)
    with pytest.raises(ValueError, match=r"all\.csv: the name must end in \.npz or \.parquet"):
        store.export(tmp_path / "all.csv")


def test_a_missing_pyarrow_is_one_line_that_names_the_extra(tmp_path):
    code = """
        import sys
        from laplacianshot.datasets.feature_store import FeatureStore
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
    write_store(tmp_path / "s", VECTORS)
    said = run(code, tmp_path / "s", tmp_path / "all.parquet").stderr
    assert said.startswith("this needs pyarrow, which is not installed; install the extra parquet: ")
    assert 'pip install "laplacianshot[parquet]"' in said
    assert said.count("\n") == 1
    assert not (tmp_path / "all.parquet").exists()


def test_the_manifest_can_be_read_by_people(tmp_path):
    write_store(tmp_path / "s", VECTORS, LABELS, key=KEY)
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
    code = "import sys, laplacianshot.datasets.feature_store; sys.exit(str(sorted(sys.modules)))"
    loaded = run(code).stderr
    assert not any(f"'{name}'" in loaded for name in ("torch", "numba", "sklearn", "scipy", "pyarrow", "PIL"))
