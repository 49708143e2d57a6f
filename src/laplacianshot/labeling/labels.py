"""Labels from people: tables of ids and labels, and exports of Label Studio, matched with the items of a source."""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from laplacianshot.inference.labels import WORDS_FOR_NOTHING
from laplacianshot.labeling.errors import LabelingError, first_three, listed
from laplacianshot.labeling.sources import Source
from laplacianshot.labeling.tables import (
    ENDINGS,
    Table,
    composed,
    given_labels,
    id_of,
    is_frame,
    label_of,
    read_table,
    read_text,
    table_of_frame,
    table_of_records,
)

Given = tuple[str | None, ...]

# The field of our tasks for Label Studio that holds the id of the item.
ID_FIELD = "laplacianshot_id"

# The position of an item that is in the source but was skipped.
_SKIPPED = -1

# Fields of Label Studio's short format besides the data of a task and the choice, and usual names of the choice.
_TASK_FIELDS = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"}
_CHOICE_NAMES = ("label", "choice", "choices", "class", "category")

# Label Studio puts eight digits before the name of an uploaded file, and removes some of its characters.
_UPLOADED = re.compile(r"[0-9a-f]{8}-(.+)", re.DOTALL)
_REMOVED = re.compile(r"[^-\w.]")


class _Entry(NamedTuple):
    """A label of a file."""

    place: str  # where it is in the file, for messages
    name: str  # the item as the file names it
    positions: tuple[int, ...]  # positions of the items in the source; none if the source does not have it
    label: str


def take_labels(given: Any, source: Source) -> Given:
    """Return labels in the order of the source, None for items without one.

    They are a path or a DataFrame, as :func:`read_labels` takes them; a mapping or a Series of pandas from id, which
    may be a whole number, to label; or a sequence with a label for each item, blank, None or -1 where there is none.
    """
    if isinstance(given, str | PathLike) or is_frame(given):
        return read_labels(given, source)
    if hasattr(given, "iloc"):
        given = dict(zip(given.index.tolist(), given.tolist(), strict=True))
    if isinstance(given, Mapping):
        return _by_id(given, source)
    labels = tuple(label_of(value) for value in (given.tolist() if hasattr(given, "tolist") else given))
    if len(labels) != len(source):
        raise LabelingError(
            f"labels: {len(labels)} labels and {len(source)} items; give one for each item in order (None where there "
            "is none), or a mapping from id to label."
        )
    return labels


def _by_id(given: Mapping[Any, Any], source: Source) -> Given:
    """Return the labels of a mapping from id to label in the order of the source."""
    known, found = ItemIds(source), dict[int, str | None]()
    unknown = [key for key in given if not known.find(id_of(key))]
    if unknown:
        raise LabelingError(f"labels: no item of {source.path} has the id {listed(unknown)}; ids are {source.id_name}.")
    for key, value in given.items():
        label = label_of(value)
        for position in known.find(id_of(key)):
            if found.setdefault(position, label) != label and position != _SKIPPED:
                raise LabelingError(
                    f"labels: {source.ids[position]!r} has two labels, {found[position]!r} and {label!r}."
                )
    return tuple(found.get(position) for position in range(len(source)))


def read_labels(path: Any, source: Source) -> Given:
    """Return the labels of a file or DataFrame in the order of the source, None for items that it does not label.

    The file is a ``.csv``, ``.tsv``, ``.json``, ``.jsonl`` or ``.parquet`` with the columns ``id`` and ``label``, blank
    where there is no label, or an export of Label Studio, ``.json`` or ``.csv``. Ids are matched with ``source.ids``
    but for small differences in spelling; their column may also have its name in the source. Rows whose column
    ``origin`` says that we predicted the label are ignored, unless the label has been changed since.

    Raises LabelingError, which names the rows, if the file cannot be read, names items that the source does not have,
    or gives an item two labels.
    """
    table = table_of_frame(path) if is_frame(path) else _read(Path(path))
    entries = _read_choices(table, source) if _is_export(table) else _read_rows(table, source)
    return _one_each(table.path, list(entries), source)


def read_predictions(path: str | PathLike[str], source: Source) -> dict[str, str]:
    """Return all labels of a table by id, also predicted ones; errors as in :func:`read_labels`, or without a label."""
    table = _read(Path(path))
    labels = _one_each(table.path, list(_read_rows(table, source, predictions=True)), source)
    found = {name: label for name, label in zip(source.ids, labels, strict=True) if label is not None}
    if not found:
        raise LabelingError(f"{table.path}: no item has a label; there is nothing to sort.")
    return found


