"""Exports of Label Studio: what was chosen for which task."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from laplacianshot.labeling._matching import Entry, Ids, Paths
from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.sources.source import Source
from laplacianshot.labeling.sources.tables import Table
from laplacianshot.labeling.sources.values import composed, id_of, label_of

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
