"""``compress`` and ``decompress``: the jobs of a command line, one after the other, each whole or not at all."""

from __future__ import annotations

import json as json_module
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvzip.cli.sizes import human
from kvzip.cli.voice import Voice
from kvzip.container.records import starts_container
from kvzip.errors import KvzipError, OptionError
from kvzip.files import FileSource, FileTarget, Job, StreamTarget, members, plan_outputs
from kvzip.files.faults import shown


@dataclass(frozen=True)
class Settings:
    """What both directions are told."""

    output: str | None
    output_dir: str | None
    stdout: bool
    recursive: bool
    force: bool
    remove: bool
    quiet: bool
    verbose: bool
    json: bool


@dataclass
class Done:
    """What became of a job: bytes read and written, or skipped with a reason."""

    job: Job
    source_bytes: int = 0
    target_bytes: int = 0
    seconds: float = 0.0
    skipped: str = ""


def compress(
    inputs: Sequence[str] | None, settings: Settings, choices: dict[str, Any], draft: str | None = None
) -> None:
    """Compress every input; raises SystemExit(1) at the end if some failed."""
    from kvzip.api import opened_draft, trained
    from kvzip.pipeline.options import Options

    Options.make(**choices)
    _check_layout(choices["layout"])
    with opened_draft(draft, choices["threads"], trained(choices)) as drafts:
        options = Options.make(**choices, draft=drafts)
        _run(
            inputs,
            settings,
            "compress",
            lambda job, voice, sources: _compress_one(job, settings, options, voice, sources),
            () if draft is None else (draft,),
        )


def decompress(
    inputs: Sequence[str] | None,
    settings: Settings,
    threads: int,
    prior: str | None = None,
    draft: str | None = None,
) -> None:
    """Restore every input; raises SystemExit(1) at the end if some failed."""
    from kvzip.api import opened_draft
    from kvzip.pipeline.options import Options
    from kvzip.pipeline.prior_file import read_prior

    Options.make(threads=threads)
    known = None if prior is None else read_prior(prior)
    with opened_draft(draft, threads, known) as drafts:
        _run(
            inputs,
            settings,
            "decompress",
            lambda job, voice, sources: _decompress_one(job, settings, threads, (known, drafts), voice, sources),
            () if draft is None else (draft,),
        )


def _check_layout(layout: str | None) -> None:
    """Refuse an unknown layout before anything is opened."""
    from kvzip.layouts.registry import recognise

    recognise((), "", layout)


def _run(
    inputs: Sequence[str] | None,
    settings: Settings,
    verb: str,
    work: Callable[[Job, Voice, list[Any]], Done],
    read: Sequence[str] = (),
) -> None:
    """Plan, do each job, go on after failures, report. Files ``read`` beside the inputs are never written to."""
    voice = Voice(settings.quiet, settings.verbose)
    if settings.stdout and settings.output not in (None, "-"):
        raise OptionError("-c and -o exclude each other; give one of them")
    output = "-" if settings.stdout else settings.output
    plan = plan_outputs(
        inputs or ["-"],
        recursive=settings.recursive,
        output=output,
        output_dir=settings.output_dir,
        decompress=verb == "decompress",
    )
    if settings.remove and any("-" in (job.source, job.target) for job in plan.jobs):
        raise OptionError("--rm needs files: with standard input or output the only copy could be lost")
    for path in plan.containers:
        voice.say(f"skipped, already compressed: {shown(path)}")
    for path in plan.links:
        voice.warn(f"a link to a folder, not followed: {shown(path)}")
    sources = [*(job.source for job in plan.jobs if job.source != "-"), *read]
    if not plan.jobs:
        voice.say(f"nothing to {verb}: {', '.join(map(shown, inputs or []))}")
    done: list[Done] = []
    failures = 0
    for job in plan.jobs:
        try:
            done.append(work(job, voice, sources))
        except BrokenPipeError:
            raise  # whoever read our output has left: no failure of this input
        except (KvzipError, OSError) as error:
            if len(plan.jobs) == 1 and isinstance(error, KvzipError):
                raise
            failures += 1
            voice.error(_told(error, job))
    _report(done, failures, settings, voice, verb, to_stdout=any(job.target == "-" for job in plan.jobs))
    if failures:
        raise SystemExit(1)


def _told(error: KvzipError | OSError, job: Job) -> str:
    """What went wrong, as one line that names the input."""
    return str(error) if isinstance(error, KvzipError) else f"{shown(str(job.source))}: {error.strerror or error}"


# -- one job


def _compress_one(job: Job, settings: Settings, options: Any, voice: Voice, sources: list[Any]) -> Done:
    from kvzip.api import directory_inputs
    from kvzip.pipeline.compress import compress_members
    from kvzip.pipeline.source import MemberInput

    began = time.perf_counter()
    if job.directory:
        root = Path(job.source)
        voice.announce_compilation("compress")
        tree = members(root)
        for name in (*tree.empty, *tree.links):
            voice.warn(f"left out, an empty folder or a link to one: {shown(root / name)}")
        stored = {path: path.stat() for _, path in tree.files}
        total = sum(info.st_size for info in stored.values())
        with _target(job, settings, [*sources, *stored], like=None) as target:
            with voice.progress(root.name, total) as progress:
                inputs = directory_inputs(tree.files)
                report = compress_members(inputs, target.file, options, directory=True, progress=progress)
            target.commit()
        done = Done(job, report.source_bytes, report.container_bytes, time.perf_counter() - began)
        return _finish(done, settings, options, voice, lambda: _remove_stored(root, stored), "compress")
    with FileSource(job.source) as source:
        again = starts_container(source.file)
        if again and job.target == "-" and not (settings.force and source.size is not None):
            raise KvzipError(f"already compressed: {source.name}; nothing to do, or name a file and -f")
        if again and not settings.force:
            voice.warn(f"already compressed, skipped: {source.name}; -f compresses it again")
            return Done(job, skipped="already compressed")
        voice.announce_compilation("compress")
        with _target(job, settings, [*sources, *_status(source)], like=source.stat) as target:
            member = MemberInput(source.file, source.name, size=source.size, is_dump=not again)
            with voice.progress(source.name, source.size) as progress:
                report = compress_members([nullcontext(member)], target.file, options, progress=progress)
            source.check_unchanged()
            target.commit()
        done = Done(job, report.source_bytes, report.container_bytes, time.perf_counter() - began)
        return _finish(done, settings, options, voice, lambda: _unlink(source), "compress")