def merge_given(source: Source, labels: Any = None, *, more_classes: bool = False) -> Given:
    """Return the labels of the source together with other ones, of :func:`take_labels`.

    Raises LabelingError, which names the items, if both give an item a different label, an id is unknown, a label is
    the word -1, or all labels are of one class: nothing can be learned from them, unless there are ``more_classes``.
    """
    others = (None,) * len(source) if labels is None else take_labels(labels, source)
    pairs = list(zip(source.ids, source.given, others, strict=True))
    clash = [f"{name!r} is {own!r} and {other!r}" for name, own, other in pairs if own and other and own != other]
    if clash:
        raise LabelingError(
            f"{source.path}: the source and the file of labels disagree, {first_three(clash)}; change one of them."
        )
    merged = tuple(own or other for _, own, other in pairs)
    _check_labels(
        {name: label for name, label in zip(source.ids, merged, strict=True) if label is not None}, source, more_classes
    )
    return merged


def _check_labels(given: Mapping[str, str], source: Source, more_classes: bool) -> None:
    """Raise for the word -1 and for a single class, and warn of other words that may mean no label."""
    classes = set(given.values())
    words = {label for label in classes if label.lower() in WORDS_FOR_NOTHING}
    minus_one = sorted(word for word in words if word.startswith("-1"))
    if minus_one:
        rows = [name for name, label in given.items() if label in minus_one]
        raise LabelingError(
            f"{source.path}: the label of {listed(rows)} is the word {minus_one[0]!r}; "
            "leave it blank if the item has no label, or give the class another name."
        )
    if words:
        warnings.warn(
            f"{source.path}: {min(words)!r} is a class like any other; leave labels blank where there is none.",
            UserWarning,
            stacklevel=3,
        )
    if len(classes) == 1 and not more_classes:
        raise LabelingError(
            f"{source.path}: all labels are {classes.pop()!r} ({listed(given)}); label at least one item of another "
            "class."
        )


def _read(path: Path) -> Table:
    if not path.is_file():
        raise LabelingError(f"{path}: file of labels not found.")
    if path.suffix.lower() in ENDINGS:
        return read_table(path)
    if path.suffix.lower() != ".json":
        raise LabelingError(f"{path}: a file of labels ends in {', '.join(ENDINGS)} or .json.")
    text = read_text(path)
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LabelingError(f"{path} is not JSON ({error}); export it again.") from error
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise LabelingError(f"{path}: not a list of tasks; export from Label Studio as JSON, or give a CSV file.")
    return table_of_records(path, records)


def _read_rows(table: Table, source: Source, *, predictions: bool = False) -> Iterator[_Entry]:
    """Yield the labels of a table, with or without our predictions."""
    id_names = ["id"] if source.id_column is None else [source.id_column, "id"]
    ids, labels = _column(table, *id_names), _column(table, "label")
    known = ItemIds(source)
    found = [label_of(value) for value in table.values(labels)] if predictions else given_labels(table, labels)
    for row, (value, label) in enumerate(zip(table.values(ids), found, strict=True)):
        name = id_of(value)
        if label is None:
            continue
        if not name.strip():
            raise LabelingError(f"{table.path}, {table.place(row)}: the label {label!r} has no id.")
        yield _Entry(table.place(row), repr(name), known.find(name), label)


def _column(table: Table, *names: str) -> str:
    """Return the first column that has one of the names."""
    for name in names:
        if (found := table.find(name)) is not None:
            return found
    raise LabelingError(
        f"{table.path} has no column {names[-1]!r}, its columns are {listed(table.columns)}; "
        "the first line must be id,label and each further line an item."
    )


def _one_each(path: Path, entries: list[_Entry], source: Source) -> Given:
    """Return the label of each item, or raise for unknown items and for two labels of one item."""
    unknown = [f"{entry.name} ({entry.place})" for entry in entries if not entry.positions]
    if unknown:
        raise LabelingError(
            f"{path}: {len(unknown)} of {len(entries)} labels name items that are not in {source.path}: "
            f"{first_three(unknown)}; its ids are {source.id_name}, such as {source.ids[0]!r}."
        )
    found: dict[int, _Entry] = {}
    clash = []
    for entry in entries:
        for position in entry.positions:
            first = found.setdefault(position, entry)
            if position != _SKIPPED and first.label != entry.label:
                clash.append(
                    f"{source.ids[position]!r} is {first.label!r} ({first.place}) and {entry.label!r} ({entry.place})"
                )
    if clash:
        raise LabelingError(f"{path}: items have two labels, {first_three(clash)}; keep one of each.")
    return tuple(found[i].label if i in found else None for i in range(len(source)))


