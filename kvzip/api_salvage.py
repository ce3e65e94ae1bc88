"""The Python interface to damaged containers: what can be restored is, and what cannot is told and marked.

A target that lacks anything never stands without its mark, ``TARGET.lost.json`` beside it, which says what.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from kvzip.api import container_input, into, opened_draft
from kvzip.container.remains import Remains, remains_of
from kvzip.container.structures import DIRECTORY
from kvzip.files import DirectoryTarget, FileTarget
from kvzip.files.naming import mark_of
from kvzip.files.source import kept
from kvzip.pipeline.draft import DraftGiven
from kvzip.pipeline.losses import Losses
from kvzip.pipeline.options import Progress
from kvzip.pipeline.prior_file import PriorSource, read_prior
from kvzip.pipeline.report import Report
from kvzip.pipeline.salvage import Salvager

if TYPE_CHECKING:
    from kvzip.api import Source, Target


def salvage(
    source: Source,
    target: Target | None = None,
    *,
    threads: int = 0,
    force: bool = False,
    progress: Progress | None = None,
    prior: PriorSource | None = None,
    draft: DraftGiven | None = None,
) -> Losses:
    """Restore what a damaged container still holds; zeros take the place of what is lost, and what it is is returned.

    source: the container's bytes, path, or a binary file.
    target: a path (of a directory if one was compressed), a binary file, or None to find out what is lost.

    Every block that is restored has passed its check. What is returned is false if nothing is lost. Beside a target
    path that lacks anything there is ``TARGET.lost.json``, which says what.

    ContainerError if nothing can be restored.
    """
    known = None if prior is None else read_prior(prior)
    with (
        container_input(source) as (file, where),
        seekable(file) as again,
        opened_draft(draft, threads, known) as drafts,
    ):
        remains = remains_of(again, where, known, drafts)
        if isinstance(target, str | os.PathLike):
            inputs = [given for given in (source, draft) if isinstance(given, str | os.PathLike)]
            return restore_remains(remains, where, target, threads, force=force, inputs=inputs, progress=progress)[1]
        return Salvager(remains, where, into(target), progress).run(threads)[1]


@contextmanager
def seekable(file: BinaryIO) -> Iterator[BinaryIO]:
    """The file, or a copy of what can be read only once."""
    with ExitStack() as held:
        yield file if file.seekable() else kept(file, held)


def restore_remains(
    remains: Remains,
    where: str,
    target: str | os.PathLike[str],
    threads: int = 0,
    *,
    force: bool = False,
    inputs: Any = (),
    like: os.stat_result | None = None,
    progress: Progress | None = None,
    parents: bool = False,
) -> tuple[Report, Losses]:
    """Restore what remains to a path, a file or a directory, and its mark if anything is lost."""
    if remains.start.source == DIRECTORY:
        with DirectoryTarget(target, force=force, inputs=inputs, parents=parents) as folder:
            salvager = Salvager(remains, where, lambda member, _: folder.create(member.name), progress)
            report, losses = salvager.run(threads)
            _publish(folder, Path(target), losses, where)
        return report, losses
    with FileTarget(target, force=force, like=like, inputs=inputs, parents=parents) as file:
        report, losses = Salvager(remains, where, into(file.file), progress).run(threads)
        _publish(file, Path(target), losses, where)
    return report, losses


def _publish(target: Any, path: Path, losses: Losses, where: str) -> None:
    """Give a finished target its name, its mark first if it needs one; without need an old mark goes."""
    mark = mark_of(path)
    if path.exists() and not (path.is_file() or path.is_dir()):  # a device has no beside
        target.commit()
        return
    if not losses:
        target.commit()
        with suppress(OSError, ValueError, AttributeError):
            if json.loads(mark.read_text("utf-8")).get("command") == "salvage":
                mark.unlink()
        return
    text = json.dumps({"command": "salvage", "container": where, **losses.to_json()}, indent=1) + "\n"
    with FileTarget(mark, force=True) as file:
        file.file.write(text.encode())
        file.commit()
    try:
        target.commit()
    except BaseException:
        with suppress(OSError):
            mark.unlink()
        raise
