from __future__ import annotations

from threading import Thread

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes import _sampling_kernels
from laplacianshot.episodes.tasks import PROTOCOLS, Tasks, draw_tasks

DRAWN = ["balanced", "dirichlet", "unequal", "open-set"]
INAT = ["inat", "inat-leaking-labels"]


def make_set(sizes, *, shuffle: bool = True, split=None) -> FeatureSet:
    """A set with ``sizes[c]`` rows of class c, in mixed order."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    if shuffle:
        labels = np.random.default_rng(0).permutation(labels)
    return FeatureSet(np.zeros((len(labels), 1)), labels, None if split is None else np.array(split)[labels])


def check_task(feature_set: FeatureSet, task, way: int) -> None:
    """Rows are used once, support comes class by class, and every label is the row's class or -1 outside the task."""
    rows = np.concatenate([task.support, task.query])
    assert len(np.unique(rows)) == len(rows)
    assert len(np.unique(task.classes)) == way
    assert task.support_labels.tolist() == sorted(task.support_labels.tolist())
    np.testing.assert_array_equal(np.unique(task.support_labels), np.arange(way))
    np.testing.assert_array_equal(feature_set.codes[task.support], task.classes[task.support_labels])
    inside = task.query_labels >= 0
    np.testing.assert_array_equal(feature_set.codes[task.query[inside]], task.classes[task.query_labels[inside]])
    assert not np.isin(feature_set.codes[task.query[~inside]], task.classes).any()


def assert_same(one: Tasks, other: Tasks) -> None:
    for name in ("rows", "labels", "offsets", "n_support", "classes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@given(
    sizes=st.lists(st.integers(1, 30), min_size=4, max_size=12),
    protocol=st.sampled_from([*DRAWN, *INAT]),
    way=st.integers(1, 4),
    shot=st.one_of(st.integers(1, 3), st.tuples(st.integers(1, 2), st.integers(2, 4))),
    query=st.integers(1, 6),
    alpha=st.sampled_from([0.01, 0.5, 1.0, 2.0, 1e6]),
    seed=st.integers(0, 2**64 - 1),
)
@settings(max_examples=200, deadline=None)
def test_support_and_queries_are_disjoint_and_rightly_labeled_in_any_set(
    sizes, protocol, way, shot, query, alpha, seed
):
    feature_set = make_set(sizes)
    most = shot[1] if isinstance(shot, tuple) else 2 * shot - 1 if protocol == "unequal" else shot
    least_rows = 5 if protocol in INAT else most + query
    least_classes = 1 if protocol in INAT else way + (protocol == "open-set")
    arguments = {"way": way, "shot": shot, "query": query, "tasks": 5, "seed": seed, "alpha": alpha}
    if sum(size >= least_rows for size in sizes) < least_classes:
        with pytest.raises(ValueError, match="lower way"):
            draw_tasks(feature_set, protocol, **arguments)
        return
    found = draw_tasks(feature_set, protocol, **arguments)
    assert len(found) == (1 if protocol in INAT else 5)
    for task in found:
        check_task(feature_set, task, found.way)
        if protocol in DRAWN:
            assert np.count_nonzero(task.query_labels >= 0) == way * query


@pytest.mark.parametrize("shot", [1, 5])
def test_balanced_tasks_hold_shot_and_query_rows_of_each_class(shot):
    feature_set = make_set([30] * 20)
    found = draw_tasks(feature_set, way=5, shot=shot, query=15, tasks=200)
    assert (len(found), found.way, found.protocol) == (200, 5, "balanced")
    for task in found:
        check_task(feature_set, task, 5)
        assert np.bincount(task.support_labels).tolist() == [shot] * 5
        assert np.bincount(task.query_labels).tolist() == [15] * 5


@pytest.mark.parametrize("protocol", DRAWN)
def test_a_task_of_all_classes_and_all_rows_can_be_drawn(protocol):
    sizes = [6] * 5 if protocol != "open-set" else [6] * 10
    feature_set = make_set(sizes)
    found = draw_tasks(feature_set, protocol, way=5, shot=(2, 2), query=4, tasks=20)
    for task in found:
        check_task(feature_set, task, 5)
        assert np.bincount(task.query_labels[task.query_labels >= 0]).tolist() == [4] * 5


