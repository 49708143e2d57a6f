"""What every test may use: made-up tasks, and the real data where it is at hand."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# An example may take as long as it takes: the machine may be busy.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

# The threads of OpenMP, in torch and scikit-learn, sleep where they would wait for one another in a loop: with more
# threads than cores that takes a hundred times as long. It counts for what is loaded from here on, and in subprocesses.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A suite started in the background of a shell ignores Ctrl-C, and so would every command that its tests interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # not in the main thread
        signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[1]
SHARED = Path(os.environ.get("LAPLACIANSHOT_SHARED", ROOT.parent / "shared"))


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """Path of a file of the shared data; the test is skipped where it is absent."""

    def find(name: str) -> Path:
        path = SHARED / name
        if not path.exists():
            pytest.skip(f"needs {name} of the shared data, which is not part of the project (set LAPLACIANSHOT_SHARED)")
        return path

    return find


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Chromium without a window, driven by Playwright. Tests that need it are skipped without it, but fail in CI.

    Its scope is the module, as its event loop must have ended before other tests start theirs.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        program = None
    if program is None:
        missing = "needs chromium and playwright (on Debian and Ubuntu: apt-get install chromium)"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments, timeout=300_000)
        yield browser
        browser.close()


@pytest.fixture
def clusters() -> Callable[..., tuple[Any, Any, Any]]:
    """Clustered rows: ``clusters(n_classes, per_class, shots)`` gives X, the truth, and y, -1 but for the shots."""

    def make(
        n_classes: int = 3,
        per_class: int = 20,
        shots: int = 2,
        *,
        dim: int = 8,
        spread: float = 0.5,
        seed: int = 0,
        dtype: Any = np.float64,
    ) -> tuple[Any, Any, Any]:
        rng = np.random.default_rng(seed)
        centers = rng.standard_normal((n_classes, dim))
        truth = np.repeat(np.arange(n_classes), per_class)
        X = (centers[truth] + spread * rng.standard_normal((len(truth), dim))).astype(dtype)
        y = np.full(len(truth), -1)
        for c in range(n_classes):
            y[rng.choice(np.flatnonzero(truth == c), shots, replace=False)] = c
        return X, truth, y

    return make


@pytest.fixture(scope="session")
def digits():
    """Pixels, truth, and y with five labels per digit."""
    return _digits()


def _digits():
    from sklearn.datasets import load_digits

    pixels, truth = load_digits(return_X_y=True)
    y = np.full(len(truth), -1)
    for digit in range(10):
        y[np.flatnonzero(truth == digit)[:5]] = digit
    return pixels.astype(np.float32), truth, y


@pytest.fixture(scope="session")
def vectors():
    """The digits with a little noise: vectors that are centered and brought to length one, without equal distances.

    Columns of zeros make them too wide for a table.
    """
    pixels, truth, y = _digits()
    noise = np.random.default_rng(0).standard_normal(pixels.shape)
    return np.pad((pixels + 0.02 * noise).astype(np.float32), ((0, 0), (0, 64))), truth, y


@pytest.fixture(scope="session")
def groups():
    """``groups(n, dim, n_groups)``: float32 rows about centers, in random order."""

    def make(n=4000, dim=16, n_groups=40, spread=0.4, seed=0):
        rng = np.random.default_rng(seed)
        centers = rng.standard_normal((n_groups, dim))
        rows = centers[rng.integers(0, n_groups, n)] + spread * rng.standard_normal((n, dim))
        return rows.astype(np.float32)

    return make
