"""Networks are written once, whole, and anew when the weights change."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from laplacianshot.embedding.encoders import EncoderError
from laplacianshot.embedding.encoders.exported import exported


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


def test_a_network_is_written_once(weights):
    export = Export()
    first, second = exported("net", weights, export), exported("net", weights, export)
    assert first == second
    assert export.calls == 1
    assert first[0].read_bytes() == b"network of weights"


def test_other_weights_and_another_name_make_another_network(weights):
    first = exported("net", weights, Export())
    other = exported("other", weights, Export())
    weights.write_bytes(b"WEIGHTS")
    changed = exported("net", weights, Export())
    assert len({first, other, changed}) == 3
    assert first[0].read_bytes() == b"network of weights"
    assert changed[0].read_bytes() == b"network of WEIGHTS"


def test_several_may_write_it_at_once(weights):
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: exported("net", weights, Export()), range(16)))
    ((path, _),) = found
    assert path.read_bytes() == b"network of weights"
    assert sorted(other.name for other in path.parent.iterdir() if other.is_file()) == [path.name]


def test_what_a_kill_left_is_removed(weights):
    path, _ = exported("net", weights, Export())
    path.unlink()
    old = path.with_name(".partial-old.onnx")
    old.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    exported("net", weights, Export())
    assert not old.exists()


def test_a_folder_without_room_is_named_in_one_line(weights, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "networks").write_text("a file where a folder is wanted")
    with pytest.raises(EncoderError, match=r"cannot be written .* set LAPLACIANSHOT_CACHE"):
        exported("net", weights, Export())
