"""Items to vectors: each content is encoded once, broken items are named, and a kill costs little."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from laplacianshot.datasets.decoding import CorruptPicture, decode
from laplacianshot.embedding.encoders import EncoderError
from laplacianshot.embedding.encoding import encode_items

DIM = 6


@dataclass
class MeanColors:
    """Means and spreads of the colors of a picture; counts what it is asked."""

    key: str = "1" * 64
    batch_size: int = 4
    parallel: int = 2
    name: str = "mean-colors"
    kind: str = "pictures"
    dim: int = DIM
    enough: int | None = None
    slow: float = 0.0
    prepared: int = 0
    encoded: int = 0
    most_at_once: int = 0
    _at_once: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def prepare(self, item):
        with self._lock:
            self.prepared += 1
        return np.asarray(item.convert("RGB").resize((8, 8))).astype(np.float32)

    def encode(self, prepared):
        with self._lock:
            self.encoded += len(prepared)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
        time.sleep(self.slow)
        pixels = np.stack(prepared)
        with self._lock:
            self._at_once -= 1
        return np.concatenate([pixels.mean((1, 2)), pixels.std((1, 2))], axis=1)


@dataclass
class Files:
    """Pictures in files; counts what is hashed."""

    paths: list[Path]
    hashed: int = 0

    def __len__(self):
        return len(self.paths)

    def file(self, i):
        return self.paths[i]

    def content_hash(self, i):
        self.hashed += 1
        return hashlib.sha256(self.paths[i].read_bytes()).digest()

    def load(self, i):
        raise AssertionError("files are decoded at the size the encoder needs")


@dataclass
class Memory:
    """Pictures that are no files."""

    pictures: list[Image.Image]

    def __len__(self):
        return len(self.pictures)

    def file(self, i):
        return None

    def content_hash(self, i):
        return hashlib.sha256(self.pictures[i].tobytes()).digest()

    def load(self, i):
        return self.pictures[i]


def picture(number: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(number).integers(0, 256, (12, 10, 3), dtype=np.uint8))


def save(folder: Path, numbers) -> list[Path]:
    """Pictures in files that were changed a while ago, as far as their times tell."""
    folder.mkdir(exist_ok=True)
    paths = []
    for number in numbers:
        paths.append(folder / f"№ {number:04d}.png")
        picture(number).save(paths[-1])
    return paths


@pytest.fixture
def old_files(monkeypatch):
    """Files count as settled at once, so that no test waits for the clock."""
    monkeypatch.setattr("laplacianshot.embedding.vector_cache._SETTLED_NS", -1)


def wanted(numbers) -> np.ndarray:
    encoder = MeanColors()
    return encoder.encode([encoder.prepare(picture(number)) for number in numbers])


@pytest.mark.parametrize("parallel", [1, 2, 5])
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_every_item_gets_its_vector(tmp_path, parallel, batch_size):
    items = Memory([picture(number) for number in range(21)])
    encoder = MeanColors(batch_size=batch_size, parallel=parallel)
    done = encode_items(items, encoder, tmp_path)
    np.testing.assert_array_equal(done.vectors, wanted(range(21)))
    np.testing.assert_array_equal(done.rows, np.arange(21))
    assert done.vectors.dtype == np.float32
    assert (done.failed, done.n_cached, done.notes) == ((), 0, ())
    assert encoder.most_at_once <= encoder.parallel
    assert repr(done) == "Encoded(21 vectors x 6, 0 from the cache, 0 failed)"


def test_no_items_give_no_vectors(tmp_path):
    done = encode_items(Memory([]), MeanColors(), tmp_path)
    assert done.vectors.shape == (0, DIM)
    assert len(done.rows) == 0


def test_a_second_run_reads_and_encodes_nothing(tmp_path, old_files):
    paths = save(tmp_path / "pictures", range(20))
    first = encode_items(Files(paths), MeanColors(), tmp_path / "cache")
    items, encoder = Files(paths), MeanColors()
    again = encode_items(items, encoder, tmp_path / "cache")
    assert again.vectors.tobytes() == first.vectors.tobytes()
    assert (items.hashed, encoder.prepared, encoder.encoded, again.n_cached) == (0, 0, 0, 20)


def test_an_added_picture_costs_one_picture_and_a_renamed_one_none(tmp_path, old_files):
    paths = save(tmp_path / "pictures", range(20))
    encode_items(Files(paths), MeanColors(), tmp_path / "cache")
    paths += save(tmp_path / "pictures", [20])
    items, encoder = Files(paths), MeanColors()
    encode_items(items, encoder, tmp_path / "cache")
    assert (items.hashed, encoder.prepared, encoder.encoded) == (1, 1, 1)
    paths[3] = paths[3].rename(tmp_path / "moved.png")
    items, encoder = Files(paths), MeanColors()
    done = encode_items(items, encoder, tmp_path / "cache")
    assert (items.hashed, encoder.prepared, encoder.encoded) == (1, 0, 0)
    np.testing.assert_array_equal(done.vectors, wanted(range(21)))


def test_a_changed_picture_gets_its_new_vector(tmp_path, old_files):
    paths = save(tmp_path / "pictures", range(5))
    encode_items(Files(paths), MeanColors(), tmp_path / "cache")
    picture(99).save(paths[2])
    done = encode_items(Files(paths), MeanColors(), tmp_path / "cache")
    np.testing.assert_array_equal(done.vectors, wanted([0, 1, 99, 3, 4]))
    assert done.n_cached == 4


def test_pictures_made_just_now_are_kept_by_content(tmp_path):
    paths = save(tmp_path / "pictures", range(5))
    encode_items(Files(paths), MeanColors(), tmp_path / "cache")
    items, encoder = Files(paths), MeanColors()
    assert encode_items(items, encoder, tmp_path / "cache").n_cached == 5
    assert (encoder.prepared, encoder.encoded) == (0, 0)


def test_a_picture_that_changes_between_hash_and_load_is_not_kept(tmp_path, old_files):
    paths = save(tmp_path / "pictures", range(3))

    class Changing(Files):
        def content_hash(self, i):
            found = super().content_hash(i)
            if i == 1:
                picture(77).save(self.paths[1])
            return found

    done = encode_items(Changing(paths), MeanColors(), tmp_path / "cache")
    np.testing.assert_array_equal(done.vectors, wanted([0, 77, 2]))
    again = encode_items(Memory([picture(number) for number in (0, 1, 2)]), MeanColors(), tmp_path / "cache")
    np.testing.assert_array_equal(again.vectors, wanted([0, 1, 2]))


def test_equal_items_are_encoded_once(tmp_path):
    numbers = [0, 1, 0, 2, 1, 0] * 200
    encoder = MeanColors(batch_size=2)
    done = encode_items(Memory([picture(number) for number in range(3)] * 400), encoder, tmp_path)
    assert encoder.encoded == 3
    np.testing.assert_array_equal(done.vectors, wanted(list(range(3)) * 400))
    three = [picture(number) for number in range(3)]
    again = encode_items(Memory([three[number] for number in numbers]), MeanColors(), tmp_path)
    np.testing.assert_array_equal(again.vectors, wanted(numbers))
    assert again.n_cached == len(numbers)


def test_another_encoder_does_not_see_the_vectors(tmp_path):
    items = Memory([picture(0)])
    encode_items(items, MeanColors(), tmp_path)
    assert encode_items(items, MeanColors(key="2" * 64), tmp_path).n_cached == 0


def test_progress_rises_to_all_and_comes_from_the_calling_thread(tmp_path):
    seen: list[tuple[int, int]] = []

    def progress(done: int, total: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        seen.append((done, total))

    encode_items(Memory([picture(number % 30) for number in range(40)]), MeanColors(), tmp_path, progress=progress)
    assert seen[0] == (0, 40)
    assert seen[-1] == (40, 40)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})


def test_a_large_file_is_decoded_at_the_size_that_is_enough(tmp_path):
    smooth = Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 5, 3), dtype=np.uint8)).resize((640, 480))
    smooth.save(tmp_path / "large.jpg", quality=95)
    sizes = []

    class Watching(MeanColors):
        def prepare(self, item):
            sizes.append(item.size)
            return super().prepare(item)

    items = Files([tmp_path / "large.jpg"])
    full = encode_items(items, Watching(), tmp_path / "a")
    small = encode_items(items, Watching(enough=100), tmp_path / "b")
    assert sizes == [(640, 480), (160, 120)]
    np.testing.assert_allclose(small.vectors, full.vectors, atol=1)


@dataclass
class Lengths:
    """The length of a text as its vector; remembers what came together."""

    key: str = "3" * 64
    batch_size: int = 8
    parallel: int = 1
    name: str = "lengths"
    kind: str = "texts"
    dim: int = 1
    enough: None = None
    batches: list[list[int]] = field(default_factory=list)

    def prepare(self, item):
        return len(item)

    def encode(self, prepared):
        self.batches.append(prepared)
        return np.array(prepared, dtype=np.float32)[:, np.newaxis]


@dataclass
class Texts:
    texts: list[str]

    def __len__(self):
        return len(self.texts)

    def file(self, i):
        return None

    def content_hash(self, i):
        return hashlib.sha256(self.texts[i].encode()).digest()

    def load(self, i):
        return self.texts[i]


def test_texts_of_like_length_come_together(tmp_path):
    lengths = np.random.default_rng(0).permutation(100)
    encoder = Lengths()
    done = encode_items(Texts(["x" * n for n in lengths]), encoder, tmp_path)
    np.testing.assert_array_equal(done.vectors[:, 0], lengths)
    assert sorted(encoder.batches) == [list(range(start, min(start + 8, 100))) for start in range(0, 100, 8)]


def test_long_texts_come_in_small_batches(tmp_path):
    lengths = [9_000 + n for n in range(5)] + [100_000, 3]
    encoder = Lengths()
    done = encode_items(Texts(["x" * n for n in lengths]), encoder, tmp_path)
    np.testing.assert_array_equal(done.vectors[:, 0], lengths)
    assert sorted(len(batch) for batch in encoder.batches) == [1, 1, 2, 3]


# --- what cannot be read ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [[0], [3, 4, 5, 6], [11], list(range(12))])
def test_broken_pictures_are_named_and_the_others_encoded(tmp_path, broken, old_files):
    paths = save(tmp_path / "pictures", range(12))
    for i in broken:
        paths[i].write_bytes(paths[i].read_bytes()[: 100 + i])
    kept = [i for i in range(12) if i not in broken]
    for _ in range(2):
        done = encode_items(Files(paths), MeanColors(), tmp_path / "cache")
        assert [position for position, _ in done.failed] == broken
        assert all(reason and "\n" not in reason for _, reason in done.failed)
        np.testing.assert_array_equal(done.rows, kept)
        np.testing.assert_array_equal(done.vectors, wanted(kept) if kept else np.empty((0, DIM)))


def test_files_that_are_gone_or_folders_are_named(tmp_path):
    paths = [*save(tmp_path / "pictures", range(2)), tmp_path / "gone.png", tmp_path]
    done = encode_items(Files(paths), MeanColors(), tmp_path / "cache")
    assert dict(done.failed) == {2: "No such file or directory", 3: "Is a directory"}
    np.testing.assert_array_equal(done.vectors, wanted(range(2)))


def test_equal_broken_pictures_are_all_named(tmp_path):
    paths = save(tmp_path / "pictures", range(3))
    for path in paths[1:]:
        path.write_bytes(b"no picture")
    done = encode_items(Files(paths), MeanColors(), tmp_path / "cache")
    assert [position for position, _ in done.failed] == [1, 2]
    assert done.rows.tolist() == [0]


def test_a_fault_of_the_machine_is_no_fault_of_a_picture(tmp_path):
    class Starved(Memory):
        def load(self, i):
            raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(OSError, match="Too many open files"):
        encode_items(Starved([picture(0)]), MeanColors(), tmp_path)


def test_vectors_that_are_no_numbers_are_failures_and_not_kept(tmp_path):
    class Failing(MeanColors):
        def encode(self, prepared):
            vectors = super().encode(prepared)
            vectors[vectors[:, 0] == wanted([2])[0, 0], 1] = np.nan
            return vectors

    items = Memory([picture(number) for number in range(4)])
    done = encode_items(items, Failing(), tmp_path)
    assert done.failed == ((2, "the encoder gives NaN or infinity for it"),)
    assert encode_items(items, MeanColors(), tmp_path).n_cached == 3


def test_an_encoder_of_another_length_is_refused(tmp_path):
    with pytest.raises(EncoderError, match=r"'mean-colors' gives vectors of shape \(2, 6\), not \(2, 7\)"):
        encode_items(Memory([picture(0), picture(1)]), MeanColors(dim=7), tmp_path)


def test_a_cache_that_cannot_be_written_is_noted_and_nothing_is_lost(tmp_path):
    (tmp_path / "cache").write_text("a file where a folder is wanted")
    paths = save(tmp_path / "pictures", range(9))
    done = encode_items(Files(paths), MeanColors(), tmp_path / "cache")
    np.testing.assert_array_equal(done.vectors, wanted(range(9)))
    (note,) = done.notes
    assert note.startswith("vectors cannot be kept for the next run")


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(tmp_path / "mine"))
    items = Memory([picture(0), picture(1), picture(0)])
    for _ in range(2):
        done = encode_items(items, MeanColors())
        assert done.n_cached == 0
        np.testing.assert_array_equal(done.vectors, wanted([0, 1, 0]))
    assert list(tmp_path.iterdir()) == []


# --- interrupts, errors, kills ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", [KeyboardInterrupt, RuntimeError])
def test_what_was_done_before_an_interrupt_or_an_error_is_kept(tmp_path, fault):
    items = Memory([picture(number) for number in range(40)])

    def stop(done: int, total: int) -> None:
        if done >= 20:
            raise fault

    with pytest.raises(fault):
        encode_items(items, MeanColors(), tmp_path, progress=stop)
    encoder = MeanColors()
    done = encode_items(items, encoder, tmp_path)
    assert done.n_cached >= 20
    assert encoder.encoded == 40 - done.n_cached
    np.testing.assert_array_equal(done.vectors, wanted(range(40)))


def test_no_thread_is_left_behind(tmp_path):
    before = threading.active_count()

    class Broken(Memory):
        def load(self, i):
            if i == 7:
                raise RuntimeError("no fault of the picture")
            return super().load(i)

    with pytest.raises(RuntimeError, match="no fault of the picture"):
        encode_items(Broken([picture(number) for number in range(40)]), MeanColors(slow=0.01), tmp_path)
    assert threading.active_count() == before


PROCESS = """
import sys, time, tests.embedding.test_encoding as t
import laplacianshot.embedding.encoding as encoding
encoding.SAVE_SECONDS = 0.0
items = t.Memory([t.picture(number) for number in range(60)])
def progress(done, total):
    if done >= int(sys.argv[2]):
        print("here", flush=True)
        while True:
            time.sleep(0.01)
