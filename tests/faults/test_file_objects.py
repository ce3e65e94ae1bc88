"""The Python interface on file objects of the caller's that fail, hang back, or are cut short.

A lost network file system shows itself so: as an OSError from any read or write.
"""

from __future__ import annotations

import errno
import io
import os

import pytest

import kvzip
from tests.faults.cases import dump, packed

LOST = [errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ECONNRESET, errno.EHOSTDOWN]
DIRECTIONS = [
    (lambda source, target=None: kvzip.compress(source, target, level=1, threads=2), dump, packed),
    (lambda source, target=None: kvzip.decompress(source, target, threads=2), packed, dump),
]
both = pytest.mark.parametrize(("work", "given", "made"), DIRECTIONS, ids=["compress", "decompress"])


class Remote(io.RawIOBase):
    """A file that gives and takes a little at a time, and fails at its ``fails_at``-th operation."""

    name = "remote"

    def __init__(self, data: bytes = b"", fails_at: int = 0, code: int = 0, most: int = 1000) -> None:
        super().__init__()
        self.data, self.at, self.most = bytearray(data), 0, most
        self.fails_at, self.code, self.count = fails_at, code, 0

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def _operation(self) -> None:
        self.count += 1
        if self.count == self.fails_at:
            raise OSError(self.code, os.strerror(self.code))

    def readinto(self, buffer) -> int:
        self._operation()
        part = self.data[self.at : self.at + min(self.most, len(buffer))]
        buffer[: len(part)] = part
        self.at += len(part)
        return len(part)

    def write(self, data) -> int:
        self._operation()
        part = memoryview(data).cast("B")[: self.most]
        self.data += part
        return len(part)


class ReadOnly:
    """A file object with nothing but ``read``."""

    name = "remote"

    def __init__(self, inner: Remote) -> None:
        self.read = inner.read


def points(count: int, random, few: int = 8) -> list[int]:
    return sorted({1, 2, count, *(random.randint(1, count) for _ in range(few))})


@both
@pytest.mark.parametrize("most", [1, 7, 1000])
def test_little_at_a_time(work, given, made, most):
    target = Remote(most=most)
    work(Remote(given(), most=most), target)
    assert target.data == made()


@both
@pytest.mark.parametrize("wrap", [lambda raw: raw, ReadOnly, io.BufferedReader], ids=["raw", "read", "buffered"])
def test_a_source_that_is_lost(work, given, made, wrap, random, tmp_path):
    whole = Remote(given())
    work(wrap(whole))
    for at in points(whole.count, random):
        code = random.choice(LOST)
        target = tmp_path / "out"
        with pytest.raises(kvzip.KvzipError) as caught:
            work(wrap(Remote(given(), at, code)), target)
        assert "cannot read: remote" in str(caught.value)
        assert str(caught.value).isprintable()
        assert os.listdir(tmp_path) == []


@both
def test_a_target_that_is_lost(work, given, made, random):
    whole = Remote()
    work(given(), whole)
    for at in points(whole.count, random):
        code = random.choice([*LOST, errno.ENOSPC])
        target = Remote(fails_at=at, code=code)
        with pytest.raises(kvzip.TargetError, match="remote") as caught:
            work(given(), target)
        assert str(caught.value).isprintable()
        assert made().startswith(target.data)
        assert target.data != made()


@both
def test_a_source_that_ends_early(work, given, made, random, tmp_path):
    for size in points(len(given()) - 1, random):
        with pytest.raises(kvzip.KvzipError):
            work(Remote(given()[:size]), tmp_path / "out")
        assert os.listdir(tmp_path) == []


@both
def test_errors_that_are_not_of_the_system_pass_through(work, given, made):
    class Odd(Remote):
        def _operation(self) -> None:
            self.count += 1
            if self.count == 3:
                raise LookupError("a library's own")

    with pytest.raises(LookupError):
        work(Odd(given()))
    with pytest.raises(LookupError):
        work(given(), Odd())


def test_random_access_to_a_file_that_is_lost(random):
    class Seekable(Remote):
        def seekable(self) -> bool:
            return True

        def seek(self, offset: int, whence: int = 0) -> int:
            self._operation()
            self.at = offset + (0, self.at, len(self.data))[whence]
            return self.at

        def tell(self) -> int:
            return self.at

    whole = Seekable(packed())
    with kvzip.open(whole) as container:
        names = container.names()
        expected = {name: container.tensor(name).bits.tobytes() for name in names}
    for at in points(whole.count, random):
        with pytest.raises(kvzip.KvzipError, match="lost it"):
            read_all(Seekable(packed(), at, errno.ESTALE), expected)


def read_all(file, expected) -> None:
    with kvzip.open(file) as container:
        for name in container.names():
            assert container.tensor(name).bits.tobytes() == expected[name]