@pytest.mark.parametrize("protocol", DRAWN)
def test_fewer_tasks_are_the_first_of_more(protocol):
    feature_set = make_set([25] * 12)
    many = draw_tasks(feature_set, protocol, shot=3, query=7, tasks=300, seed=5)
    few = draw_tasks(feature_set, protocol, shot=3, query=7, tasks=40, seed=5)
    assert len(few) == 40
    for one, other in zip(few, many, strict=False):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("protocol", DRAWN)
def test_the_seed_decides_the_tasks(protocol):
    feature_set = make_set([25] * 12)
    one, same, other = (draw_tasks(feature_set, protocol, query=7, tasks=50, seed=seed) for seed in (1, 1, 2))
    assert_same(one, same)
    for t in range(50):
        assert set(one[t].query.tolist()) != set(other[t].query.tolist())


def test_tasks_of_neighboring_seeds_do_not_repeat_each_other():
    feature_set = make_set([25] * 12)
    first, second = ({tuple(t.support) for t in draw_tasks(feature_set, tasks=500, seed=seed)} for seed in (0, 1))
    # There are about 10^12 supports: a repeat among a thousand would be no accident.
    assert len(first) == len(second) == 500
    assert not first & second


def test_concurrent_draws_do_not_disturb_each_other():
    feature_set = make_set([25] * 12)
    expected = draw_tasks(feature_set, "dirichlet", tasks=2000)
    found: list[Tasks] = []
    threads = [Thread(target=lambda: found.append(draw_tasks(feature_set, "dirichlet", tasks=2000))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for tasks in found:
        assert_same(tasks, expected)


def test_every_class_is_equally_likely_at_every_place():
    found = draw_tasks(make_set([8] * 13), way=4, shot=1, query=2, tasks=13_000)
    for place in range(4):
        assert stats.chisquare(np.bincount(found.classes[:, place], minlength=13)).pvalue > 1e-4
    # Pairs of classes too: without replacement, 13 * 12 ordered pairs.
    pairs = np.bincount(13 * found.classes[:, 0] + found.classes[:, 1], minlength=169).reshape(13, 13)
    assert (np.diag(pairs) == 0).all()
    assert stats.chisquare(pairs[~np.eye(13, dtype=bool)]).pvalue > 1e-4


@pytest.mark.parametrize("part", ["support", "query"])
def test_every_row_of_a_class_is_equally_likely(part):
    feature_set = make_set([7] * 6)
    found = draw_tasks(feature_set, way=3, shot=2, query=3, tasks=7000)
    rows, _ = found.block(np.arange(7000))
    used = rows[:, :6] if part == "support" else rows[:, 6:]
    drawn = np.bincount(used.reshape(-1), minlength=42)
    for c in range(6):
        assert stats.chisquare(drawn[feature_set.codes == c]).pvalue > 1e-4


def test_bounded_integers_are_uniform_where_a_plain_product_would_be_biased():
    # With n = 3 * 2^30 a product without rejection gives every third number twice as often.
    n = 3 << 30
    states = np.array([np.uint64(1)])
    drawn = np.array([_sampling_kernels._below(states, 0, n) for _ in range(6000)])
    assert 0 <= drawn.min() <= drawn.max() < n
    assert stats.chisquare(np.bincount(drawn % 3, minlength=3)).pvalue > 1e-4
    assert stats.kstest(drawn / n, "uniform").pvalue > 1e-4


@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.0, 20.0])
def test_gamma_numbers_follow_their_distribution(alpha):
    states = np.array([np.uint64(3)])
    drawn = np.exp([_sampling_kernels._log_gamma_variate(states, 0, alpha) for _ in range(5000)])
    assert stats.kstest(drawn, stats.gamma(alpha).cdf).pvalue > 1e-4


def query_counts(found: Tasks) -> np.ndarray:
    return np.array([np.bincount(task.query_labels, minlength=found.way) for task in found])


