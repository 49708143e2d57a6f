"""Export a result for other tools: CVAT, FiftyOne, and the package datasets of Hugging Face."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

from laplacianshot.datasets.decoding import MAX_PICTURE_BYTES, CorruptPicture, picture_size
from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.hugging_face import DatasetPictures
from laplacianshot.labeling.outputs import NOT_XML, arrow_table, check_folder, columns_of_result, json_list
from laplacianshot.labeling.result import GIVEN, LabelResult
from laplacianshot.labeling.sources import Source
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import put_file, read_input

# Decimals of a confidence.
_DIGITS = 6

# Rows that are written together into a data set: few, as readers load a group of pictures as a whole.
_GROUP = 100

CVAT_INTERFACE = ".labels.json"


def export_cvat(result: LabelResult, source: Source, path: str | PathLike[str]) -> Path:
    """Write annotations in the format *CVAT for images 1.1* to ``path``, an ``.xml``, and a task's labels beside it.

    One image per item, by its path in the folder, with a tag: ``source="manual"`` for a given label, ``"auto"`` for a
    predicted one, whose confidence is an attribute. An item without a label has no tag.

    Returns where the labels are: JSON for *Raw* in the label constructor of a CVAT task. LabelingError if the items are
    not files of pictures, the folder of ``path`` does not exist, or CVAT cannot hold a name; if a file cannot be
    written, OSError, and an earlier file stays.
    """
    where = Path(path)
    _check_pictures(result, source, "CVAT")
    check_folder(where)
    odd = [name for name in (*result.classes, *result.ids) if NOT_XML.search(name)]
    if odd:
        raise LabelingError(f"{listed(odd)}: CVAT takes no control characters in names; rename them.")
    beside = where.with_suffix(CVAT_INTERFACE)
    attribute = {"name": "confidence", "mutable": False, "input_type": "text", "default_value": "", "values": [""]}
    labels = [{"name": name, "type": "tag", "attributes": [attribute]} for name in result.classes]
    put_file(beside, lambda file: file.writelines(json_list(iter(labels))), private=True)
    put_file(where, lambda file: file.writelines(_cvat_lines(result, source)), private=True)
    return beside


def _cvat_lines(result: LabelResult, source: Source) -> Iterator[bytes]:
    declared = (
        "<attribute><name>confidence</name><mutable>False</mutable><input_type>text</input_type>"
        "<default_value></default_value><values></values></attribute>"
    )
    yield b'<?xml version="1.0" encoding="utf-8"?>\n<annotations>\n  <version>1.1</version>\n  <meta>\n    <task>\n'
    yield f"      <size>{len(result)}</size>\n      <mode>annotation</mode>\n      <labels>\n".encode()
    for name in result.classes:
        attributes = f"<attributes>{declared}</attributes>"
        yield f"        <label><name>{escape(name)}</name><type>tag</type>{attributes}</label>\n".encode()
    yield b"      </labels>\n    </task>\n  </meta>\n"
    for item, (name, label) in enumerate(zip(result.ids, result.labels, strict=True)):
        try:
            width, height = picture_size(_file(result, source, item), name)
        except CorruptPicture:
            # It could be read when it was encoded.
            width = height = 0
        yield f'  <image id="{item}" name={_attribute(name)} width="{width}" height="{height}">\n'.encode()
        if label:
            by = "manual" if result.origins[item] == GIVEN else "auto"
            confidence = f"{result.confidence[item]:.{_DIGITS}f}"
            yield f'    <tag label={_attribute(label)} source="{by}">\n'.encode()
            yield f'      <attribute name="confidence">{confidence}</attribute>\n    </tag>\n'.encode()
        yield b"  </image>\n"
    yield b"</annotations>\n"


def _attribute(text: str) -> str:
    """Return a value of XML between quotes, in which a line break stays one."""
    return quoteattr(text, {"\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})


def export_fiftyone(result: LabelResult, source: Source, path: str | PathLike[str]) -> None:
    """Write a ``FiftyOneImageClassificationDataset`` into the folder of ``path``, which is its ``labels.json``.

    Pictures are named by their absolute paths and are not copied; the folder ``data``, which FiftyOne expects, is
    empty. A label has its confidence and, as attribute, its origin; an item without a label has None.
    """
    where = Path(path)
    _check_pictures(result, source, "FiftyOne")
    check_folder(where)
    labels: dict[str, Any] = {}
    for item, label in enumerate(result.labels):
        confidence, origin = round(float(result.confidence[item]), _DIGITS), result.origins[item]
        made = {"label": label, "confidence": confidence, "attributes": {"origin": origin}}
        labels[str(_file(result, source, item).resolve())] = made if label else None
    (where.parent / "data").mkdir(exist_ok=True)
    document = {"classes": list(result.classes), "labels": labels}
    put_file(where, lambda file: file.write(json.dumps(document).encode()), private=True)


def export_dataset(result: LabelResult, source: Source, path: str | PathLike[str]) -> None:
    """Write a data set that ``datasets.load_dataset`` reads, into the folder of ``path``, which is its ``README.md``.

    ``data/train-00000-of-00001.parquet`` has a row per item: the columns of an output, with ``label`` as a class number
    and its names (``ClassLabel``; -1 without a label), and the item itself in a column ``image``, ``text`` or
    ``vector`` if none of the source's columns holds it. The folder can be uploaded to a hub as it is.
    """
    where = Path(path)
    check_folder(where)
    arrow = require("pyarrow", "parquet")
    columns = columns_of_result(result)
    columns.pop("written", None)
    table = arrow_table(columns | {"label": arrow.chunked_array([arrow.array(result.codes, arrow.int64())])})
    features = {name: _feature(table.schema.field(name).type, arrow) for name in table.column_names}
    features["label"] = {"names": list(result.classes), "_type": "ClassLabel"}
    items = _items(result, source, arrow, {name.strip().lower() for name in columns})
    schema = table.schema
    if items is not None:
        features[items.name] = items.feature
        schema = schema.append(arrow.field(items.name, items.kind))
    schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})

    def write(file: Any) -> None:
        with require("pyarrow.parquet", "parquet").ParquetWriter(file, schema) as writer:
            for start in range(0, len(result), _GROUP):
                part = table.slice(start, _GROUP)
                if items is not None:
                    values = [items.value(item) for item in range(start, start + part.num_rows)]
                    part = part.append_column(items.name, arrow.array(values, items.kind))
                writer.write_table(part.cast(schema))

    data = where.parent / "data"
    data.mkdir(exist_ok=True)
    put_file(data / "train-00000-of-00001.parquet", write, private=True)
    put_file(where, lambda file: file.write(_card(result).encode()), private=True)


class _Items(NamedTuple):
    """The column of the items themselves: its name, its feature, its type in pyarrow, and its values."""

    name: str
    feature: Any
    kind: Any
    value: Callable[[int], Any]


def _items(result: LabelResult, source: Source, arrow: Any, taken: set[str]) -> _Items | None:
    """Return the column of items, None if one of the table is that already."""
    rows, vectors = result.rows, result.vectors
    assert rows is not None
    found = None
    if source.kind == "pictures":
        kind = arrow.struct([("bytes", arrow.binary()), ("path", arrow.string())])

        def picture(item: int) -> dict[str, Any]:
            return {"bytes": _bytes(source, int(rows[item])), "path": Path(result.ids[item]).name}

        found = _Items("image", {"_type": "Image"}, kind, picture)
    elif source.kind == "vectors" and vectors is not None:
        feature = {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"}
        found = _Items("vector", feature, arrow.list_(arrow.float32()), lambda item: vectors[item].tolist())
    elif source.kind == "texts" and not source.columns:
        feature = {"dtype": "string", "_type": "Value"}
        found = _Items("text", feature, arrow.string(), lambda item: str(source.load(int(rows[item]))))
    while found is not None and found.name in taken:
        found = found._replace(name=f"source_{found.name}")
    return found


def _bytes(source: Source, row: int) -> bytes:
    """Return the encoded bytes of a picture."""
    if isinstance(source, DatasetPictures):
        return source.encoded(row)
    file = source.file(row)
    if file is None:
        raise LabelingError(f"{source.path}: these pictures have no files; a data set needs them.")
    return read_input(file, MAX_PICTURE_BYTES)


def _feature(kind: Any, arrow: Any) -> Any:
    """Return a type of pyarrow as a feature of datasets."""
    types = arrow.types
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return {"feature": _feature(kind.value_type, arrow), "_type": "List"}
    if types.is_struct(kind):
        return {kind.field(i).name: _feature(kind.field(i).type, arrow) for i in range(kind.num_fields)}
    if types.is_dictionary(kind):
        return _feature(kind.value_type, arrow)
    names = {"double": "float64", "float": "float32", "halffloat": "float16"}
    return {"dtype": names.get(str(kind), str(kind)), "_type": "Value"}


def _card(result: LabelResult) -> str:
    counts = ", ".join(f"{count:,} {origin}" for origin, count in result.counts().items() if count)
    return (
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n---\n\n"
        f"{len(result):,} items in {len(result.classes)} classes, labeled with laplacianshot: {counts}. `confidence` "
        "is the probability that a label is right, `origin` says where it comes from.\n"
    )


def how_to_use(export: str, path: Path) -> str:
    """Return how a person takes an export into its tool, in one line."""
    folder = path.parent
    return {
        "cvat": (
            f"In CVAT, make a task with the pictures and, under Raw, the labels of "
            f"{path.with_suffix(CVAT_INTERFACE).name}; then upload {path.name} as CVAT 1.1."
        ),
        "fiftyone": (
            f"In Python: fiftyone.Dataset.from_dir({str(folder)!r}, "
            "dataset_type=fiftyone.types.FiftyOneImageClassificationDataset)"
        ),
        "hf-dataset": f"In Python: datasets.load_dataset({str(folder)!r}); to share it, upload the folder to a hub.",
    }[export]


def _check_pictures(result: LabelResult, source: Source, tool: str) -> None:
    if source.kind != "pictures":
        raise LabelingError(f"{source.path}: {tool} is for pictures, and these are {source.kind}.")
    if len(result) and source.file(0) is None:
        raise LabelingError(f"{source.path}: {tool} needs files of pictures, and these are not in files.")


def _file(result: LabelResult, source: Source, item: int) -> Path:
    assert result.rows is not None
    file = source.file(int(result.rows[item]))
    assert file is not None
    return file
