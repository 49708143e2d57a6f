"""Steps that are done once: a folder each, with the hash of what it was made from."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from laplacianshot.episodes.plans import Tuned
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations, MeanInterval, Setting, Tuning
from laplacianshot.runtime.files import put_file, remove_partial
from laplacianshot.training.errors import OutputInUse

# In the folder of a step: what it was begun with, how long it has taken so far, and, at its end, what came of it.
BEGUN, CLOCK, DONE = "begun.json", "clock.json", "step.json"

# Seconds of a step that a kill may cost in its clock.
_TICK_SECONDS = 5.0


def digest(document: Any) -> str:
    """SHA-256 of a JSON document, whatever the order of its keys."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class StepRecord:
    """What a finished step leaves: ``step.json``.

    Attributes
    ----------
    step : str
    key : str
        Hash of ``inputs``.
    inputs : dict
        Everything that decides the outputs.
    outputs : str
        Hash of what was made, times left out.
    seconds : float
        Over all attempts.
    finished : str
        Date and time, UTC.
    """

    step: str
    key: str
    inputs: Mapping[str, Any]
    outputs: str
    seconds: float
    finished: str

    @classmethod
    def read(cls, folder: Path) -> Self | None:
        """The record of a folder; None where the step is not finished."""
        try:
            return cls(**json.loads((folder / DONE).read_text(encoding="utf-8")))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError) as error:
            raise OutputInUse(f"{folder / DONE}: is not the record of a step; choose another output folder.") from error


class Step:
    """The folder of a step, from its beginning to its record.

    A folder that was begun or finished with other inputs is emptied; one that cost much is put aside instead.

    Parameters
    ----------
    name : str
    folder : Path
    inputs : dict
        Plain data that decides the outputs, a version of the code among it.
    adopt : str, optional
        A folder with a file of this name was begun by another command and can be gone on with. Such work costs much:
        it is put aside, not emptied, when its inputs have changed, and brought back when they are the same again.
    """

    def __init__(self, name: str, folder: Path, inputs: Mapping[str, Any], *, adopt: str | None = None) -> None:
        self.name = name
        self.folder = folder
        self.inputs = dict(inputs)
        self.key = digest(self.inputs)
        self._adopt = adopt
        self._before = 0.0
        self._started = self._ticked = time.monotonic()

    @property
    def record(self) -> StepRecord | None:
        """The record, if the step was finished with these very inputs."""
        found = StepRecord.read(self.folder)
        return found if found is not None and found.key == self.key else None

    def changed(self) -> tuple[str, ...]:
        """Which inputs differ from those the folder was begun with; empty for a new folder and for the same inputs."""
        begun = read_json(self.folder / BEGUN)
        if begun is None or begun.get("key") == self.key:
            return ()
        before = begun.get("inputs", {})
        return tuple(name for name in {**before, **self.inputs} if before.get(name) != self.inputs.get(name))

    def bring_back(self) -> Path | None:
        """Put what was begun with these inputs, and then put aside, in its place again; where it was, if it was."""
        aside = self._aside(self.key)
        there, wanted = read_json(self.folder / BEGUN), read_json(aside / BEGUN)
        if (there or {}).get("key") == self.key or (wanted or {}).get("key") != self.key:
            return None
        if self.folder.exists():
            self._clear(there)
        aside.rename(self.folder)
        return aside

    def begin(self) -> Path | None:
        """Make the folder ready and start the clock; where an older one was put aside, if it was."""
        aside = None
        remove_partial(self.folder)
        shutil.rmtree(self._discarded, ignore_errors=True)
        begun = read_json(self.folder / BEGUN)
        if self.folder.exists() and (begun is None or begun.get("key") != self.key):
            aside = self._clear(begun)
        self.folder.mkdir(parents=True, exist_ok=True)
        if read_json(self.folder / BEGUN) is None:
            _write(self.folder / BEGUN, {"step": self.name, "key": self.key, "inputs": self.inputs})
        clock = read_json(self.folder / CLOCK)
        self._before = float(clock["seconds"]) if clock else 0.0
        self._started = self._ticked = time.monotonic()
        return aside

    def tick(self) -> None:
        """Note the time spent so far, now and then."""
        if time.monotonic() - self._ticked >= _TICK_SECONDS:
            self._ticked = time.monotonic()
            _write(self.folder / CLOCK, {"seconds": self.seconds})

    @property
    def seconds(self) -> float:
        """Time spent, over all attempts."""
        return self._before + time.monotonic() - self._started

    def at_least(self, seconds: float) -> None:
        """So much time was spent, whatever this clock says: attempts of others count too."""
        self._before += max(0.0, seconds - self.seconds)

    def finish(self, outputs: str) -> StepRecord:
        """Write the record: from here on the step is done."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        record = StepRecord(self.name, self.key, self.inputs, outputs, round(self.seconds, 3), now)
        _write(self.folder / DONE, record.__dict__)
        return record

    def _clear(self, begun: Mapping[str, Any] | None) -> Path | None:
        """Take away what was made from other inputs; a folder that is none of ours is left alone."""
        if begun is None:
            if self._adopt is not None and (self.folder / self._adopt).exists():
                return None
            if any(self.folder.iterdir()):
                raise OutputInUse(f"{self.folder}: holds files that are not of this command; choose another output.")
            return None
        if self._adopt is not None:
            aside = self._aside(str(begun.get("key")))
            if not aside.exists():
                self.folder.rename(aside)
                return aside
        # Under another name, so that half a folder is never taken for a whole one.
        shutil.rmtree(self._discarded, ignore_errors=True)
        self.folder.rename(self._discarded)
        shutil.rmtree(self._discarded)
        return None

    @property
    def _discarded(self) -> Path:
        return self.folder.with_name(f".{self.folder.name}-discarded")

    def _aside(self, key: str) -> Path:
        return self.folder.with_name(f"{self.folder.name}-{key[:8]}")


def read_json(path: Path) -> dict[str, Any] | None:
    """A document that is there; None where there is none, and an empty one where it cannot be understood."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _write(path: Path, document: Mapping[str, Any]) -> None:
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    put_file(path, lambda file: file.write(text.encode()))


