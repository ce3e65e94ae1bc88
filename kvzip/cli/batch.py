"""Many jobs: small files side by side, large ones one after the other; each whole or not at all, in order reported.

One file uses several threads as well as it is large; a small one hardly does. So as many small files as there are
threads are done at once, each with one thread, and large ones alone with all of them.
"""

from __future__ import annotations

import json as json_module
import os
import sys
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any

from kvzip.cli.existing import is_done, may_replace
from kvzip.cli.sizes import human
from kvzip.cli.voice import OUT_OF_MEMORY, Progress, Voice
from kvzip.errors import KvzipError, OptionError
from kvzip.files import Inputs, Job, is_url, place, plan_outputs
from kvzip.files.faults import shown
from kvzip.pipeline.room import threads_that_fit

SMALL = 8 << 20  # bytes of an input that is done with one thread beside others
AHEAD = 2  # small files that may be done, for each thread, before the first of them is reported


@dataclass(frozen=True)
class Settings:
    """What both directions are told."""

    output: str | None
    output_dir: str | None
    stdout: bool
    recursive: bool
    force: bool
    skip_existing: bool
    remove: bool
    quiet: bool
    verbose: bool
    json: bool


@dataclass
class Done:
    """What became of a job: bytes read and written, or skipped with a reason, or failed with an error."""

    job: Job
    source_bytes: int = 0
    target_bytes: int = 0
    seconds: float = 0.0
    skipped: str = ""
    error: str = ""
    lost: list[Any] = field(default_factory=list)  # ``pipeline.losses.Damage``, of a container that was salvaged

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "source": str(self.job.source),
            "target": str(self.job.target),
            "source_bytes": self.source_bytes,
            "target_bytes": self.target_bytes,
            "seconds": round(self.seconds, 6),
            "skipped": self.skipped or None,
            "error": self.error or None,
            "lost": [damage.to_json() for damage in self.lost],
        }


Work = Callable[[Job, Voice, list[Any], int, bool], Done]
"""Does a job; told what is read, which must not be written to, the number of threads, and whether to overwrite."""


Doing = Callable[[list[Job], Voice], list[Done]]
"""Does all jobs and says what there is to say of each; what became of them, in order."""


def run(inputs: Inputs, settings: Settings, verb: str, do: Doing) -> None:
    """Plan, do every job, go on after failures, report; raises SystemExit(1) at the end if some failed."""
    voice = Voice(settings.quiet, settings.verbose)
    jobs = _plan(inputs, settings, verb, voice)
    done = do(jobs, voice)
    failed = [one for one in done if one.error]
    _report(done, settings, voice, verb, to_stdout=any(job.target == "-" for job in jobs))
    if failed:
        raise SystemExit(1)


def here(settings: Settings, verb: str, work: Work, threads: int, read: Sequence[str] = ()) -> Doing:
    """On this machine, by ``work``. Files ``read`` beside the inputs are never written to."""
    from kvzip.pipeline.schedule import available_threads

    def do(jobs: list[Job], voice: Voice) -> list[Done]:
        sources = [*(job.source for job in jobs if job.source != "-"), *read]
        return _Batch(settings, verb, work, sources, voice, threads or available_threads(), not read).run(jobs)

    return do


def _plan(inputs: Inputs, settings: Settings, verb: str, voice: Voice) -> list[Job]:
    if settings.stdout and settings.output not in (None, "-"):
        raise OptionError("-c and -o exclude each other; give one of them")
    plan = plan_outputs(
        inputs.given,
        recursive=settings.recursive,
        output="-" if settings.stdout else settings.output,
        output_dir=settings.output_dir,
        decompress=verb == "decompress",
        listed=inputs.listed,
    )
    if settings.remove and any("-" in (job.source, job.target) for job in plan.jobs):
        raise OptionError("--rm needs files: with standard input or output the only copy could be lost")
    for path in plan.containers:
        voice.say(f"skipped, already compressed: {shown(path)}")
    for path in plan.links:
        voice.warn(f"a link to a folder, not followed: {shown(path)}")
    if not plan.jobs:
        voice.say(f"nothing to {verb}: {', '.join(map(shown, inputs.all)) or 'the list is empty'}")
    return plan.jobs


class _Held(Voice):
    """The voice of a job beside others: its lines wait until it is its turn."""

    def __init__(self, voice: Voice, tell: Progress | None) -> None:
        super().__init__(voice.quiet, voice.verbose)
        self._voice, self._tell = voice, tell
        self.lines: list[str] = []

    def progress(
        self, name: Any, total: int | None, packed_total: int | None = None
    ) -> AbstractContextManager[Progress | None]:
        return nullcontext(self._tell)

    def announce_compilation(self, verb: str) -> None:
        self._voice.announce_compilation(verb)

    def _line(self, text: str) -> None:
        self.lines.append(text)

    def release(self) -> None:
        """Say what waited."""
        for line in self.lines:
            self._voice._line(line)
        self.lines.clear()


