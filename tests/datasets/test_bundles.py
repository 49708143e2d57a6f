from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from laplacianshot.datasets.pictures import CorruptPicture, open_pictures
from tests.datasets.made_up import pixels


def jpegs(n):
    """Encoded pictures in one buffer, as ``cub84.npz`` holds them."""
    parts = []
    for i in range(n):
        buffer = io.BytesIO()
        Image.fromarray(pixels(i)).save(buffer, "JPEG", quality=90)
        parts.append(np.frombuffer(buffer.getvalue(), dtype=np.uint8))
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return {"jpeg_bytes": np.concatenate(parts), "offsets": offsets}


LABELS = {"labels": np.array([0, 0, 1, 1], dtype=np.int16), "class_names": np.array(["a", "b"])}
SPLIT = {"split": np.array(["base", "base", "test", "test"])}


@pytest.fixture
def bundle(tmp_path):
    def write(name="cub84.npz", **arrays):
        np.savez(tmp_path / name, **arrays)
        return tmp_path

    return write


def test_jpeg_bytes_are_cut_at_the_offsets(bundle):
    arrays = jpegs(4)
    pictures = open_pictures("cub84", bundle(**arrays, **LABELS, **SPLIT))
    assert pictures.names.tolist() == [f"cub84.npz#{i}" for i in range(4)]
    assert pictures.splits == {"base": 2, "novel": 2}
    encoded = arrays["jpeg_bytes"][arrays["offsets"][2] : arrays["offsets"][3]].tobytes()
    expected = np.asarray(Image.open(io.BytesIO(encoded)))
    np.testing.assert_array_equal(np.asarray(pictures.read(2)), expected)
    np.testing.assert_array_equal(np.asarray(pictures.select("novel").decoded(0)), expected)


@pytest.mark.parametrize("shape", [(4, 5, 6), (4, 5, 6, 3)])
def test_arrays_of_pixels_are_pictures(bundle, shape):
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pictures = open_pictures("cifarfs", bundle("cifarfs_images.npz", images=images, **LABELS, **SPLIT))
    assert pictures.read(0).mode == ("L" if len(shape) == 3 else "RGB")
    np.testing.assert_array_equal(np.asarray(pictures.read(3)), images[3])


def test_a_bundle_is_found_in_a_folder_below_or_given_itself(tmp_path, bundle):
    folder = bundle(images=np.zeros((4, 2, 2), dtype=np.uint8), **LABELS)
    assert len(open_pictures("cub84", folder / "cub84.npz")) == 4
    assert open_pictures("cub84", folder).splits == {"all": 4}
    below = folder / "cub"
    below.mkdir()
    (folder / "cub84.npz").rename(below / "cub84.npz")
    assert len(open_pictures("cub84", folder)) == 4


def test_omniglot_holds_out_whole_alphabets_of_the_background_for_validation(bundle):
    names = np.array([f"{letter}/character{i:02d}" for letter in "ABCDEFGHIJKLMNOP" for i in range(2)])
    evaluation = np.array([name[0] in "NOP" for name in names])
    folder = bundle(
        "omniglot28.npz",
        images=np.zeros((64, 2, 2), dtype=np.uint8),
        labels=np.repeat(np.arange(32), 2),
        class_names=names,
        evaluation=np.repeat(evaluation, 2),
    )
    pictures = open_pictures("omniglot28", folder)
    alphabets = {
        split: sorted({pictures.class_names[c][0] for c in pictures.labels[pictures.rows(split)]})
        for split in pictures.splits
    }
    assert alphabets == {"base": list("ABCDEGHIJKM"), "val": list("FL"), "novel": list("NOP")}


def test_the_content_key_is_that_of_the_bytes(bundle):
    images = np.zeros((4, 2, 2), dtype=np.uint8)
    key = open_pictures("cub84", bundle(images=images, **LABELS)).content_key()
    assert open_pictures("cub84", bundle(images=images, **LABELS)).content_key() == key
    images[3, 1, 1] = 1
    assert open_pictures("cub84", bundle(images=images, **LABELS)).content_key() != key


