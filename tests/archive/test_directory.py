"""The archive's frame: what was written is read, and nothing else is."""

from __future__ import annotations

import io

import pytest

from kvzip.archive.directory import Entry, needed, read_directory, write_directory
from kvzip.archive.window import window
from kvzip.container.records import ARCHIVE_MAGIC
from kvzip.errors import ContainerError, UnsupportedError

ENTRIES = [Entry("a", 10, 8, 5), Entry("b/é", 20, 13, 0, 0, 7), Entry("c", 1 << 40, 13, 9, 1)]


def archive(entries, body=b"x" * 14):
    out = io.BytesIO()
    out.write(ARCHIVE_MAGIC + body)
    write_directory(out, entries, out.tell())
    return out.getvalue()


def read(data):
    return read_directory(io.BytesIO(data), "made")


def test_round_trip():
    assert read(archive(ENTRIES)) == ENTRIES
    assert read(archive([], b"")) == []


def test_every_prefix_and_every_flipped_bit_is_refused():
    whole = archive(ENTRIES)
    for size in range(len(whole)):
        with pytest.raises(ContainerError):
            read(whole[:size])
    for at in (*range(8), *range(8 + 14, len(whole))):
        for bit in range(8):
            wrong = bytearray(whole)
            wrong[at] ^= 1 << bit
            with pytest.raises(ContainerError):
                read(bytes(wrong))
    with pytest.raises(ContainerError):
        read(whole + b"x")


@pytest.mark.parametrize(
    "entries",
    [
        [Entry("a", 1, 9, 13)],
        [Entry("a", 1, 8, 13)],
        [Entry("a", 1, 8, 5), Entry("b", 1, 14, 8)],
        [Entry("a", 1, 8, 5), Entry("a", 1, 13, 9)],
        [Entry("a", 1, 8, 14, 0)],
        [Entry("a", 1, 8, 5, 1), Entry("b", 1, 13, 9)],
    ],
    ids=["offset", "end", "gap", "name", "itself", "later"],
)
def test_entries_that_cannot_be_are_refused(entries):
    with pytest.raises(ContainerError):
        read(archive(entries))


def test_a_later_version_is_told(monkeypatch):
    monkeypatch.setattr("kvzip.archive.directory.VERSION", 2)
    later = archive(ENTRIES)
    monkeypatch.undo()
    with pytest.raises(UnsupportedError, match="newer"):
        read(later)


def test_what_is_needed_and_no_more():
    entries = [Entry(name, 1, 8, 0, draft) for name, draft in zip("abcdef", (None, 0, None, 1, 2, 3), strict=True)]
    assert needed(entries, [5]) == [0, 1, 3, 5]
    assert needed(entries, [4]) == [2, 4]
    assert needed(entries, [2, 1]) == [0, 1, 2]


def test_a_window_is_a_file_of_its_own():
    file = io.BytesIO(bytes(range(100)))
    part = window(file, 10, 20)
    assert part.read() == bytes(range(10, 30))
    assert part.seek(-5, 2) == 15
    assert part.read(3) == bytes(range(25, 28))
    assert part.seek(30) == 30
    assert part.read() == b""
