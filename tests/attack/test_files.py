"""Files and folders that are damaged, odd or no files at all: one line and code 2, or a sound result."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from laplacianshot.cli.app import run
from laplacianshot.datasets.decoding import CorruptPicture, check, decode, thumbnail
from laplacianshot.labeling.tables import read_table
from laplacianshot.runtime.errors import InputError
from laplacianshot.studio.change_log import ActionError, ChangeLog, ProjectError
from tests.attack.conftest import blocks, in_time

PER_BLOCK = 20
N_ROWS = 24

# Pieces that parsers stumble over.
TOKENS = [
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"'", b",", b";", b"\t", b"\r", b"\n\n", b"\\ud800"),
    *(b"\xed\xa0\x80", b"1e999", b"-1", b"NaN", b"9" * 400, b"[" * 2000, b"{}", b"null", b"true", b"=1+1"),
    *(b"\xf0\x9f\xa6\x8a", b"id", b"label", b"'shape': (-1, 4)", b"(99999999999, 4)", b"'descr': '|O'", b"'<f2'"),
    *(b"\x93NUMPY", b"PK\x03\x04", b"PAR1"),
]


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Content with one to three faults."""
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(content) + 1))
        to = min(len(content), at + int(rng.integers(1, 40)))
        match rng.choice(7):
            case 0:
                content = content[:at]
            case 1 | 2:
                content = content[:at] + TOKENS[int(rng.integers(len(TOKENS)))] + content[to:]
            case 3:
                content = content[:at] + rng.bytes(to - at) + content[to:]
            case 4:
                content = content[:at] + content[to:]
            case 5:
                content = content[:at] + content[at:to] * int(rng.integers(2, 50)) + content[to:]
            case 6:
                # Headers are where most of the meaning is.
                at = int(rng.integers(min(len(content), 160) + 1))
                content = content[:at] + TOKENS[int(rng.integers(len(TOKENS)))] + content[at:]
    return content


