"""The weights of the default encoders: only the known files are read, and networks are written once and whole."""

from __future__ import annotations

import hashlib
import os
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from laplacianshot.embedding.encoders import EncoderError
from laplacianshot.embedding.encoders.pretrained import LITE0_WEIGHTS, exported, read_torch_file


@pytest.fixture
def weights(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "weights"
    path.write_bytes(b"weights")
    return path


class Export:
    """Writes what it reads, and counts."""

    def __init__(self):
        self.calls = 0

    def __call__(self, path: Path) -> bytes:
        self.calls += 1
        return b"network of " + path.read_bytes()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_network_is_written_once(weights):
    export = Export()
    first, second = exported("net", weights, digest(weights), export), exported("net", weights, digest(weights), export)
    assert first == second
    assert export.calls == 1
    assert first[0].read_bytes() == b"network of weights"


def test_other_weights_and_another_name_make_another_network(weights):
    first = exported("net", weights, digest(weights), Export())
    other = exported("other", weights, digest(weights), Export())
    weights.write_bytes(b"WEIGHTS")
    changed = exported("net", weights, digest(weights), Export())
    assert len({first, other, changed}) == 3
    assert first[0].read_bytes() == b"network of weights"
    assert changed[0].read_bytes() == b"network of WEIGHTS"


def test_several_may_write_it_at_once(weights):
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: exported("net", weights, digest(weights), Export()), range(16)))
    ((path, _),) = found
    assert path.read_bytes() == b"network of weights"
    assert [other.name for other in path.parent.iterdir() if other.name.startswith((".partial", "net"))] == [path.name]


def test_what_a_kill_left_is_removed(weights):
    path, _ = exported("net", weights, digest(weights), Export())
    path.unlink()
    old = path.with_name(".partial-old.onnx")
    old.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    exported("net", weights, digest(weights), Export())
    assert not old.exists()


def test_a_folder_without_room_is_named_in_one_line(weights, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "networks").write_text("a file where a folder is expected")
    with pytest.raises(EncoderError, match=r"cannot be written .* set LAPLACIANSHOT_CACHE"):
        exported("net", weights, digest(weights), Export())


# --- files that are not the known ones --------------------------------------------------------------------------------


def test_weights_of_another_package_version_are_refused_in_one_line(weights):
    known = digest(weights)
    exported("net", weights, known, Export())
    weights.write_bytes(b"WEIGHTS")
    with pytest.raises(
        EncoderError, match=r"is not the file that this version of laplacianshot knows .*0\.1\.0"
    ) as said:
        exported("net", weights, known, Export())
    assert "\n" not in str(said.value)


class Harmful:
    """What a pickle may hide: a call."""

    def __reduce__(self):
        return (os.mkdir, ("harm",))


def write_torch_file(path: Path, *objects: object) -> Path:
    path.write_bytes(b"".join(pickle.dumps(one, protocol=2) for one in objects))
    return path


def test_another_torch_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = write_torch_file(tmp_path / "weights.pth", Harmful())
    with pytest.raises(EncoderError, match="is not the file of weights"):
        read_torch_file(path, LITE0_WEIGHTS.sha256)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize("place", range(5))
def test_nothing_but_dictionaries_and_tensors_is_unpickled(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    objects: list[object] = [0x1950A86A20F9469CFC6C, 1001, {}, {}, []]
    path = write_torch_file(tmp_path / "weights.pth", *objects)
    assert read_torch_file(path, digest(path)) == {}
    objects[place] = Harmful()
    path = write_torch_file(tmp_path / "weights.pth", *objects)
    with pytest.raises(pickle.UnpicklingError, match="mkdir does not belong in a file of weights"):
        read_torch_file(path, digest(path))
    assert not (tmp_path / "harm").exists()