class ItemIds:
    """Positions of items by id.

    An id that is not in the source is also tried without blanks around it, with composed accents, and as a whole
    number if it ends in ``.0``; for pictures with ``/`` for backslashes, and without ``./`` or the source's folder
    before it.
    """

    def __init__(self, source: Source) -> None:
        self._positions = {name: i for i, name in enumerate(source.ids)} | {s.id: _SKIPPED for s in source.skipped}
        # Names that differ only in how accents are written are found by their own spelling alone.
        alike: defaultdict[str, list[int]] = defaultdict(list)
        for name, i in self._positions.items():
            alike[composed(name)].append(i)
        self._composed = {name: found[0] for name, found in alike.items() if len(found) == 1}
        self._roots = _roots(source) if source.kind == "pictures" else None

    def find(self, name: str) -> tuple[int, ...]:
        """Return the position of an item or ``_SKIPPED``, nothing if the source does not have it."""
        if name in self._positions:
            return (self._positions[name],)
        spellings = self._spellings(composed(name.strip()))
        return next(((self._composed[spelling],) for spelling in spellings if spelling in self._composed), ())

    def _spellings(self, name: str) -> Iterator[str]:
        yield name
        if self._roots is None:
            if re.fullmatch(r"\d+\.0+", name):
                yield name.partition(".")[0]
            return
        path = name.replace("\\", "/")
        while path.startswith("./"):
            path = path[2:]
        yield path
        for root in self._roots:
            if path.startswith(root):
                yield path[len(root) :]


def _roots(source: Source) -> tuple[str, ...]:
    """Return what may be before the path of a picture: the folder as the user named it, its absolute path, its name."""
    absolute = os.path.abspath(source.path)  # noqa: PTH100 - resolve follows links, which people do not write down
    roots = (str(source.path), absolute, str(source.path.resolve()), os.path.basename(absolute))  # noqa: PTH119
    return tuple(f"{composed(root).replace(os.sep, '/').rstrip('/')}/" for root in roots if root)


def _is_export(table: Table) -> bool:
    """Whether a table holds tasks of Label Studio, in the full or in the short format."""
    return _is_full(table) or {"annotation_id", "annotator"} <= set(table.columns)


def _is_full(table: Table) -> bool:
    return "data" in table.columns and bool({"annotations", "predictions", "completions"} & set(table.columns))


def _read_choices(table: Table, source: Source) -> Iterator[_Entry]:
    """Yield the choice of each task of Label Studio that has an annotation.

    Canceled annotations are ignored, and all others if one is marked as ground truth. Predictions are not annotations.
    A text that occurs several times in the source labels all of its items.
    """
    items = TaskItems(source)
    control = None if _is_full(table) else _choice_field(table)
    for number, task in enumerate(table.records()):
        place = f"task {number if task.get('id') is None else task['id']}"
        if control is None:
            data, chosen = task.get("data"), annotated(task)
        else:
            # The id of the short format is that of the task, not of an item.
            data = {name: value for name, value in task.items() if name != control and name not in _TASK_FIELDS}
            chosen = _listed_choices(task.get(control))
        labels = sorted({label for label in map(label_of, chosen) if label is not None})
        if len(labels) > 1:
            raise LabelingError(
                f"{table.path}: {place} has several labels, {listed(labels)}; settle on one in Label Studio and export "
                "again."
            )
        if labels:
            name, positions = items.find(data if isinstance(data, dict) else {})
            yield _Entry(place, name, positions, labels[0])


def annotated(task: Mapping[str, Any]) -> list[Any]:
    """Return all choices of the annotations of a task in the full format."""
    made = task.get("annotations") or task.get("completions") or []
    counted = [one for one in made if isinstance(one, dict) and not one.get("was_cancelled")]
    counted = [one for one in counted if one.get("ground_truth")] or counted
    return [
        choice
        for one in counted
        for result in one.get("result") or []
        if isinstance(result, dict) and result.get("type") == "choices"
        for choice in _listed_choices(result.get("value"))
    ]