encoding.encode_items(items, t.MeanColors(slow=0.05, parallel=1), sys.argv[1], progress=progress)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_stopped_twice_it_goes_on_from_what_was_done(tmp_path, how):
    command = [sys.executable, "-c", textwrap.dedent(PROCESS), str(tmp_path)]
    root = Path(__file__).resolve().parents[2]
    for stop_at in ("12", "30"):
        with subprocess.Popen(
            [*command, stop_at],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=root,
            env=dict(os.environ),
        ) as process:
            assert process.stdout.readline() == "here\n", process.stderr.read()
            process.send_signal(how)
            process.communicate(timeout=300)
        assert process.returncode == -how
    encoder = MeanColors()
    done = encode_items(Memory([picture(number) for number in range(60)]), encoder, tmp_path)
    assert done.n_cached >= 16
    assert encoder.encoded == 60 - done.n_cached
    np.testing.assert_array_equal(done.vectors, wanted(range(60)))


def test_reading_goes_on_while_the_network_computes(tmp_path):
    encoder = MeanColors(slow=0.02, parallel=1)
    computing: list[bool] = []

    class Watched(Memory):
        def load(self, i):
            computing.append(encoder._at_once > 0)
            return super().load(i)

    encode_items(Watched([picture(number) for number in range(48)]), encoder, tmp_path)
    assert any(computing)
    assert encoder.most_at_once == 1


def test_a_corrupt_picture_is_what_sources_raise():
    with pytest.raises(CorruptPicture):
        decode(b"", "empty")
