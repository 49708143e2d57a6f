"""Vectors by content: what is put is found, by whichever process; what is damaged is absent."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laplacianshot.embedding.vector_cache import FileHashes, FileState, RowFile, VectorCache, file_state, short_hash

KEY = "ab" * 32


def hashes(count: int, start: int = 0) -> list[bytes]:
    return [hashlib.blake2b(str(start + i).encode(), digest_size=16).digest() for i in range(count)]


def vectors(count: int, dim: int = 5, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


def files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.sqlite"))


def test_what_is_put_is_found_also_by_another_cache(tmp_path):
    wanted = vectors(30)
    cache = VectorCache(tmp_path, KEY, 5)
    cache.put(hashes(30)[:20], wanted[:20])
    cache.put(hashes(30)[20:], wanted[20:])
    for reader in (cache, VectorCache(tmp_path, KEY, 5)):
        found, got = reader.get(hashes(40)[::-1])
        assert found.tolist() == [False] * 10 + [True] * 30
        assert got.dtype == np.float32
        assert got[10:].tobytes() == wanted[::-1].tobytes()


def test_an_empty_cache_finds_nothing_and_writes_nothing(tmp_path):
    cache = VectorCache(tmp_path / "new", KEY, 5)
    found, got = cache.get(hashes(3))
    assert not found.any()
    assert cache.get([])[1].shape == (0, 5)
    cache.put([], vectors(0))
    assert got.shape == (3, 5)
    assert not (tmp_path / "new").exists()


def test_another_encoder_has_other_vectors(tmp_path):
    VectorCache(tmp_path, KEY, 5).put(hashes(3), vectors(3))
    assert not VectorCache(tmp_path, "cd" * 32, 5).get(hashes(3))[0].any()
    assert not VectorCache(tmp_path, KEY, 6).get(hashes(3))[0].any()


def test_longer_hashes_are_shortened_and_shorter_ones_refused():
    long = [hashlib.sha256(str(i).encode()).digest() for i in range(4)]
    assert {len(short_hash(content)) for content in long} == {16}
    assert len({short_hash(content) for content in long}) == 4
    with pytest.raises(ValueError, match="at least 16 bytes, got 4"):
        short_hash(b"four")


def test_vectors_of_another_shape_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"shape \(3, 5\), got \(3, 4\)"):
        VectorCache(tmp_path, KEY, 5).put(hashes(3), vectors(3, 4))


def test_a_hash_may_be_put_and_asked_for_twice(tmp_path):
    cache = VectorCache(tmp_path, KEY, 5)
    cache.put(hashes(2) * 2, np.tile(vectors(2), (2, 1)))
    cache.put(hashes(2), vectors(2))
    found, got = cache.get(hashes(2) * 3)
    assert found.all()
    np.testing.assert_array_equal(got, np.tile(vectors(2), (3, 1)))


@pytest.mark.parametrize("content", [b"\0" * 16, b"\xff" * 16, b"a" + b"\0" * 15])
def test_hashes_that_end_in_zeros_are_like_others(tmp_path, content):
    cache = VectorCache(tmp_path, KEY, 5)
    assert not cache.get([content])[0].any()
    cache.put([content], vectors(1))
    found, got = cache.get([b"\0" * 16, b"\xff" * 16, b"a" + b"\0" * 15])
    assert found.sum() == 1
    np.testing.assert_array_equal(got[found], vectors(1))


def test_many_puts_make_one_file(tmp_path):
    cache = VectorCache(tmp_path, KEY, 3)
    wanted = vectors(200, 3)
    for i in range(200):
        cache.put(hashes(1, i), wanted[i : i + 1])
    cache.close()
    assert list(tmp_path.iterdir()) == files(tmp_path)
    assert len(files(tmp_path)) == 1
    assert len(cache) == 200
    found, got = VectorCache(tmp_path, KEY, 3).get(hashes(200))
    assert found.all()
    assert got.tobytes() == wanted.tobytes()


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.integers(0, 60), max_size=12), max_size=20), st.integers(1, 20))
def test_it_is_a_dictionary(tmp_path_factory, puts, row_bytes):
    cache = RowFile(tmp_path_factory.mktemp("rows") / "rows.sqlite", row_bytes)
    known: set[int] = set()

    def row(number: int) -> np.ndarray:
        return np.frombuffer(hashlib.shake_128(str(number).encode()).digest(row_bytes), dtype=np.uint8)

    for numbers in puts:
        keys = [hashes(1, number)[0] for number in numbers]
        cache.put(keys, np.array([row(number) for number in numbers], np.uint8).reshape(-1, row_bytes))
        known |= set(numbers)
    found, rows = cache.get(hashes(61))
    assert found.tolist() == [number in known for number in range(61)]
    for number in known:
        assert rows[number].tobytes() == row(number).tobytes()


# --- damage -----------------------------------------------------------------------------------------------------------


def _cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1)


def _cut_in_half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _cut_short(path: Path) -> None:
    os.truncate(path, 20)


def _emptied(path: Path) -> None:
    os.truncate(path, 0)


def _longer(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def _other_head(path: Path) -> None:
    path.write_bytes(b"X" + path.read_bytes()[1:])


def _pages_of_zeros(path: Path) -> None:
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(16384)
        file.write(bytes(size - 16384))


def _noise(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[100:] = np.random.default_rng(0).bytes(len(content) - 100)
    path.write_bytes(content)


def _old_log(path: Path) -> None:
    path.with_name(f"{path.name}-wal").write_bytes(b"not a log" * 1000)


def _removed(path: Path) -> None:
    path.unlink()


DAMAGES = [_cut, _cut_in_half, _cut_short, _emptied, _longer, _other_head, _pages_of_zeros, _noise, _old_log, _removed]


@pytest.mark.filterwarnings("ignore:.*is damaged .* and starts anew")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_gives_no_wrong_vector_and_can_be_filled_again(tmp_path, damage):
    wanted = vectors(200)
    cache = VectorCache(tmp_path, KEY, 5)
    cache.put(hashes(200), wanted)
    cache.close()
    (path,) = files(tmp_path)
    damage(path)
    found, got = VectorCache(tmp_path, KEY, 5).get(hashes(200))
    np.testing.assert_array_equal(got[found], wanted[found])
    fresh = VectorCache(tmp_path, KEY, 5)
    for start in range(0, 200, 50):
        fresh.put(hashes(50, start), wanted[start : start + 50])
    found, got = VectorCache(tmp_path, KEY, 5).get(hashes(200))
    assert found.all()
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("damage", [_cut_short, _other_head, _noise])
@pytest.mark.parametrize(
    "use",
    [
        lambda cache: cache.get(hashes(3)),
        lambda cache: cache.put(hashes(3), vectors(3)),
        len,
    ],
    ids=["get", "put", "len"],
)
def test_a_damaged_file_costs_one_line_of_warning(tmp_path, damage, use):
    cache = VectorCache(tmp_path, KEY, 5)
    cache.put(hashes(200), vectors(200))
    cache.close()
    damage(files(tmp_path)[0])
    fresh = VectorCache(tmp_path, KEY, 5)
    with pytest.warns(UserWarning, match=r"\.sqlite is damaged \([^\n]*\) and starts anew; [^\n]*$") as said:
        use(fresh)
    assert len(said) == 1
    fresh.put(hashes(3), vectors(3))
    assert fresh.get(hashes(3))[0].all()


@pytest.mark.parametrize("dim", [5, 4])
def test_a_damaged_vector_counts_as_absent_and_can_be_put_again(tmp_path, dim):
    cache = VectorCache(tmp_path, KEY, dim)
    wanted = vectors(10, dim)
    cache.put(hashes(10), wanted)
    cache.close()
    (path,) = files(tmp_path)
    content = path.read_bytes()
    for row in (3, 7):
        at = content.index(wanted[row].tobytes())
        content = content[: at + 3] + bytes([content[at + 3] ^ 64]) + content[at + 4 :]
    path.write_bytes(content)
    found, got = VectorCache(tmp_path, KEY, dim).get(hashes(10))
    assert np.flatnonzero(~found).tolist() == [3, 7]
    np.testing.assert_array_equal(got[found], wanted[found])
    VectorCache(tmp_path, KEY, dim).put(hashes(10), wanted)
    found, got = VectorCache(tmp_path, KEY, dim).get(hashes(10))
    assert found.all()
    np.testing.assert_array_equal(got, wanted)


def test_a_file_replaced_by_another_process_is_opened_again(tmp_path):
    cache = VectorCache(tmp_path, KEY, 5)
    cache.put(hashes(3), vectors(3))
    for path in tmp_path.iterdir():
        path.unlink()
    VectorCache(tmp_path, KEY, 5).put(hashes(2), vectors(2))
    assert cache.get(hashes(3))[0].tolist() == [True, True, False]
    cache.put(hashes(3), vectors(3))
    assert VectorCache(tmp_path, KEY, 5).get(hashes(3))[0].all()


def test_the_cache_of_version_0_1_is_left_alone(tmp_path):
    old = tmp_path / KEY[:32] / "00001-1-abcd.segment"
    old.parent.mkdir()
    old.write_bytes(b"LSHOTSG1 and so on")
    cache = VectorCache(tmp_path, KEY, 5)
    assert not cache.get(hashes(3))[0].any()
    cache.put(hashes(3), vectors(3))
    assert cache.get(hashes(3))[0].all()
    assert old.read_bytes() == b"LSHOTSG1 and so on"


def test_a_folder_that_cannot_be_written_raises_and_can_be_read_as_empty(tmp_path):
    (tmp_path / "cache").write_text("a file where a folder is expected")
    (tmp_path / f"{KEY[:32]}.sqlite").mkdir()
    for folder in (tmp_path / "cache", tmp_path):
        cache = VectorCache(folder, KEY, 5)
        assert not cache.get(hashes(2))[0].any()
        with pytest.raises(OSError, match=r"cache|sqlite"):
            cache.put(hashes(2), vectors(2))


def test_without_a_folder_nothing_is_kept():
    cache = VectorCache(None, KEY, 5)
    cache.put(hashes(2), vectors(2))
    assert not cache.get(hashes(2))[0].any()


# --- several processes ------------------------------------------------------------------------------------------------


def _fill(folder: Path, start: int) -> None:
    cache = VectorCache(folder, KEY, 5)
    for i in range(start, start + 60):
        cache.put(hashes(3, i), vectors(3, seed=7))


def test_processes_that_write_at_once_lose_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_fill, args=(tmp_path, start)) for start in (0, 30, 60)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(300)
        assert process.exitcode == 0
    assert VectorCache(tmp_path, KEY, 5).get(hashes(122))[0].all()
    assert len(files(tmp_path)) == 1


KILLED = """
import sys
from tests.embedding.test_vector_cache import KEY, VectorCache, hashes, vectors
cache = VectorCache(sys.argv[1], KEY, 5)
print("ready", flush=True)
for i in range(10_000):
    cache.put(hashes(1, i), vectors(1, seed=i))
    print(i, flush=True)
