"""Outputs of one stream: a file that appears whole or not at all, or standard output.

Every target is a context manager with ``file``, an append-only buffered binary stream, and ``commit()``.
Leaving the block without a commit, for whatever reason, takes back what can be taken back.
"""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from kvzip.errors import OptionError, TargetError
from kvzip.files import placement, unfinished
from kvzip.files.faults import shown, target_error, writing
from kvzip.files.guarded import BUFFER, GuardedWriter

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_DIRECT = os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)


class FileTarget:
    """One output file, written under a temporary name beside it.

    path: where the file goes. Devices and fifos are written directly and never need ``force``, except disks.
    force: overwrite an existing file (never a folder, never an input); a symbolic link is written through.
    like: keep this status' mode and time; otherwise the file gets the mode that the umask allows.
    inputs: paths or statuses of what is being read, which the target must not be.
    parents: make missing folders; those made are removed again if nothing is committed.
    """

    file: BinaryIO

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        like: os.stat_result | None = None,
        inputs: Sequence[placement.Input] = (),
        parents: bool = False,
    ) -> None:
        self.path = Path(path)
        self._where = shown(self.path)
        self._force = force
        self._like = like
        self._inputs = inputs
        self._parents = parents
        self._made: list[Path] = []
        self._final: Path | None = None  # stays None for devices and fifos
        self._temporary: Path | None = None
        self._raw: GuardedWriter | None = None

    def __enter__(self) -> FileTarget:
        found = placement.status(self.path)
        placement.refuse_inputs(found, self._where, self._inputs)
        if found is not None and stat.S_ISDIR(found.st_mode):
            raise TargetError(f"it is a folder: {self._where}; name a file with -o, or the folder with --output-dir")
        unfinished.begin(self)
        try:
            if found is None or stat.S_ISREG(found.st_mode):
                descriptor = self._open_temporary()
            else:
                descriptor = self._open_special(found)
            self._descriptor = descriptor
            stream = io.FileIO(descriptor, "wb")
            self._raw = GuardedWriter(stream, self._where, close=stream.close, partial=self._final is None)
            self.file = io.BufferedWriter(self._raw, BUFFER)
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    @property
    def written(self) -> int:
        """Bytes handed to the system so far; all of them after ``commit``."""
        return self._raw.count if self._raw is not None else 0

    def commit(self) -> None:
        """Make the output durable and give it its name."""
        assert self._raw is not None
        self.file.flush()
        with writing(self._where):
            if self._final is None or self._temporary is None:
                self._raw.close()
                return
            if self._like is not None:
                by_descriptor = os.utime in os.supports_fd
                placement.copy_attributes(self._descriptor if by_descriptor else self._temporary, self._like)
            placement.sync(self._descriptor)
            self._raw.close()
            placement.publish(self._temporary, self._final, force=self._force)
            self._temporary = None
            made, self._made = self._made, []
            for folder in (self._final, *made):
                placement.sync_folder(folder.parent)

    def _open_temporary(self) -> int:
        final = placement.resolve(self.path, force=self._force)
        with placement.folders:
            return self._open_in_folder(final)

    def _open_in_folder(self, final: Path) -> int:
        self._made = placement.make_parents(final, wanted=self._parents)
        self._final = final
        for tried, temporary in enumerate(placement.temporary_paths(final)):
            self._temporary = temporary  # before it exists: an interrupt may come right after the call
            try:
                return os.open(temporary, _CREATE, 0o666 if self._like is None else 0o600)
            except FileExistsError:
                self._temporary = None
            except FileNotFoundError as error:  # another process has made the folder and taken it back
                self._temporary = None
                if tried == placement.TRIES:
                    raise target_error(error, self._where) from error
                self._made += placement.make_parents(final, wanted=self._parents)
            except OSError as error:
                raise target_error(error, self._where) from error
        raise AssertionError("temporary names never end")

    def _open_special(self, found: os.stat_result) -> int:
        if stat.S_ISBLK(found.st_mode) and not self._force:
            raise TargetError(
                f"it is a disk: {self._where}; overwrite it with -f/--force or choose another name with -o"
            )
        with writing(self._where):
            descriptor = os.open(self.path, _DIRECT)
        if os.isatty(descriptor) and not self._force:
            os.close(descriptor)
            raise _terminal(self._where)
        return descriptor

    def discard(self) -> None:
        """Take back what was not committed; a signal may cut this short, and it goes on when called again."""
        if self._raw is not None:
            with suppress(TargetError, OSError):
                self._raw.close()
        if self._temporary is not None:
            with suppress(OSError):
                os.unlink(self._temporary)
            self._temporary = None
        with placement.folders:
            while self._made:
                with suppress(OSError):
                    self._made[-1].rmdir()
                self._made.pop()
        unfinished.end(self)


class StreamTarget:
    """Standard output, or a binary file object of the caller's; never closed.

    force: write to a terminal all the same.
    inputs: as in FileTarget, for standard output that was redirected onto an input.
    """

    file: BinaryIO

    def __init__(
        self,
        stream: BinaryIO | None = None,
        *,
        force: bool = False,
        inputs: Sequence[placement.Input] = (),
    ) -> None:
        self._where = "standard output" if stream is None else shown(str(getattr(stream, "name", "output stream")))
        self._stream = _standard_output() if stream is None else stream
        self._force = force
        self._inputs = inputs

    def __enter__(self) -> StreamTarget:
        if not self._force and getattr(self._stream, "isatty", bool)():
            raise _terminal(self._where)
        with suppress(OSError, AttributeError):  # memory has no descriptor, and a stand-in not even the method
            placement.refuse_inputs(os.fstat(self._stream.fileno()), self._where, self._inputs)
        self._raw = GuardedWriter(self._stream, self._where, partial=True)
        self.file = io.BufferedWriter(self._raw, BUFFER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._raw.close()

    @property
    def written(self) -> int:
        """Bytes handed to the stream so far; all of them after ``commit``."""
        return self._raw.count

    def commit(self) -> None:
        """Hand on what is buffered."""
        self.file.flush()
        if hasattr(self._stream, "flush"):
            with writing(self._where, partial=True):
                self._stream.flush()


def target_of(
    output: str, *, force: bool = False, inputs: Sequence[placement.Input] = ()
) -> FileTarget | StreamTarget:
    """Where an output goes that a user names: "-" is standard output."""
    if output == "-":
        return StreamTarget(force=force, inputs=inputs)
    return FileTarget(output, force=force, inputs=inputs)


def _standard_output() -> BinaryIO:
    """The stream below Python's own buffer, which would try a failed write again at exit and complain."""
    if sys.stdout is None:
        raise TargetError("standard output is closed; name a file with -o")
    sys.stdout.flush()
    buffer: Any = sys.stdout.buffer
    stream: BinaryIO = getattr(buffer, "raw", buffer)
    return stream


def _terminal(where: str) -> OptionError:
    return OptionError(
        f"binary data for a terminal: {where}; name a file with -o, redirect -c, or insist with -f/--force"
    )
