"""Exports of Label Studio: what was chosen for which task."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from laplacianshot import __version__
from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.matching import Entry, Ids, Paths
from laplacianshot.labeling.result import GIVEN, LabelResult
from laplacianshot.labeling.sources.base import Source
from laplacianshot.labeling.sources.tables import Table, composed, id_of, label_of
from laplacianshot.runtime.files import put_file

# The field of our own tasks that holds the id of the item.
ID_FIELD = "laplacianshot_id"

# What an export in the short format has beside the data of a task and what was chosen.
_BESIDE = {"id", "annotator", "annotation_id", "created_at", "updated_at", "lead_time"}

# Names that the choice usually has, in the short format.
_CHOICES = ("label", "choice", "choices", "class", "category")


def is_export(table: Table) -> bool:
    """Whether a table holds tasks of Label Studio, in the full or in the short format."""
    return _is_full(table) or {"annotation_id", "annotator"} <= set(table.columns)


def read_choices(table: Table, source: Source) -> Iterator[Entry]:
    """What was chosen for each task that has an annotation.

    A canceled annotation does not count, and where one is marked as ground truth only those do. Predictions are no
    annotations. Texts that occur several times in the source are labeled all.

    Raises
    ------
    LabelingError
        A task has several choices, or annotators disagree about it.
    """
    items = _Items(source)
    control = None if _is_full(table) else _control(table)
    for number, task in enumerate(table.records()):
        place = f"task {number if task.get('id') is None else task['id']}"
        if control is None:
            data, chosen = task.get("data"), _annotated(task)
        else:
            # The id of the short format is that of the task, not of an item.
            data = {name: value for name, value in task.items() if name != control and name not in _BESIDE}
            chosen = _listed_choices(task.get(control))
        labels = sorted({label for label in map(label_of, chosen) if label is not None})
        if len(labels) > 1:
            raise LabelingError(
                f"{table.path}: {place} has several labels, {listed(labels)}; settle on one in Label Studio and export "
                "again."
            )
        if labels:
            name, positions = items.find(data if isinstance(data, dict) else {})
            yield Entry(place, name, positions, labels[0])


def _is_full(table: Table) -> bool:
    return "data" in table.columns and bool({"annotations", "predictions", "completions"} & set(table.columns))


def _annotated(task: Mapping[str, Any]) -> list[Any]:
    """All choices of the annotations of a task in the full format."""
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
    """The choices of a value: ``{"choices": [...]}``, the same as JSON text, a list or one choice."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            value = json.loads(value)
        except ValueError:
            return [value]
    if isinstance(value, dict):
        value = value.get("choices")
    return value if isinstance(value, list) else [value]


def _control(table: Table) -> str:
    """The field of the short format that holds what was chosen."""
    names = [name for name in table.columns if name not in _BESIDE]
    named = [name for name in _CHOICES if name in names]
    if not named:
        raise LabelingError(
            f"{table.path}: which of {listed(names)} was chosen in Label Studio is not clear; export as JSON, not "
            "JSON-MIN or CSV."
        )
    return named[0]


