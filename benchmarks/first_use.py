"""How long a user waits on a fresh machine: nothing compiled, nothing cached, each measure in a process of its own.

    python benchmarks/first_use.py [--repeats 3] [--tasks 10000]

- ``import`` and a first ``fit`` of scikit-learn's digits with five labels per class, against scikit-learn's
  LabelSpreading in the same conditions (the goal: at most 3 s more);
- ``laplacianshot label`` on 1,000 vectors;
- ``evaluate`` of many few-shot tasks: all of it, how much of it compiles (the goal: at most 15 s), and how many
  kernels.

Every process gets an empty ``NUMBA_CACHE_DIR`` and writes no bytecode. The smallest of the repeats is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import laplacianshot

DIGITS = """
import numpy as np
from sklearn.datasets import load_digits
X, truth = load_digits(return_X_y=True)
y = np.full(len(X), -1)
for c in range(10):
    y[np.flatnonzero(truth == c)[:5]] = c
"""
OURS = DIGITS + "from laplacianshot import LaplacianShot\nmodel = LaplacianShot().fit(X, y)\n"
THEIRS = DIGITS + "from sklearn.semi_supervised import LabelSpreading\nmodel = LabelSpreading(kernel='knn').fit(X, y)\n"
LABEL = """
import sys
import numpy as np
rng = np.random.default_rng(0)
centers = 3 * rng.standard_normal((5, 32))
truth = rng.integers(0, 5, 1000)
np.save("vectors.npy", (centers[truth] + rng.standard_normal((1000, 32))).astype(np.float32))
rows = "".join(f"{i},class{truth[i]}\\n" for i in range(25))
open("labels.csv", "w").write("id,label\\n" + rows)
from laplacianshot.cli import main
sys.argv = ["laplacianshot", "label", "vectors.npy", "--labels", "labels.csv", "-o", "out.csv"]
try:
    main()
except SystemExit as stop:
    assert not stop.code, stop.code
"""
EVALUATE = """
import numpy as np
from laplacianshot import FeatureSet, evaluate
rng = np.random.default_rng(0)
labels = np.repeat(np.arange(20), 60)
rows = (rng.standard_normal((20, 64))[labels] + rng.standard_normal((1200, 64))).astype(np.float32)
evaluate(FeatureSet(rows, labels), "laplacianshot", tasks={tasks})
"""
# Seconds of compilation are those of the outermost compilations; several threads may wait for the same one.
MEASURED = """
import json, time
start = time.perf_counter()
{code}
seconds = time.perf_counter() - start
print("MEASURED " + json.dumps({{"seconds": seconds, "compiled": compiled, "compiling": sum(spans)}}))
"""
WATCHED = """
import time
compiled, spans, _open = 0, [], [0, 0.0]
def watch():
    from numba.core.event import Listener, install_listener
    class Watch(Listener):
        def on_start(self, event):
            global compiled
            compiled += 1
            if _open[0] == 0:
                _open[1] = time.perf_counter()
            _open[0] += 1
        def on_end(self, event):
            _open[0] -= 1
            if _open[0] == 0:
                spans.append(time.perf_counter() - _open[1])
    context = install_listener("numba:compile", Watch())
    context.__enter__()
    return context
"""


def measure(code: str, *, watched: bool) -> dict[str, float]:
    """Run ``code`` in a fresh process with empty caches: seconds, kernels compiled and seconds of compiling."""
    # numba itself is loaded before the clock starts only where compilations are counted, not where fits are compared.
    before = WATCHED + "_kept = watch()\n" if watched else "compiled, spans = 0, []\n"
    with tempfile.TemporaryDirectory() as folder:
        caches = {"NUMBA_CACHE_DIR": f"{folder}/numba", "XDG_CACHE_HOME": f"{folder}/cache"}
        source = str(Path(laplacianshot.__file__).parents[1])
        done = subprocess.run(
            [sys.executable, "-c", before + MEASURED.format(code=code)],
            env={**os.environ, **caches, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": source},
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(done.stderr)
    line = next(line for line in done.stdout.splitlines() if line.startswith("MEASURED "))
    found: dict[str, float] = json.loads(line.removeprefix("MEASURED "))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="Processes per measure; the fastest counts.")
    parser.add_argument("--tasks", type=int, default=10_000, help="Few-shot tasks to evaluate.")
    chosen = parser.parse_args()

    def best(code: str, *, watched: bool = False) -> dict[str, float]:
        return min((measure(code, watched=watched) for _ in range(chosen.repeats)), key=lambda found: found["seconds"])

    theirs, ours = best(THEIRS)["seconds"], best(OURS)["seconds"]
    print(f"LabelSpreading, digits, import and fit   {theirs:6.2f} s")
    print(f"LaplacianShot,  digits, import and fit   {ours:6.2f} s   {ours / theirs:.2f} times, {ours - theirs:+.2f} s")
    for name, code in (
        ("laplacianshot label, 1,000 vectors", LABEL),
        (f"evaluate, {chosen.tasks:,} tasks", EVALUATE.format(tasks=chosen.tasks)),
    ):
        found = best(code, watched=True)
        print(
            f"{name:<40} {found['seconds']:6.2f} s   of which {found['compiling']:.2f} s compile "
            f"{found['compiled']:.0f} kernels"
        )


if __name__ == "__main__":
    main()
