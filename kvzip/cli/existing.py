"""Whether an output is there already, whole and of the input as it is now: what ``--skip-existing`` leaves alone.

What is not done is done again if all that is lost is a container. Whole is what ends as a container must and holds as
many bytes as the input has, or what is as large as the container says: quick; ``kvzip test`` checks every byte.
"""

from __future__ import annotations

import os
from pathlib import Path

from kvzip.container.indexed import held_by
from kvzip.container.records import MAGIC, starts_container
from kvzip.container.structures import DIRECTORY
from kvzip.errors import KvzipError
from kvzip.files import FileSource, Job, members
from kvzip.files.naming import mark_of


def is_done(job: Job, decompress: bool) -> bool:
    """Whether a job's output needs not be made again."""
    if "-" in (job.source, job.target):
        return False
    source, target = Path(job.source), Path(job.target)
    try:
        if decompress:
            return _is_restored(source, target)
        named = members(source).files if job.directory else [("", source)]
        files = {name: path.stat() for name, path in named}
        newest = max((info.st_mtime_ns for info in files.values()), default=0)
        if target.stat().st_mtime_ns < newest:
            return False
        return _held_by(target) == {name: info.st_size for name, info in files.items()}
    except (OSError, KvzipError):
        return False


def may_replace(job: Job, decompress: bool) -> bool:
    """Whether an output that is there, but not done, is only an older or unfinished container: nothing of worth.

    What was restored may have been worked on since; it is never replaced unless that is asked for.
    """
    if decompress or Path(job.target).is_dir():
        return False
    try:
        with open(job.target, "rb") as file:
            return MAGIC.startswith(file.read(len(MAGIC)))
    except OSError:
        return False


def _is_restored(container: Path, target: Path) -> bool:
    """Whether what a container holds is there, each file with its size."""
    held = _held_by(container)
    if held is None or target.is_dir() == ("" in held):
        return False
    if mark_of(target).exists():
        return False
    packed = container.stat().st_mtime_ns
    found = [(target / name if name else target).stat() for name in held]
    return [info.st_size for info in found] == list(held.values()) and (
        target.is_dir() or all(info.st_mtime_ns >= packed for info in found)
    )


def _held_by(container: Path) -> dict[str, int] | None:
    """Sizes of the files that a container holds, by name ("" for the only one); None if it is none.

    ContainerError if it is not whole.
    """
    with FileSource(container) as source:
        file = source.file
        if not starts_container(file) or not source.size:
            return None
        start, held = held_by(file, os.fspath(container))
        return {member.name if start.source == DIRECTORY else "": member.size for member in held}