"""


def test_what_was_put_survives_a_kill_at_any_moment(tmp_path):
    rng = np.random.default_rng(0)
    root = Path(__file__).resolve().parents[2]
    for _ in range(3):
        command = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as process:
            assert process.stdout.readline() == "ready\n"
            # At a random moment of the work after a random put.
            for _ in range(rng.integers(1, 60)):
                process.stdout.readline()
            time.sleep(rng.uniform(0, 0.005))
            process.send_signal(signal.SIGKILL)
            last = [int(line) for line in process.stdout if line.endswith("\n")]
        done = last[-1] + 1 if last else 0
        found, got = VectorCache(tmp_path, KEY, 5).get(hashes(done))
        assert found.all()
        for i in range(done):
            np.testing.assert_array_equal(got[i : i + 1], vectors(1, seed=i))


# --- hashes of files --------------------------------------------------------------------------------------------------


@pytest.fixture
def settled(tmp_path):
    """A file that was changed long enough ago, as far as its state tells."""

    def make(name: str = "file", content: bytes = b"content") -> tuple[Path, FileState]:
        path = tmp_path / name
        path.write_bytes(content)
        return path, file_state(path)._replace(is_settled=True)

    return make


def test_a_file_is_known_until_it_changes(tmp_path, settled):
    path, state = settled()
    known = FileHashes(tmp_path / "cache")
    assert known.known([state]) == [None]
    known.remember([(state, b"h" * 16)])
    assert FileHashes(tmp_path / "cache").known([file_state(path), state]) == [b"h" * 16] * 2
    path.write_bytes(b"CONTENT")
    assert known.known([file_state(path)]) == [None]


def test_a_change_that_keeps_size_and_time_is_seen(tmp_path, settled):
    path, state = settled()
    times = path.stat()
    time.sleep(0.02)  # the clock of a file system is coarse
    path.write_bytes(b"CONTENT")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_mtime_ns == times.st_mtime_ns
    assert file_state(path).digest != state.digest


def test_a_file_that_was_changed_just_now_is_not_kept(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    state = file_state(path)
    assert not state.is_settled
    known = FileHashes(tmp_path / "cache")
    known.remember([(state, b"h" * 16)])
    assert known.known([state]) == [None]


def test_a_file_elsewhere_is_another_file(tmp_path, settled):
    assert settled("a")[1].digest != settled("b")[1].digest
    with pytest.raises(FileNotFoundError):
        file_state(tmp_path / "nowhere")
