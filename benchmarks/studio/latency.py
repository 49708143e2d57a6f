"""How soon one new label is reflected: from the request of a client to the event with predictions made from it.

    python benchmarks/studio/latency.py                       # 10,000 items of 1280-d, ten classes
    python benchmarks/studio/latency.py --items 100000 --labels 30

A label of an item the graph is unsure of is given, and the clock stops when the page would be told that every item has
its new prediction. Two paces: the next label as soon as the last one is reflected, and one after a rest, when the whole
answer is often being made at the same time. Also printed: how many labels the quick answer gives otherwise than the
whole one that follows it, and the processor time of the server: at the first pace that of the quick answers, at the
second with the whole answers between them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx
import numpy as np
import psutil
from studio.serving import States, Studio, made_up, percentiles, studio

LIMITS = {10_000: 0.150, 100_000: 1.5}
_PATIENCE = 900.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=1280)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--labels", type=int, default=60, help="New labels at each pace.")
    parser.add_argument("--rest", type=float, default=1.0, help="Seconds between labels at the slower pace.")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        X, truth = made_up(arguments.items, arguments.dim, arguments.classes)
        np.save(Path(folder) / "vectors.npy", X)
        del X
        with studio([str(Path(folder) / "vectors.npy")], Path(folder) / "project") as server:
            measure(server, truth, arguments)


def measure(server: Studio, truth: Any, arguments: argparse.Namespace) -> None:
    states = States(server)
    rng = np.random.default_rng(1)
    with server.client() as client:
        start = time.perf_counter()
        for c in range(arguments.classes):
            some = rng.choice(np.flatnonzero(truth == c), 3, replace=False).tolist()
            client.post("/api/label", json={"items": some, "name": f"class {c}"}).raise_for_status()
        settle(states, arguments.items)
        print(f"{arguments.items:,} x {arguments.dim}, {arguments.classes} classes: ready after ", end="")
        print(f"{time.perf_counter() - start:.0f} s; {accuracy(client, truth):.3f} of the labels are right")
        for pace, rest in (("at once", 0.0), (f"every {arguments.rest:g} s", arguments.rest)):
            worked = processor_seconds(server)
            seconds = [one_label(client, states, truth, rng, rest) for _ in range(arguments.labels)]
            worked = (processor_seconds(server) - worked) / arguments.labels
            limit = LIMITS.get(arguments.items)
            verdict = "" if limit is None else f"   limit {limit * 1e3:.0f} ms: {np.percentile(seconds, 95) < limit}"
            print(f"next label {pace:12s} {percentiles(seconds)}{verdict}")
            print(f"{'':23s} {worked * 1e3:.0f} ms of processor time a label", flush=True)
        one_label(client, states, truth, rng, 0.0)
        quick = labels_of(client)
        settle(states, arguments.items)
        whole = labels_of(client)
        print(f"the whole answer has another label for {np.mean(quick != whole):.3%} of the items")


def one_label(client: httpx.Client, states: States, truth: Any, rng: np.random.Generator, rest: float) -> float:
    """Seconds until a new label is reflected."""
    time.sleep(rest)
    unsure = client.get("/api/items", params={"origin": "predicted", "sort": "confidence", "limit": 200}).json()
    index = int(rng.choice([item["index"] for item in unsure["items"]]))
    start = time.perf_counter()
    answer = client.post("/api/label", json={"items": [index], "name": f"class {truth[index]}"})
    answer.raise_for_status()
    version = answer.json()["state"]["version"]
    if not states.wait(lambda state: state["predicted"] >= version, 60):
        raise RuntimeError("the label was not reflected within a minute.")
    return time.perf_counter() - start


def processor_seconds(server: Studio) -> float:
    """What the server has used so far, on all cores: a busy machine disturbs it least."""
    used = psutil.Process(server.process.pid).cpu_times()
    return float(used.user + used.system)


def settle(states: States, total: int) -> None:
    def done(state: dict[str, Any]) -> bool:
        all_there = state["embedding"]["finished"] and state["counts"]["waiting"] + state["counts"]["unlabeled"] == 0
        return bool(all_there and state["settled"] == state["version"])

    if not states.wait(done, _PATIENCE):
        raise RuntimeError(f"the {total:,} items were not settled.")


def labels_of(client: httpx.Client) -> Any:
    content = client.get("/api/map/labels").content
    return np.frombuffer(content[: len(content) * 4 // 10], "<i4")


def accuracy(client: httpx.Client, truth: Any) -> float:
    names = {c["id"]: c["name"] for c in client.get("/api/state").json()["classes"]}
    found = np.array([names.get(int(c), "") for c in labels_of(client)])
    return float(np.mean(found == np.char.add("class ", truth.astype(str))))


if __name__ == "__main__":
    main()
