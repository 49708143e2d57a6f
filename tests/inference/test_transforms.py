import numpy as np
import pytest
from sklearn.datasets import load_digits

from laplacianshot import LaplacianShot
from laplacianshot.inference.transforms import (
    are_levels,
    base_mean,
    blended_center,
    choose_transform,
    given_center,
    transform_features,
    unit_roots,
)


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((40, 6))


def test_none_leaves_the_rows_as_they_are_and_copies_them(X):
    out = transform_features(X, "none")
    np.testing.assert_array_equal(out, X)
    assert not np.shares_memory(out, X)


def test_l2_divides_each_row_by_its_norm(X):
    np.testing.assert_allclose(transform_features(X, "l2"), X / np.linalg.norm(X, axis=1, keepdims=True), rtol=1e-14)


def test_cl2_takes_the_center_away_before_it_divides(X):
    center = X.mean(axis=0) + 1
    rows = X - center
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(transform_features(X, "cl2", center), expected, rtol=1e-13)


def test_power_takes_signed_roots_to_length_one_and_then_the_center_away(X):
    roots = np.sign(X) * np.sqrt(np.abs(X))
    z = roots / np.linalg.norm(roots, axis=1, keepdims=True)
    center = z.mean(axis=0) + 0.1
    expected = (z - center) / np.linalg.norm(z - center, axis=1, keepdims=True)
    np.testing.assert_allclose(transform_features(X, "power", center), expected, rtol=1e-12)
    np.testing.assert_allclose(np.square(unit_roots(X)), np.abs(X) / np.abs(X).sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(base_mean(X, "power"), z.mean(axis=0), rtol=1e-12)
    with pytest.raises(ValueError, match="transform='power' needs a center"):
        transform_features(X, "power")


def test_power_does_not_see_the_scale_of_a_row_nor_constant_columns_of_zeros(X):
    scales = np.geomspace(1e-30, 1e30, len(X))[:, None]
    center = base_mean(X, "power")
    np.testing.assert_allclose(transform_features(scales * X, "power", center), transform_features(X, "power", center))
    wider = np.hstack([X, np.zeros((len(X), 3))])
    rows = transform_features(wider, "power", base_mean(wider, "power"))
    np.testing.assert_allclose(rows[:, :6], transform_features(X, "power", center), rtol=1e-12)
    assert np.all(rows[:, 6:] == 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_power_of_zero_rows_and_of_the_largest_numbers_is_finite(X, dtype):
    X = X.astype(dtype)
    X[3], X[4] = 0, np.finfo(dtype).max
    center = base_mean(X, "power")
    rows = transform_features(X, "power", center)
    assert np.all(unit_roots(X)[3] == 0)
    np.testing.assert_allclose(rows[3], -center / np.linalg.norm(center), rtol=1e-5)
    np.testing.assert_allclose(unit_roots(X)[4], 1 / np.sqrt(6), rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


def test_the_blended_center_of_power_is_that_of_the_unit_roots(X):
    codes = np.where(np.arange(40) < 6, np.arange(40) % 2, -1)
    for balanced in (False, True):
        expected = blended_center(unit_roots(X), codes, 2, balanced=balanced)
        found = blended_center(X, codes, 2, balanced=balanced, transform="power")
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_base_mean_for_power_is_a_base_set_or_the_mean_of_its_unit_roots(X):
    mean = base_mean(X, "power")
    np.testing.assert_array_equal(given_center(X, 6, "power"), mean)
    np.testing.assert_array_equal(given_center(mean, 6, "power"), mean)
    with pytest.raises(ValueError, match="base_mean has length 3; with transform='power' it must be a mean of rows"):
        given_center([0, 0, 3, 0, 0, 0], 6, "power")


def test_a_row_of_norm_zero_stays_zero(X):
    X[3] = 0
    assert np.all(transform_features(X, "l2")[3] == 0)
    assert np.all(transform_features(X, "cl2", X[5])[5] == 0)
    assert np.all(np.isfinite(transform_features(X, "cl2", X[5])))


def test_rows_equal_to_the_center_up_to_rounding_have_no_direction():
    X = np.full((7, 3), 0.1, dtype=np.float32)
    assert np.all(transform_features(X, "cl2", base_mean(X)) == 0)


@pytest.mark.parametrize("scale", [1e-30, 1e15])
def test_neither_tiny_nor_huge_rows_overflow(X, scale):
    small = (X * scale).astype(np.float32)
    np.testing.assert_allclose(np.linalg.norm(transform_features(small, "l2"), axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("given", "worked"), [("float16", "float32"), ("float32", "float32"), ("float64", "float64"), ("int64", "float64")]
)
def test_float16_is_worked_on_in_float32_and_integers_in_float64(X, given, worked):
    assert transform_features((X * 10).astype(given), "l2").dtype == worked


def test_rows_can_be_chosen_and_reordered(X):
    rows = np.array([5, 2, 30])
    np.testing.assert_array_equal(transform_features(X, "l2", rows=rows), transform_features(X, "l2")[rows])


def test_base_mean_of_a_memory_map_equals_the_mean(tmp_path, X):
    np.save(tmp_path / "base.npy", X.astype(np.float16))
    mapped = np.load(tmp_path / "base.npy", mmap_mode="r")
    np.testing.assert_allclose(base_mean(mapped), X.astype(np.float16).astype(float).mean(axis=0), rtol=1e-12)


def test_an_empty_base_set_is_refused():
    with pytest.raises(ValueError, match="non-empty"):
        base_mean(np.empty((0, 4)))


# --- gray levels ------------------------------------------------------------------------------------------------------


def test_digits_are_gray_levels_and_stay_as_they_are():
    X, truth = load_digits(return_X_y=True)
    assert are_levels(X)
    assert are_levels(X.astype(np.uint8))
    y = np.where(np.arange(len(X)) < 60, truth, -1)
    model = LaplacianShot().fit(X, y)
    assert model.transform_ == "none"
    assert "gray levels or counts" in model.report_
    assert LaplacianShot(base_mean="pooled").fit(X, y).transform_ == "cl2"
    assert LaplacianShot.paper().fit(X, y).transform_ == "cl2"


def test_vectors_without_negative_entries_take_power():
    rng = np.random.default_rng(0)
    X = np.maximum(rng.standard_normal((100, 120)), 0)
    for dtype in (np.float16, np.float32, np.float64):
        assert choose_transform(X.astype(dtype)) == "power"
    assert choose_transform(X[:, :100]) == choose_transform(X[:, :40]) == "standard"
    # Rows of one length come from an encoder.
    assert choose_transform(X[:, :60] / np.linalg.norm(X[:, :60], axis=1, keepdims=True)) == "power"
    assert choose_transform(X * np.where(np.arange(120) == 0, 1000, 1)) == "standard"
    assert choose_transform(np.round(X)) in ("none", "cl2")
    assert choose_transform(X, lowest=-0.1) == "cl2"
    X[70, 7] = -1e-3
    assert choose_transform(X) == "cl2"
    assert choose_transform(X[:70]) == "power"


def test_vectors_are_no_gray_levels():
    X, _ = load_digits(return_X_y=True)
    assert not are_levels(X + 0.01 * np.random.default_rng(0).standard_normal(X.shape))
    assert not are_levels(X[:10])


def test_gray_levels_with_hubs_are_no_such_rows():
    # Rows of little ink are near to all others.
    rng = np.random.default_rng(0)
    ink = rng.uniform(0.02, 0.5, 400)
    strokes = (rng.random((400, 300)) < ink[:, None]).astype(np.float32)
    assert len(np.unique(strokes)) == 2
    assert not are_levels(strokes)
    assert choose_transform(strokes) == "cl2"
