"""Bundles: all pictures of a data set in one ``.npz`` file."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from laplacianshot.datasets._listing import SPLITS, UNSPLIT, Listing
from laplacianshot.datasets._sources import EncodedBytes, Pixels, Source
from laplacianshot.runtime.types import Ints, Labels

_ARRAYS = (
    "labels (n,), class_names, and either images uint8 (n, H, W) or (n, H, W, 3), or jpeg_bytes uint8 with offsets "
    "(n + 1,); optionally split (n,) or evaluation (n,)"
)
CUB84 = (
    "CUB-200-2011 at 84 pixels in one file. Expected: DATA/cub84.npz, or the file itself, with jpeg_bytes, offsets, "
    "labels, class_names and split. Make it from the data set 'cub': shorter side 96, center crop 84, JPEG."
)
OMNIGLOT28 = (
    "Omniglot at 28 pixels in one file, 1,623 characters of 20 drawings. Expected: DATA/omniglot28.npz, or the file "
    "itself, with images (n, 28, 28), labels, class_names (ALPHABET/CHARACTER) and evaluation. Background is base, but "
    "every sixth of its alphabets val; evaluation is novel. Make it from images_background and images_evaluation of "
    "Lake's repository."
)
CIFARFS = (
    "CIFAR-FS, 32 pixels, in one file. Expected: DATA/cifarfs_images.npz, or the file itself, with images "
    "(n, 32, 32, 3), labels, class_names and split (64, 16 and 20 classes of CIFAR-100, the lists of Bertinetto and "
    "others)."
)

# Of the background alphabets in the order of their names, numbers 5, 11, 17, ... are for validation.
VAL_ALPHABETS = 6

# What numpy and zipfile raise on a file that is no archive, or a damaged one.
_UNREADABLE = (BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError, OSError)


def finder(name: str, description: str) -> Callable[[Path], Listing]:
    """A reader of the bundle of that name in a folder, in a folder right below it, or given itself."""

    def find(data: Path) -> Listing:
        if data.is_file():
            return read_bundle(data)
        places = [data / name, *sorted(data.glob(f"*/{name}"))]
        there = [place for place in places if place.is_file()]
        if not there:
            raise FileNotFoundError(f"{data}: there is no {name}. {description}")
        return read_bundle(there[0])

    return find


def read_bundle(path: Path) -> Listing:
    """The pictures of a bundle in the order of the file. Nothing is unpickled."""
    arrays = _load(path)
    missing = [name for name in ("labels", "class_names") if name not in arrays]
    if missing:
        raise ValueError(f"{path} has no array {missing[0]!r}. Expected: {_ARRAYS}.")
    labels = arrays["labels"]
    class_names = tuple(str(name) for name in arrays["class_names"])
    n = len(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or n == 0:
        raise ValueError(f"{path}: labels must be one integer a picture, got {labels.dtype} {labels.shape}.")
    if labels.min() < 0 or labels.max() >= len(class_names):
        raise ValueError(
            f"{path}: labels go from {labels.min()} to {labels.max()}, and there are {len(class_names)} class_names."
        )
    source = _source(arrays, n, path)
    names = np.array([f"{path.name}#{i}" for i in range(n)])
    return Listing(names, labels.astype(np.int64), class_names, _split(arrays, class_names, path), source)


def _load(path: Path) -> dict[str, Any]:
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError(f"it holds a single array, expected {_ARRAYS}")
        with archive:
            wanted = ("labels", "class_names", "images", "jpeg_bytes", "offsets", "split", "evaluation")
            return {name: archive[name] for name in wanted if name in archive.files}
    except _UNREADABLE as error:
        raise ValueError(f"{path} cannot be read as a bundle ({' '.join(str(error).split())}).") from error


def _source(arrays: dict[str, Any], n: int, path: Path) -> Source:
    if "images" in arrays:
        images = arrays["images"]
        if images.dtype != np.uint8 or len(images) != n or not (images.ndim == 3 or images.shape[3:] == (3,)):
            raise ValueError(
                f"{path}: images must be uint8 ({n}, H, W) or ({n}, H, W, 3), got {images.dtype} {images.shape}."
            )
        return Pixels(images)
    if "jpeg_bytes" not in arrays or "offsets" not in arrays:
        raise ValueError(f"{path} has neither images nor jpeg_bytes with offsets. Expected: {_ARRAYS}.")
    buffer, offsets = arrays["jpeg_bytes"], arrays["offsets"]
    if buffer.dtype != np.uint8 or buffer.ndim != 1:
        raise ValueError(f"{path}: jpeg_bytes must be uint8 of one dimension, got {buffer.dtype} {buffer.shape}.")
    if offsets.shape != (n + 1,) or offsets.dtype.kind not in "iu":
        raise ValueError(f"{path}: offsets must be {n + 1} integers, one more than labels, got {offsets.shape}.")
    offsets = offsets.astype(np.int64)
    if offsets[0] < 0 or offsets[-1] > len(buffer) or (np.diff(offsets) < 0).any():
        raise ValueError(f"{path}: offsets must ascend from 0 to at most the {len(buffer)} bytes there are.")
    return EncodedBytes(buffer, offsets)


def _split(arrays: dict[str, Any], class_names: tuple[str, ...], path: Path) -> Labels:
    labels: Ints = arrays["labels"]
    given = arrays.get("split", arrays.get("evaluation"))
    if given is None:
        return np.full(len(labels), UNSPLIT)
    if given.shape != labels.shape:
        raise ValueError(f"{path}: split or evaluation must have one entry for each of {len(labels)} pictures.")
    if "split" in arrays:
        return np.array([SPLITS.get(str(name).lower(), str(name)) for name in given])
    return _omniglot_split(labels, class_names, given.astype(bool))


def _omniglot_split(labels: Ints, class_names: tuple[str, ...], evaluation: Labels) -> Labels:
    """Evaluation is novel. Of the background, whole alphabets are held out: novel classes are of new alphabets too."""
    alphabet = np.array([name.partition("/")[0] for name in class_names])[labels]
    background = np.unique(alphabet[~evaluation])
    val = np.isin(alphabet, background[VAL_ALPHABETS - 1 :: VAL_ALPHABETS])
    return np.where(evaluation, "novel", np.where(val, "val", "base"))
