"""Inputs: a file, a fifo or standard input, read forward without mmap.

Never mapped: a file on a network that shrinks would end the program with SIGBUS instead of one line.
"""

from __future__ import annotations

import io
import itertools
import os
import shutil
import stat
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast

from kvzip.errors import DumpError, OptionError, nearest
from kvzip.files.faults import reading, shown
from kvzip.files.guarded import BUFFER, GuardedReader
from kvzip.files.placement import is_temporary

_READ = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)
_NAMES_COMPARED = 10_000
_STEP = 1 << 22  # bytes that are copied at once
_SUFFIXES = (".safetensors", ".kvz", ".safetensors.kvz")  # left out by those who type fast


class FileSource:
    """One input; open from construction to the end of its ``with`` block.

    path: a path, or the string "-" for standard input (``Path("-")`` is a file of that name).
    file: the bytes, buffered: ``read`` and ``readinto`` give short counts only at the end; it has ``peek``.
    size: bytes from the first to the last, None for pipes and devices.
    stat: the status at the start, None for a stand-in of standard input that has none.
    name: for messages.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = None if path == "-" else Path(path)
        self.name = "standard input" if self.path is None else shown(self.path)
        stream = _standard_input() if self.path is None else _open(self.path, self.name)
        self.stat = _status(stream)
        regular = self.stat is not None and stat.S_ISREG(self.stat.st_mode)
        self._start = stream.tell() if regular else None
        self.size = None
        if self.stat is not None and self._start is not None:
            self.size = max(0, self.stat.st_size - self._start)
        self._raw = GuardedReader(stream, self.name, position=self._start, owned=self.path is not None)
        self.file = io.BufferedReader(self._raw, BUFFER)

    def __enter__(self) -> FileSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self.file.close()

    @property
    def count(self) -> int:
        """Bytes taken from the system so far, some of them perhaps still in the buffer."""
        return self._raw.count

    def check_unchanged(self) -> None:
        """Raise DumpError if the file is no longer what it was when it was opened; pipes pass.

        Call it after the last read, and before the source is removed.
        """
        if self.stat is None or self.size is None or self._start is None:
            return
        with reading(self.name):
            now = os.fstat(self._raw.fileno())
        read_to = self._raw.position if self._raw.ended else self.stat.st_size
        if min(now.st_size, read_to) < self.stat.st_size:
            problem = "it shrank"
        elif max(now.st_size, read_to) > self.stat.st_size:
            problem = "it grew"
        elif now.st_mtime_ns != self.stat.st_mtime_ns:
            problem = "it was written to"
        elif self.path is not None and not _leads_to(self.path, now):
            problem = "another file took its name"
        else:
            return
        raise DumpError(f"changed while it was read: {self.name}: {problem}; try again once its writer is done")


def guarded(stream: BinaryIO) -> BinaryIO:
    """A file object of the caller's, which may do no more than ``read``; what it fails with becomes one line."""
    can_seek = getattr(stream, "seekable", bool)()
    name = shown(str(getattr(stream, "name", "input")))
    position = stream.tell() if can_seek else None
    reads = stream if hasattr(stream, "readinto") else cast(BinaryIO, _Reads(stream))
    return cast(BinaryIO, GuardedReader(reads, name, position=position, owned=False))


class _Reads:
    """``readinto`` of a file that has only ``read``."""

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.seek = file.read, getattr(file, "seek", None)

    def readinto(self, buffer: memoryview) -> int | None:
        data: bytes | None = self.read(len(buffer))
        if data is None:
            return None
        buffer[: len(data)] = data
        return len(data)


def kept(stream: Any, held: ExitStack) -> BinaryIO:
    """A copy of what can be read only once, at its start: a file without a name, which ``held`` closes."""
    copy = held.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    shutil.copyfileobj(stream, copy, _STEP)
    copy.seek(0)
    return cast(BinaryIO, copy)


def missing(path: Path) -> DumpError:
    """The line for a file that is not there, with the nearest name that is, or the nearest folder."""
    folder = _nearest_folder(path.parent)
    if folder != path.parent:
        hint = f"did you mean {shown(folder / path.name)}?" if folder else "check the path"
        return DumpError(f"no such folder: {shown(path.parent)}; {hint}")
    near = _nearest_name(path)
    hint = f"did you mean {shown(path.with_name(near))}?" if near else "check the name"
    return DumpError(f"no such file: {shown(path)}; {hint}")


def _nearest_folder(folder: Path) -> Path | None:
    """The folder itself; where its name is not there, one beside it that is called nearly so; None for none."""
    if folder.is_dir():
        return folder
    above = None if folder.parent == folder else _nearest_folder(folder.parent)
    if above is None:
        return None
    near = nearest(folder.name, [name for name in _listed(above) if (above / name).is_dir()])
    return above / near if near else None


def _nearest_name(path: Path) -> str:
    """What is in the folder of ``path`` and probably meant: the name with a suffix more or less, or one like it."""
    names = _listed(path.parent)
    folded = {name.casefold(): name for name in names}
    wanted = path.name.casefold()
    shorter = wanted.removesuffix(".kvz")
    for name in (wanted, *(wanted + suffix for suffix in _SUFFIXES), shorter, shorter.removesuffix(_SUFFIXES[0])):
        if name in folded:
            return folded[name]
    return nearest(path.name, names)


def _listed(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in itertools.islice(entries, _NAMES_COMPARED)]
    except OSError:
        return []
    return [name for name in names if not is_temporary(name)]


def _open(path: Path, name: str) -> BinaryIO:
    with reading(name):
        try:
            if stat.S_ISDIR(os.stat(path).st_mode):
                raise DumpError(f"it is a folder: {name}; add -r for the files below it, or compress it as a whole")
            return io.FileIO(os.open(path, _READ), "rb")
        except FileNotFoundError:
            raise missing(path) from None


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise OptionError("standard input is closed; name a file")
    if sys.stdin.isatty():
        raise OptionError("standard input is a terminal; name a file or pipe one in")
    buffer: Any = sys.stdin.buffer
    stream: BinaryIO = getattr(buffer, "raw", buffer)  # Python's own buffer would read ahead of ours
    return stream


def _status(stream: BinaryIO) -> os.stat_result | None:
    try:
        return os.fstat(stream.fileno())
    except (OSError, AttributeError):  # memory in place of a file
        return None


def _leads_to(path: Path, info: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), info)
    except OSError:
        return False
