"""Twenty people at once: labeling and browsing for two minutes, no error, no lost label, latencies printed.

    python benchmarks/studio/load.py [--clients 20] [--seconds 120] [--source SOURCE]

Each client labels items of its own, looks at pages, groups, pictures and the state, and one in four also listens to the
events. At the end every acknowledged label must be in the export, and the log as long as the acknowledged actions.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx
import numpy as np
from studio.serving import States, Studio, percentiles, studio


class Client(threading.Thread):
    """One person: a share of the items to label, and a look around between labels."""

    def __init__(self, server: Studio, number: int, n_clients: int, total: int, end: float) -> None:
        super().__init__(daemon=True)
        self._server, self._end = server, end
        self._rng = np.random.default_rng(number)
        self._own = list(range(number, total, n_clients))
        self._states = States(server) if number % 4 == 0 else None
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)
        self.labels: dict[int, str] = {}
        self.actions = 0
        self.errors: list[str] = []

    def run(self) -> None:
        """Until the end."""
        with self._server.client() as client:
            while time.monotonic() < self._end:
                try:
                    self._one(client)
                except (httpx.HTTPError, KeyError) as error:
                    self.errors.append(repr(error))

    def _one(self, client: httpx.Client) -> None:
        what = self._rng.choice(["label", "page", "page", "picture", "picture", "groups", "state"])
        offset = int(self._rng.integers(0, 1000))
        index = int(self._rng.choice(self._own))
        sort = str(self._rng.choice(["confidence", "-confidence", "index"]))
        name = f"class {index % 10}"
        start = time.perf_counter()
        if what == "label":
            if index in self.labels:
                answer = client.post("/api/label", json={"items": [index], "class": None})
            else:
                answer = client.post("/api/label", json={"items": [index], "name": name})
        elif what == "picture":
            answer = client.get(f"/api/items/{index}/thumbnail")
        elif what == "page":
            answer = client.get("/api/items", params={"offset": offset, "limit": 60, "sort": sort})
        else:
            answer = client.get(f"/api/{what}")
        self.seconds[what].append(time.perf_counter() - start)
        if answer.status_code != 200:
            self.errors.append(f"{what}: {answer.status_code} {answer.text[:200]}")
        elif what == "label":
            self.actions += 1
            if index in self.labels:
                del self.labels[index]
            else:
                self.labels[index] = name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--source", default="--demo", help="What is labeled; the digits if not given.")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        studio([arguments.source], Path(folder)) as server,
        server.client() as own,
    ):
        total = own.get("/api/state", params={"settled": True}).json()["source"]["total"]
        end = time.monotonic() + arguments.seconds
        clients = [Client(server, i, arguments.clients, total, end) for i in range(arguments.clients)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        check(own, clients)


def check(own: httpx.Client, clients: list[Client]) -> None:
    errors = [error for client in clients for error in client.errors]
    print(f"{len(clients)} clients, {sum(len(s) for c in clients for s in c.seconds.values()):,} requests")
    for what in ("label", "page", "picture", "groups", "state"):
        print(f"{what:8s} {percentiles([s for client in clients for s in client.seconds[what]])}")
    rows = csv.DictReader(io.StringIO(own.get("/api/export").text))
    kept = {position: row["label"] for position, row in enumerate(rows) if row["origin"] == "given"}
    wanted = {index: name for client in clients for index, name in client.labels.items()}
    lost = {index for index in wanted.keys() | kept.keys() if wanted.get(index) != kept.get(index)}
    actions = sum(client.actions for client in clients)
    version = own.get("/api/state").json()["version"]
    print(f"errors {len(errors)}, {len(wanted)} labels given at the end, {len(lost)} lost or wrong; ", end="")
    print(f"{actions} actions acknowledged, {version} in the log")
    for error in errors[:5]:
        print(error)
    if errors or lost or actions != version:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
