from __future__ import annotations

import numpy as np
import pytest

from laplacianshot.datasets import load_digits


def test_the_digits_are_all_there():
    digits = load_digits()
    assert digits.features.shape == (1797, 64)
    assert digits.images.shape == (1797, 8, 8)
    assert digits.class_names == tuple("0123456789")
    assert digits.smallest_class == 174
    assert (digits.features.min(), digits.features.max()) == (0, 16)


def test_a_picture_is_its_row_of_pixels():
    digits = load_digits()
    np.testing.assert_array_equal(digits.images[7].ravel(), digits.features[7])


def test_the_digits_cannot_be_changed_by_accident():
    digits = load_digits()
    with pytest.raises(ValueError, match="read-only"):
        digits.features[0, 0] = 1
    with pytest.raises(ValueError, match="read-only"):
        digits.labels[0] = 1