@pytest.mark.parametrize("alpha", [0.5, 2.0, 10.0])
def test_dirichlet_shares_have_the_mean_and_variance_of_the_distribution(alpha):
    way, query, tasks = 5, 15, 4000
    found = draw_tasks(make_set([80] * 8), "dirichlet", way=way, query=query, tasks=tasks, alpha=alpha)
    counts = query_counts(found)
    assert (counts.sum(axis=1) == way * query).all()
    shares = counts / (way * query)
    variance = (1 / way) * (1 - 1 / way) / (way * alpha + 1)
    np.testing.assert_allclose(shares.mean(axis=0), 1 / way, atol=5 * np.sqrt(variance / tasks))
    # Rounding adds at most about 1/12 of a query squared.
    np.testing.assert_allclose(shares.var(axis=0), variance + 1 / 12 / 75**2, rtol=0.12)


def test_dirichlet_by_default_is_that_of_two():
    feature_set = make_set([80] * 8)
    assert_same(
        draw_tasks(feature_set, "dirichlet", tasks=20), draw_tasks(feature_set, "dirichlet", tasks=20, alpha=2.0)
    )


def test_dirichlet_of_a_huge_alpha_is_balanced():
    counts = query_counts(draw_tasks(make_set([80] * 8), "dirichlet", tasks=50, alpha=1e9))
    assert (counts == 15).all()


def test_dirichlet_of_a_tiny_alpha_gives_all_queries_to_one_class():
    counts = query_counts(draw_tasks(make_set([80] * 8), "dirichlet", tasks=200, alpha=1e-4))
    assert (counts.max(axis=1) == 75).all()


def test_a_class_never_gives_more_rows_than_it_has():
    feature_set = make_set([17, 20, 25, 40, 60, 90])
    found = draw_tasks(feature_set, "dirichlet", way=5, shot=2, query=15, tasks=500, alpha=0.3)
    counts = query_counts(found)
    left = np.bincount(feature_set.codes)[found.classes] - 2
    assert (counts <= left).all()
    assert (counts.sum(axis=1) == 75).all()
    assert (counts == left).any()


def share_out(shares, caps, total):
    counts = np.empty(len(shares), dtype=np.int64)
    with np.errstate(divide="ignore"):
        _sampling_kernels._share_out(np.log(np.array(shares)), np.array(caps), total, np.empty(len(shares)), counts)
    return counts.tolist()


@pytest.mark.parametrize(
    ("shares", "caps", "total", "counts"),
    [
        ([0.5, 0.3, 0.2], [9, 9, 9], 10, [5, 3, 2]),
        ([0.46, 0.33, 0.21], [9, 9, 9], 10, [5, 3, 2]),  # 4.6, 3.3, 2.1
        ([0.5, 0.25, 0.25], [9, 9, 9], 9, [5, 2, 2]),  # 4.5, 2.25, 2.25
        ([0.6, 0.3, 0.1], [2, 9, 9], 10, [2, 6, 2]),  # the rest in proportion 3 : 1
        ([0.8, 0.1999, 0.0001], [2, 3, 9], 10, [2, 3, 5]),  # one cap after the other
        ([1.0, 1e-300, 1e-301], [4, 9, 9], 10, [4, 5, 1]),  # 6 in proportion 10 : 1
        ([0.2, 0.3, 0.5], [1, 4, 5], 10, [1, 4, 5]),
        ([1.0, 1.0], [0, 3], 2, [0, 2]),
    ],
)
def test_queries_are_shared_out_by_largest_remainder_under_caps(shares, caps, total, counts):
    assert share_out(shares, caps, total) == counts


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_any_total_that_the_classes_can_give_is_shared_out_in_full(data):
    caps = data.draw(st.lists(st.integers(0, 40), min_size=1, max_size=8))
    shares = data.draw(st.lists(st.floats(1e-12, 1), min_size=len(caps), max_size=len(caps)))
    total = data.draw(st.integers(0, sum(caps)))
    counts = share_out(shares, caps, total)
    assert sum(counts) == total
    assert all(0 <= count <= cap for count, cap in zip(counts, caps, strict=True))


