"""Extraction: a vector a picture, whatever happens on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from laplacianshot import FeatureSet
from laplacianshot.datasets.feature_store import FeatureStore, StoreError
from laplacianshot.datasets.pictures import CorruptPicture, Pictures, open_pictures
from laplacianshot.embedding import build_network
from laplacianshot.embedding.extraction import extract
from laplacianshot.embedding.pictures import EvalView

VIEW = EvalView(resize=20, crop=16)
N = 30


@pytest.fixture
def folder(tmp_path) -> Path:
    """Thirty pictures of five classes in three splits."""
    rng = np.random.default_rng(0)
    for number in range(N):
        split, name = [("base", "ant"), ("base", "bee"), ("val", "cat"), ("novel", "dog"), ("novel", "elk")][number % 5]
        path = tmp_path / "data" / split / name / f"№ {number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (24, 20 + number % 3, 3), dtype=np.uint8)).save(path)
    return tmp_path / "data"


@pytest.fixture
def pictures(folder) -> Pictures:
    return open_pictures("folder", folder)


@pytest.fixture
def network() -> torch.nn.Module:
    torch.manual_seed(0)
    return build_network("conv4", 3, image_size=16)


class MeanColors(torch.nn.Module):
    """A network of no layers: (B, C, H, W) to (B, 2 C)."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.cat([images.mean((2, 3)), images.std((2, 3), correction=0)], dim=1)


class Function(torch.nn.Module):
    """A function of arrays as a network."""

    def __init__(self, function: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__()
        self.function = function

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(self.function(images.numpy()))


def break_picture(folder: Path, pictures: Pictures, row: int) -> str:
    """Damage in the middle of a file, which only decoding finds, under the same size and time."""
    path = folder / pictures.names[row]
    state = path.stat()
    content = bytearray(path.read_bytes())
    content[60:400] = bytes(340)
    path.write_bytes(content)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    return str(pictures.names[row])


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_every_picture_gets_the_vector_of_its_view(tmp_path, pictures, workers, batch_size):
    done = extract(MeanColors(), pictures, tmp_path / "s", view=VIEW, workers=workers, batch_size=batch_size)
    images = VIEW(pictures, np.arange(N))
    np.testing.assert_allclose(done.store.features, MeanColors()(images).numpy(), atol=1e-6)
    assert (done.found, done.encoded) == (0, N)
    assert done.seconds > 0


def test_a_network_gives_its_features_in_evaluation_mode(tmp_path, pictures, network):
    network.train()
    network.trunk.eval()
    modes = [module.training for module in network.modules()]
    store = extract(network, pictures, tmp_path / "s", view=VIEW, batch_size=8).store
    assert [module.training for module in network.modules()] == modes
    network.eval()
    with torch.inference_mode():
        wanted = network(VIEW(pictures, np.arange(N)))[0].numpy()
    np.testing.assert_allclose(store.features, wanted, rtol=1e-4, atol=1e-5)


def test_a_module_that_gives_vectors_alone_will_do(tmp_path, pictures):
    store = extract(torch.nn.Flatten(), pictures, tmp_path / "s", view=VIEW).store
    np.testing.assert_array_equal(store.features, VIEW(pictures, np.arange(N)).reshape(N, -1).numpy())


def test_labels_splits_and_names_come_along(tmp_path, pictures, network):
    extract(network, pictures, tmp_path / "s", view=VIEW, dtype="float16")
    found = FeatureSet.load(tmp_path / "s")
    assert repr(found) == "FeatureSet(30 rows x 64, 5 classes, splits base 12, novel 12, val 6)"
    assert found.features.dtype == np.float16
    assert found.class_names == ("ant", "bee", "cat", "dog", "elk")
    np.testing.assert_array_equal(found.labels, pictures.labels)
    np.testing.assert_array_equal(found.split, pictures.split)
    np.testing.assert_array_equal(FeatureStore.open(tmp_path / "s").names, pictures.names)


def test_progress_begins_at_what_is_there_and_ends_at_all(tmp_path, pictures):
    seen: list[tuple[int, int]] = []
    extract(
        MeanColors(),
        pictures,
        tmp_path / "s",
        view=VIEW,
        batch_size=8,
        progress=lambda *n: seen.append(n),
    )
    assert seen == [(0, 30), (8, 30), (16, 30), (24, 30), (30, 30)]


# --- the same again, and what has changed -----------------------------------------------------------------------------


def test_what_is_complete_is_not_encoded_again(tmp_path, pictures, network):
    first = extract(network, pictures, tmp_path / "s", view=VIEW)
    before = (tmp_path / "s" / "manifest.json").stat().st_mtime_ns
    again = extract(network, pictures, tmp_path / "s", view=VIEW)
    assert (again.found, again.encoded) == (N, 0)
    assert again.store.key == first.store.key
    assert (tmp_path / "s" / "manifest.json").stat().st_mtime_ns == before


def _other_weights(network: torch.nn.Module, pictures: Pictures, folder: Path) -> None:
    with torch.no_grad():
        next(network.parameters())[0, 0, 0, 0] += 1e-6


def _other_statistics(network: torch.nn.Module, pictures: Pictures, folder: Path) -> None:
    next(module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)).running_mean += 1


