"""Results under a key: on this machine and on a file system that is not."""

import os

import numpy as np
import pytest

from laplacianshot.runtime.keyed_folder import FACTS, KeyedFolder, arrays_hash, content_key


@pytest.fixture(params=["local", "memory"])
def folder(request, tmp_path):
    if request.param == "memory":
        pytest.importorskip("fsspec", reason="needs the extra ray")
    made = KeyedFolder.create(str(tmp_path / "run") if request.param == "local" else f"memory://{tmp_path.name}/run")
    return made.below("part")


def test_the_key_depends_on_every_part_its_type_and_its_place():
    rows = np.arange(6.0)
    keys = [
        content_key(1, rows),
        content_key(2, rows),
        content_key(1, rows.reshape(2, 3)),
        content_key(1, rows.astype(np.float32)),
        content_key(rows, 1),
        content_key("ab", "c"),
        content_key("a", "bc"),
        content_key(b"a"),
        content_key({"a": 1, "b": 2}),
    ]
    assert len(set(keys)) == len(keys)
    assert content_key({"b": 2, "a": 1}) == keys[-1]


def test_arrays_and_values_come_back(folder):
    folder.put_arrays("rows.npz", {"a": np.arange(5), "b": np.eye(2)})
    folder.put_json("values.json", {"recall": 0.5})
    assert folder.has("rows.npz")
    np.testing.assert_array_equal(folder.arrays("rows.npz")["a"], np.arange(5))
    np.testing.assert_array_equal(folder.arrays("rows.npz")["b"], np.eye(2))
    assert folder.json("values.json") == {"recall": 0.5}


def test_files_are_named_in_order_without_folders(folder):
    assert folder.names() == []
    for name in ("labels-1", "labels-0"):
        folder.put_json(name, {})
    folder.below("_run").put_json("run.json", {})
    assert folder.names() == ["labels-0", "labels-1"]


def test_a_file_can_be_removed_more_than_once(folder):
    folder.put_json("facts.json", {})
    folder.remove("facts.json")
    folder.remove("facts.json")
    assert not folder.has("facts.json")


def test_a_file_that_is_not_written_to_its_end_is_absent(tmp_path):
    folder = KeyedFolder.create(str(tmp_path))

    def fail(file):
        file.write(b"half")
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        folder.put("rows.npz", fail)
    assert not folder.has("rows.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_saved_result_is_loaded_again(folder):
    stage = KeyedFolder.of(folder.url, "neighbors", 1, {"k": 3})
    assert stage.load() is None
    stage.save({"recall": 0.9}, {"order": np.arange(4)})
    facts, arrays = KeyedFolder.of(folder.url, "neighbors", 1, {"k": 3}).load()
    assert facts["recall"] == 0.9
    np.testing.assert_array_equal(arrays["order"], np.arange(4))
    assert KeyedFolder.of(folder.url, "neighbors", 2, {"k": 3}).load() is None


@pytest.mark.parametrize("damage", ["facts", "array", "missing"])
def test_a_damaged_result_counts_as_absent(tmp_path, damage):
    stage = KeyedFolder.of(tmp_path, "neighbors", 1)
    stage.save({}, {"order": np.arange(4)})
    match damage:
        case "facts":
            stage.put(FACTS, lambda file: file.write(b"{"))
        case "array":
            stage.put("order.npy", lambda file: file.write(b"half of it"))
        case "missing":
            stage.remove("order.npy")
    assert stage.load() is None


def test_the_results_used_longest_ago_are_removed(tmp_path):
    stages = [KeyedFolder.of(tmp_path, "neighbors", 1, i) for i in range(4)]
    other = KeyedFolder.of(tmp_path, "updates", 1)
    other.save({}, {})
    for i, stage in enumerate(stages[:3]):
        stage.save({}, {}, keep=2 if i == 2 else None)
        os.utime(stage.path(FACTS), (1000 + i, 1000 + i))
    assert [stage.load() is not None for stage in stages[:3]] == [False, True, True]
    assert other.load() is not None


def test_a_full_disk_costs_a_warning(tmp_path, monkeypatch):
    stage = KeyedFolder.of(tmp_path, "neighbors", 1)

    def full(path, write):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("laplacianshot.runtime.keyed_folder.put_file", full)
    with pytest.warns(UserWarning, match="could not be kept in .*No space left"):
        stage.save({}, {"order": np.arange(4)})
    assert stage.load() is None


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
