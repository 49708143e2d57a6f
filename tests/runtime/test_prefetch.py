import gc
import threading
from concurrent.futures import thread as pools

import pytest

from laplacianshot.runtime.prefetch import Prefetch


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
        thread.join(60)
    assert not named_threads()