class _Batch:
    """Jobs in the doing."""

    def __init__(
        self,
        settings: Settings,
        verb: str,
        work: Work,
        sources: list[Any],
        voice: Voice,
        threads: int,
        beside: bool,
    ) -> None:
        self.settings, self.verb, self.work, self.sources = settings, verb, work, sources
        self.voice, self.threads, self.beside = voice, threads, beside
        self.lock = Lock()
        self.done: list[Done] = []
        self.waiting: deque[tuple[Job, Future[Done], _Held]] = deque()
        self.warm = False  # whether a job was done
        self.told = [0, 0]  # bytes of the dumps and packed, of all jobs
        self.show: Progress | None = None

    def run(self, jobs: list[Job]) -> list[Done]:
        """Do all jobs; what became of each, in their order."""
        if len(jobs) == 1:
            self._single(jobs[0])
            return self.done
        sizes = [_size(job) for job in jobs]
        with ExitStack() as open_things:
            pool = ThreadPoolExecutor(threads_that_fit(self.threads))
            open_things.callback(pool.shutdown, wait=True, cancel_futures=True)
            totals = (sum(sizes), None) if self.verb == "compress" else (None, sum(sizes))
            name = partial(self._standing, len(jobs))
            self.show = open_things.enter_context(self.voice.progress(name, *totals))
            for job, size in zip(jobs, sizes, strict=True):
                held = _Held(self.voice, self._tell(self.show) if self.show else None)
                if not self._fits_beside(job, size):
                    self._settle(0)
                    self._keep(job, partial(self._do, job, held, self.threads), held)
                    continue
                self._settle(AHEAD * self.threads - 1)
                self.waiting.append((job, pool.submit(self._do, job, held, 1), held))
            self._settle(0)
        return self.done

    def _fits_beside(self, job: Job, size: int) -> bool:
        """Whether a job may be done beside others; those with a draft share its file, and go one by one."""
        if self.threads == 1 or not self.beside or job.directory:
            return False
        if not self.warm:
            return False  # the first one may compile kernels, which Ctrl-C ends only on the main thread
        return size <= SMALL and "-" not in (job.source, job.target)

    def _single(self, job: Job) -> None:
        """The only job: its errors are the command's."""
        try:
            self.done.append(self._do(job, self.voice, self.threads))
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            self._fail(job, error)

    def _do(self, job: Job, voice: Voice, threads: int) -> Done:
        return attempt(job, self.settings, self.verb, self.work, voice, self.sources, threads)

    def _settle(self, most: int) -> None:
        """Take the results of the first jobs that wait, until no more than so many do."""
        while len(self.waiting) > most:
            job, future, held = self.waiting.popleft()
            self._keep(job, future.result, held)

    def _keep(self, job: Job, result: Callable[[], Done], held: _Held) -> None:
        try:
            done = result()
            self.done.append(done)
            self.warm = self.warm or not done.skipped
            held.release()
        except BrokenPipeError:
            raise  # whoever read our output has left: no failure of this input
        except (KvzipError, OSError) as error:
            held.release()
            self._fail(job, error)
        except MemoryError:
            held.release()
            self._fail(job, KvzipError(f"{shown(str(job.source))}: {OUT_OF_MEMORY}"))

    def _fail(self, job: Job, error: KvzipError | OSError) -> None:
        known = isinstance(error, KvzipError)
        text = str(error) if known else f"{shown(str(job.source))}: {error.strerror or error}"  # type: ignore[union-attr]
        self.voice.error(text)
        self.done.append(Done(job, error=text))

    def _tell(self, show: Progress) -> Progress:
        """What a job tells how far it is."""
        before = [0, 0]

        def tell(*now: int) -> None:
            with self.lock:
                for at, count in enumerate(now):
                    self.told[at] += count - before[at]
                    before[at] = count
                show(*self.told)

        return tell

    def _standing(self, total: int) -> str:
        return f"{len(self.done)} of {total} files"


def attempt(
    job: Job, settings: Settings, verb: str, work: Work, voice: Voice, sources: list[Any], threads: int
) -> Done:
    """Do a job, unless its output is there already and that is to be left alone."""
    force = settings.force
    if settings.skip_existing and job.target != "-" and _is_there(job.target):
        if is_done(job, verb == "decompress"):
            voice.say(f"skipped, there already: {shown(job.target)}", detail=True)
            return Done(job, skipped="there already")
        force = force or may_replace(job, verb == "decompress")
    return work(job, voice, sources, threads, force)


def _is_there(target: Any) -> bool:
    return target.exists() if is_url(target) else os.path.lexists(target)


def _size(job: Job) -> int:
    """Bytes of a job's input, as far as a look tells."""
    try:
        return 0 if job.source == "-" or job.directory else place(job.source).stat().st_size
    except (OSError, KvzipError):
        return 0


def line(done: Done, verb: str) -> str:
    """What became of a job, in words."""
    big, small = max(done.source_bytes, done.target_bytes), min(done.source_bytes, done.target_bytes)
    if verb == "compress":
        big, small = done.source_bytes, done.target_bytes
    rate = big / max(1e-9, done.seconds)
    ratio = big / max(1, small)
    name = "standard input" if done.job.source == "-" else shown(done.job.source)
    sizes = f"{human(done.source_bytes)} -> {human(done.target_bytes)}"
    return f"{name}: {sizes} ({ratio:.4f}x) in {done.seconds:.2f} s, {human(rate)}/s"


def _report(done: list[Done], settings: Settings, voice: Voice, verb: str, to_stdout: bool) -> None:
    """A summary where there were many jobs; JSON where it was asked for, on stderr if stdout carries data."""
    failed = sum(bool(one.error) for one in done)
    if settings.json:
        row = {"command": verb, "files": [one.to_json() for one in done], "failed": failed}
        print(json_module.dumps(row), file=sys.stderr if to_stdout else sys.stdout)
        return
    if len(done) == 1 and not settings.verbose and not to_stdout and not done[0].skipped and not failed:
        voice.say(line(done[0], verb), only_terminal=True)
    if len(done) > 1:
        made = [one for one in done if not one.error and not one.skipped]
        total, written = sum(one.source_bytes for one in made), sum(one.target_bytes for one in made)
        skipped = f"; {len(done) - failed - len(made)} skipped" if len(done) > failed + len(made) else ""
        summary = f"{len(made)} files, {human(total)} -> {human(written)}{skipped}; {failed} failed"
        voice.say(summary, only_terminal=not failed)