@pytest.fixture(scope="module")
def sound() -> dict[str, bytes]:
    """One sound file of each kind, by its name."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    truth = np.arange(N_ROWS) % 2
    X = np.eye(2, 4)[truth] * 3 + 0.3 * rng.standard_normal((N_ROWS, 4))
    labels = ["cat" if row % 2 else "dog" for row in range(8)]

    def written(write: Callable[[Any], object]) -> bytes:
        buffer = io.BytesIO()
        write(buffer)
        return buffer.getvalue()

    given = np.where(np.arange(N_ROWS) < 8, truth, -1)
    lines = [f"{row},{label}" for row, label in enumerate(labels)]
    records = [{"id": str(row), "label": label} for row, label in enumerate(labels)]
    tasks = [
        {"id": row, "data": {"laplacianshot_id": str(row)}, "annotations": [{"result": [_choice(label)]}]}
        for row, label in enumerate(labels)
    ]
    return {
        "vectors.npy": written(lambda file: np.save(file, X)),
        "vectors.npz": written(
            lambda file: np.savez(file, features=X, labels=given, class_names=np.array(["dog", "cat"]))
        ),
        "vectors.parquet": written(
            lambda file: pq.write_table(pa.table({"features": X.tolist(), "label": [*labels, *[""] * 16]}), file)
        ),
        "labels.csv": "\n".join(["id,label", *lines]).encode(),
        "labels.tsv": "\n".join(["id\tlabel", *(line.replace(",", "\t") for line in lines)]).encode(),
        "labels.jsonl": "\n".join(map(json.dumps, records)).encode(),
        "labels.json": json.dumps(tasks).encode(),
        "labels.parquet": written(lambda file: pq.write_table(pa.Table.from_pylist(records), file)),
    }


def _choice(label: str) -> dict[str, Any]:
    return {"type": "choices", "value": {"choices": [label]}}


def names_an_argument(error: str, arguments: list[str]) -> bool:
    """Whether an error names a file that was given, or an option."""
    files = [Path(word).name for word in arguments[1:] if not word.startswith("-")]
    options = [word for word in arguments if word.startswith("--")]
    return any(name in error for name in (*files, *options) if len(name) > 2)


def check_run(arguments: list[str], out: Path, capsys: Any, case: str) -> int:
    """Run a command: it explains itself in one line, or its output is sound."""
    code = run(arguments)
    err = capsys.readouterr().err
    errors = [line for line in err.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in err, f"{case}: {err}"
    assert "this is a bug" not in err, f"{case}: {err}"
    if code == 0:
        assert not errors, case
        with out.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        assert rows, case
        assert all(row["label"] and 0 <= float(row["confidence"]) <= 1 for row in rows), case
        out.unlink()
    else:
        assert code in (1, 2), case
        assert len(errors) == 1, f"{case}: {err}"
        assert names_an_argument(errors[0], arguments), f"{case}: {err}"
        assert not out.exists(), case
    assert not list(out.parent.glob(".partial-*")), case
    return code


@pytest.mark.parametrize("seed", blocks(160, PER_BLOCK))
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_file_is_refused_in_one_line_or_labeled(seed, sound, tmp_path, capsys):
    good = tmp_path / "good.npy"
    good.write_bytes(sound["vectors.npy"])
    for number in range(PER_BLOCK):
        rng = np.random.default_rng([seed, number])
        name = str(rng.choice(list(sound)))
        path, out = tmp_path / name, tmp_path / "out.csv"
        # The first is sound: the attack must not refuse everything.
        path.write_bytes(mutated(sound[name], rng) if number else sound[name])
        labels = ["--labels", str(path)] if name.startswith("labels") else []
        if name == "vectors.npy":
            (tmp_path / "good.csv").write_bytes(sound["labels.csv"])
            labels = ["--labels", str(tmp_path / "good.csv")]
        source = good if name.startswith("labels") else path
        case = f"seed {seed}, case {number}, {name}"
        with in_time(case):
            arguments = ["label", str(source), *labels, "-o", str(out), "--no-cache"]
            assert check_run(arguments, out, capsys, case) == 0 or number, case


@pytest.mark.parametrize("seed", blocks(20, 10))
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_feature_file_is_refused_in_one_line_or_evaluated(seed, sound, tmp_path, capsys):
    for number in range(10):
        rng = np.random.default_rng([seed, number, 1])
        path, out = tmp_path / "features.npz", tmp_path / "none.csv"
        buffer = io.BytesIO()
        labels = np.arange(40) % 4
        np.savez(buffer, features=rng.standard_normal((40, 4)), labels=labels, class_names=np.array(list("abcd")))
        path.write_bytes(mutated(buffer.getvalue(), rng))
        arguments = ["evaluate", str(path), "--methods", "simpleshot-cl2", "--tasks", "3", "--way", "3", "--query", "3"]
        with in_time(f"seed {seed}, case {number}"):
            code = run(arguments)
            err = capsys.readouterr().err
            assert code in (0, 2), err
            assert code == 0 or names_an_argument(err, arguments), err
            assert "this is a bug" not in err
            assert not out.exists()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
@pytest.mark.filterwarnings("ignore")
def test_a_damaged_picture_is_decoded_or_named(kind, tmp_path):
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 50, 3), dtype=np.uint8)).save(buffer, kind)
    for number in range(30):
        content = mutated(buffer.getvalue(), np.random.default_rng([3, number]))
        path = tmp_path / "picture.jpg"
        path.write_bytes(content)
        for work in (lambda p: decode(p, "p"), lambda p: thumbnail(p, "p", 64), lambda p: check(p, "p", whole=True)):
            with in_time(f"{kind}, case {number}"), contextlib.suppress(CorruptPicture):
                work(path)


SPECIAL = {
    "a pipe": os.mkfifo,
    "a link to a pipe": lambda path: (os.mkfifo(f"{path}.pipe"), path.symlink_to(f"{path}.pipe")),
    "a link to a device that never ends": lambda path: path.symlink_to("/dev/zero"),
    "a link to a random device": lambda path: path.symlink_to("/dev/urandom"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": lambda path: path.mkdir(),
    "an empty file": lambda path: path.touch(),
    "a file without end": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}


@pytest.mark.parametrize("what", SPECIAL)
@pytest.mark.parametrize("name", ["s.npy", "s.npz", "s.csv", "s.jsonl", "s.parquet"])
def test_a_source_that_is_no_file_is_refused_at_once(what, name, tmp_path, capsys):
    path = tmp_path / name
    SPECIAL[what](path)
    with in_time(what):
        assert check_run(["label", str(path), "-o", str(tmp_path / "out.csv")], tmp_path / "out.csv", capsys, what) == 2


@pytest.mark.parametrize("what", SPECIAL)
@pytest.mark.parametrize("name", ["l.csv", "l.json", "l.parquet"])
def test_labels_that_are_no_file_are_refused_at_once(what, name, sound, tmp_path, capsys):
    (tmp_path / "good.npy").write_bytes(sound["vectors.npy"])
    SPECIAL[what](tmp_path / name)
    arguments = ["label", str(tmp_path / "good.npy"), "--labels", str(tmp_path / name), "-o", str(tmp_path / "out.csv")]
    with in_time(what):
        assert check_run(arguments, tmp_path / "out.csv", capsys, what) == 2


@pytest.mark.parametrize("what", SPECIAL)
@pytest.mark.parametrize(
    ("option", "name"),
    [("--classes", "c.txt"), ("--classes", "c.npz"), ("--prior", "p.csv"), ("--class-shares", "s.parquet")],
)
def test_what_is_known_of_classes_in_what_is_no_file_is_refused_at_once(what, option, name, sound, tmp_path, capsys):
    (tmp_path / "good.npy").write_bytes(sound["vectors.npy"])
    (tmp_path / "good.csv").write_bytes(sound["labels.csv"])
    SPECIAL[what](tmp_path / name)
    arguments = ["label", str(tmp_path / "good.npy"), "--labels", str(tmp_path / "good.csv"), option]
    arguments += [str(tmp_path / name), "-o", str(tmp_path / "out.csv")]
    with in_time(what):
        assert check_run(arguments, tmp_path / "out.csv", capsys, what) == 2


@pytest.mark.parametrize("what", SPECIAL)
def test_a_picture_that_is_no_file_is_left_out(what, tmp_path):
    from laplacianshot.labeling.sources import open_source

    folder = tmp_path / "pictures"
    folder.mkdir()
    Image.new("RGB", (8, 8)).save(folder / "a.png")
    SPECIAL[what](folder / "b.png")
    source = open_source(folder)
    for i, name in enumerate(source.ids):
        with in_time(what):
            if name == "a.png":
                source.content_hash(i)
                continue
            with pytest.raises(CorruptPicture):
                decode(source.path / name, name)
            with contextlib.suppress(CorruptPicture):
                source.content_hash(i)


@pytest.mark.parametrize(
    "what", ["a pipe", "a link to a pipe", "a link to a device that never ends", "a link to itself"]
)
def test_an_output_that_is_no_file_is_refused_before_the_work_and_left_alone(what, sound, tmp_path, capsys):
    (tmp_path / "v.npz").write_bytes(sound["vectors.npz"])
    out = tmp_path / "out.csv"
    SPECIAL[what](out)
    before = os.lstat(out)
    with in_time(what):
        assert run(["label", str(tmp_path / "v.npz"), "-o", str(out)]) == 2
    assert "out.csv" in capsys.readouterr().err
    assert os.lstat(out).st_ino == before.st_ino


def test_labels_are_written_for_their_owner_alone(sound, tmp_path):
    (tmp_path / "v.npz").write_bytes(sound["vectors.npz"])
    assert run(["label", str(tmp_path / "v.npz"), "-o", str(tmp_path / "out.csv")]) == 0
    assert (tmp_path / "out.csv").stat().st_mode & 0o077 == 0


def npz(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("names", "fault"),
    [
        (np.array(["dog", " "]), "class_names[1] is blank"),
        (np.array(["dog", "dog "]), "are both 'dog'"),
        (np.array("dog"), "'class_names' has shape ()"),
        (np.array(["dog", "c\ud800t"]), "half a character"),
        (np.array(["dog"]), "there are 1 class_names"),
    ],
)
def test_no_class_is_lost_or_merged_in_silence(names, fault, tmp_path, capsys):
    truth = np.arange(12) % 2
    path = npz(tmp_path / "v.npz", features=np.eye(2, 4)[truth], labels=truth, class_names=names)
    assert run(["label", str(path), "-o", str(tmp_path / "out.csv")]) == 2
    assert fault in capsys.readouterr().err


@pytest.mark.parametrize("scale", [1e18, 1e25, 1e30])
@pytest.mark.parametrize("command", ["label", "evaluate"])
def test_huge_features_are_refused_in_one_line(scale, command, tmp_path, capsys):
    truth = np.arange(80) % 4
    path = npz(tmp_path / "v.npz", features=(np.eye(4)[truth] * scale).astype(np.float32), labels=truth)
    options = ["-o", str(tmp_path / "out.csv")] if command == "label" else ["--tasks", "3", "--way", "3"]
    assert run([command, str(path), *options]) == 2
    assert "squares overflow" in capsys.readouterr().err


def test_a_label_with_half_a_character_is_refused_before_the_work(sound, tmp_path, capsys):
    (tmp_path / "v.npy").write_bytes(sound["vectors.npy"])
    (tmp_path / "l.jsonl").write_text('{"id": 0, "label": "c\\ud800t"}\n{"id": 1, "label": "dog"}\n')
    arguments = ["label", str(tmp_path / "v.npy"), "--labels", str(tmp_path / "l.jsonl"), "-o", str(tmp_path / "o.csv")]
    assert run(arguments) == 2
    assert "half a character" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["-o", "--labels", "source", "--report"])
def test_names_of_300_letters_are_refused_in_one_line(option, sound, tmp_path, capsys):
    (tmp_path / "v.npz").write_bytes(sound["vectors.npz"])
    long = str(tmp_path / ("n" * 300 + ".csv"))
    arguments = ["label", long] if option == "source" else ["label", str(tmp_path / "v.npz"), option, long]
    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


def test_a_library_without_room_in_memory_is_not_called_a_bug(monkeypatch, capsys):
    def refuse(**_: Any) -> None:
        raise ImportError("x.so: failed to map segment from shared object")

    monkeypatch.setattr("laplacianshot.cli.app.app", refuse)
    assert run(["label"]) == 1
    assert capsys.readouterr().err.startswith("error: out of memory")


def test_a_file_of_labels_without_labels_is_named(sound, tmp_path, capsys):
    (tmp_path / "v.npy").write_bytes(sound["vectors.npy"])
    (tmp_path / "empty.csv").write_text("id,label\n0,\n1,\n")
    assert run(["label", str(tmp_path / "v.npy"), "--labels", str(tmp_path / "empty.csv")]) == 2
    assert "empty.csv: no item has a label" in capsys.readouterr().err


def test_a_table_of_100000_columns_is_read_at_once(tmp_path):
    path = tmp_path / "wide.csv"
    names = [f"c{i}" for i in range(100_000)]
    path.write_text(f"{','.join(names)}\n{','.join('1' for _ in names)}\n")
    with in_time("100,000 columns"):
        assert len(read_table(path).columns) == 100_000
    path.write_text(f"{','.join([*names, 'c7'])}\n")
    with in_time("100,000 columns"), pytest.raises(InputError, match="several columns are called 'c7'"):
        read_table(path)


def test_records_with_fields_of_their_own_do_not_fill_the_memory(tmp_path):
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(f'{{"field {row}": 1}}\n' for row in range(20_000)))
    with in_time("20,000 fields"), pytest.raises(InputError, match="20,000 different fields"):
        read_table(path)


def test_spreadsheet_formulas_are_written_as_they_are_or_made_harmless(tmp_path):
    truth = np.arange(12) % 2
    given = np.where(np.arange(12) < 4, truth, -1)
    names = np.array(["=HYPERLINK(1)", "@SUM(1)"])
    path = npz(tmp_path / "v.npz", features=np.eye(2, 4)[truth] * 3, labels=given, class_names=names)
    out = tmp_path / "out.csv"
    assert run(["label", str(path), "-o", str(out)]) == 0
    assert ",=HYPERLINK(1)," in out.read_text()
    assert run(["label", str(path), "-o", str(out), "--safe-csv"]) == 0
    assert ",'=HYPERLINK(1)," in out.read_text()
    assert ",'@SUM(1)," in out.read_text()


def test_a_panorama_is_refused_in_our_words_and_let_in_on_request(tmp_path, monkeypatch, recwarn):
    monkeypatch.delenv("LAPLACIANSHOT_MAX_PIXELS", raising=False)
    monkeypatch.setattr("laplacianshot.datasets.decoding._MAX_PIXELS", 1000)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    path = tmp_path / "wide.png"
    Image.new("L", (200, 20)).save(path)
    with pytest.raises(CorruptPicture, match=r"200 x 20 pixels, and 1,000 are the most allowed.*--max-pixels"):
        decode(path, "wide")
    monkeypatch.setenv("LAPLACIANSHOT_MAX_PIXELS", "4000")
    assert decode(path, "wide").size == (200, 20)
    assert not [warning for warning in recwarn if "bomb" in str(warning.message)]
    assert Image.MAX_IMAGE_PIXELS == 100


@pytest.mark.parametrize("seed", blocks(40, PER_BLOCK))
def test_a_damaged_database_of_the_studio_is_refused_in_one_line_or_opened(seed, tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    log = ChangeLog(folder, "source")
    log.commit(log.state.labeling_by_name({"a": "cat", "b": "dog"}))
    log.commit(log.state.clearing(["a"]))
    log.undo()
    log.close()
    sound = log.path.read_bytes()
    for number in range(PER_BLOCK):
        rng = np.random.default_rng([seed, number])
        for old in folder.iterdir():
            old.unlink()
        log.path.write_bytes(sound)
        if number % 2:
            log.path.write_bytes(mutated(sound, rng))
        else:
            _change_cell(log.path, rng)
        with in_time(f"seed {seed}, case {number}"), contextlib.suppress(ProjectError, ActionError, sqlite3.Error):
            again = ChangeLog(folder, "source")
            try:
                again.redo()
                again.undo()
            finally:
                again.close()


def _change_cell(path: Path, rng: np.random.Generator) -> None:
    """Put nonsense into a cell of the database, or remove a row."""
    tables = {"meta": "value", "actions": "change", "classes": "id", "labels": "class"}
    table = str(rng.choice(list(tables)))
    cells = [*["target", "kind", "version", "summary"], "change"] if table == "actions" else [tables[table]]
    cell = str(rng.choice(cells))
    value = [-5, 10**12, "x", b"\xff", "[]", '{"classes": 3, "labels": null}', 1.5, ""][int(rng.integers(8))]
    with contextlib.closing(sqlite3.connect(path)) as database, contextlib.suppress(sqlite3.Error), database:
        database.execute("PRAGMA ignore_check_constraints=1")
        where = f"rowid = {int(rng.integers(1, 4))}" if table != "labels" else "1"
        if rng.random() < 0.2:
            database.execute(f"DELETE FROM {table} WHERE {where}")
        else:
            database.execute(f"UPDATE {table} SET {cell} = ? WHERE {where}", (value,))
