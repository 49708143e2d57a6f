"""Steps that are done once: a folder each, with the hash of what it was made from, and the results in it."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from laplacianshot.episodes.results import Setting
from laplacianshot.reports.table import timeless
from laplacianshot.runtime.files import remove_partial
from laplacianshot.runtime.keyed_folder import KeyedFolder, arrays_hash
from laplacianshot.training.state import TrainError

# In the folder of a step: what it was begun with, how long it has taken so far, and, at its end, its record.
_BEGUN, _CLOCK, _DONE = "begun.json", "clock.json", "step.json"

# Seconds of a step that a kill may cost in its clock.
_TICK_SECONDS = 5.0


def digest(document: Any) -> str:
    """SHA-256 of a JSON document; the order of its keys does not matter."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class StepRecord:
    """The record of a finished step: ``step.json``."""

    step: str
    key: str  # hash of the inputs
    inputs: Mapping[str, Any]  # everything that decides the outputs
    outputs: str  # hash of what was made, times left out
    seconds: float  # over all attempts
    finished: str  # date and time, UTC

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The record of a folder; None where the step is not finished."""
        try:
            return cls(**KeyedFolder(str(folder)).json(_DONE))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError) as error:
            raise TrainError(f"{folder / _DONE}: is not the record of a step; choose another output folder.") from error


class Step:
    """The folder of a step, from its beginning to its record.

    What was begun or finished with other inputs is put aside under a name of its own, and brought back when those
    inputs come back.

    The name of the folder is the name of the step. The inputs are plain data that decides the outputs, including a
    version of the code. A folder with a file called ``adopt`` was begun by another command, and is continued.
    """

    def __init__(self, folder: Path, inputs: Mapping[str, Any], *, adopt: str | None = None) -> None:
        self.folder = folder
        self.inputs = dict(inputs)
        self.key = digest(self.inputs)
        self._files = KeyedFolder(str(folder))
        self._adopt = adopt
        self._before = 0.0
        self._started = self._ticked = time.monotonic()

    @property
    def record(self) -> StepRecord | None:
        """The record, if the step was finished with these very inputs."""
        found = StepRecord.read(self.folder)
        return found if found is not None and found.key == self.key else None

    def begin(self) -> str:
        """Make the folder ready and start the clock; return what happened to an older one, in words."""
        remove_partial(self.folder)
        said = ""
        begun = read_json(self.folder / _BEGUN)
        if begun is not None and begun.get("key") != self.key:
            before = begun.get("inputs", {})
            changed = [name for name in {**before, **self.inputs} if before.get(name) != self.inputs.get(name)]
            aside = self._aside(str(begun.get("key")))
            while aside.exists():
                aside = aside.with_name(f"{aside.name}-again")
            self.folder.rename(aside)
            said = f"again, as {', '.join(changed)} changed; what was there is kept in {aside.name}."
        aside = self._aside(self.key)
        if aside.exists() and not self.folder.exists():
            aside.rename(self.folder)
            said = f"what was put aside in {aside.name} is continued."
        self._check_owner()
        if not self._files.has(_BEGUN):
            self._files.put_json(_BEGUN, {"step": self.folder.name, "key": self.key, "inputs": self.inputs})
        clock = read_json(self.folder / _CLOCK)
        self._before = float(clock["seconds"]) if clock else 0.0
        self._started = self._ticked = time.monotonic()
        return said

    def _check_owner(self) -> None:
        """Refuse a folder with files of others, unless they can be continued."""
        if self._files.has(_BEGUN) or (self._adopt and self._files.has(self._adopt)):
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise TrainError(f"{self.folder}: holds files that are not of this command; choose another output.")

    def tick(self) -> None:
        """Save the time spent so far, now and then."""
        if time.monotonic() - self._ticked >= _TICK_SECONDS:
            self._ticked = time.monotonic()
            self._files.put_json(_CLOCK, {"seconds": self.seconds})

    @property
    def seconds(self) -> float:
        """Time spent, over all attempts."""
        return self._before + time.monotonic() - self._started

    def at_least(self, seconds: float) -> None:
        """Count at least this much time: attempts of other commands count too."""
        self._before += max(0.0, seconds - self.seconds)

    def finish(self, outputs: str) -> StepRecord:
        """Write the record: from here on the step is done."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = StepRecord(self.folder.name, self.key, self.inputs, outputs, round(self.seconds, 3), now)
        self._files.put_json(_DONE, vars(record))
        return record

    def _aside(self, key: str) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{key[:8]}")


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a JSON document; None where there is none, and an empty one where it is damaged."""
    try:
        document: Any = KeyedFolder(str(path.parent)).json(path.name)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


# The plain values of a part, as JSON text.
_PLAIN = "plain"


@dataclass(frozen=True)
class Part:
    """A part of the results of a step, one ``.npz`` file: plain values and arrays."""

    plain: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what :meth:`save` wrote."""
        arrays = dict(KeyedFolder(str(path.parent)).arrays(path.name))
        return cls(json.loads(str(arrays.pop(_PLAIN))), arrays)

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        text = np.array(json.dumps(self.plain, allow_nan=False))
        KeyedFolder(str(path.parent)).put_arrays(path.name, {_PLAIN: text, **self.arrays})

    def add(self, name: str, found: Any) -> Self:
        """Add a data class, or sequences of them; without a name its fields stand at the top."""
        packed = self._pack(name, found)
        self.plain.update({name: packed} if name else packed)
        return self

    def get(self, name: str, kind: type[Any]) -> Any:
        """Return what :meth:`add` got: data classes of this kind, in tuples."""
        return self._unpack(self.plain[name] if name else self.plain, kind)

    def hash(self) -> str:
        """SHA-256 of the content without the times in it."""
        return arrays_hash(self.arrays, json.dumps(timeless(self.plain), sort_keys=True))

    def _pack(self, at: str, one: Any) -> Any:
        if isinstance(one, Sequence):
            return [self._pack(f"{at}-{place}", each) for place, each in enumerate(one)]
        plain: dict[str, Any] = {"at": at}
        for each in fields(one):
            value = getattr(one, each.name)
            if isinstance(value, np.ndarray):
                self.arrays[f"{at}-{each.name}".lstrip("-")] = value
            else:
                plain[each.name] = asdict(value) if isinstance(value, Setting) else value
        return plain

    def _unpack(self, plain: Any, kind: type[Any]) -> Any:
        if isinstance(plain, list):
            return tuple(self._unpack(each, kind) for each in plain)
        prefix = f"{plain.get('at', '')}-".lstrip("-")
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}
        values |= {name.removeprefix(prefix): array for name, array in self.arrays.items() if name.startswith(prefix)}
        values["setting"] = Setting(**plain["setting"])
        # Version 1 wrote a shorter name.
        values.setdefault("class_accuracies", values.get("classes"))
        return kind(**{each.name: values[each.name] for each in fields(kind) if each.name in values})


def parts_hash(folder: Path) -> str:
    """SHA-256 of the parts of a step, without those of times, which are not results."""
    parts = sorted(path for path in folder.glob("*.npz") if not path.name.startswith((".", "time-")))
    return digest({path.name: Part.load(path).hash() for path in parts})
