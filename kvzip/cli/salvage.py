"""``decompress --salvage`` for one container, and what ``test`` says of a damaged one: where, and what is lost."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from kvzip.cli.batch import Done, Settings, line
from kvzip.cli.voice import Voice
from kvzip.container.records import starts_archive
from kvzip.errors import KvzipError, OptionError
from kvzip.files import FileSource, Job, StreamTarget

MOST_LINES = 20  # about one container


def salvage_one(
    job: Job, settings: Settings, threads: int, needs: tuple[Any, Any], voice: Voice, sources: list[Any]
) -> Done:
    """Restore what a container still holds; ``error`` of what is returned says if that is not all."""
    from kvzip.api import into
    from kvzip.api_salvage import restore_remains, seekable
    from kvzip.container.remains import remains_of
    from kvzip.container.structures import DIRECTORY
    from kvzip.pipeline.salvage import Salvager, summary

    began = time.perf_counter()
    with FileSource(job.source) as source, seekable(source.file) as file:
        inputs = [*sources, *([source.stat] if source.stat is not None else [])]
        remains = remains_of(file, source.name, *needs)
        voice.announce_compilation("decompress")
        with voice.progress(source.name, None, remains.scan.size) as progress:
            if job.target == "-":
                if remains.start.source == DIRECTORY:
                    raise OptionError(f"{source.name}: holds a directory; name a folder with -o")
                with StreamTarget(force=settings.force, inputs=inputs) as target:
                    report, losses = Salvager(remains, source.name, into(target.file), progress).run(threads)
                    target.commit()
            else:
                report, losses = restore_remains(
                    remains, source.name, job.target, threads, force=settings.force, inputs=inputs,
                    like=source.stat if source.path is not None else None, progress=progress, parents=job.parents,
                )  # fmt: skip
        source.check_unchanged()
    tell(losses, source.name, voice)
    done = Done(job, report.container_bytes, report.source_bytes, time.perf_counter() - began, lost=losses.damages)
    if losses or losses.faults:
        done.error = summary(report, losses, source.name) if losses else ""
        voice.error(done.error) if losses else voice.warn(summary(report, losses, source.name))
    voice.say(line(done, "decompress"), detail=True)
    return done


def damage_of(name: str, threads: int, needs: tuple[Any, Any], voice: Voice) -> list[Any]:
    """What a container that fails its test has lost; said, and returned. Nothing of pipes, which are read by now."""
    from kvzip.api import into
    from kvzip.pipeline.salvage import salvage_members

    if name == "-":
        return []
    with suppress(KvzipError), FileSource(name) as source:
        if not source.file.seekable() or starts_archive(source.file):
            return []
        _, losses = salvage_members(source.file, source.name, into(None), threads, prior=needs[0], draft=needs[1])
        tell(losses, source.name, voice)
        return losses.damages
    return []


def tell(losses: Any, where: str, voice: Voice) -> None:
    """A line for each place that is damaged, and one for all that is lost with them."""
    from kvzip.pipeline.losses import DEPENDS

    direct = [damage for damage in losses.damages if damage.cause != DEPENDS]
    for damage in direct[:MOST_LINES]:
        voice.error(f"{where}: {damage}")
    if len(direct) > MOST_LINES:
        voice.error(f"{where}: and {len(direct) - MOST_LINES} places more; --json tells all")
    others = [damage for damage in losses.damages if damage.cause == DEPENDS]
    if others:
        tensors = len({(one.file, name) for one in others for name in one.tensors})
        lost = sum(damage.nbytes for damage in others)
        voice.error(f"{where}: coded by what these held, and lost with them: {lost} bytes, tensors: {tensors}")
