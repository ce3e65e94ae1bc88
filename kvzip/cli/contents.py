"""The names of tensors and the numbers of layers in a file, fast and without a word: for completion.

Of a container only the index and the members' records are read, however long it is; a file that is no dump, is
damaged or is still being written has nothing in it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from kvzip.container.indexed import held_by
from kvzip.container.records import starts_container
from kvzip.dumps.safetensors import Header, parse_header, read_header
from kvzip.errors import KvzipError
from kvzip.files import FileSource, members
from kvzip.files.members import natural_order
from kvzip.layouts.registry import recognise

PATIENCE = 0.3  # seconds that somebody who pressed a key waits for a folder


def tensor_names(path: str) -> list[str]:
    """The tensors of a dump, of a container or of the dumps of a folder, in the order people count."""
    found = {entry.name for header, _ in _headers(Path(path)) for entry in header.entries}
    return sorted(found, key=natural_order)


def layer_numbers(path: str) -> list[int]:
    """The layers that tensors belong to, by their layout."""
    found: set[int] = set()
    for header, where in _headers(Path(path)):
        for layout in recognise(header.entries, where).values():
            if layout.layer is not None:
                found.add(layout.layer)
            for axis in layout.axes:
                if axis.label == "layer":
                    found.update(range(axis.size))
    return sorted(found)


def _headers(path: Path) -> Iterator[tuple[Header, str]]:
    """Header and name of each dump; those of a folder until it takes too long."""
    if not path.is_dir():
        yield from _of_file(path)
        return
    deadline = time.monotonic() + PATIENCE
    try:
        files = members(path).files
    except (KvzipError, OSError):
        return
    for _, inner in files:
        if time.monotonic() > deadline:
            return
        yield from _of_file(inner)


def _of_file(path: Path) -> Iterator[tuple[Header, str]]:
    if not path.is_file():  # nor does a fifo wait for its writer
        return
    try:
        with FileSource(path) as source:
            if starts_container(source.file):
                yield from _of_container(source)
            else:
                yield read_header(source.file, source.name), source.name
    except (KvzipError, OSError):
        return


def _of_container(source: FileSource) -> Iterator[tuple[Header, str]]:
    where = source.name
    for member in held_by(source.file, where)[1]:
        if member.header:
            yield parse_header(member.header, where), member.name or where.removesuffix(".kvz")
