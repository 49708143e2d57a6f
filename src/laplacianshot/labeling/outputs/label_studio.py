"""Tasks with predictions that Label Studio imports, and the labeling interface that goes with them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from laplacianshot import __version__
from laplacianshot.labeling._label_studio import ID_FIELD
from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.result import GIVEN, LabelResult
from laplacianshot.labeling.sources.source import Source
from laplacianshot.runtime.files import put_file

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
