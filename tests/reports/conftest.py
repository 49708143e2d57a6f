from __future__ import annotations

import numpy as np
import pytest

from laplacianshot.cli.demo_run import run_demo
from laplacianshot.datasets import load_digits
from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.reports.demo import DemoResult


@pytest.fixture(scope="session")
def few_digits() -> FeatureSet:
    """Twenty-two digits of each class."""
    digits = load_digits()
    rows = np.concatenate([np.flatnonzero(digits.labels == c)[:22] for c in range(10)])
    return FeatureSet(digits.features[rows], digits.labels[rows])


@pytest.fixture(scope="session")
def small_result(few_digits: FeatureSet) -> DemoResult:
    """The demo on a few digits."""
    return run_demo(few_digits, repeats=3, labels_per_class=2, seed=0)
