"""Tensors one by one, wherever they are: in a dump, in a directory of dumps, or in a container.

Nothing is read but headers until a tensor is asked for. What comes through a pipe is first kept in a temporary file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.container.records import starts_container
from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import Header, TensorEntry, read_header
from kvzip.errors import DumpError
from kvzip.files import FileSource, members, place
from kvzip.files.source import kept
from kvzip.layouts.registry import recognise
from kvzip.pipeline.draft import Draft
from kvzip.pipeline.reader import Reader
from kvzip.predict.prior import Prior


@dataclass(frozen=True)
class Held:
    """A tensor that can be had. ``member`` is its file in a directory, else empty; ``labels`` name its axes as far
    as a layout knows them; ``load`` gives its bytes, all of them."""

    member: str
    entry: TensorEntry
    layer: int | None
    kind: str
    labels: tuple[str, ...]
    sizes: tuple[int, ...]
    load: Callable[[], bytes | bytearray | memoryview]

    @property
    def full_name(self) -> str:
        """``member:name`` in a directory, else the name."""
        return f"{self.member}:{self.entry.name}" if self.member else self.entry.name

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        return self.entry.stop - self.entry.start

    def bits(self) -> NDArray[Any]:
        """The tensor as unsigned integers of its elements' width, flat."""
        return np.frombuffer(self.load(), f"<u{DTYPES[self.entry.dtype].container_bytes}")


@dataclass(frozen=True)
class File:
    """A dump, or another file of a directory: its name there, its header if it is a dump, its tensors."""

    member: str
    header: Header | None
    tensors: tuple[Held, ...]


class Tensors:
    """What an input holds. Use it as a context manager, or call ``close``."""

    def __init__(self, where: str, files: list[File], opened: ExitStack) -> None:
        self.where, self.files, self._opened = where, files, opened

    def __enter__(self) -> Tensors:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open."""
        self._opened.close()

    @property
    def tensors(self) -> list[Held]:
        """Every tensor, in file order; the bytes of other files are none."""
        return [held for file in self.files if file.header is not None for held in file.tensors]


def open_tensors(
    path: str | os.PathLike[str],
    threads: int = 0,
    *,
    prior: Prior | None = None,
    draft: Draft | None = None,
    layout: str | None = None,
) -> Tensors:
    """The tensors of a dump, a directory or a container ("-": standard input).

    ``prior``, ``draft``: what a container needs; ``layout``: how a dump's tensors are laid out, if it is not to be
    guessed. DumpError or ContainerError for what is neither.
    """
    opened = ExitStack()
    try:
        if path != "-" and place(path).is_dir():
            files = []
            for name, below in members(place(path)).files:
                source = opened.enter_context(FileSource(below))
                files.append(_file(source, source.file, name, layout))
            return Tensors(str(path), files, opened)
        source = opened.enter_context(FileSource(path))
        file: Any = source.file
        if source.size is None:
            file = kept(source.file, opened)
        if starts_container(file):
            reader = Reader(file, source.name, threads, owned=False, prior=prior, draft=draft)
            return Tensors(source.name, list(_of_container(reader)), opened)
        return Tensors(source.name, [_file(source, file, "", layout)], opened)
    except BaseException:
        opened.close()
        raise


def _file(source: FileSource, file: Any, member: str, layout: str | None) -> File:
    """A dump, or a directory's file that is none."""
    if member and not member.endswith(".safetensors"):
        size = source.size or 0
        entry = TensorEntry("", "U8", (size,), 0, size)
        return File(member, None, (_held(member, entry, None, partial(_read, file, source.name, 0, size)),))
    header = read_header(file, source.name)
    at = len(header.raw)
    layouts = recognise(header.entries, member or source.name, layout)
    held = []
    for entry in header.entries:
        load = partial(_read, file, source.name, at + entry.start, entry.stop - entry.start)
        held.append(_held(member, entry, layouts.get(entry.name), load))
    _require_all(source, file, header)
    return File(member, header, tuple(held))


def _require_all(source: FileSource, file: Any, header: Header) -> None:
    """DumpError unless the data is as long as the header says."""
    size = source.size if source.size is not None else file.seek(0, os.SEEK_END)
    wanted = len(header.raw) + header.data_size
    if size != wanted:
        what = "incomplete, fetch it again" if size < wanted else "damaged or no dump, write it again"
        raise DumpError(f"{source.name}: has {size} bytes where its header describes {wanted}; the file is {what}")


def _read(file: Any, where: str, start: int, size: int) -> bytes:
    file.seek(start)
    data: bytes = file.read(size)
    if len(data) != size:
        raise DumpError(f"{where}: ends {size - len(data)} bytes early; the dump is incomplete, fetch it again")
    return data


def _of_container(reader: Reader) -> Iterator[File]:
    infos = reader.infos()
    for number, (member, header) in enumerate(zip(reader.members, reader.headers, strict=True)):
        if header is None:
            entry = TensorEntry("", "U8", (member.size,), 0, member.size)
            load: Callable[[], Any] = partial(reader.extent, number, 0) if member.size else bytes
            yield File(member.name, None, (_held(member.name, entry, None, load),))
            continue
        layouts = recognise(header.entries, member.name or reader.where.removesuffix(".kvz"))
        yield File(
            member.name,
            header,
            tuple(
                _held(member.name, info.entry, layouts.get(info.entry.name), partial(reader.data, info))
                for info in infos
                if info.member == number
            ),
        )


def _held(member: str, entry: TensorEntry, layout: Any, load: Callable[[], Any]) -> Held:
    if layout is None:
        return Held(member, entry, None, "", (), (), load)
    labels = tuple(axis.label for axis in layout.axes)
    sizes = tuple(axis.size for axis in layout.axes)
    return Held(member, entry, layout.layer, layout.kind or "", labels, sizes, load)
