from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from laplacianshot.embedding.pictures.views import checked_counter, epoch_order, stream, uniforms


def test_a_stream_depends_on_seed_epoch_and_index_alone():
    first = stream(1, 2, 3).random(5)
    np.testing.assert_array_equal(stream(1, 2, 3).random(5), first)
    for other in ((0, 2, 3), (1, 0, 3), (1, 2, 0), (2, 1, 3)):
        assert not np.intersect1d(stream(*other).random(5), first).size


def test_the_numbers_of_a_batch_are_those_of_its_pictures():
    batch = uniforms(5, 6, np.array([7, 1, 7]), 4)
    np.testing.assert_array_equal(batch, [stream(5, 6, i).random(4) for i in (7, 1, 7)])
    assert uniforms(5, 6, np.array([], dtype=np.int64), 4).shape == (0, 4)


def test_numbers_are_uniform_and_those_of_neighbors_unrelated():
    numbers = uniforms(0, 0, np.arange(4000), 2)
    assert stats.kstest(numbers[:, 0], "uniform").pvalue > 1e-3
    for a, b in ((numbers[:-1, 0], numbers[1:, 0]), (numbers[:, 0], numbers[:, 1])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.06


def philox(counter, key):
    """Philox 4x64 with ten rounds (Salmon et al., 2011), in whole numbers."""
    for number in range(10):
        high, low = divmod(0xD2E7470EE14C6C93 * counter[0], 2**64)
        high_2, low_2 = divmod(0xCA5A826395121157 * counter[2], 2**64)
        bumps = (number * 0x9E3779B97F4A7C15, number * 0xBB67AE8584CAA73B)
        first, second = ((word + bump) % 2**64 for word, bump in zip(key, bumps, strict=True))
        counter = (high_2 ^ counter[1] ^ first, low_2, high ^ counter[3] ^ second, low)
    return list(counter)


@pytest.mark.parametrize(("seed", "epoch", "index"), [(0, 0, 0), (2**64 - 1, 89, 2**63 + 5)])
def test_the_bits_are_those_of_philox_keyed_by_seed_and_epoch(seed, epoch, index):
    # numpy counts before it computes, so the first block has counter 1.
    expected = philox((1, 0, 0, index), (seed, epoch)) + philox((2, 0, 0, index), (seed, epoch))
    assert stream(seed, epoch, index).bit_generator.random_raw(8).tolist() == expected


def test_an_order_is_a_permutation_of_seed_and_epoch():
    order = epoch_order(0, 0, 50)
    assert sorted(order.tolist()) == list(range(50))
    np.testing.assert_array_equal(epoch_order(0, 0, 50), order)
    assert (epoch_order(0, 1, 50) != order).any()
    assert (epoch_order(1, 0, 50) != order).any()
    assert epoch_order(0, 0, 0).shape == (0,)


def test_the_order_has_a_stream_of_its_own():
    """A run that another version began goes on in the same order; no picture shares the stream."""
    for seed, epoch in ((0, 0), (3, 7)):
        wanted = np.argsort(stream(seed, epoch, 2**64 - 1).random(50), kind="stable")
        np.testing.assert_array_equal(epoch_order(seed, epoch, 50), wanted)


def test_every_place_is_as_likely_for_the_first_picture():
    places = [int(np.flatnonzero(epoch_order(0, epoch, 5) == 0)[0]) for epoch in range(1000)]
    assert stats.chisquare(np.bincount(places, minlength=5)).pvalue > 1e-3


@pytest.mark.parametrize("value", [-1, 2**64, 0.5, True, None, "1"])
def test_seeds_must_be_integers_of_64_bits(value):
    with pytest.raises(ValueError, match="seed must be an integer from 0 to"):
        checked_counter(value, "seed")


def test_the_largest_seed_and_numpy_integers_serve():
    assert stream(checked_counter(2**64 - 1, "seed"), checked_counter(np.int64(3), "epoch"), 0).random() < 1
