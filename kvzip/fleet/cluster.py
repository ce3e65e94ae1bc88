"""A cluster of dask.distributed: one that is named, or a local one that ends with its use."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from kvzip.cli.batch import Done
from kvzip.errors import KvzipError, OptionError
from kvzip.files import Job
from kvzip.fleet.task import Task

TIMEOUT = 10  # seconds until a scheduler must answer
Told = Callable[[Done, list[str]], None]


class Cluster:
    """Use it as a context manager. scheduler: an address, an open client, or None for ``workers`` local processes."""

    def __init__(self, scheduler: Any = None, workers: int = 0) -> None:
        if scheduler is not None and workers:
            raise OptionError("--scheduler and --workers exclude each other: a cluster that is there has its workers")
        if workers < 0:
            raise OptionError(f"--workers {workers}: must be 1 or more, or 0 for one on each core")
        self.scheduler, self.workers = scheduler, workers
        self._open = ExitStack()
        self.client: Any = None

    def __enter__(self) -> Cluster:
        try:
            import distributed
        except ImportError as error:
            raise OptionError("clusters need dask.distributed: pip install 'kvzip[dask]'") from error
        if self.scheduler is not None and not isinstance(self.scheduler, str):
            self.client = self.scheduler
            return self
        try:
            self.client = self._open.enter_context(self._connect(distributed))
        except BaseException:
            self._open.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _connect(self, distributed: Any) -> Any:
        if self.scheduler is not None:
            try:
                return distributed.Client(self.scheduler, timeout=TIMEOUT, set_as_default=False)
            except (OSError, ValueError, TypeError) as error:
                text = next(iter(str(error).splitlines()), type(error).__name__)
                raise KvzipError(
                    f"no scheduler answers: {self.scheduler}: {text}; check the address, or use --workers"
                ) from error
        from kvzip.pipeline.schedule import available_threads

        cluster = self._open.enter_context(
            distributed.LocalCluster(
                n_workers=self.workers or available_threads(),
                threads_per_worker=1,
                processes=True,
                dashboard_address=":0",
                silence_logs=logging.CRITICAL,
            )
        )
        return distributed.Client(cluster, set_as_default=False)

    def run(
        self, jobs: Sequence[Job], task: Task, told: Told = lambda done, lines: None
    ) -> list[tuple[Done, list[str]]]:
        """Do every job; what became of each, and its lines, in order. ``told`` hears of each as it is done."""
        from distributed import as_completed

        futures = self.client.map(
            task,
            [_absolute(job) for job in jobs],
            pure=False,
            key=[f"kvzip-{task.verb}-{n}-{id(self)}" for n in range(len(jobs))],
        )
        places = {future.key: number for number, future in enumerate(futures)}
        found: dict[int, tuple[Done, list[str]]] = {}
        try:
            for future in as_completed(futures, loop=self.client.loop):
                number = places[future.key]
                found[number] = self._result(jobs[number], future)
                told(*found[number])
        except BaseException:
            self.client.cancel(futures)
            raise
        return [found[number] for number in range(len(jobs))]

    def _result(self, job: Job, future: Any) -> tuple[Done, list[str]]:
        error = future.exception()
        if error is None:
            done, lines = future.result()
            return replace(done, job=job), lines
        what = "its workers were lost again and again" if type(error).__name__ == "KilledWorker" else f"{error}"
        text = f"{job.source}: {type(error).__name__}: {next(iter(what.splitlines()), '')}; see the workers' logs"
        return Done(job, error=text), [text]


def _absolute(job: Job) -> Job:
    """A job whose paths mean the same to a worker that started in another folder."""
    source, target = (path.absolute() if isinstance(path, Path) else path for path in (job.source, job.target))
    return replace(job, source=source, target=target)