@given(
    sizes=st.lists(st.integers(1, 30), min_size=4, max_size=12),
    way=st.integers(1, 4),
    present=st.integers(1, 4),
    shot=st.one_of(st.integers(1, 3), st.tuples(st.integers(1, 2), st.integers(2, 4))),
    query=st.integers(1, 6),
    total=st.one_of(st.none(), st.integers(1, 60)),
    seed=st.integers(0, 2**64 - 1),
)
@settings(max_examples=200, deadline=None)
def test_only_the_present_classes_have_queries_which_they_share_evenly(sizes, way, present, shot, query, total, seed):
    feature_set = make_set(sizes)
    most = shot[1] if isinstance(shot, tuple) else shot
    present = min(present, way)
    arguments = {"way": way, "shot": shot, "query": query, "tasks": 5, "seed": seed}
    arguments |= {"present": present, "total_queries": total}
    if sum(size >= most + query for size in sizes) < way:
        with pytest.raises(ValueError, match="lower way"):
            draw_tasks(feature_set, "present", **arguments)
        return
    for task in draw_tasks(feature_set, "present", **arguments):
        check_task(feature_set, task, way)
        counts = np.bincount(task.query_labels, minlength=way)
        left = np.array(sizes)[task.classes] - np.bincount(task.support_labels)
        requested = way * query if total is None else total
        here = counts > 0
        # A class that gives less than another by more than one has no more to give.
        assert all(counts[c] == left[c] for c in np.flatnonzero(here) if counts[c] < counts.max() - 1)
        assert np.count_nonzero(here) == min(present, requested)
        assert counts.sum() == requested or (counts[here] == left[here]).all()
        assert counts.sum() <= requested


def test_the_present_classes_are_any_of_a_task_with_equal_chances():
    found = draw_tasks(make_set([40] * 9), "present", way=6, query=3, tasks=6000, present=2)
    here = query_counts(found) > 0
    assert (here.sum(axis=1) == 2).all()
    pairs = np.bincount(here @ 2 ** np.arange(6), minlength=64)
    pairs = pairs[[2**a + 2**b for a in range(6) for b in range(a)]]
    assert pairs.sum() == 6000
    assert stats.chisquare(pairs).pvalue > 1e-4


def test_all_classes_present_are_a_balanced_task():
    counts = query_counts(draw_tasks(make_set([20] * 8), "present", present=5, tasks=50))
    assert (counts == 15).all()


def test_present_classes_with_too_few_rows_give_all_that_they_have():
    feature_set = make_set([10, 20, 30, 60])
    found = draw_tasks(feature_set, "present", way=4, shot=2, query=5, tasks=200, present=1, total_queries=25)
    counts = query_counts(found)
    left = np.bincount(feature_set.codes)[found.classes] - 2
    np.testing.assert_array_equal(counts, np.where(counts > 0, np.minimum(left, 25), 0))


@pytest.mark.parametrize("protocol", ["present", "dirichlet"])
def test_the_number_of_queries_per_task_can_be_chosen(protocol):
    chosen = {"present": 3} if protocol == "present" else {}
    found = draw_tasks(make_set([90] * 12), protocol, way=7, tasks=40, total_queries=76, **chosen)
    assert (found.n_query == 76).all()
    whole = draw_tasks(make_set([20] * 12), protocol, way=7, tasks=40, total_queries=10**6, **chosen)
    assert (whole.n_query == 19 * (3 if chosen else 7)).all()


def test_fewer_present_tasks_are_the_first_of_more_and_the_seed_decides_them():
    feature_set = make_set([25] * 12)
    arguments = {"shot": 3, "query": 7, "present": 2, "total_queries": 20}
    many, few, other = (
        draw_tasks(feature_set, "present", tasks=tasks, seed=seed, **arguments)
        for tasks, seed in ((300, 5), (40, 5), (40, 6))
    )
    for one, same, else_ in zip(few, many, other, strict=False):
        for a, b in zip(one, same, strict=True):
            np.testing.assert_array_equal(a, b)
        assert set(one.query.tolist()) != set(else_.query.tolist())


