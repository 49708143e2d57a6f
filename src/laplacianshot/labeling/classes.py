"""What a user knows of the classes at the edge: their names, scores of another model, and their shares."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from laplacianshot.datasets.feature_set import read_npz
from laplacianshot.embedding.encoders import Encoder
from laplacianshot.inference.priors import checked_names, checked_prior
from laplacianshot.labeling.errors import LabelingError, first_three, listed, one_line
from laplacianshot.labeling.labels import ItemIds
from laplacianshot.labeling.sources import Source
from laplacianshot.labeling.tables import id_of, is_frame, label_of, open_table, read_table, read_text
from laplacianshot.runtime.files import check_input
from laplacianshot.runtime.types import Floats, Ints

# Names, names with a description or several texts, names with vectors; or where they are written.
Classes: TypeAlias = Sequence[str] | Mapping[str, Any] | str | PathLike[str]

# What pictures are asked for where only a name is given, as CLIP was trained on captions.
PICTURE_TEMPLATE = "a photo of a {}."


@dataclass(frozen=True)
class ClassNames:
    """The classes that a user names.

    Attributes
    ----------
    names : tuple of C' str
        All different.
    texts : tuple of C' tuples of str
        What says what a class is: descriptions; nothing where the name says it.
    vectors : array of shape (C', D), optional
        In place of texts.
    """

    names: tuple[str, ...]
    texts: tuple[tuple[str, ...], ...] = ()
    vectors: Floats | None = None

    def encoded(self, encoder: Encoder | None, kind: str, n_features: int) -> Floats:
        """Return a unit vector for each class, (C', D): the mean of those of its texts.

        Names of pictures' classes stand in a caption; those of texts, and descriptions, are encoded as they are.
        """
        if self.vectors is None and encoder is None:
            raise LabelingError(
                "classes (--classes): the items are vectors, so the classes need vectors too; give a mapping from name "
                "to vector, or an .npz with the arrays names (C, D) and class_names."
            )
        if self.vectors is not None:
            with one_line("classes (--classes)"):
                return checked_names(self.vectors, n_features)
        assert encoder is not None
        template = PICTURE_TEMPLATE if kind == "pictures" else "{}"
        said = [texts or (template.format(_spaced(name)),) for name, texts in zip(self.names, self.texts, strict=True)]
        flat = [text for texts in said for text in texts]
        vectors = encoder.encode([encoder.prepare(text) for text in flat]).astype(np.float64)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        ends = np.cumsum([0, *(len(texts) for texts in said)])
        means = np.stack([vectors[a:b].mean(axis=0) for a, b in pairwise(ends)])
        with one_line("classes (--classes)"):
            return checked_names(means, n_features)


def _spaced(name: str) -> str:
    """Return a name as it would be written in a text.

    >>> _spaced("card_lost"), _spaced("GetWeather"), _spaced("TV show")
    ('card lost', 'get weather', 'TV show')
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
    return " ".join((name if apart == name else apart.lower()).replace("_", " ").split()) or name


def read_classes(given: Classes) -> ClassNames:
    """Return the classes that a user names.

    A sequence of names; a mapping from name to a description, several of them or a vector; a text with commas; or a
    file: ``.npz`` with ``names`` (C', D) and ``class_names``, else text with a class in each line, as ``name`` or
    ``name: description``. Several lines of one class are several descriptions.
    """
    if isinstance(given, Mapping):
        return _of_mapping(given)
    if isinstance(given, str | PathLike):
        path = Path(given)
        # No text at all would be the present folder.
        if isinstance(given, PathLike) or (given.strip() and _is_there(path)):
            return _of_file(path)
        if path.suffix.lower() in (".txt", ".npz"):
            raise LabelingError(f"classes (--classes): there is no file {str(given)!r}.")
        given = str(given).split(",")
    entries = [(str(one), "") for one in given]
    return _checked(entries, "classes (--classes)")


def _is_there(path: Path) -> bool:
    """Return whether there is a file, or what is not one and cannot be read, such as a link to nothing."""
    try:
        path.lstat()
        return True
    except (OSError, ValueError):
        # Nothing of that name, or too long for one, or with a zero byte: a list of classes.
        return False


def _of_mapping(given: Mapping[str, Any]) -> ClassNames:
    arrays = [isinstance(value, np.ndarray) or _are_numbers(value) for value in given.values()]
    if any(arrays):
        if not all(arrays):
            raise LabelingError("classes: give vectors of all classes, or texts of all.")
        names = _checked([(str(name), "") for name in given], "classes").names
        try:
            return ClassNames(names, vectors=np.stack([np.asarray(value, np.float64) for value in given.values()]))
        except ValueError as error:
            raise LabelingError(f"classes: vectors must have one length: {error}") from error
    entries = []
    for name, value in given.items():
        texts = [value] if isinstance(value, str) else list(value or [""])
        entries += [(str(name), str(text)) for text in texts]
    return _checked(entries, "classes")


def _are_numbers(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(v, float | int) for v in value)


def _of_file(path: Path) -> ClassNames:
    _check_there(path, "classes (--classes)")
    if path.suffix.lower() == ".npz":
        try:
            arrays = read_npz(path, ["names", "class_names"], [], "the arrays names (C, D) and class_names (C,)")
            names, vectors = np.atleast_1d(arrays["class_names"]).tolist(), np.asarray(arrays["names"], np.float64)
        except (TypeError, ValueError, OSError) as error:
            raise LabelingError(f"classes (--classes): {error}") from error
        if vectors.ndim != 2:
            raise LabelingError(f"{path}: names has shape {vectors.shape}, expected (C, D).")
        found = _checked([(str(name), "") for name in names], str(path)).names
        if len(found) != len(vectors):
            raise LabelingError(
                f"{path}: {len(found)} class_names and {len(vectors)} names; there must be one of each."
            )
        return ClassNames(found, vectors=vectors)
    return _of_lines(read_text(path), str(path))


def _of_lines(text: str, place: str) -> ClassNames:
    """Return the classes of lines such as ``name`` or ``name: description``; # begins a comment."""
    entries = []
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            name, _, description = line.partition(":")
            entries.append((name, description.strip()))
    return _checked(entries, place, lines=True)


def typed_classes(text: str) -> ClassNames:
    """Return the classes that a person types or pastes: in lines, as in a file, or in one with commas between them."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) > 1:
        return _of_lines(text, "classes")
    return _checked([(name, "") for name in "".join(lines).split(",") if name.strip()], "classes")


def _check_there(path: Path, given_as: str, otherwise: str = "") -> None:
    """Raise LabelingError if a file of the user is missing, or is not a regular file."""
    try:
        check_input(path)
    except (FileNotFoundError, ValueError) as error:  # ValueError: a name with a zero byte
        raise LabelingError(f"{given_as}: there is no file {str(path)!r}{otherwise}.") from error
    except OSError as error:
        raise LabelingError(f"{given_as}: {path} cannot be read: {error.strerror}{otherwise}.") from error


def _checked(entries: list[tuple[str, str]], place: str, *, lines: bool = False) -> ClassNames:
    texts: dict[str, list[str]] = {}
    for given, text in entries:
        name = label_of(given)
        if name is None:
            raise LabelingError(f"{place}: a class has no name; leave it out.")
        if name in texts and not text:
            raise LabelingError(f"{place}: the class {name!r} is there twice; leave one out.")
        texts.setdefault(name, []).append(text)
    if not texts:
        raise LabelingError(f"{place}: there is no class{' in any line' if lines else ''}; name at least two.")
    said = tuple(tuple(text for text in found if text) for found in texts.values())
    return ClassNames(tuple(texts), said)


def read_prior(given: Any, source: Source) -> tuple[tuple[str, ...], Floats]:
    """Return the classes of a table of scores, and probabilities (n, C) in the order of the source.

    The table has a column ``id`` and one for each class. Items that are not in it, or have blanks, get NaN. Scores of
    an item are divided by their sum.
    """
    if not is_frame(given):
        _check_there(Path(given), "prior (--prior)")
    table = open_table(given)
    path = table.path
    id_column = table.find("id") if source.id_column is None else table.find(source.id_column) or table.find("id")
    if id_column is None:
        raise LabelingError(f"{path} has no column 'id'; it needs one, and a column of scores for each class.")
    names = [name for name in table.columns if name != id_column]
    if len(names) < 2:
        raise LabelingError(f"{path} has scores of {len(names)} classes; it needs a column for each of two or more.")
    P: Floats = np.full((len(source), len(names)), np.nan)
    known, unknown = ItemIds(source), []
    columns = [_numbers(path, name, table.values(name)) for name in names]
    scores = np.stack(columns, axis=1) if columns else np.zeros((table.n_rows, 0))
    for row, value in enumerate(table.values(id_column)):
        places = known.find(id_of(value))
        if not places:
            unknown.append(f"{id_of(value)!r} ({table.place(row)})")
        for place in places:
            if place >= 0:
                P[place] = scores[row]
    if unknown:
        raise LabelingError(f"{path}: no item of {source.path} has the id {first_three(unknown)}.")
    labels = [label_of(name) for name in names]
    if None in labels or len(set(labels)) < len(labels):
        raise LabelingError(f"{path}: columns of scores need different names, got {listed(names)}.")
    known_rows = ~np.isnan(P).any(axis=1)
    P[~known_rows] = np.nan
    with one_line(path):
        if np.any(P[known_rows] < 0):
            raise LabelingError(f"prior (--prior) has negative scores, of {listed(_ids(source, P.min(axis=1) < 0))}.")
        sums = P[known_rows].sum(axis=1, keepdims=True)
        # Nothing speaks for any class.
        P[known_rows] = np.where(sums > 0, P[known_rows] / np.where(sums > 0, sums, 1), np.nan)
        return tuple(str(label) for label in labels), checked_prior(P, len(source))


def _ids(source: Source, where: Any) -> list[str]:
    return [source.ids[i] for i in np.flatnonzero(where)]


def _numbers(path: Path, name: str, values: Sequence[Any]) -> Floats:
    """Return a column of scores, NaN for blanks."""
    try:
        return np.array([np.nan if id_of(v).strip() == "" else float(v) for v in values], np.float64)
    except (TypeError, ValueError) as error:
        raise LabelingError(f"{path}: column {name!r} must hold numbers ({error}).") from error


def read_shares(given: Any, classes: Sequence[str]) -> Any:
    """Return class shares in the order of the classes, (C,), "equal" or None.

    Given as "equal", a mapping from class to share, an array in the order of the classes, or a table with the columns
    ``class`` (or ``label``) and ``share``.
    """
    if given is None or (isinstance(given, str) and given == "equal"):
        return given
    if isinstance(given, str | PathLike):
        path = Path(given)
        _check_there(path, "class_shares (--class-shares)", "; or write equal")
        table = read_table(path)
        column, share = table.find("class") or table.find("label"), table.find("share")
        if column is None or share is None:
            raise LabelingError(f"{path} needs the columns class and share, its columns are {listed(table.columns)}.")
        names = [label_of(value) for value in table.values(column)]
        given = dict(zip(names, _numbers(path, share, table.values(share)), strict=True))
    if not isinstance(given, Mapping):
        return given
    missing = [name for name in classes if name not in given]
    unknown = [name for name in given if name not in classes]
    if missing or unknown:
        wrong = f"has no share of {listed(missing)}" if missing else f"names {listed(unknown)}, which is not a class"
        raise LabelingError(f"class_shares (--class-shares) {wrong}; give one share of each class.")
    return np.array([given[name] for name in classes], np.float64)


def numbers_of(names: Sequence[str], classes: Sequence[str]) -> Ints:
    """Return the position of each name among the classes, (C',)."""
    at = {name: number for number, name in enumerate(classes)}
    return np.array([at[name] for name in names], dtype=np.int64)
