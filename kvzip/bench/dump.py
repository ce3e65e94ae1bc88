"""A dump in memory, to be compressed again and again: from a file, a pipe or a container."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from kvzip.api import decompress, file_input, peekable
from kvzip.bench.cut import plan
from kvzip.container.records import starts_container
from kvzip.dumps.safetensors import Header, TensorEntry, main_dtype, read_header
from kvzip.errors import DraftError, DumpError, OptionError, PriorError
from kvzip.files.faults import shown

MOST = 1 << 29  # bytes that are held; what a codec is given, leaves and gives back comes on top, each as much
_PIECE = 1 << 24


@dataclass(frozen=True, eq=False)
class Dump:
    """A safetensors file in memory; ``part`` says what of the dump it is, "" for all."""

    name: str
    data: bytes
    header: Header
    part: str = ""

    @property
    def dtype(self) -> str:
        """The type that most of its bytes have."""
        return main_dtype(self.header)

    def cut(self, nbytes: int) -> Dump:
        """A part of about so many bytes, or itself if it has no more."""
        if nbytes >= len(self.data):
            return self
        base = len(self.header.raw)
        chosen = plan(self.header, self.name, nbytes)
        data = chosen.dump(lambda entry: self.data[base + entry.start : base + entry.stop])
        return self if len(data) >= len(self.data) else _parsed(self.name, data, chosen.label)


def read_dump(source: str, threads: int, most: int = MOST) -> tuple[Dump, int]:
    """A dump, and its size in bytes: of a dump that is larger than ``most``, a part is held.

    source: the path of a dump or of a container ("-": standard input). DumpError if it holds no dump.
    """
    if source != "-" and Path(source).is_dir():
        raise DumpError(f"it is a folder: {shown(source)}; name the dumps in it")
    with file_input(source) as opened:
        file = peekable(opened.file)
        if starts_container(file):
            data = _unpacked(file, opened.where, threads)
            return _held(io.BytesIO(data), opened.where, most)
        return _held(file, opened.where, most)


def _unpacked(file: BinaryIO, where: str, threads: int) -> bytes:
    try:
        return decompress(file, threads=threads)
    except OptionError:
        raise DumpError(f"it holds a directory: {where}; decompress it, and name the dumps in it") from None
    except (PriorError, DraftError):
        raise DumpError(f"it needs a prior or a draft: {where}; decompress it, and name the dump") from None


def _held(file: BinaryIO, where: str, most: int) -> tuple[Dump, int]:
    header = read_header(file, where)
    size = len(header.raw) + header.data_size
    if size <= most:
        data = header.raw + file.read(header.data_size + 1)
        if len(data) < size:
            raise _incomplete(where)
        if len(data) > size:
            raise DumpError(f"{where}: more bytes follow than its header describes ({size}); write the dump again")
        return Dump(where, data, header), size
    at = 0

    def fetch(entry: TensorEntry) -> bytes:
        nonlocal at
        while at < entry.start:
            at += len(_taken(file, min(_PIECE, entry.start - at), where))
        at = entry.stop
        return _taken(file, entry.stop - entry.start, where)

    chosen = plan(header, where, most)
    return _parsed(where, chosen.dump(fetch), chosen.label), size


def _taken(file: BinaryIO, size: int, where: str) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise _incomplete(where)
    return data


def _incomplete(where: str) -> DumpError:
    return DumpError(f"{where}: ends before its header says; the dump is incomplete, fetch it again")


def _parsed(name: str, data: bytes, part: str) -> Dump:
    return Dump(name, data, read_header(io.BytesIO(data), name), part)