def _other_picture(network: torch.nn.Module, pictures: Pictures, folder: Path) -> None:
    Image.new("RGB", (20, 20)).save(folder / pictures.names[3])


def _one_more(network: torch.nn.Module, pictures: Pictures, folder: Path) -> None:
    Image.new("RGB", (20, 20)).save(folder / "val" / "cat" / "new.png")


def _other_class(network: torch.nn.Module, pictures: Pictures, folder: Path) -> None:
    (folder / "val" / "cat").rename(folder / "val" / "fox")


@pytest.mark.parametrize(
    ("change", "part"),
    [
        (_other_weights, "weights"),
        (_other_statistics, "weights"),
        (_other_picture, "data"),
        (_one_more, "data"),
        (_other_class, "data"),
    ],
)
def test_any_change_makes_a_store_stale(tmp_path, folder, pictures, network, change: Callable[..., None], part):
    extract(network, pictures, tmp_path / "s", view=VIEW)
    change(network, pictures, folder)
    with pytest.raises(StoreError, match=f"was made with other {part};"):
        extract(network, open_pictures("folder", folder), tmp_path / "s", view=VIEW)
    fresh = extract(network, open_pictures("folder", folder), tmp_path / "s", view=VIEW, overwrite=True)
    assert fresh.found == 0


@pytest.mark.parametrize("other", [{"resize": 18}, {"mean": (0.0, 0.0, 0.0)}])
def test_another_view_makes_a_store_stale(tmp_path, pictures, network, other):
    extract(network, pictures, tmp_path / "s", view=VIEW)
    with pytest.raises(StoreError, match=r"another view \(EvalView\(resize=20"):
        extract(network, pictures, tmp_path / "s", view=replace(VIEW, **other))


def test_a_view_must_be_known_by_its_parameters(tmp_path, pictures, network):
    with pytest.raises(TypeError, match="view must be a data class"):
        extract(network, pictures, tmp_path / "s", view=lambda pictures, rows: None)


def test_another_dtype_makes_a_store_stale(tmp_path, pictures, network):
    extract(network, pictures, tmp_path / "s", view=VIEW)
    with pytest.raises(StoreError, match="dtype float32, not float16"):
        extract(network, pictures, tmp_path / "s", view=VIEW, dtype="float16")


# --- what encoders and pictures may do wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("encode", "dtype", "said"),
    [
        (
            lambda images: images.mean((1, 2, 3)),
            "float32",
            r"vectors of shape \(1, D\) for 1 pictures, got shape \(1,\)",
        ),
        (lambda images: images[:1, 0, 0], "float32", r"vectors of shape \(8, D\) for 8 pictures, got shape \(1, 16\)"),
        (
            lambda images: np.full((len(images), 2), np.nan),
            "float32",
            r"NaN or infinity for picture 'base/ant/№ 0\.png'",
        ),
        (
            lambda images: np.full((len(images), 2), 7e4),
            "float16",
            r"gives 70000 for picture 'base/ant/№ 0\.png', which is too large for float16",
        ),
    ],
    ids=["one dimension", "one row", "NaN", "overflow"],
)
def test_an_encoder_that_gives_something_else_is_stopped(tmp_path, pictures, encode, dtype, said):
    with pytest.raises(ValueError, match=said):
        extract(Function(encode), pictures, tmp_path / "s", view=VIEW, batch_size=8, dtype=dtype)


@pytest.mark.parametrize("row", [0, 11, N - 1])
def test_a_picture_that_cannot_be_read_is_fatal_and_named(tmp_path, folder, pictures, row):
    name = break_picture(folder, pictures, row)
    with pytest.raises(CorruptPicture, match="cannot be read") as fault:
        extract(MeanColors(), pictures, tmp_path / "s", view=VIEW, batch_size=4)
    assert fault.value.name == name
    # What comes before it is kept, and perhaps a batch that was already under way.
    done = extract(MeanColors(), pictures, tmp_path / "s", view=VIEW, batch_size=4, on_error="skip")
    assert row // 4 * 4 <= done.found < N
    assert len(done.store) == N - 1