def test_unequal_shots_are_uniform_about_their_mean():
    found = draw_tasks(make_set([30] * 8), "unequal", way=4, shot=3, query=5, tasks=2500)
    shots = np.array([np.bincount(task.support_labels) for task in found])
    assert stats.chisquare(np.bincount(shots.reshape(-1), minlength=6)[1:]).pvalue > 1e-4
    assert shots.min() == 1
    assert shots.max() == 5
    assert (query_counts(found) == 5).all()
    np.testing.assert_array_equal(found.n_support, shots.sum(axis=1))


@pytest.mark.parametrize("protocol", DRAWN)
def test_a_pair_of_shots_is_a_range_under_every_protocol(protocol):
    found = draw_tasks(make_set([30] * 10), protocol, way=4, shot=(2, 4), query=5, tasks=300)
    shots = np.array([np.bincount(task.support_labels) for task in found])
    assert set(np.unique(shots)) == {2, 3, 4}


def test_unequal_with_one_shot_is_balanced():
    feature_set = make_set([30] * 8)
    assert_same(draw_tasks(feature_set, "unequal", tasks=30), draw_tasks(feature_set, "balanced", tasks=30))


@pytest.mark.parametrize("protocol", INAT)
def test_the_inat_task_labels_the_first_fifth_of_each_class(protocol):
    feature_set = make_set([4, 5, 9, 10, 23])
    found = draw_tasks(feature_set, protocol)
    assert (len(found), found.way, found.protocol) == (1, 4, protocol)
    (task,) = found
    check_task(feature_set, task, 4)
    assert task.classes.tolist() == [1, 2, 3, 4]
    for label, (c, shot) in enumerate({1: 1, 2: 1, 3: 2, 4: 4}.items()):
        rows = np.flatnonzero(feature_set.codes == c)
        np.testing.assert_array_equal(task.support[task.support_labels == label], rows[:shot])
        np.testing.assert_array_equal(task.query[task.query_labels == label], rows[shot:])


def test_the_inat_task_of_a_split_keeps_to_it():
    feature_set = make_set([10, 10, 10], split=["base", "novel", "novel"])
    (task,) = draw_tasks(feature_set, "inat", split="novel")
    assert task.classes.tolist() == [1, 2]
    assert len(task.support) + len(task.query) == 20


@pytest.mark.parametrize(("outside", "drawn"), [(None, 3), (1, 1), (5, 5), (9, 9)])
def test_an_open_set_adds_queries_of_classes_outside_the_task(outside, drawn):
    feature_set = make_set([20] * 12)
    for task in draw_tasks(feature_set, "open-set", way=3, shot=2, query=4, tasks=50, outside=outside):
        check_task(feature_set, task, 3)
        strangers = feature_set.codes[task.query[task.query_labels == -1]]
        assert np.unique(strangers, return_counts=True)[1].tolist() == [4] * drawn


def test_an_open_set_makes_do_with_the_classes_that_are_left():
    (task,) = draw_tasks(make_set([20] * 4), "open-set", way=3, query=4, tasks=1)
    assert np.count_nonzero(task.query_labels == -1) == 4


@pytest.mark.parametrize("protocol", DRAWN)
def test_rows_of_a_split_are_numbered_in_the_whole_set(protocol):
    feature_set = make_set([20] * 24, split=["base", "novel"] * 12)
    found = draw_tasks(feature_set, protocol, tasks=100, query=5, split="novel")
    assert set(feature_set.split[found.rows]) == {"novel"}
    for task in found:
        check_task(feature_set, task, 5)


def test_classes_too_small_for_a_task_are_never_drawn():
    feature_set = make_set([3, 20, 15, 16, 40, 20, 16])
    found = draw_tasks(feature_set, way=3, shot=1, query=15, tasks=200)
    assert set(np.unique(found.classes)) == {1, 3, 4, 5, 6}


def test_tasks_are_taken_one_by_one():
    found = draw_tasks(make_set([30] * 8), "unequal", shot=3, tasks=30)
    assert len(list(found)) == len(found) == 30
    np.testing.assert_array_equal(found[-1].query, found[29].query)
    with pytest.raises(IndexError):
        found[30]


