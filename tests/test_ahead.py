import gc
import threading
from concurrent.futures import thread as pools

import pytest

from laplacianshot._ahead import MadeAhead


def named_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("made-ahead")]


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_results_come_in_order_and_the_threads_end_with_them(threads):
    assert list(MadeAhead(lambda n: n * n, range(20), threads, 4, "made-ahead")) == [n * n for n in range(20)]
    assert not named_threads()


@pytest.mark.parametrize("threads", [0, 2])
def test_nothing_is_begun_further_ahead_than_asked(threads):
    begun = []
    with MadeAhead(begun.append, range(20), threads, 3, "made-ahead") as results:
        for taken in range(4):
            next(results)
            assert taken < len(begun) <= taken + 3
    assert len(begun) <= 6
    assert not named_threads()


@pytest.mark.parametrize("threads", [0, 2])
def test_an_error_reaches_the_reader_at_its_place_and_ends_the_threads(threads):
    results = MadeAhead(lambda n: 1 // (n - 2), range(20), threads, 3, "made-ahead")
    assert [next(results), next(results)] == [-1, -1]
    with pytest.raises(ZeroDivisionError):
        next(results)
    assert not named_threads()
    assert list(results) == []


def test_the_garbage_collector_can_drop_one_whatever_locks_are_held():
    """A generator with the same ``finally`` deadlocks here, and did: the collector may run while a thread starts."""
    results = MadeAhead(lambda n: n, range(20), 2, 3, "made-ahead")
    next(results)
    cycle = [results]
    cycle.append(cycle)
    workers = named_threads()
    assert workers
    del results, cycle
    with pools._global_shutdown_lock:
        collector = threading.Thread(target=gc.collect, daemon=True)
        collector.start()
        collector.join(60)
        assert not collector.is_alive()
    for worker in workers:
        worker.join(60)
    assert not named_threads()
