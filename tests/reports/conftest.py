from __future__ import annotations

import numpy as np
import pytest

from laplacianshot.cli.demo_run import run_demo
from laplacianshot.datasets import Digits, load_digits
from laplacianshot.reports.demo import DemoResult


@pytest.fixture(scope="session")
def few_digits() -> Digits:
    """Twenty-two digits of each class."""
    digits = load_digits()
    rows = np.concatenate([np.flatnonzero(digits.labels == c)[:22] for c in range(10)])
    return Digits(digits.features[rows], digits.labels[rows], digits.class_names)


@pytest.fixture(scope="session")
def small_result(few_digits: Digits) -> DemoResult:
    """The demo on a few digits."""
    return run_demo(few_digits, repeats=3, labels_per_class=2, seed=0)
