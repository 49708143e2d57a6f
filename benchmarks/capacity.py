"""What a set of any size costs on a Ray cluster: a model of processor time, memory and network, fitted and checked.

    python benchmarks/capacity.py measure --output docs/results/capacity.json
    python benchmarks/capacity.py predict docs/results/capacity.json

*measure* labels sets of several sizes with ``ray_fit`` on a local cluster of two CPUs. Sets are mixed from digits
(scale_vectors.py), neighbours are found by cells and the largest entries of assignments are kept, as in
sets that need a cluster. Times are processor seconds of the workers, which other work on the machine disturbs least.
*predict* fits each stage on the runs marked ``fit``, compares with those marked ``check``, which differ in size and
number of shards and had no part in the fit, and extrapolates.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scale_vectors import few_labels, write_vectors
from scipy.optimize import minimize_scalar, nnls

from laplacianshot.scale import plan
from laplacianshot.scale.plan import GraphChoice
from laplacianshot.scale.ray import connected, open_shards, ray_fit
from laplacianshot.scale.ray.graph import load_graph
from laplacianshot.scale.ray.options import RayOptions

# Rows, features, classes, neighbours, shards.
FIT = (
    (4000, 128, 100, 14, 2),
    (8000, 128, 100, 20, 2),
    (8000, 128, 100, 20, 4),
    (8000, 512, 100, 20, 4),
    (8000, 128, 1000, 20, 4),
    (8000, 128, 100, 60, 4),
    (16000, 128, 100, 28, 8),
    (16000, 256, 100, 30, 4),
    (16000, 512, 1000, 20, 2),
)
CHECK = (
    (6000, 384, 100, 40, 2),
    (12000, 256, 1000, 24, 3),
    (24000, 128, 100, 34, 6),
    (32000, 256, 100, 25, 5),
    (32000, 512, 1000, 30, 3),
)
ORDERED = ((16000, 256, 100, 30, 4), (24000, 128, 100, 34, 6))
ROUNDS = 6
STAGES = ("survey", "index_shard", "search_shard", "join_edges", "build_graph", "step")
NAMES = ("Reading", "Cells", "Neighbours", "Edges", "Graph", "One round")
# Entries of an assignment that are kept in these runs.
ENTRIES = 32
# A machine to be counted in: cores, memory, network.
CORES, MEMORY, NETWORK = 32, 256e9, 25e9 / 8


def measure_one(folder: Path, size: tuple[int, int, int, int, int], part: str) -> dict[str, Any]:
    """Label one set, and add up what the workers say; rows of one marked ``ordered`` are put in order first."""
    n, width, n_classes, k, shards = size
    wide = folder / f"{n}-{n_classes}.npy"
    truth = write_vectors(wide, n, n_classes, "digits", None)
    rows = folder / "rows.npy"
    np.save(rows, np.ascontiguousarray(np.load(wide, mmap_mode="r")[:, :width]))
    wide.unlink()
    options = RayOptions(n_neighbors=k, max_iter=ROUNDS, choice=GraphChoice("cells"), order=part == "ordered")
    fit = ray_fit(
        open_shards(rows, shards),
        few_labels(truth, n_classes, 2),
        folder=str(folder / f"{part}-{n}-{width}-{n_classes}-{k}-{shards}"),
        options=options,
    )
    events = json.loads(Path(fit.job.folder.path("timeline.json")).read_text())["traceEvents"]
    busy = {name: sum(e["args"]["busy"] for e in events if e["name"] == name) for name in STAGES}
    n_rounds = len(fit.sent) - 1
    busy["step"] /= n_rounds
    halo = sum(load_graph(fit.job, number).n_halo for number in range(shards))
    return {
        "size": list(size),
        "part": part,
        "busy": busy,
        "probes": fit.graph.parameters["probes"],
        "recall": fit.graph.recall,
        "halo": halo,
        "sent": [int(count) for count in fit.sent],
        "peak": max(e["args"]["peak"] for e in events if e["name"] == "step"),
        "right": float((fit.codes() == truth).mean()),
    }


def measure(output: Path) -> None:
    # The form that large sets take.
    vars(plan)["LARGE_ASSIGNMENTS"] = 0
    runs = []
    with tempfile.TemporaryDirectory() as folder, connected(cpus=2):
        # The first one compiles and loads; it is not kept.
        measure_one(Path(folder), FIT[0], "warm")
        for part, sizes in (("fit", FIT), ("check", CHECK), ("ordered", ORDERED)):
            for size in sizes:
                runs.append(measure_one(Path(folder), size, part))
                print(json.dumps(runs[-1]), flush=True)
    output.write_text(json.dumps({"rounds": ROUNDS, "runs": runs}, indent=1) + "\n")


def terms(stage: str, size: Sequence[float], probes: float, reach: float) -> list[float]:
    """What the processor seconds of a stage are a sum of, each with a constant of its own."""
    n, width, n_classes, k, shards = size
    root = math.sqrt(n * shards)
    return {
        "survey": [n * width, shards, 1.0],
        "index_shard": [n * width * math.sqrt(n / shards), n, shards, 1.0],
        "search_shard": [n * width * root * probes / 4, n * root * probes / 4, n * width * root * 4, n * shards * k],
        "join_edges": [n * k, shards**2, 1.0],
        "build_graph": [n * k, n * k * math.log(n * k), shards**2],
        "step": [n * n_classes * width, n * n_classes, n * k, halo_rows(n, k, shards, reach), shards**2],
    }[stage]


def halo_rows(n: float, k: float, shards: float, reach: float) -> float:
    """Rows that shards need of others, in all, when rows lie in no order: each has ``reach k`` edges to anywhere."""
    return float(n * (shards - 1) * (1 - (1 - 1 / shards) ** (reach * k)))


def fitted(runs: list[dict[str, Any]]) -> tuple[dict[str, Any], float]:
    """Constants of each stage by least squares of relative errors, none below zero; and the reach of a row's edges."""

    def error(c: float) -> float:
        gaps = [halo_rows(r["size"][0], r["size"][3], r["size"][4], c) / r["halo"] - 1 for r in runs]
        return float(np.square(gaps).sum())

    reach = float(minimize_scalar(error, bounds=(0.05, 3), method="bounded").x)
    constants = {}
    for stage in STAGES:
        wanted = np.array([run["busy"][stage] for run in runs])
        rows = np.array([terms(stage, run["size"], run["probes"], reach) for run in runs])
        scale = rows.max(axis=0)
        found, _ = nnls(rows / scale / wanted[:, None], np.ones(len(runs)))
        constants[stage] = found / scale
    return constants, reach