# The plain part of a file, as JSON text.
_PLAIN = "plain"

Arrays = dict[str, Any]


def save_part(path: Path, plain: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
    """Put plain data and arrays into one ``.npz`` file."""
    content: Arrays = {_PLAIN: np.array(json.dumps(plain, allow_nan=False)), **arrays}
    put_file(path, lambda file: np.savez(file, **content))


def load_part(path: Path) -> tuple[dict[str, Any], Arrays]:
    """What :func:`save_part` has put there."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(str(arrays.pop(_PLAIN))), arrays


def part_hash(path: Path) -> str:
    """SHA-256 of a part without the times in it."""
    plain, arrays = load_part(path)
    total = hashlib.sha256(json.dumps(_timeless(plain), sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode() + array.tobytes())
    return total.hexdigest()


def pack_evaluations(name: str, found: Sequence[Evaluations], plain: dict[str, Any], arrays: Arrays) -> None:
    """Add evaluations, a group for each setting, under ``name``."""
    plain[name] = [[_pack_evaluation(f"{name}-{i}-{j}", one, arrays) for j, one in enumerate(group)]
                   for i, group in enumerate(found)]  # fmt: skip


def unpack_evaluations(name: str, plain: Mapping[str, Any], arrays: Arrays) -> tuple[Evaluations, ...]:
    """Inverse of :func:`pack_evaluations`."""
    return tuple(Evaluations(tuple(_unpack_evaluation(one, arrays) for one in group)) for group in plain[name])


def pack_convergence(name: str, found: Sequence[Convergence], plain: dict[str, Any], arrays: Arrays) -> None:
    """Add traces under ``name``."""
    plain[name] = []
    for i, trace in enumerate(found):
        plain[name].append({"method": trace.method, "setting": asdict(trace.setting), "at": f"{name}-{i}"})
        arrays[f"{name}-{i}-objective"] = trace.objective
        arrays[f"{name}-{i}-converged"] = trace.converged


def unpack_convergence(name: str, plain: Mapping[str, Any], arrays: Arrays) -> tuple[Convergence, ...]:
    """Inverse of :func:`pack_convergence`."""
    return tuple(
        Convergence(
            one["method"], Setting(**one["setting"]), arrays[f"{one['at']}-objective"], arrays[f"{one['at']}-converged"]
        )
        for one in plain[name]
    )


def save_tuned(path: Path, method: str, one: Tuned) -> None:
    """Put what was tuned into one file."""
    tuning = one.tuning
    plain = {
        "method": method,
        "lam": tuning.lam,
        "n_neighbors": tuning.n_neighbors,
        "setting": asdict(tuning.setting),
        "lam_split": tuning.lam_split,
        "neighbor_split": tuning.neighbor_split,
        "seconds": tuning.seconds,
        "test_split": one.test_split,
        "test": None if one.test is None else [asdict(point) for point in one.test],
    }
    names = ("lams", "neighbors", "lam_accuracies", "neighbor_accuracies")
    save_part(path, plain, {name: getattr(tuning, name) for name in names})


def load_tuned(path: Path) -> tuple[str, Tuned]:
    """The method and what :func:`save_tuned` has put there; without its time, which is no result."""
    plain, arrays = load_part(path)
    tuning = Tuning(
        lam=plain["lam"],
        n_neighbors=plain["n_neighbors"],
        setting=Setting(**plain["setting"]),
        lam_split=plain["lam_split"],
        neighbor_split=plain["neighbor_split"],
        seconds=0.0,
        **arrays,
    )
    test = None if plain["test"] is None else tuple(MeanInterval(**point) for point in plain["test"])
    return plain["method"], Tuned(tuning, test, plain["test_split"])


def _pack_evaluation(at: str, one: Evaluation, arrays: Arrays) -> dict[str, Any]:
    arrays[f"{at}-accuracies"] = one.accuracies
    arrays[f"{at}-classes"] = one.class_accuracies
    if one.iterations is not None:
        arrays[f"{at}-iterations"] = one.iterations
    return {
        "at": at,
        "method": one.method,
        "setting": asdict(one.setting),
        "class_names": list(one.class_names),
        "seconds": one.seconds,
    }


def _unpack_evaluation(one: Mapping[str, Any], arrays: Arrays) -> Evaluation:
    at = one["at"]
    return Evaluation(
        method=one["method"],
        setting=Setting(**one["setting"]),
        accuracies=arrays[f"{at}-accuracies"],
        class_accuracies=arrays[f"{at}-classes"],
        class_names=tuple(one["class_names"]),
        iterations=arrays.get(f"{at}-iterations"),
        seconds=one["seconds"],
    )


def _timeless(document: Any) -> Any:
    if isinstance(document, dict):
        return {key: _timeless(value) for key, value in document.items() if key != "seconds"}
    return [_timeless(value) for value in document] if isinstance(document, list) else document
