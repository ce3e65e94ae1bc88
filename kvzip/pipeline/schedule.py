"""Work on several threads, the caller's among them, with results in order and bounded memory.

Work of one chain runs in the order it was submitted, different chains run side by side, and results come back in
submission order whatever the number of threads, so the output never depends on it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import Generic, TypeVar

from kvzip.files.signals import raise_lost
from kvzip.pipeline.room import threads_that_fit

T = TypeVar("T")
PATIENCE = 10.0
"""Seconds that threads have to end after an interrupt. Python runs a signal's handler also between taking a lock and
entering the block that gives it back: a lock that is lost so, once in thousands of interrupts, must not hold up the
end."""


def available_threads() -> int:
    """The cores that affinity and the control group leave to this process, at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        if quota != "max":
            cores = min(cores, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    return max(1, cores)


class ChainPool(Generic[T]):
    """Threads that keep chains in order: the caller's, which works while it waits for a result, and others.

    ``threads`` counts the caller, 0 is one for each core; ``budget`` bounds the cost of what is in flight. The caller
    would otherwise take turns with the others for the interpreter, and a thread that wakes up is late.
    """

    def __init__(self, threads: int, budget: int) -> None:
        self.budget = budget
        self.pending: deque[tuple[Future[T], int]] = deque()
        self.in_flight = 0
        self.last: dict[Hashable, Future[T]] = {}
        self.ready: deque[Callable[[], None]] = deque()
        self.news = threading.Condition()  # of ``ready``, ``ended`` and the result that the caller waits for
        self.ended = False
        self.others: list[threading.Thread] = []
        for number in range(1, threads_that_fit(threads or available_threads())):
            thread = threading.Thread(target=self._serve, name=f"kvzip-{number}", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has none left: those that there are do
                break
            self.others.append(thread)

    def __enter__(self) -> ChainPool[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self.news:
            self.ended = True
            self.ready.clear()
            self.news.notify_all()
        ends_by_itself = kind is None or issubclass(kind, Exception)
        deadline = None if ends_by_itself else time.monotonic() + PATIENCE
        for thread in self.others:
            thread.join(None if deadline is None else max(0.0, deadline - time.monotonic()))

    def submit(
        self,
        chain: Hashable,
        cost: int,
        work: Callable[[], T],
        ends_chain: bool = False,
        after: Iterable[Future[T]] = (),
    ) -> Future[T]:
        """Queue ``work`` behind what its chain has queued before, and behind the results ``after``.

        Work waits without holding a thread. It fails with whatever it waits for.
        """
        result: Future[T] = Future()

        def run() -> None:
            try:
                while waits:  # emptied: futures would keep each other alive
                    if failed := waits.pop(0).exception():
                        raise failed
                result.set_result(work())
            except BaseException as error:
                result.set_exception(error)
                if not isinstance(error, Exception) and threading.current_thread() is threading.main_thread():
                    raise  # an interrupt is not of this work: it goes to the caller at once

        waits = [future for future in (self.last.get(chain), *after) if future is not None]
        if waits:
            self._queue_after(waits, run)
        else:
            self._queue(run)
        self.last[chain] = result
        if ends_chain:
            del self.last[chain]
        self.pending.append((result, cost))
        self.in_flight += cost
        return result

    def results(self, everything: bool = False) -> Iterator[T]:
        """Results in submission order: while over budget, or ``everything`` that is left."""
        while self.pending and (everything or self.in_flight > self.budget or self.pending[0][0].done()):
            self._help(self.pending[0][0])
            result, cost = self.pending.popleft()
            self.in_flight -= cost
            yield result.result()

    def _queue_after(self, waits: list[Future[T]], run: Callable[[], None]) -> None:
        """Queue ``run`` once all of ``waits`` are done."""
        steps: list[Callable[[], None] | None] = [
            run
        ]  # futures keep their callbacks: what is done must not be kept by
        steps += [None] * (len(waits) - 1)  # them
        lock = threading.Lock()

        def one_less(done: Future[T]) -> None:
            with lock:
                step = steps.pop()
            if step:
                self._queue(step)

        for future in tuple(waits):
            future.add_done_callback(one_less)

    def _queue(self, run: Callable[[], None]) -> None:
        with self.news:
            if not self.ended:
                self.ready.append(run)
                self.news.notify()

    def _next(self, enough: Callable[[], bool]) -> Callable[[], None] | None:
        """The next piece of work; None once ``enough``."""
        with self.news:
            self.news.wait_for(lambda: self.ready or enough())
            if enough():
                self.news.notify()  # what woke this thread may be for another
                return None
            return self.ready.popleft()

    def _serve(self) -> None:
        """Work until the pool ends."""
        while run := self._next(lambda: self.ended):
            run()
            del run  # with all that it holds
            with self.news:
                self.news.notify_all()

    def _help(self, result: Future[T]) -> None:
        """Work until ``result`` is there."""
        while run := self._next(result.done):
            run()
            raise_lost()