def test_shapes_group_all_tasks_by_size():
    found = draw_tasks(make_set([30] * 8), "unequal", shot=3, tasks=200)
    shapes = found.shapes()
    assert sorted(np.concatenate([shape.numbers for shape in shapes])) == list(range(200))
    assert len({(shape.n_support, shape.n_query) for shape in shapes}) == len(shapes) > 1
    for n_support, n_query, numbers in shapes:
        assert (found.n_support[numbers] == n_support).all()
        assert (found.n_query[numbers] == n_query).all()


@pytest.mark.parametrize("protocol", ["balanced", "unequal"])
def test_a_block_holds_its_tasks_row_by_row(protocol):
    found = draw_tasks(make_set([30] * 8), protocol, shot=3, tasks=100)
    for n_support, n_query, numbers in found.shapes():
        rows, labels = found.block(numbers)
        assert rows.shape == labels.shape == (len(numbers), n_support + n_query)
        for b, t in enumerate(numbers):
            np.testing.assert_array_equal(rows[b], np.concatenate([found[t].support, found[t].query]))
            np.testing.assert_array_equal(labels[b], np.concatenate([found[t].support_labels, found[t].query_labels]))


def test_a_block_of_adjacent_tasks_is_not_copied_and_one_of_two_shapes_is_refused():
    balanced = draw_tasks(make_set([30] * 8), tasks=20)
    assert np.shares_memory(balanced.block(np.arange(3, 9))[0], balanced.rows)
    np.testing.assert_array_equal(balanced.block([7, 2])[0][1], balanced.block([2])[0][0])
    unequal = draw_tasks(make_set([30] * 8), "unequal", shot=3, tasks=20)
    for numbers in (np.arange(20), [], [[0]]):
        with pytest.raises(ValueError, match="tasks of one shape"):
            unequal.block(numbers)


def test_a_description_tells_what_was_drawn():
    feature_set = make_set([30] * 8)
    assert repr(draw_tasks(feature_set, tasks=7)) == "Tasks(7 balanced, 5-way, 5 support and 75 query rows)"
    assert "2-way, 2 to 4 support and 30 query rows" in repr(draw_tasks(feature_set, way=2, shot=(1, 2), tasks=900))
    assert set(PROTOCOLS) == {*DRAWN, "present", *INAT}
    assert all(text and "\n" not in text for text in PROTOCOLS.values())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"protocol": "fair"}, "protocol='fair' is unknown; there are balanced, dirichlet, present, unequal"),
        ({"way": 0}, "way must be an integer of at least 1, got 0"),
        ({"way": 2.0}, "way must be an integer"),
        ({"way": True}, "way must be an integer"),
        ({"shot": 0}, "shot must be an integer of at least 1, got 0"),
        ({"shot": (0, 3)}, "shot must be an integer of at least 1, got 0"),
        ({"shot": (3, 2)}, r"pair \(low, high\) with low <= high, got \(3, 2\)"),
        ({"shot": (1, 2, 3)}, r"pair \(low, high\)"),
        ({"query": -1}, "query must be an integer of at least 1, got -1"),
        ({"tasks": 0}, "tasks must be an integer of at least 1, got 0"),
        ({"seed": -1}, "seed must be an integer from 0 to .*, got -1"),
        ({"seed": 2**64}, "seed must be an integer from 0"),
        ({"seed": None}, "seed must be an integer from 0"),
        ({"alpha": 0, "protocol": "dirichlet"}, "alpha must be a number above 0, got 0"),
        ({"alpha": float("nan"), "protocol": "dirichlet"}, "alpha must be a number above 0, got nan"),
        ({"alpha": float("inf")}, "alpha must be a number above 0"),
        ({"split": "test"}, "split='test' is not in the set; its splits are"),
        ({"protocol": "present"}, "protocol='present' needs present: how many of the way=5 classes"),
        ({"protocol": "present", "present": 6}, "present=6 is above the way=5 classes"),
        ({"protocol": "present", "present": 0}, "present must be an integer of at least 1, got 0"),
        ({"protocol": "present", "present": 2.0}, "present must be an integer of at least 1, got 2.0"),
        ({"present": 2}, "present=2 is for protocol='present'; leave it out with 'balanced'"),
        ({"present": 2, "protocol": "inat"}, "present=2 is for protocol='present'"),
        ({"total_queries": 75}, "total_queries=75 is for the protocols 'dirichlet' and 'present'; use query"),
        ({"total_queries": 75, "protocol": "inat"}, "total_queries=75 is for"),
        ({"total_queries": 0, "protocol": "dirichlet"}, "total_queries must be an integer of at least 1, got 0"),
        ({"outside": 2}, "outside=2 is for protocol='open-set'"),
        ({"outside": 0, "protocol": "open-set"}, "outside must be an integer of at least 1"),
        ({"outside": 8, "protocol": "open-set"}, "outside=8 classes besides the way=5 .* 5 are left of the 10"),
        ({"way": 10, "protocol": "open-set"}, "at least 1 class besides the way=10 of a task, and 0 are left"),
        ({"way": 11}, "way=11 needs .* 1 support .* 15 query rows each; the set has 10 such classes of 12"),
        ({"way": 6, "split": "novel"}, "split 'novel' has 5 such classes of 6, and its largest class has 20 rows"),
        ({"shot": 6}, "0 such classes of 12, and its largest class has 20 rows: lower way, shot or query"),
        ({"shot": 4, "protocol": "unequal"}, "7 support"),
    ],
)
def test_settings_that_no_task_can_have_are_refused(wrong, message):
    feature_set = make_set([20] * 10 + [5] * 2, split=["base", "novel"] * 6)
    with pytest.raises(ValueError, match=message) as error:
        draw_tasks(feature_set, **wrong)
    assert "\n" not in str(error.value)


