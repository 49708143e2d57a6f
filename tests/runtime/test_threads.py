import gc
import operator
import sys
import threading
import time
from concurrent.futures import thread as pools

import numpy as np
import pytest

from laplacianshot.runtime.threads import Prefetch, Workers, available_threads, disjoint_pairs, in_this_thread

LARGE = 10**9


def threads_used(workers):
    used = set()
    blocks = workers.share(1000)
    with workers:
        workers.run(lambda number, start, stop: used.add(threading.get_ident()), blocks)
    return used


def test_little_work_stays_with_the_caller():
    assert threads_used(Workers(1)) == {threading.get_ident()}


def test_a_thread_that_was_given_a_whole_task_shares_it_with_no_other():
    with in_this_thread():
        with in_this_thread():
            assert Workers(LARGE).threads == 1
        assert threads_used(Workers(LARGE)) == {threading.get_ident()}
        others = []
        other = threading.Thread(target=lambda: others.append(Workers(LARGE).threads))
        other.start()
        other.join(300)
        assert others == [available_threads()]
    assert Workers(LARGE).threads == available_threads()


def test_every_block_is_done_once_whichever_thread_takes_it(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    blocks = [(i, i + 1) for i in range(50)]
    done = []
    with Workers(LARGE) as workers:
        workers.run(lambda number, start, stop: done.append((number, start, stop)), blocks)
        workers.run(lambda *block: done.append(block), [])
    assert sorted(done) == [(i, i, i + 1) for i in range(50)]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_in_any_thread_reaches_the_caller_and_leaves_the_rest_undone(monkeypatch, error):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for failing in ("caller", "other"):
        started, done = threading.Barrier(2, timeout=300), []

        def work(number, start, stop, failing=failing, started=started, done=done):
            if number < 2:
                started.wait()  # each thread has one of the first two
                if (threading.current_thread() is threading.main_thread()) == (failing == "caller"):
                    raise error("no")
                blocks = sys._getframe(1).f_locals["left"]  # the iterator that gives blocks to all threads
                while operator.length_hint(blocks):
                    time.sleep(0.001)
            done.append(number)

        with Workers(LARGE) as workers, pytest.raises(error, match="no"):
            workers.run(work, [(i, i + 1) for i in range(1000)])
        assert len(done) == 1


def test_a_product_is_that_of_all_rows(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((101, 7)), rng.standard_normal((7, 5))
    with Workers(LARGE) as workers:
        np.testing.assert_allclose(workers.product(A, B), A @ B, rtol=1e-13)


@pytest.mark.parametrize("n", range(12))
def test_in_every_round_each_block_meets_another_once_and_all_meet_in_the_end(n):
    rounds = disjoint_pairs(n)
    for games in rounds:
        players = [player for game in games for player in game]
        assert len(players) == len(set(players))
    met = [game for games in rounds for game in games]
    assert sorted(met) == [(one, other) for one in range(n) for other in range(one + 1, n)]


def named_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("made-ahead")]


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_results_come_in_order_and_the_threads_end_with_them(threads):
    assert list(Prefetch(lambda n: n * n, range(20), threads, 4, "made-ahead")) == [n * n for n in range(20)]
    assert not named_threads()


@pytest.mark.parametrize("threads", [0, 2])
def test_nothing_is_begun_further_ahead_than_asked(threads):
    begun = []
    with Prefetch(begun.append, range(20), threads, 3, "made-ahead") as results:
        for taken in range(4):
            next(results)
            assert taken < len(begun) <= taken + 3
    assert len(begun) <= 6
    assert not named_threads()


@pytest.mark.parametrize("threads", [0, 2])
def test_an_error_reaches_the_reader_at_its_place_and_ends_the_threads(threads):
    results = Prefetch(lambda n: 1 // (n - 2), range(20), threads, 3, "made-ahead")
    assert [next(results), next(results)] == [-1, -1]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not named_threads()
    assert list(results) == []


def ahead(parts):
    return Prefetch(lambda n: n, parts, 2, 3, "made-ahead")


def generated(parts):
    """What it must not be: a generator that joins its threads at the end."""
    pool = pools.ThreadPoolExecutor(2, thread_name_prefix="made-ahead")
    try:
        yield from (pool.submit(lambda n: n, part).result() for part in parts)
    finally:
        pool.shutdown()


@pytest.mark.skipif(
    not hasattr(threading, "_shutdown_locks_lock"), reason="this Python joins threads without that lock"
)
@pytest.mark.parametrize(("make", "waits"), [(ahead, False), (generated, True)])
def test_the_garbage_collector_can_drop_one_while_a_thread_is_starting(make, waits):
    """A starting thread holds the lock that joining takes, and the collector may run in it: nobody would release it."""
    results = make(range(20))
    next(results)
    cycle = [results]
    cycle.append(cycle)
    workers = named_threads()
    assert workers
    del results, cycle
    with threading._shutdown_locks_lock:
        collector = threading.Thread(target=gc.collect, daemon=True)
        collector.start()
        collector.join(1 if waits else 60)
        assert collector.is_alive() == waits
    for thread in (collector, *workers):
        thread.join(300)
    assert not named_threads()