class _Items:
    """The items of a source that the data of a task are about."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._ids = Ids(source)
        self._paths = Paths(source) if source.kind == "pictures" else None
        self._texts: defaultdict[str, list[int]] = defaultdict(list)
        if source.kind == "texts":
            for i in range(len(source)):
                self._texts[_plain(str(source.load(i)))].append(i)

    def find(self, data: Mapping[str, Any]) -> tuple[str, tuple[int, ...]]:
        """What names the item, and the positions of all items that are meant by it."""
        for field in (ID_FIELD, self._source.id_column):
            if field is not None and data.get(field) is not None:
                name = id_of(data[field])
                position = self._ids.find(name)
                return repr(name), () if position is None else (position,)
        values = [value for value in data.values() if isinstance(value, str)]
        found = {position: value for value in values for position in self._positions(value)}
        shown = listed(sorted(set(found.values()))) if found else listed(values)
        return shown, tuple(sorted(found))

    def _positions(self, value: str) -> list[int]:
        if self._paths is not None:
            position = self._paths.find(value)
            return [] if position is None else [position]
        return self._texts.get(_plain(value), [])


def _plain(text: str) -> str:
    """A text as it stays the same through an upload: line ends and blanks around it do not count."""
    return composed(" ".join(text.split()))


# --- Tasks with predictions that Label Studio imports, and the labeling interface that goes with them


# Names of the tags in the labeling interface.
_CONTROL, _OBJECT = "label", "item"

# Where Label Studio serves files of a folder that is connected as local storage.
_LOCAL_FILES = "/data/local-files/?d="

# Digits of a score.
_DIGITS = 6

# Characters that no XML can hold, not even escaped.
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def export_label_studio(
    result: LabelResult, source: Source, path: str | PathLike[str], *, address: str | None = None
) -> Path:
    """Write tasks for Label Studio to ``path``, a ``.json``, and the labeling interface beside it as ``.xml``.

    One task an item, in the order of the result. A given label is an annotation; a predicted one is a prediction whose
    score is its confidence; an item without a label has neither. The data of a task also hold the item's id, its
    confidence and its rank among what to label next, by which Label Studio can sort.

    Parameters
    ----------
    result : LabelResult
    source : Source
        Of the items of ``result``.
    path : path
    address : str, optional
        What stands before the path of a picture. By default pictures are local files of Label Studio, which has to run
        with ``LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true`` and ``LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT`` set to the
        folder that holds the source.

    Returns
    -------
    Path
        Of the labeling interface.

    Raises
    ------
    LabelingError
        The folder of ``path`` is not there, or a class has a name that Label Studio cannot hold.
    OSError
        A file cannot be written. What was there before stays.
    """
    where = Path(path)
    if where.suffix.lower() != ".json":
        raise LabelingError(f"{where}: the name of an export for Label Studio must end in .json.")
    if not where.parent.is_dir():
        raise LabelingError(f"{where}: there is no folder {where.parent}; make it first.")
    odd = [name for name in result.classes if _NOT_XML.search(name)]
    if odd:
        raise LabelingError(f"classes {listed(odd)}: Label Studio takes no control characters; rename them.")
    interface = interface_of(where)
    prefix = f"{_LOCAL_FILES}{quote(source.path.resolve().name)}/" if address is None else address
    put_file(interface, lambda file: file.write(_interface(result, source).encode("utf-8")))
    put_file(where, lambda file: _write_tasks(_tasks(result, source, prefix), file))
    return interface


def interface_of(path: Path) -> Path:
    """Where the labeling interface is written that belongs to tasks in ``path``."""
    return path.with_suffix(".xml")


def how_to_import(source: Source, path: Path) -> str:
    """What a person does with what was written to ``path``, in one line."""
    steps = (
        f"In a project of Label Studio, paste {interface_of(path).name} under Settings > Labeling Interface > Code, "
        f"then import {path.name}"
    )
    if source.kind != "pictures":
        return f"{steps}."
    folder = source.path.resolve()
    return (
        f"{steps}; pictures show where it runs with LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
        f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={folder.parent}, and has {folder} as local storage."
    )


def _interface(result: LabelResult, source: Source) -> str:
    if source.kind == "pictures":
        item = f'  <Image name="{_OBJECT}" value="$image"/>'
    else:
        item = f'  <Text name="{_OBJECT}" value="$text"/>'
    choices = "\n".join(f"    <Choice value={quoteattr(name)}/>" for name in result.classes)
    control = f'  <Choices name="{_CONTROL}" toName="{_OBJECT}" choice="single" showInline="true">'
    return f"<View>\n{item}\n{control}\n{choices}\n  </Choices>\n</View>\n"


def _tasks(result: LabelResult, source: Source, prefix: str) -> Iterator[dict[str, Any]]:
    positions = {name: i for i, name in enumerate(source.ids)}
    model = f"laplacianshot {__version__}"
    for row, (name, label, origin) in enumerate(zip(result.ids, result.labels, result.origins, strict=True)):
        data: dict[str, Any] = {ID_FIELD: name}
        if source.kind == "pictures":
            data["image"] = prefix + quote(name)
        else:
            data["text"] = str(source.preview(positions[name]))
        if result.suggestions[row] > 0:
            data["suggestion"] = int(result.suggestions[row])
        task: dict[str, Any] = {"data": data}
        if label:
            score = round(float(result.confidence[row]), _DIGITS)
            data["confidence"] = score
            chosen = [_choice(row, label)]
            if origin == GIVEN:
                task["annotations"] = [{"result": chosen}]
            else:
                task["predictions"] = [{"model_version": model, "score": score, "result": chosen}]
        yield task


def _choice(row: int, label: str) -> dict[str, Any]:
    names = {"from_name": _CONTROL, "to_name": _OBJECT, "type": "choices"}
    return {"id": f"item{row}", **names, "value": {"choices": [label]}}


def _write_tasks(tasks: Iterator[dict[str, Any]], file: IO[bytes]) -> None:
    before = b"[\n"
    for task in tasks:
        file.write(before + json.dumps(task).encode())
        before = b",\n"
    file.write(b"\n]\n" if before == b",\n" else b"[]\n")
