"""Parts of a step on disk: results of evaluate and tune as arrays, each file whole or not there. Nothing is pickled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from laplacianshot.episodes.plans import Tuned
from laplacianshot.episodes.results import Convergence, Evaluation, Evaluations, MeanInterval, Setting, Tuning
from laplacianshot.runtime.files import put_file

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
