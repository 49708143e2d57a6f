"""SIGKILL during labeling, thirty times: what was acknowledged must be there afterwards.

    python benchmarks/studio/kills.py [--kills 30]

The studio is started, clients label as fast as they can, and after a random moment its process is killed. It is started
again on the same project, and every label that was acknowledged, in this life or an earlier one, must be there.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import httpx
import numpy as np
from studio.serving import Studio, studio

CLIENTS = 3


class Labeler(threading.Thread):
    """Labels items, its own ones, until the server is gone."""

    def __init__(self, server: Studio, number: int, life: int) -> None:
        super().__init__(daemon=True)
        self._server, self._number, self._life = server, number, life
        self.acknowledged: dict[int, str] = {}

    def run(self) -> None:
        """Until the connection breaks."""
        rng = np.random.default_rng([self._number, self._life])
        with contextlib.suppress(httpx.HTTPError), self._server.client() as client:
            while True:
                index = self._number + CLIENTS * int(rng.integers(0, 500))
                name = f"class {int(rng.integers(0, 4))}"
                answer = client.post("/api/label", json={"items": [index], "name": name})
                if answer.status_code == 200:
                    self.acknowledged[index] = name
                elif answer.status_code != 409:
                    raise RuntimeError(f"{answer.status_code}: {answer.text}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    acknowledged: dict[int, str] = {}
    total = lost = 0
    with tempfile.TemporaryDirectory() as folder:
        for life in range(arguments.kills + 1):
            with studio(["--demo"], Path(folder)) as server:
                with server.client() as client:
                    lost += missing(client, acknowledged)
                if life == arguments.kills:
                    break
                labelers = [Labeler(server, number, life) for number in range(CLIENTS)]
                for labeler in labelers:
                    labeler.start()
                # In the middle of the work, however slow the machine is at the time.
                wanted = int(rng.integers(1, 60))
                end = time.monotonic() + 60
                while sum(len(one.acknowledged) for one in labelers) < wanted and time.monotonic() < end:
                    time.sleep(0.001)
                server.process.kill()
                for labeler in labelers:
                    labeler.join(30)
                    total += len(labeler.acknowledged)
                    acknowledged |= labeler.acknowledged
            print(f"kill {life + 1}: {total} labels acknowledged so far, {lost} lost", flush=True)
    print(f"{arguments.kills} kills, {total} acknowledged labels, {lost} lost")
    if lost:
        raise SystemExit(1)


def missing(client: httpx.Client, acknowledged: dict[int, str]) -> int:
    """How many acknowledged labels the server does not have.

    A label that was on its way when the server was killed may be there without an answer: then it is the newer one.
    """
    names = {c["id"]: c["name"] for c in client.get("/api/state").json()["classes"]}
    found: dict[int, str] = {}
    for start in range(0, 2000, 500):
        page = client.get("/api/items", params={"origin": "given", "offset": start, "limit": 500}).json()["items"]
        found |= {item["index"]: names[item["class"]] for item in page}
    gone = [index for index in acknowledged if index not in found]
    other = [index for index, name in acknowledged.items() if index in found and found[index] != name]
    acknowledged.update({index: found[index] for index in other})
    # One request of each client may have been under way.
    return len(gone) + max(0, len(other) - CLIENTS)


if __name__ == "__main__":
    main()
