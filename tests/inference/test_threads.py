import threading

from laplacianshot.inference._threads import Workers, available_threads, in_this_thread

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
        other.join(60)
        assert others == [available_threads()]
    assert Workers(LARGE).threads == available_threads()