def test_a_damaged_picture_of_a_bundle_is_reported_by_its_number(bundle):
    arrays = jpegs(4)
    arrays["jpeg_bytes"] = arrays["jpeg_bytes"].copy()
    arrays["jpeg_bytes"][arrays["offsets"][1] : arrays["offsets"][1] + 40] = 0
    folder = bundle(**arrays, **LABELS)
    with pytest.raises(CorruptPicture, match=r"'cub84\.npz#1' cannot be read"):
        open_pictures("cub84", folder)
    pictures = open_pictures("cub84", folder, on_error="skip")
    assert pictures.names.tolist() == ["cub84.npz#0", "cub84.npz#2", "cub84.npz#3"]


IMAGES = np.zeros((4, 2, 2), dtype=np.uint8)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES}, "has no array 'labels'"),
        ({**LABELS}, "has neither images nor jpeg_bytes with offsets"),
        ({**LABELS, "images": IMAGES[:3]}, r"images must be uint8 \(4, H, W\)"),
        ({**LABELS, "images": IMAGES.astype(float)}, r"got float64"),
        ({**LABELS, "images": np.zeros((4, 2, 2, 4), dtype=np.uint8)}, r"or \(4, H, W, 3\), got"),
        ({**LABELS, "images": IMAGES, "labels": np.array([0, 1, 2, 0])}, "labels go from 0 to 2, and there are 2"),
        ({**LABELS, "images": IMAGES, "labels": np.array([0, -1, 1, 0])}, "labels go from -1 to 1"),
        ({**LABELS, "images": IMAGES, "labels": np.zeros(4)}, "labels must be one integer per picture"),
        ({**LABELS, "images": IMAGES, "split": np.array(["base"])}, "must have one entry for each of 4 pictures"),
        ({**LABELS, "jpeg_bytes": np.zeros(9, np.uint8), "offsets": np.arange(4)}, "offsets must be 5 integers"),
        ({**LABELS, "jpeg_bytes": np.zeros(9, np.uint8), "offsets": np.arange(5)[::-1]}, "offsets must ascend"),
        ({**LABELS, "jpeg_bytes": np.zeros(3, np.uint8), "offsets": np.arange(5)}, "at most the 3 bytes"),
        ({**LABELS, "jpeg_bytes": np.zeros(9), "offsets": np.arange(5)}, "jpeg_bytes must be uint8"),
        ({**LABELS, "images": IMAGES, "class_names": np.array(["a", None])}, "is an array of Python objects"),
    ],
)
def test_a_bundle_with_bad_arrays_is_an_error_that_says_which(bundle, arrays, message):
    folder = bundle(**arrays)
    with pytest.raises(ValueError, match=message):
        open_pictures("cub84", folder)


def test_a_file_that_is_no_bundle_is_an_error(tmp_path):
    for content in (b"", b"text", b"PK\x03\x04 broken"):
        (tmp_path / "cub84.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"cub84\.npz is not an \.npz file, or is truncated"):
            open_pictures("cub84", tmp_path)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(ValueError, match="holds a single array"):
        open_pictures("cub84", tmp_path / "one.npy")


@pytest.mark.parametrize(
    ("name", "path", "splits", "classes"),
    [
        ("cub84", "data/cub", {"base": 5885, "val": 2950, "novel": 2953}, (100, 50, 50)),
        ("omniglot28", "data/omniglot", {"base": 16120, "val": 3160, "novel": 13180}, (806, 158, 659)),
        ("cifarfs", "data/cifar_fs", {"base": 12800, "val": 3200, "novel": 4000}, (64, 16, 20)),
    ],
)
def test_the_shared_bundles_are_read(shared, name, path, splits, classes):
    pictures = open_pictures(name, shared(path))
    assert pictures.splits == splits
    assert tuple(pictures.select(split).n_classes for split in ("base", "val", "novel")) == classes
    pictures.read(len(pictures) - 1)
