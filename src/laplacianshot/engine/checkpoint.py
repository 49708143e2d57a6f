"""Finished stages of a large fit, kept by what they were made from, so that a run that was stopped goes on."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from laplacianshot.engine.plan import GraphChoice
from laplacianshot.inference.clues import Answers
from laplacianshot.inference.solution import Solution
from laplacianshot.neighbors.cells import CellIndex
from laplacianshot.neighbors.knn import chosen_method, knn
from laplacianshot.neighbors.rows import Rows
from laplacianshot.neighbors.types import GraphReport, Neighbors
from laplacianshot.runtime.keyed_folder import KeyedFolder, content_key
from laplacianshot.runtime.progress import Progress

# Increase by one whenever the same input would give another result than before.
CODE_VERSION = 6
# Stages of a kind that are kept: those used last.
MAX_KEPT = 4
_CELLS = ("centroids", "starts", "parts")
_SPARSE = ("data", "indices", "indptr")
_NUMBERS = ("converged", "lam", "tau", "dropped_mass")


def content_of(rows: Rows) -> str:
    """A hash of what rows are made of and how."""
    roots = () if rows.norms is None else (rows.norms,)
    return content_key(rows.source, rows.origin, rows.scale, *roots)


def stage_folder(checkpoint: Path, kind: str, *made_from: Any) -> KeyedFolder:
    """The folder of a stage, named by everything that its result depends on: texts, numbers, arrays and bytes."""
    return KeyedFolder.of(checkpoint, kind, CODE_VERSION, *made_from)


def save_solution(folder: KeyedFolder, solution: Solution) -> None:
    """Keep the end of the rounds."""
    Y = solution.assignments
    parts = {name: getattr(Y, name) for name in _SPARSE} if sp.issparse(Y) else {"assignments": Y}
    held = solution.answers is not None and solution.answers.prototypes_held
    facts = {"shape": Y.shape, "prototypes_held": held} | {
        name: np.asarray(getattr(solution, name)).item() for name in _NUMBERS
    }
    arrays = {name: getattr(solution, name) for name in ("labels", "prototypes", "objective", "bias")}
    folder.save(facts, {**arrays, **parts}, keep=MAX_KEPT)


def load_solution(folder: KeyedFolder) -> Solution | None:
    """What :func:`save_solution` kept, or None."""
    kept = folder.load()
    if kept is None:
        return None
    facts, arrays = kept
    if "assignments" in arrays:
        Y = arrays.pop("assignments")
    else:
        Y = sp.csr_array(tuple(arrays.pop(name) for name in _SPARSE), shape=tuple(facts["shape"]))
    answers = Answers(prototypes_held=facts["prototypes_held"])
    return Solution(assignments=Y, answers=answers, **{name: facts[name] for name in _NUMBERS}, **arrays)


def kept_neighbors(
    rows: Rows,
    n_neighbors: int,
    graph: GraphChoice,
    *,
    memory: int | None = None,
    progress: Progress | None = None,
    folder: KeyedFolder | None = None,
) -> Neighbors:
    """The nearest other rows of each row (n, D), nearest first, from the folder of these arguments or searched now."""
    kept = None if folder is None else folder.load()
    if kept is not None:
        return _from_arrays(*kept, searched=rows)
    how: Any = {**asdict(graph), "memory": memory, "progress": progress}
    # Exact search puts neighbors in order only if it is to measure them.
    measured = chosen_method(graph.method, len(rows), graph.target_recall) == "exact"
    found = knn(rows, n_neighbors, **how, distances=measured, reorder=True)
    found = replace(found, distances=found.distances[:, :0].copy())
    if folder is not None:
        cells = {} if found.index is None else {name: getattr(found.index, name) for name in _CELLS}
        folder.save(
            {"report": asdict(found.report)}, {"order": found.order, "indices": found.indices, **cells}, keep=MAX_KEPT
        )
    return found


def _from_arrays(facts: dict[str, Any], arrays: dict[str, Any], searched: Rows) -> Neighbors:
    report, order, index = GraphReport(**facts["report"]), arrays["order"], None
    if report.method == "cells":
        cells = {name: arrays[name] for name in _CELLS}
        probes = int(report.parameters["probes"])
        index = CellIndex(searched.centered().ordered(order), order, n_probes=probes, **cells)
    return Neighbors(arrays["indices"], np.empty((len(order), 0), np.float32), report, order, index)
