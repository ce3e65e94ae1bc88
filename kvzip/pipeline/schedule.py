"""Work on several threads with results in order and bounded memory.

Work of one chain runs in the order it was submitted, different chains run side by side, and results come back in
submission order whatever the number of threads, so the output never depends on it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")


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
    """A thread pool that keeps chains in order. ``budget`` bounds the cost of what is in flight."""

    def __init__(self, threads: int, budget: int) -> None:
        self.executor = ThreadPoolExecutor(threads or available_threads(), thread_name_prefix="kvzip")
        self.budget = budget
        self.pending: deque[tuple[Future[T], int]] = deque()
        self.in_flight = 0
        self.last: dict[Hashable, Future[T]] = {}

    def __enter__(self) -> ChainPool[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.executor.shutdown(wait=True, cancel_futures=True)

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
                while waits:  # emptied: futures keep their callbacks, and would keep each other alive
                    if failed := waits.pop(0).exception():
                        raise failed
                result.set_result(work())
            except BaseException as error:
                result.set_exception(error)

        waits = [future for future in (self.last.get(chain), *after) if future is not None]
        left = len(waits) + 1
        lock = threading.Lock()

        def one_less(done: Future[T] | None = None) -> None:
            nonlocal left
            with lock:
                left -= 1
                ready = left == 0
            if ready:
                self._continue(run, result)

        for future in tuple(waits):
            future.add_done_callback(one_less)
        one_less()
        self.last[chain] = result
        if ends_chain:
            del self.last[chain]
        self.pending.append((result, cost))
        self.in_flight += cost
        return result

    def _continue(self, run: Callable[[], None], result: Future[T]) -> None:
        try:
            self.executor.submit(run)
        except RuntimeError:  # shut down because of an error or an interrupt: nobody waits for this result
            result.cancel()

    def results(self, everything: bool = False) -> Iterator[T]:
        """Results in submission order: while over budget, or ``everything`` that is left."""
        while self.pending and (everything or self.in_flight > self.budget or self.pending[0][0].done()):
            result, cost = self.pending.popleft()
            self.in_flight -= cost
            yield result.result()
