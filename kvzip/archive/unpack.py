"""Dumps out of an archive: those that are asked for, by way of those that they are coded against and no others."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, BinaryIO

from kvzip.api import into
from kvzip.archive.directory import Entry, needed, read_directory
from kvzip.archive.window import window
from kvzip.errors import ContainerError, KvzipError, meant
from kvzip.files.faults import shown
from kvzip.pipeline.decompress import Opening, decompress_members
from kvzip.pipeline.draft import open_draft
from kvzip.pipeline.options import Progress

Create = Callable[[Entry], AbstractContextManager[Any]]
"""Opens the place where an entry's file goes: a target with ``file``, ``path`` (None for a pipe) and ``commit``."""


class Archive:
    """An archive in a seekable file."""

    def __init__(self, file: BinaryIO, where: str) -> None:
        self.file, self.where = file, where
        self.entries = read_directory(file, where)

    def numbers(self, wanted: Sequence[str]) -> list[int]:
        """The entries called so or matching a pattern, all if none is named. KvzipError for what is not there."""
        if not wanted:
            return list(range(len(self.entries)))
        names = [entry.name for entry in self.entries]
        found: set[int] = set()
        for pattern in wanted:
            hits = [n for n, name in enumerate(names) if name == pattern or fnmatchcase(name, pattern)]
            if not hits:
                raise KvzipError(
                    f"{self.where}: holds no {shown(pattern)}; {meant(pattern, names, 'see kvzip list')}"
                )
            found.update(hits)
        return sorted(found)

    def container(self, number: int) -> BinaryIO:
        """An entry's container."""
        entry = self.entries[number]
        return window(self.file, entry.offset, entry.length)

    def name_of(self, number: int) -> str:
        """What an entry is called in messages."""
        return f"{self.where}: {shown(self.entries[number].name)}"

    def restore(
        self,
        numbers: Sequence[int],
        create: Create,
        threads: int = 0,
        progress: Progress | None = None,
        done: Callable[[Entry], None] = lambda entry: None,
    ) -> None:
        """Restore some entries, each into what ``create`` opens, in order; others that they need go into a temporary
        folder, which is gone at the end."""
        wanted = set(numbers)
        order = needed(self.entries, list(numbers))
        used = {self.entries[number].draft for number in order}
        with ExitStack() as opened:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="kvzip-")))
            drafts: dict[int, Path] = {}
            for number in order:
                kept = None
                if number in used:  # a copy of our own: what was restored is the user's from then on
                    kept = drafts[number] = folder / str(number)
                target = create(self.entries[number]) if number in wanted else nullcontext()
                with target as out, open(kept, "wb") if kept else nullcontext() as copy:
                    self._decode(number, _both(out.file if out else None, copy), drafts, threads, progress)
                    if out:
                        out.commit()
                if number in wanted:
                    done(self.entries[number])
                last = [n for n in drafts if not any(self.entries[m].draft == n for m in order if m > number)]
                for old in last:
                    drafts.pop(old).unlink()

    def _decode(
        self, number: int, out: Any, drafts: dict[int, Path], threads: int, progress: Progress | None
    ) -> None:
        entry = self.entries[number]
        with ExitStack() as opened:
            draft = None
            if entry.draft is not None:
                draft = opened.enter_context(open_draft(drafts[entry.draft], threads))
                draft = draft.first(entry.tokens) if entry.tokens else draft
            opening = Opening.of(self.container(number), self.name_of(number), None, draft)
            report = decompress_members(opening, into(out), threads, progress=progress)
        if report.source_bytes != entry.size or report.members != 1:
            raise ContainerError(f"{self.name_of(number)}: is not what the directory says; the archive is damaged")


class _Both:
    """Two files as one."""

    def __init__(self, files: list[Any]) -> None:
        self.files = files

    def write(self, data: Any) -> int:
        """Write ``data`` to both."""
        for file in self.files:
            file.write(data)
        return len(data)


def _both(*files: Any) -> Any:
    given = [file for file in files if file is not None]
    return _Both(given) if given else None
