"""Streams over a network: a source read by ranges, and a target that is there once all of it is.

Reading follows what is asked for: small pieces after a jump, larger and larger ones while they follow each other, and
then one ahead of them, so that the network works while values are coded.
"""

from __future__ import annotations

import errno
import io
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, BinaryIO, cast

from kvzip.errors import TargetError
from kvzip.files.faults import shown
from kvzip.files.guarded import BUFFER, GuardedWriter
from kvzip.files.url import Url, reaching

FIRST, LARGEST = 1 << 14, 1 << 23  # bytes asked for at once
AHEAD = 1 << 20  # from this size on the next piece is asked for while this one is used
PART = 1 << 23  # bytes of an upload's part


class RangedReader(io.RawIOBase):
    """A remote file of ``size`` bytes; ``fetched`` counts those that were asked for."""

    def __init__(self, url: Url, size: int) -> None:
        self._url, self._size = url, size
        self._system, self._path = url.opened
        self._at = 0
        self._next = FIRST
        self._held, self._start = memoryview(b""), 0
        self._pending: tuple[int, Future[bytes]] | None = None
        self._worker: ThreadPoolExecutor | None = None
        self.fetched = 0

    def readable(self) -> bool:  # noqa: D102
        return True

    def seekable(self) -> bool:  # noqa: D102
        return True

    def seek(self, offset: int, whence: int = 0, /) -> int:  # noqa: D102
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def tell(self) -> int:  # noqa: D102
        return self._at

    def readinto(self, buffer: Any, /) -> int:  # noqa: D102
        view = memoryview(buffer).cast("B")
        if self._at >= self._size:
            return 0
        if not self._start <= self._at < self._start + len(self._held):
            self._fill(min(len(view), LARGEST))
        part = self._held[self._at - self._start :][: len(view)]
        view[: len(part)] = part
        self._at += len(part)
        return len(part)

    def _fill(self, wanted: int) -> None:
        """Hold the piece that begins here."""
        follows = self._at == self._start + len(self._held) and len(self._held) > 0
        self._next = min(LARGEST, 2 * self._next) if follows else FIRST
        if self._pending is not None and self._pending[0] == self._at:
            data = self._pending[1].result()
        else:
            data = self._fetch(self._at, self._at + max(wanted if follows else min(wanted, FIRST), self._next))
        if not data:
            raise OSError(errno.EIO, "it ends early; it may have changed")
        self._held, self._start, self._pending = memoryview(data), self._at, None
        after = self._at + len(data)
        if self._next >= AHEAD and after < self._size:
            self._worker = self._worker or ThreadPoolExecutor(1)
            self._pending = after, self._worker.submit(self._fetch, after, after + self._next)

    def _fetch(self, start: int, stop: int) -> bytes:
        stop = min(stop, self._size)
        with reaching(self._url):
            data: bytes = self._system.cat_file(self._path, start=start, end=stop)
        self.fetched += len(data)
        return data

    def close(self) -> None:
        """Wait for nothing more."""
        if self._worker is not None:
            self._worker.shutdown(wait=True, cancel_futures=True)
            self._worker = None
        super().close()


def open_remote(url: Url) -> tuple[BinaryIO, int | None]:
    """The bytes at a URL, and how many they are; None where a server does not tell: they are then read once."""
    found = url.stat() if url.status() is not None else None
    system, path = url.opened
    if found is not None and found.st_size >= 0 and _takes_ranges(system, path):
        return cast(BinaryIO, RangedReader(url, found.st_size)), found.st_size
    with reaching(url):
        return cast(BinaryIO, system.open(path, "rb", block_size=0)), None


def _takes_ranges(system: Any, path: str) -> bool:
    """Whether a server gives parts of files; only plain ones of http may not, which shows when one is asked for."""
    if "http" not in str(system.protocol):
        return True
    try:
        with system.open(path, "rb", cache_type="none") as file:
            file.seek(1)
            file.read(1)
    except ValueError:
        return False
    return True


class RemoteTarget:
    """One output at a URL, uploaded in parts; under its name it is there whole or not at all.

    force: replace what is there. inputs: what is being read, which the target must not be.
    """

    file: BinaryIO

    def __init__(self, url: Url, *, force: bool = False, inputs: Any = ()) -> None:
        self.path = url
        self._where = shown(str(url))
        self._force, self._inputs = force, inputs
        self._raw: GuardedWriter | None = None
        self._stream: Any = None

    def __enter__(self) -> RemoteTarget:
        if any(isinstance(given, str | Url) and str(given) == str(self.path) for given in self._inputs):
            raise TargetError(f"input and output are the same file: {self._where}; choose another output with -o")
        system, path = self.path.opened
        if "http" in str(system.protocol):
            raise TargetError(f"http takes no uploads: {self._where}; name a file, or a URL of an object store")
        self._refuse_existing()
        with reaching(self.path, writing=True):
            if "memory" in str(system.protocol):  # shows what is written as it comes
                self._stream = _Gathered(system, path)
            else:
                self._stream = system.open(path, "wb", autocommit=False, block_size=PART)
        self._raw = GuardedWriter(_Remote(self._stream, self.path), self._where)
        self.file = io.BufferedWriter(self._raw, BUFFER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stream, self._stream = self._stream, None
        if self._raw is not None:
            self._raw.close()
        if stream is not None:
            with suppress(Exception):  # what cannot be taken back is not visible either
                stream.discard()
            with suppress(AttributeError):
                stream.closed = True  # lest it finish the upload when it is collected

    @property
    def written(self) -> int:
        """Bytes handed on so far."""
        return self._raw.count if self._raw is not None else 0

    def commit(self) -> None:
        """Finish the upload."""
        self.file.flush()
        if not self._force:
            self._refuse_existing()  # it may have appeared: stores have no way to exclude it
        with reaching(self.path, writing=True):
            self._stream.close()
            self._stream.commit()
        self._stream = None

    def _refuse_existing(self) -> None:
        if self.path.is_file() and not self._force:
            raise TargetError(
                f"it exists: {self._where}; overwrite it with -f/--force or choose another name with -o"
            )


class _Gathered(io.BytesIO):
    """A file that is put in its place as a whole."""

    def __init__(self, system: Any, path: str) -> None:
        super().__init__()
        self._system, self._path = system, path
        self._data = b""

    def close(self) -> None:
        if not self.closed:
            self._data = self.getvalue()
        super().close()

    def commit(self) -> None:
        self._system.pipe_file(self._path, self._data)

    def discard(self) -> None:
        self.close()


class _Remote:
    """Writes of a remote file, whose failures of whatever class become errors of ours."""

    def __init__(self, stream: Any, url: Url) -> None:
        self.stream, self.url = stream, url

    def write(self, data: bytes) -> int:
        with reaching(self.url, writing=True):
            self.stream.write(bytes(data))
        return len(data)