@pytest.mark.parametrize("rows", [[0], [11, 12], [4, 5, 6, 7], [N - 1]])
def test_pictures_that_cannot_be_read_are_left_out_where_this_is_asked_for(tmp_path, folder, pictures, rows):
    whole = MeanColors()(VIEW(pictures, np.arange(N))).numpy()
    pictures = open_pictures("folder", folder)
    names = [break_picture(folder, pictures, row) for row in rows]
    kept = np.delete(np.arange(N), rows)

    def work(on_error: str) -> FeatureStore:
        return extract(MeanColors(), pictures, tmp_path / "s", view=VIEW, batch_size=4, on_error=on_error).store

    for _ in range(2):
        store = work("skip")
        assert [skipped.name for skipped in store.skipped] == names
        assert [skipped.item for skipped in store.skipped] == rows
        assert all(skipped.reason for skipped in store.skipped)
        np.testing.assert_allclose(store.features, whole[kept], atol=1e-6)
        np.testing.assert_array_equal(store.labels, pictures.labels[kept])
        np.testing.assert_array_equal(store.names, pictures.names[kept])
        np.testing.assert_array_equal(store.split, pictures.split[kept])
        # Who does not want pictures to be left out does not want this store.
        with pytest.raises(CorruptPicture) as fault:
            work("raise")
        assert fault.value.name == names[0]


def test_no_picture_at_all_is_an_error(tmp_path, folder, pictures):
    for row in range(N):
        break_picture(folder, pictures, row)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"none of the 30 pictures can be read; the first: picture 'base/ant/"):
            extract(MeanColors(), pictures, tmp_path / "s", view=VIEW, on_error="skip")


# --- interrupts, kills, two at once -----------------------------------------------------------------------------------


def test_an_interrupted_extraction_goes_on_where_it_stopped(tmp_path, pictures, network):
    wanted = extract(network, pictures, tmp_path / "whole", view=VIEW, batch_size=4).store

    def interrupt(done: int, total: int) -> None:
        if done == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extract(network, pictures, tmp_path / "s", view=VIEW, batch_size=4, progress=interrupt)
    with pytest.raises(StoreError) as refused:
        FeatureSet.load(tmp_path / "s")
    done = extract(network, pictures, tmp_path / "s", view=VIEW, batch_size=4)
    # Batches that were under way count too.
    assert 12 <= done.found < N
    assert done.found + done.encoded == N
    assert f"{done.found} of 30 items are done" in str(refused.value)
    assert done.store.features.tobytes() == wanted.features.tobytes()


def test_two_extractions_into_one_store_are_refused(tmp_path, pictures, network):
    def second(done: int, total: int) -> None:
        with pytest.raises(StoreError):
            extract(network, pictures, tmp_path / "s", view=VIEW)

    assert len(extract(network, pictures, tmp_path / "s", view=VIEW, progress=second).store) == N


PROCESS = """
    import sys, time
    import torch
    from laplacianshot.datasets.pictures import open_pictures
    from laplacianshot.embedding import build_network, encoding
    from laplacianshot.embedding.extraction import extract
    from laplacianshot.embedding.pictures import EvalView

    def progress(done, total):
        print(done, flush=True)

    encoding.SAVE_SECONDS = 0
    torch.manual_seed(0)
    network = build_network("conv4", 3, image_size=16)
    pictures = open_pictures("folder", sys.argv[1])
    view = EvalView(resize=20, crop=16)
    options = {"view": view, "batch_size": 2, "on_error": "skip"}
    extract(network, pictures, sys.argv[2], progress=progress, **options)
"""


@pytest.fixture
def one_thread():
    """The number of threads may change the last bits of a product."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_killed_twice_the_result_is_bit_equal_to_an_uninterrupted_one(tmp_path, folder, pictures, network, one_thread):
    break_picture(folder, pictures, 5)
    command = [sys.executable, "-c", textwrap.dedent(PROCESS), str(folder), str(tmp_path / "s")]
    begun = []
    for stop_at in (7, 17):
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            begun.append(int(process.stdout.readline()))
            for line in process.stdout:
                if int(line) >= stop_at:
                    process.send_signal(signal.SIGKILL)
                    break
        assert process.returncode == -signal.SIGKILL
    with pytest.raises(StoreError):
        FeatureStore.open(tmp_path / "s")
    options = {"view": VIEW, "batch_size": 2, "on_error": "skip"}
    resumed = extract(network, pictures, tmp_path / "s", **options)
    assert begun[0] == 0 < begun[1] < resumed.found < N
    whole = extract(network, pictures, tmp_path / "whole", **options)
    for path in sorted(whole.store.path.iterdir()):
        assert (tmp_path / "s" / path.name).read_bytes() == path.read_bytes(), path.name
    assert len(resumed.store) == N - 1
