"""One input of ``compress`` or ``decompress``, from its source to its target, here or on a worker of a fleet."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from kvzip.cli.batch import Done, Settings, Work, line
from kvzip.cli.voice import Voice
from kvzip.container.records import starts_container
from kvzip.errors import KvzipError, OptionError
from kvzip.files import FileSource, Job, StreamTarget, Url, file_target, members, place
from kvzip.files.faults import shown


@contextmanager
def worker(verb: str, settings: Settings, choices: dict[str, Any], draft: str | None) -> Iterator[Work]:
    """What does one job, the draft open. ``choices`` are a compression's options; else threads, prior, salvage."""
    from kvzip.api import opened_draft, trained
    from kvzip.cli.salvage import salvage_one
    from kvzip.pipeline.options import Options
    from kvzip.pipeline.prior_file import read_prior

    if verb == "compress":
        with opened_draft(draft, choices["threads"], trained(choices)) as drafts:
            options = Options.make(**choices, draft=drafts)
            yield lambda job, voice, sources, threads, force: _compress_one(
                job, replace(settings, force=force), replace(options, threads=threads), voice, sources
            )
        return
    one = salvage_one if choices.get("salvage") else _decompress_one
    known = None if choices["prior"] is None else read_prior(choices["prior"])
    with opened_draft(draft, choices["threads"], known) as drafts:
        yield lambda job, voice, sources, threads, force: one(
            job, replace(settings, force=force), threads, (known, drafts), voice, sources
        )


def _compress_one(job: Job, settings: Settings, options: Any, voice: Voice, sources: list[Any]) -> Done:
    from kvzip.api import directory_inputs
    from kvzip.pipeline.compress import compress_members
    from kvzip.pipeline.source import MemberInput

    began = time.perf_counter()
    if job.directory:
        root = place(job.source)
        if isinstance(root, Url) and settings.remove:
            raise OptionError(f"--rm removes no folder at a URL: {shown(str(root))}; add -r for the files below it")
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
        return _finish(done, settings, options, voice, source.remove, "compress")


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
        return _finish(done, settings, None, voice, source.remove, "decompress")


def _finish(
    done: Done, settings: Settings, options: Any, voice: Voice, remove: Callable[[], None], verb: str
) -> Done:
    """After the output is safe: read it back if the options of its compression ask so, remove the source if asked."""
    voice.remember_compilation(verb)
    if settings.remove:
        if options and options.verify:
            from kvzip.cli.check import check_container

            check_container(done.job.target, 0, (options.prior, options.draft))
        _remove(done.job, remove)
    voice.say(line(done, verb), detail=True)
    return done


def _remove(job: Job, remove: Callable[[], None]) -> None:
    try:
        remove()
    except OSError as error:
        name = shown(os.fspath(error.filename or job.source))
        raise KvzipError(
            f"cannot remove the source: {name}: {error.strerror}; {shown(job.target)} is whole, remove it by hand"
        ) from error


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


def _target(
    job: Job, settings: Settings, inputs: list[Any], like: os.stat_result | None
) -> AbstractContextManager[Any]:
    if job.target == "-":
        return StreamTarget(force=settings.force, inputs=inputs)
    regular = like if like is not None and stat.S_ISREG(like.st_mode) else None
    return file_target(job.target, force=settings.force, like=regular, inputs=inputs, parents=job.parents)


def _status(source: FileSource) -> Iterator[os.stat_result]:
    if source.stat is not None:
        yield source.stat
