"""The output of a directory container: a folder that appears whole or not at all."""

from __future__ import annotations

import io
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from kvzip.errors import ContainerError, TargetError
from kvzip.files import placement, unfinished
from kvzip.files.faults import shown, target_error, writing
from kvzip.files.guarded import BUFFER, GuardedWriter
from kvzip.files.members import member_parts

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


class DirectoryTarget:
    """One output folder, filled under a temporary name beside it.

    force: replace an existing folder with all that is in it, but never a file, nor a folder that holds an
        input; a symbolic link to a folder is written through. The two are swapped at one stroke. Where the
        system does not offer that, nothing stands under the name for a moment; a kill that cannot be caught,
        right there, leaves the old folder beside it under a temporary name.
    inputs: paths or statuses of what is being read.
    parents: make missing folders above; those made are removed again if nothing is committed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        force: bool = False,
        inputs: Sequence[placement.Input] = (),
        parents: bool = False,
    ) -> None:
        self.path = Path(path)
        self.written = 0  # bytes in finished members
        self._where = shown(self.path)
        self._force = force
        self._inputs = inputs
        self._parents = parents
        self._made: list[Path] = []
        self._leftovers: list[Path] = []  # temporary trees that must not outlive this target
        self._folders: dict[Path, None] = {}  # in the order they were made
        self._names: set[str] = set()

    def __enter__(self) -> DirectoryTarget:
        found = placement.status(self.path)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            raise TargetError(f"it is a file, not a folder: {self._where}; remove it or choose another name with -o")
        placement.refuse_inputs(found, self._where, self._inputs)
        self._final = placement.resolve(self.path, force=self._force)
        if found is not None:
            self._refuse_holding_inputs()
        unfinished.begin(self)
        try:
            with placement.folders:
                self._made = placement.make_parents(self._final, wanted=self._parents)
                self._temporary = self._make_temporary()
        except BaseException:
            self.discard()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.discard()

    @contextmanager
    def create(self, relative: str) -> Iterator[BinaryIO]:
        """A new member, durable at the end of the block; ContainerError for a name that is not safe."""
        parts = member_parts(relative)
        if relative in self._names:
            raise ContainerError(f"member given twice: {shown(relative)}; get another copy of the container")
        path = self._temporary.joinpath(*parts)
        where = shown(self.path.joinpath(*parts))
        with writing(where):
            self._make_folders(path.parent, where)
            try:
                stream = io.FileIO(os.open(path, _CREATE, 0o666), "wb")
            except FileExistsError:
                raise _collision(where) from None
        self._names.add(relative)
        raw = GuardedWriter(stream, where, close=stream.close)
        try:
            with io.BufferedWriter(raw, BUFFER) as file:
                try:
                    yield file
                    file.flush()
                    with writing(where):
                        placement.sync(stream.fileno())
                except BaseException:
                    raw.close()
                    raise
        finally:
            self.written += raw.count

    def commit(self) -> None:
        """Make the folder durable and give it its name."""
        with writing(self._where):
            for folder in reversed(self._folders):
                placement.sync_folder(folder)
            if self._force and self._final.exists():
                self._replace()
            else:
                self._publish()
            made, self._made = self._made, []
            for folder in (self._final, *made):
                placement.sync_folder(folder.parent)
            while self._leftovers:
                shutil.rmtree(self._leftovers[-1])
                self._leftovers.pop()

    def _make_temporary(self) -> Path:
        for tried, temporary in enumerate(placement.temporary_paths(self._final)):
            self._leftovers = [temporary]  # before it exists: an interrupt may come right after the call
            try:
                temporary.mkdir()
            except FileExistsError:
                self._leftovers = []
                continue
            except FileNotFoundError as error:  # another process has made the folder and taken it back
                self._leftovers = []
                if tried == placement.TRIES:
                    raise target_error(error, self._where) from error
                self._made += placement.make_parents(self._final, wanted=self._parents)
                continue
            except OSError as error:
                raise target_error(error, self._where) from error
            self._folders = {temporary: None}
            return temporary
        raise AssertionError("temporary names never end")

    def _make_folders(self, folder: Path, where: str) -> None:
        missing = []
        while folder not in self._folders:
            missing.append(folder)
            folder = folder.parent
        for folder in reversed(missing):
            try:
                folder.mkdir()
            except (FileExistsError, NotADirectoryError):
                raise _collision(where) from None
            self._folders[folder] = None

    def _publish(self) -> None:
        """Rename; the system itself refuses to replace a file or a folder that holds anything."""
        if os.path.lexists(self._final):
            raise placement.appeared(self._final)
        os.rename(self._temporary, self._final)
        self._leftovers.remove(self._temporary)

    def _replace(self) -> None:
        """Swap the new folder and the old one; where that is not offered, the old one goes aside first."""
        if placement.exchange(self._temporary, self._final):
            return  # the temporary name is the old one's now
        aside = next(name for name in placement.temporary_paths(self._final) if not os.path.lexists(name))
        try:
            os.rename(self._final, aside)
            os.rename(self._temporary, self._final)
            self._leftovers = [aside]
        finally:
            if not os.path.lexists(self._final):
                self._put_back(aside)

    def _put_back(self, aside: Path) -> None:
        try:
            os.rename(aside, self._final)
        except OSError as error:
            raise TargetError(
                f"cannot put back the folder that was there: {self._where}: {error.strerror}; "
                f"it is {shown(aside)} now, rename it"
            ) from error

    def _refuse_holding_inputs(self) -> None:
        """Replacing a folder deletes what is in it, so no input may be."""
        read = placement.identities(self._inputs)
        for folder, _, names in os.walk(self._final):
            for path in (Path(folder), *(Path(folder, name) for name in names)):
                with suppress(OSError):
                    if placement.identity(os.lstat(path)) in read:
                        raise TargetError(f"the output folder holds an input: {shown(path)}; choose another with -o")

    def discard(self) -> None:
        """Take back what was not committed; a signal may cut this short, and it goes on when called again."""
        while self._leftovers:
            shutil.rmtree(self._leftovers[-1], ignore_errors=True)
            self._leftovers.pop()
        with placement.folders:
            while self._made:
                with suppress(OSError):
                    self._made[-1].rmdir()
                self._made.pop()
        unfinished.end(self)


def _collision(where: str) -> TargetError:
    """Names that differ in the container but not here, or a file where a folder is needed."""
    return TargetError(f"another member has this name here: {where}; choose a file system that tells case apart")
