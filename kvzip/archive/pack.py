"""Dumps into an archive, one after the other, each coded against the earlier one that it is most like."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from kvzip.api import file_input
from kvzip.archive.directory import Entry, write_directory
from kvzip.archive.likeness import Rows, best_of, rows_of
from kvzip.container.records import ARCHIVE_MAGIC
from kvzip.errors import DraftError, DumpError
from kvzip.files.faults import shown
from kvzip.files.members import member_parts
from kvzip.pipeline.compress import compress_members
from kvzip.pipeline.draft import open_draft
from kvzip.pipeline.options import Options, Progress

MOST_STEPS = 8  # dumps that are restored to restore one


@dataclass
class _Packed:
    """What stays of a dump that later ones may be coded against."""

    path: Path
    number: int
    steps: int
    rows: Rows
    status: tuple[int, int, int]


class Packer:
    """Writes an archive in one pass."""

    def __init__(self, out: BinaryIO, options: Options, progress: Progress | None = None) -> None:
        self.out, self.options, self.progress = out, options, progress
        self.entries: list[Entry] = []
        self.earlier: list[_Packed] = []
        self.at = out.write(ARCHIVE_MAGIC)

    def add(self, path: Path, name: str) -> Entry:
        """Append a dump. DumpError if it is none, or if one that it is coded against has changed since."""
        rows = self._rows(path)
        found = best_of(rows, [(one.steps, one.rows) for one in self.earlier]) if rows else None
        base, tokens = (self.earlier[found[0]], found[1]) if found else (None, 0)
        status = _status(path)
        with ExitStack() as opened:
            options = self.options
            if base is not None:
                draft = opened.enter_context(open_draft(base.path, options.threads, options.layout))
                options = replace(options, draft=draft.first(tokens) if tokens else draft)
            report = compress_members([file_input(path)], self.out, options, progress=self.progress)
        if base is not None and _status(base.path) != base.status:
            raise DumpError(
                f"changed while the archive was made: {shown(base.path)}; try again once its writer is done"
            )
        entry = Entry(
            name, report.source_bytes, self.at, report.container_bytes, None if base is None else base.number, tokens
        )
        steps = 0 if base is None else base.steps + 1
        if rows is not None and steps < MOST_STEPS:
            self.earlier.append(_Packed(path, len(self.entries), steps, rows, status))
        self.entries.append(entry)
        self.at += report.container_bytes
        return entry

    def close(self) -> int:
        """Write the directory; return the archive's bytes."""
        self.at += write_directory(self.out, self.entries, self.at)
        return self.at

    def _rows(self, path: Path) -> Rows | None:
        try:
            with open_draft(path, self.options.threads, self.options.layout) as cache:
                return rows_of(cache)
        except DraftError:
            return None  # no floats that could be compared, or no dump, which the compressor says better


def _status(path: Path) -> tuple[int, int, int]:
    info = os.stat(path)
    return info.st_size, info.st_mtime_ns, info.st_ino


def names_of(paths: Sequence[Path]) -> list[str]:
    """What each file is called in the archive: its path, without what leads out of the folder it is unpacked in.

    DumpError if two would be called the same.
    """
    names: dict[str, Path] = {}
    for path in paths:
        parts = [part for part in path.parts if part not in (path.anchor, "..", ".")]
        name = "/".join(parts)
        member_parts(name)
        if name in names:
            raise DumpError(
                f"two files would be called {shown(name)}: {shown(names[name])} and {shown(path)}; "
                "name them from a folder above both"
            )
        names[name] = path
    return list(names)
