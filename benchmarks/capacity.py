"""What a set of any size costs on a Ray cluster: a model of processor time, memory and network, fitted and checked.

    python benchmarks/capacity.py measure --output docs/results/capacity.json
    python benchmarks/capacity.py predict docs/results/capacity.json

*measure* labels sets of several sizes with ``ray_fit`` on a local cluster of two CPUs. Sets are mixed from digits
(scale_vectors.py), rows are put in order, neighbors are found by cells and the largest entries of assignments are
kept, as in sets that need a cluster; two are run in no order as well. Times are processor seconds of the workers, which
other work on the machine disturbs least. *predict* fits each stage on the runs marked ``fit``, compares with those
marked ``check``, which differ in size and number of shards, are up to ten times as large and had no part in the fit,
and extrapolates.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scale_vectors import few_labels, write_vectors
from scipy.optimize import nnls

from laplacianshot.engine import plan
from laplacianshot.estimator import LaplacianShot
from laplacianshot.ray import connected, open_shards, ray_fit
from laplacianshot.ray.graph import load_graph
from laplacianshot.runtime.types import Floats

# Rows, features, classes, neighbors, shards.
Size = tuple[int, int, int, int, int]
FIT: tuple[Size, ...] = (
    (8000, 128, 100, 20, 2),
    (8000, 128, 100, 20, 4),
    (8000, 512, 100, 20, 4),
    (8000, 128, 1000, 20, 4),
    (8000, 128, 100, 60, 4),
    (16000, 128, 100, 28, 8),
    (16000, 256, 100, 30, 4),
    (16000, 512, 1000, 20, 2),
    (32000, 128, 100, 40, 4),
    (32000, 256, 100, 25, 16),
)
CHECK: tuple[Size, ...] = (
    (12000, 384, 100, 40, 3),
    (24000, 256, 1000, 24, 3),
    (48000, 128, 100, 34, 6),
    (100_000, 256, 100, 32, 8),
    (100_000, 512, 1000, 20, 4),
    (300_000, 128, 100, 55, 12),
)
UNORDERED: tuple[Size, ...] = ((16000, 256, 100, 30, 4), (48000, 128, 100, 34, 6))
ROUNDS = 6
# Names of the stages, and the calls that they consist of.
STAGES = {
    "Reading": ("survey",),
    "Order": ("assign_cells", "gather_rows"),
    "Cells": ("index_shard",),
    "Neighbors": ("search_shard",),
    "Edges": ("join_edges",),
    "Graph": ("build_graph",),
    "One round": ("step",),
}
# Entries of an assignment that are kept in these runs.
ENTRIES = 32
# A machine to be counted in: cores, memory, network.
CORES, MEMORY, NETWORK = 32, 256e9, 25e9 / 8


def measure_one(folder: Path, size: Size, part: str) -> dict[str, Any]:
    """Label one set, and add up what the workers say; rows are put in order first, but those marked ``unordered``."""
    n, width, n_classes, k, shards = size
    wide = folder / f"{n}-{n_classes}.npy"
    truth = write_vectors(wide, n, n_classes, "digits", None)
    rows = folder / "rows.npy"
    np.save(rows, np.ascontiguousarray(np.load(wide, mmap_mode="r")[:, :width]))
    wide.unlink()
    fit = ray_fit(
        open_shards(rows, shards),
        few_labels(truth, n_classes, 2),
        folder=str(folder / f"{part}-{n}-{width}-{n_classes}-{k}-{shards}"),
        estimator=LaplacianShot(n_neighbors=k, max_iter=ROUNDS, graph="cells"),
        order=part != "unordered",
    )
    busy = {name: sum(fit.usage[call].busy for call in calls if call in fit.usage) for name, calls in STAGES.items()}
    busy["One round"] /= len(fit.sent) - 1
    halo = sum(load_graph(fit.job, number)[1][-1].stop for number in range(len(fit.job.shards)))
    return {
        "size": list(size),
        "part": part,
        "busy": busy,
        "probes": fit.graph.parameters["probes"],
        "recall": fit.graph.recall,
        "halo": halo,
        "sent": [int(count) for count in fit.sent],
        "peak": fit.usage["step"].peak,
        "right": float((fit.codes() == truth).mean()),
    }


def measure(output: Path) -> None:
    # The form that large sets take.
    vars(plan)["LARGE_ASSIGNMENTS"] = 0
    runs = []
    with tempfile.TemporaryDirectory() as folder, connected(cpus=2):
        # The first one compiles and loads; it is not kept.
        measure_one(Path(folder), FIT[0], "warm")
        for part, sizes in (("fit", FIT), ("check", CHECK), ("unordered", UNORDERED)):
            for size in sizes:
                runs.append(measure_one(Path(folder), size, part))
                print(json.dumps(runs[-1]), flush=True)
    output.write_text(json.dumps({"rounds": ROUNDS, "runs": runs}, indent=1) + "\n")


def terms(stage: str, size: Sequence[float], probes: float, halo: float) -> list[float]:
    """What the processor seconds of a stage are a sum of, each with a constant of its own."""
    n, width, n_classes, k, shards = size
    # There are as many cells in all as 4 sqrt(N S), and a row looks at so many points in those that are searched.
    cells, seen = 4 * math.sqrt(n * shards), probes * math.sqrt(n / shards) / 4
    return {
        "Reading": [n * width, shards, 1.0],
        "Order": [n * width * shards, n * width, shards**2, 1.0],
        "Cells": [n * width * math.sqrt(n / shards), n * width, n, shards, 1.0],
        "Neighbors": [n * width * seen, n * seen, n * width * cells, n * cells, n * k, cells, 1.0],
        "Edges": [n * k, shards**2, 1.0],
        "Graph": [n * k, n * k * math.log(n * k), shards**2],
        "One round": [n * n_classes * width, n * n_classes, n * k, halo, shards**2],
    }[stage]


def power_law(values: Any, *causes: Floats) -> Floats:
    """Logarithm of a factor, and powers: ``value = factor cause^power ...``, by least squares of logarithms."""
    rows = np.column_stack([np.ones(len(values)), *map(np.log, causes)])
    found: Floats = np.linalg.lstsq(rows, np.log(values), rcond=None)[0]
    return found


def by_power_law(law: Floats, *causes: float) -> float:
    return float(np.exp(law @ [1.0, *map(math.log, causes)]))


@dataclass(frozen=True)
class Model:
    """Constants of each stage by least squares of relative errors, none below zero; laws of halo rows and of probes."""

    constants: dict[str, Floats]
    halo_law: Floats
    probe_law: Floats

    @classmethod
    def of(cls, runs: list[dict[str, Any]]) -> Model:
        n, _, n_classes, k, shards = (
            np.array(column, dtype=float) for column in zip(*(run["size"] for run in runs), strict=True)
        )
        halo_law = power_law([run["halo"] for run in runs] / n, k, shards, n / shards)
        probe_law = power_law([run["probes"] for run in runs], k, n_classes, n / shards)
        constants = {}
        for stage in STAGES:
            wanted = np.array([run["busy"][stage] for run in runs])
            rows = np.array([terms(stage, run["size"], run["probes"], run["halo"]) for run in runs])
            scale = rows.max(axis=0)
            found, _ = nnls(rows / scale / wanted[:, None], np.ones(len(runs)))
            constants[stage] = found / scale
        return cls(constants, halo_law, probe_law)

    def halo(self, size: Sequence[float]) -> float:
        """Rows that shards need of others, in all."""
        return size[0] * by_power_law(self.halo_law, size[3], size[4], size[0] / size[4])

    def probes(self, size: Sequence[float]) -> float:
        """Cells in which a row is sought."""
        return by_power_law(self.probe_law, size[3], size[2], size[0] / size[4])

    def seconds(self, stage: str, size: Sequence[float]) -> float:
        """Processor seconds of all workers."""
        return float(np.array(terms(stage, size, self.probes(size), self.halo(size))) @ self.constants[stage])


def held_bytes(size: Sequence[float], halo: float, itemsize: int = 4) -> float:
    """What the shards of a set hold in the rounds: their rows, edges both ways, and two copies of assignments."""
    n, width, _, k, _ = size
    return n * width * itemsize + 16 * n * k + (n + halo) * 2 * 10 * ENTRIES


def memory_model(runs: list[dict[str, Any]]) -> tuple[float, float]:
    """Bytes of a process that holds nothing, and what each byte of :func:`held_bytes` takes of one of two hosts."""
    held = np.array([held_bytes(run["size"], run["halo"]) / 2 for run in runs])
    peaks = np.array([run["peak"] for run in runs], dtype=float)
    slope, base = np.polyfit(held, peaks, 1)
    return float(base), float(slope)


def bytes_a_row(run: dict[str, Any]) -> tuple[float, float]:
    """Bytes that a halo row takes on its way, at first and in the last round."""
    return run["sent"][0] / max(1, run["halo"]), run["sent"][-1] / max(1, run["halo"])


def predict(path: Path) -> None:
    runs = json.loads(path.read_text())["runs"]
    parts = {part: [run for run in runs if run["part"] == part] for part in ("fit", "check", "unordered")}
    model = Model.of(parts["fit"])
    print("| N | D | C | k | shards | | " + " | ".join(STAGES) + " | cells searched | rows sent |")
    print("|" + "---|" * (len(STAGES) + 8))
    for part, some in parts.items():
        errors: dict[str, list[float]] = {name: [] for name in (*STAGES, "cells searched", "rows sent")}
        for run in some:
            size = run["size"]
            pairs = {stage: (run["busy"][stage], model.seconds(stage, size)) for stage in STAGES}
            pairs |= {
                "cells searched": (run["probes"], model.probes(size)),
                "rows sent": (run["halo"], model.halo(size)),
            }
            known = part != "unordered"
            cells = []
            for name, (found, expected) in pairs.items():
                value = f"{found:.3g} s" if name in STAGES else f"{found:,}"
                cells.append(f"{value} ({expected / found:.2f})" if known and found else value)
                if found:
                    errors[name].append(expected / found)
            print(f"| {' | '.join(f'{value:,}' for value in size)} | {part} | " + " | ".join(cells) + " |")
        if part == "unordered":
            continue
        logs = np.abs(np.log(np.concatenate(list(errors.values()))))
        typical, worst = math.exp(np.median(logs)), math.exp(logs.max())
        print(
            f"\n{part}: off by a factor of {typical:.2f} typically, {worst:.2f} at worst; "
            + ", ".join(f"{name} {min(e):.2f} to {max(e):.2f}" for name, e in errors.items())
            + "\n"
        )
    first, last = (float(np.median([bytes_a_row(run)[i] for run in parts["fit"] + parts["check"]])) for i in range(2))
    print(f"rows sent / N = {law_text(model.halo_law, 'k', 'S', '(N/S)')}")
    print(f"cells searched = {law_text(model.probe_law, 'k', 'C', '(N/S)')}")
    print(f"bytes per row on its way: {first:.0f} at first, {last:.0f} at the end")
    recalls = [run["recall"] for run in runs]
    print(f"recall {min(recalls):.3f} to {max(recalls):.3f}")
    base, slope = memory_model(parts["fit"])
    gaps = [(base + slope * held_bytes(run["size"], run["halo"]) / 2) / run["peak"] for run in parts["check"]]
    print(
        f"memory: {base / 1e6:.0f} MB a process and {slope:.2f} bytes for each byte held; predicted over measured "
        f"in the checks {min(gaps):.2f} to {max(gaps):.2f}"
    )
    for n, machines in ((1e8, 8), (1e8, 16), (1e9, 64), (1e9, 256)):
        extrapolate(model, n, machines, first, base, slope)


def law_text(law: Floats, *names: str) -> str:
    return " ".join(
        [f"{math.exp(law[0]):.3g}", *(f"{name}^{power:.2f}" for name, power in zip(names, law[1:], strict=True))]
    )


def extrapolate(model: Model, n: float, machines: int, row_bytes: float, base: float, slope: float) -> None:
    """Time, memory and network for n float16 vectors of 512 numbers in 1,000 classes, 40 rounds, a shard a core."""
    width, n_classes, rounds = 512.0, 1000.0, 40
    k, shards = round(math.sqrt(n / n_classes - 1)), CORES * machines
    size = [n, width, n_classes, k, shards]
    hours = {stage: model.seconds(stage, size) / 3600 / shards for stage in STAGES}
    halo = min(model.halo(size), n * (shards - 1))
    wire = halo * row_bytes / machines / NETWORK / 3600
    held = base * shards + slope * held_bytes(size, halo, 2)
    centroids = CORES * 4 * math.sqrt(n * shards) * width * 4
    total = sum(hours.values()) + (rounds - 1) * hours["One round"] + rounds * wire
    print(f"\nN = {n:.0e}, k = {k}, {machines} machines of {CORES} cores, {shards} shards")
    print("  " + ", ".join(f"{stage} {60 * value:.3g} min" for stage, value in hours.items()))
    print(
        f"  {model.probes(size):.0f} cells searched, {halo / n:.1f} rows of others for each row; "
        f"{halo * row_bytes / 1e9:.3g} GB sent a round ({3600 * wire:.3g} s), "
        f"{held / machines / 1e9:.0f} GB a machine, {total:.1f} h in all; "
        f"centroids in the search {centroids / 1e9:.0f} GB a machine"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("measure").add_argument("--output", type=Path, required=True)
    commands.add_parser("predict").add_argument("file", type=Path)
    options = parser.parse_args()
    measure(options.output) if options.command == "measure" else predict(options.file)


if __name__ == "__main__":
    main()