def _decompress_one(
    job: Job, settings: Settings, threads: int, needs: tuple[Any, Any], voice: Voice, sources: list[Any]
) -> Done:
    from kvzip.api import into, restore
    from kvzip.container.structures import DIRECTORY
    from kvzip.pipeline.decompress import Opening, decompress_members

    began = time.perf_counter()
    with FileSource(job.source) as source:
        opening = Opening.of(source.file, source.name, *needs)
        voice.announce_compilation("decompress")
        inputs = [*sources, *_status(source)]
        with voice.progress(source.name, None, source.size) as progress:
            if job.target == "-":
                if opening.start.source == DIRECTORY:
                    raise OptionError(f"{source.name}: holds a directory; name a folder with -o")
                with StreamTarget(force=settings.force, inputs=inputs) as target:
                    report = decompress_members(opening, into(target.file), threads, progress=progress)
                    target.commit()
            else:
                like = source.stat if source.path is not None else None
                report = restore(
                    opening, job.target, threads, force=settings.force, inputs=inputs, like=like,
                    progress=progress, parents=job.parents,
                )  # fmt: skip
        source.check_unchanged()
        done = Done(job, report.container_bytes, report.source_bytes, time.perf_counter() - began)
        return _finish(done, settings, None, voice, lambda: _unlink(source), "decompress")


def _finish(
    done: Done, settings: Settings, options: Any, voice: Voice, remove: Callable[[], None], verb: str
) -> Done:
    """After the output is safe: read it back if the options of its compression ask so, remove the source if asked."""
    voice.remember_compilation(verb)
    if settings.remove:
        if options and options.verify:
            from kvzip.cli.check import check_container

            check_container(done.job.target, 0, (options.prior, options.draft))
        remove()
    voice.say(_line(done, verb), detail=True)
    return done


def _remove_stored(root: Path, stored: dict[Path, os.stat_result]) -> None:
    """Remove the files that the container holds, if they are still what was read, and folders that are then empty."""
    if root.is_symlink():
        root.unlink()
        return
    for path, info in stored.items():
        now = path.stat()
        if (now.st_size, now.st_mtime_ns, now.st_ino) != (info.st_size, info.st_mtime_ns, info.st_ino):
            raise KvzipError(f"changed since it was read, not removed: {shown(path)}; compress the folder again")
        path.unlink()
    for folder, _, _ in os.walk(root, topdown=False):
        with suppress(OSError):  # something is left in it
            os.rmdir(folder)


def _unlink(source: FileSource) -> None:
    """Remove a source that is still what was read."""
    source.check_unchanged()
    assert source.path is not None
    os.unlink(source.path)


def _target(
    job: Job, settings: Settings, inputs: list[Any], like: os.stat_result | None
) -> AbstractContextManager[Any]:
    if job.target == "-":
        return StreamTarget(force=settings.force, inputs=inputs)
    regular = like if like is not None and stat.S_ISREG(like.st_mode) else None
    return FileTarget(job.target, force=settings.force, like=regular, inputs=inputs, parents=job.parents)


def _status(source: FileSource) -> Iterator[os.stat_result]:
    if source.stat is not None:
        yield source.stat


# -- the report


def _line(done: Done, verb: str) -> str:
    big, small = max(done.source_bytes, done.target_bytes), min(done.source_bytes, done.target_bytes)
    if verb == "compress":
        big, small = done.source_bytes, done.target_bytes
    rate = big / max(1e-9, done.seconds)
    ratio = big / max(1, small)
    name = "standard input" if done.job.source == "-" else shown(done.job.source)
    sizes = f"{human(done.source_bytes)} -> {human(done.target_bytes)}"
    return f"{name}: {sizes} ({ratio:.4f}x) in {done.seconds:.2f} s, {human(rate)}/s"


def _report(done: list[Done], failures: int, settings: Settings, voice: Voice, verb: str, to_stdout: bool) -> None:
    """A summary where there were many jobs; JSON where it was asked for, on stderr if stdout carries data."""
    if settings.json:
        rows = [
            {
                "source": str(d.job.source),
                "target": str(d.job.target),
                "source_bytes": d.source_bytes,
                "target_bytes": d.target_bytes,
                "seconds": round(d.seconds, 6),
                "skipped": d.skipped or None,
            }
            for d in done
        ]
        print(
            json_module.dumps({"command": verb, "files": rows, "failed": failures}),
            file=sys.stderr if to_stdout else sys.stdout,
        )
    elif not settings.verbose and not to_stdout:
        for d in done if len(done) <= 1 else []:
            if not d.skipped:
                voice.say(_line(d, verb), only_terminal=True)
    if len(done) + failures > 1 and not settings.json:
        total, written = sum(d.source_bytes for d in done), sum(d.target_bytes for d in done)
        voice.say(
            f"{len(done)} files, {human(total)} -> {human(written)}; {failures} failed", only_terminal=not failures
        )