def predicted(constants: dict[str, Any], stage: str, size: Sequence[float], probes: float, reach: float) -> float:
    return float(np.array(terms(stage, size, probes, reach)) @ constants[stage])


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
    kept = json.loads(path.read_text())
    runs = kept["runs"]
    constants, reach = fitted([run for run in runs if run["part"] == "fit"])
    print("| N | D | C | k | shards | | " + " | ".join(NAMES) + " | rows sent |")
    print("|" + "---|" * (len(NAMES) + 7))
    errors: dict[str, list[float]] = {part: [] for part in ("fit", "check")}
    for run in runs:
        ratios = [predicted(constants, s, run["size"], run["probes"], reach) / run["busy"][s] for s in STAGES]
        rows = halo_rows(run["size"][0], run["size"][3], run["size"][4], reach) / run["halo"]
        if run["part"] != "ordered":
            errors[run["part"]] += [abs(math.log(ratio)) for ratio in [*ratios, rows]]
        cells = [f"{run['busy'][s]:.3g} s ({ratio:.2f})" for s, ratio in zip(STAGES, ratios, strict=True)]
        size = " | ".join(f"{value:,}" for value in run["size"])
        print(f"| {size} | {run['part']} | " + " | ".join(cells) + f" | {run['halo']:,} ({rows:.2f}) |")
    for part, logs in errors.items():
        typical, worst = math.exp(float(np.median(logs))), math.exp(max(logs))
        print(f"\n{part}: predicted over measured is off by a factor of {typical:.2f} typically, {worst:.2f} at worst")
    first, last = (np.median([bytes_a_row(run)[i] for run in runs]) for i in range(2))
    print(f"\nreach {reach:.2f}; bytes a row on its way: {first:.0f} at first, {last:.0f} at the end")
    probes = max(run["probes"] for run in runs)
    print(f"probes up to {probes}; recall {min(run['recall'] for run in runs):.3f} at least")
    base, slope = memory_model([run for run in runs if run["part"] == "fit"])
    gaps = [
        (base + slope * held_bytes(run["size"], run["halo"]) / 2) / run["peak"]
        for run in runs
        if run["part"] == "check"
    ]
    print(
        f"memory: {base / 1e6:.0f} MB a process and {slope:.2f} bytes for each byte held; predicted over measured ",
        end="",
    )
    print(f"in the checks {min(gaps):.2f} to {max(gaps):.2f}")
    ordered = [run for run in runs if run["part"] == "ordered"]
    own = max(run["halo"] / run["size"][0] for run in ordered) if ordered else math.nan
    for run in ordered:
        n, k, shards = run["size"][0], run["size"][3], run["size"][4]
        less = run["halo"] / halo_rows(n, k, shards, reach)
        print(
            f"in order, {n:,} rows in {shards} shards: {run['halo']:,} rows are sent, {less:.2f} of those in no order"
        )
    for n, machines in ((1e8, 8), (1e8, 32), (1e9, 64), (1e9, 256)):
        extrapolate(constants, reach, own, n, machines, float(first), float(probes), base, slope)


def extrapolate(
    constants: dict[str, Any],
    reach: float,
    own: float,
    n: float,
    machines: int,
    row_bytes: float,
    probes: float,
    base: float,
    slope: float,
) -> None:
    """Time, memory and network for n float16 vectors of 512 numbers in 1,000 classes, 40 rounds, a shard a core.

    Rows in no order, and in order: then a shard needs ``own`` times as many rows of others as it has itself.
    """
    width, n_classes, rounds = 512.0, 1000.0, 40
    k, shards = round(math.sqrt(n / n_classes - 1)), CORES * machines
    size = [n, width, n_classes, k, shards]
    hours = {s: predicted(constants, s, size, probes, reach) / 3600 / shards for s in STAGES}
    print(f"\nN = {n:.0e}, k = {k}, {machines} machines of {CORES} cores, {shards} shards")
    for stage, name in zip(STAGES, NAMES, strict=True):
        print(f"  {name}: {hours[stage]:.3g} h")
    for what, rows in (("no order", halo_rows(n, k, shards, reach)), ("in order", own * n)):
        wire = rows * row_bytes / machines / NETWORK / 3600
        held = base * shards + slope * held_bytes(size, rows, 2)
        total = sum(hours.values()) + (rounds - 1) * hours["step"] + rounds * wire
        print(
            f"  {what}: {rows * row_bytes / 1e12:.3g} TB sent a round ({60 * wire:.3g} min), "
            f"{held / machines / 1e9:.0f} GB a machine, {total:.1f} h in all"
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
