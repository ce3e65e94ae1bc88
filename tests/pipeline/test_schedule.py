"""The pool keeps chains in order and results in submission order, whatever fails and however many threads."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import weakref
from contextlib import suppress

import pytest

from kvzip.files.signals import Interrupted, interruptible
from kvzip.pipeline import schedule
from kvzip.pipeline.schedule import ChainPool, available_threads


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_submission_order(threads):
    with ChainPool(threads, 1 << 30) as pool:
        for i in range(40):
            pool.submit(i % 7, 1, lambda i=i: (time.sleep(0.001 * (i * 7 % 3)), i)[1])
        assert list(pool.results(everything=True)) == list(range(40))


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_work_of_a_chain_runs_one_after_the_other(threads):
    busy, trouble, order = set(), [], {chain: [] for chain in range(3)}

    def work(chain, i):
        if chain in busy:
            trouble.append(chain)
        busy.add(chain)
        time.sleep(0.001)
        order[chain].append(i)
        busy.discard(chain)

    with ChainPool(threads, 1 << 30) as pool:
        for i in range(30):
            pool.submit(i % 3, 1, lambda i=i: work(i % 3, i))
        list(pool.results(everything=True))
    assert not trouble
    assert all(found == sorted(found) and len(found) == 10 for found in order.values())


def test_chains_run_side_by_side():
    meeting = threading.Barrier(2, timeout=10)
    with ChainPool(2, 1 << 30) as pool:
        for chain in "ab":
            pool.submit(chain, 1, meeting.wait)
        assert sorted(pool.results(everything=True)) == [0, 1]


def test_the_budget_bounds_what_is_in_flight():
    with ChainPool(2, 10) as pool:
        for i in range(50):
            pool.submit(i, 3, lambda: None)
            list(pool.results())
            assert pool.in_flight <= 10
        list(pool.results(everything=True))
        assert pool.in_flight == 0


@pytest.mark.parametrize("threads", [1, 3])
def test_a_failure_is_raised_in_its_place_and_the_pool_ends(threads):
    def fail():
        raise ValueError("third")

    with ChainPool(threads, 1 << 30) as pool:
        for i in range(6):
            pool.submit("one chain", 1, fail if i == 2 else lambda i=i: i)
        results = pool.results(everything=True)
        assert [next(results), next(results)] == [0, 1]
        with pytest.raises(ValueError, match="third"):
            next(results)


def test_an_exception_outside_leaves_no_thread_behind():
    before = threading.active_count()

    def interrupted():
        with ChainPool(3, 1 << 30) as pool:
            for i in range(9):
                pool.submit(i % 2, 1, lambda: time.sleep(0.01))
            raise KeyError

    with pytest.raises(KeyError):
        interrupted()
    assert threading.active_count() == before


def test_a_chain_that_ended_may_begin_again():
    with ChainPool(2, 1 << 30) as pool:
        pool.submit("a", 1, lambda: 1, ends_chain=True)
        assert "a" not in pool.last
        pool.submit("a", 1, lambda: 2)
        assert list(pool.results(everything=True)) == [1, 2]


@pytest.mark.parametrize("threads", [1, 3])
def test_work_waits_for_what_it_comes_after(threads):
    """Each piece waits for two of other chains; a thread is never held by waiting."""
    order = []
    with ChainPool(threads, 1 << 30) as pool:
        done = []
        for i in range(40):
            after = done[max(0, i - 7) : max(0, i - 7) + 2]
            work = lambda i=i: (time.sleep(0.002 * (i % 3 == 0)), order.append(i), i)[2]  # noqa: E731
            done.append(pool.submit(i % 5, 1, work, after=after))
        assert list(pool.results(everything=True)) == list(range(40))
    place = {i: at for at, i in enumerate(order)}
    for i in range(8, 40):
        assert place[i] > max(place[i - 7], place[i - 6], place[i - 5])


def test_failure_spreads_to_what_comes_after_and_no_further():
    def fail():
        raise ValueError("first")

    with ChainPool(2, 1 << 30) as pool:
        failed = pool.submit("a", 1, fail)
        behind = pool.submit("b", 1, lambda: 1, after=[failed])
        further = pool.submit("c", 1, lambda: 2, after=[behind])
        beside = pool.submit("d", 1, lambda: 3)
        assert beside.result() == 3
        for future in (behind, further):
            with pytest.raises(ValueError, match="first"):
                future.result()


@pytest.mark.parametrize("chain", [lambda i: 0, lambda i: i], ids=["one chain", "many"])
def test_what_is_done_is_let_go_without_the_garbage_collector(chain):
    class Thing:
        pass

    alive = weakref.WeakSet()
    gc.disable()
    try:
        with ChainPool(2, 1) as pool:
            last = None
            for i in range(200):
                thing = Thing()
                alive.add(thing)
                last = pool.submit(chain(i), 1, lambda thing=thing: thing, chain(i) > 0, [last] if last else [])
                del thing
                for result in pool.results():
                    del result
                assert len(alive) < 40
            list(pool.results(everything=True))
        del last
        assert len(alive) <= 2  # what the threads hold last
    finally:
        gc.enable()


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_an_interrupt_that_work_swallows_reaches_the_caller():
    """As a callback from C does, which can only print what it was raised."""

    def deaf():
        with suppress(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)

    with interruptible(), ChainPool(1, 1 << 30) as pool:
        pool.submit("a", 1, deaf)
        with pytest.raises(Interrupted):
            list(pool.results(everything=True))


def test_one_thread_is_the_callers():
    with ChainPool(1, 1 << 30) as pool:
        pool.submit("a", 1, threading.get_ident)
        assert list(pool.results(everything=True)) == [threading.get_ident()]


def test_threads_are_those_the_process_may_use():
    cores = os.cpu_count() or 1
    assert 1 <= available_threads() <= cores
    if hasattr(os, "sched_setaffinity"):
        allowed = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(allowed)})
        try:
            assert available_threads() == 1
        finally:
            os.sched_setaffinity(0, allowed)


def test_a_lock_that_an_interrupt_keeps_does_not_hold_up_the_end(monkeypatch):
    monkeypatch.setattr(schedule, "PATIENCE", 0.2)
    pool = schedule.ChainPool(3, 100)
    pool.submit(0, 1, lambda: None)
    pool.news.acquire()
    with pytest.raises(Interrupted), pool:
        raise Interrupted(signal.SIGTERM)
    pool.news.release()
    for thread in pool.others:
        thread.join(10)
        assert not thread.is_alive()