def test_an_inat_task_needs_a_class_of_five_rows():
    with pytest.raises(ValueError, match="its largest class has 4 rows"):
        draw_tasks(make_set([4, 3]), "inat")


class Stream:
    """The random numbers of one task, written out in Python's own integers."""

    MASK = 2**64 - 1

    def __init__(self, state: int) -> None:
        self.state = state

    @classmethod
    def of(cls, seed: int, task: int) -> Stream:
        key = cls.mix(seed + 0x9E3779B97F4A7C15)
        return cls(cls.mix(cls.mix(task + key) + 0x9E3779B97F4A7C15))

    @classmethod
    def mix(cls, z: int) -> int:
        z &= cls.MASK
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & cls.MASK
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & cls.MASK
        return z ^ (z >> 31)

    def bits(self) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) & self.MASK
        return self.mix(self.state)

    def below(self, n: int) -> int:
        while True:
            product = (self.bits() >> 32) * n
            if product % 2**32 >= 2**32 % n:
                return product >> 32

    def sample(self, items, m: int) -> list[int]:
        pool = list(items)
        for i in range(m):
            j = i + self.below(len(pool) - i)
            pool[i], pool[j] = pool[j], pool[i]
        return pool[:m]


def test_the_generator_gives_the_published_numbers_of_splitmix64():
    states = np.array([np.uint64(1234567)])
    drawn = [int(_sampling_kernels._next(states, 0)) for _ in range(3)]
    assert drawn == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@pytest.mark.parametrize("seed", [0, 42, 2**64 - 1])
def test_what_a_seed_means_stays_the_same_from_release_to_release(seed):
    # Published figures name a seed. Each task here starts from an untouched pool: what one leaves behind would show.
    feature_set = make_set([9, 20, 12, 30, 8, 11, 10])
    found = draw_tasks(feature_set, way=3, shot=2, query=4, tasks=60, seed=seed)
    for t, task in enumerate(found):
        stream = Stream.of(seed, t)
        classes = stream.sample(range(7), 3)
        drawn = [stream.sample(np.flatnonzero(feature_set.codes == c), 6) for c in classes]
        assert task.classes.tolist() == classes
        assert task.support.tolist() == [row for rows in drawn for row in rows[:2]]
        assert task.query.tolist() == [row for rows in drawn for row in rows[2:]]