def _listed_choices(value: Any) -> list[Any]:
    """Return the choices of a value: ``{"choices": [...]}``, the same as JSON text, a list or one choice."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            value = json.loads(value)
        except ValueError:
            return [value]
    if isinstance(value, dict):
        value = value.get("choices")
    return value if isinstance(value, list) else [value]


def _choice_field(table: Table) -> str:
    """Return the field of the short format that holds the choice."""
    names = [name for name in table.columns if name not in _TASK_FIELDS]
    for name in _CHOICE_NAMES:
        if name in names:
            return name
    raise LabelingError(
        f"{table.path}: which of {listed(names)} was chosen in Label Studio is not clear; export as JSON, not "
        "JSON-MIN or CSV."
    )


class TaskItems:
    """The items of a source that the data of a task name."""

    def __init__(self, source: Source) -> None:
        self._id_fields = [ID_FIELD] if source.id_column is None else [ID_FIELD, source.id_column]
        self._ids = ItemIds(source)
        self._positions = _Addresses(source).find if source.kind == "pictures" else self._positions_of_text
        self._texts: defaultdict[str, list[int]] = defaultdict(list)
        if source.kind == "texts":
            for i in range(len(source)):
                self._texts[_plain(str(source.load(i)))].append(i)

    def find(self, data: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
        """Return the name of the item in the data, and the positions of all items of that name."""
        for field in self._id_fields:
            if data.get(field) is not None:
                name = id_of(data[field])
                return repr(name), self._ids.find(name)
        values = [value for value in data.values() if isinstance(value, str)]
        found = {position: value for value in values for position in self._positions(value)}
        shown = listed(sorted(set(found.values()))) if found else listed(values)
        return shown, tuple(sorted(found))

    def _positions_of_text(self, text: str) -> list[int]:
        return self._texts.get(_plain(text), [])


def _plain(text: str) -> str:
    """Return a text without what an upload may change: line ends and blanks."""
    return composed(" ".join(text.split()))


class _Addresses:
    """Positions of pictures by their address in Label Studio.

    An address belongs to the picture with which it shares the most folders, counted from the file's name upwards; it
    must share all folders of the picture's path, or all of its own. A ``?d=`` and what is before it, the scheme and
    host of a URL, and percent signs are removed. An uploaded file is known by its name alone.
    """

    def __init__(self, source: Source) -> None:
        self._ids = source.ids
        folder = _parts(composed(str(source.path.resolve())))
        # From the file's name upwards.
        self._paths = [[*folder, *_parts(composed(name))][::-1] for name in source.ids]
        self._depths = [len(path) - len(folder) for path in self._paths]
        self._named: defaultdict[str, list[int]] = defaultdict(list)
        self._uploads: defaultdict[str, list[int]] = defaultdict(list)
        for i, path in enumerate(self._paths):
            self._named[path[0]].append(i)
            self._uploads[_REMOVED.sub("", path[0].strip().replace(" ", "_"))].append(i)

    def find(self, address: str) -> list[int]:
        """Return the position of a picture, nothing if the source does not have it; raise if it may be several."""
        found = next((best for path in _paths_in(address) if (best := self._best(_parts(composed(path))))), [])
        if len(found) > 1:
            raise LabelingError(
                f"{address!r} may be any of {listed(self._ids[i] for i in found)}; give the file a name of its "
                "own, or label by path in a CSV file with the columns id and label."
            )
        return found

    def _best(self, parts: list[str]) -> list[int]:
        """Return the positions of the pictures that share the most of an address."""
        if not parts:
            return []
        paths = {i: [self._paths[i], parts[::-1]] for i in self._named.get(parts[-1], [])}
        shared = {i: len(os.path.commonprefix(pair)) for i, pair in paths.items()}  # noqa: RUF071 - lists of parts
        enough = {i: n for i, n in shared.items() if n >= self._depths[i] or n == len(parts)}
        if enough:
            return [i for i, n in enough.items() if n == max(enough.values())]
        uploaded = _UPLOADED.fullmatch(parts[-1]) if "upload" in parts[-3:-2] else None
        return self._uploads.get(uploaded[1], []) if uploaded else []


def _paths_in(address: str) -> Iterator[str]:
    """Yield the path in an address, as it is and with its percent signs resolved."""
    _, mark, behind = address.partition("?d=")
    path = behind.partition("&")[0] if mark else urlsplit(address).path if "://" in address else address
    yield path
    if "%" in path:
        yield unquote(path)


def _parts(path: str) -> list[str]:
    return [part for part in path.replace("\\", "/").split("/") if part not in ("", ".")]
