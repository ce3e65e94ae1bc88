"""What is tuned on: dumps that can be read again and again, on disk or in memory; each becomes one container."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

import xxhash

from kvzip.api import Source, directory_inputs, file_input
from kvzip.container.records import starts_container
from kvzip.errors import DumpError
from kvzip.files import FileSource, members
from kvzip.files.faults import shown
from kvzip.files.source import kept
from kvzip.pipeline.source import MemberInput

Inputs = Iterable[AbstractContextManager[MemberInput]]
STEP = 1 << 22  # bytes that are read at once for a digest


@dataclass(frozen=True)
class Data:
    """What becomes one container: ``inputs`` gives its files anew with every call; ``nbytes`` of all of them."""

    where: str
    directory: bool
    nbytes: int
    inputs: Callable[[], Inputs]

    def digest(self) -> str:
        """XXH3-128 of all bytes, file after file."""
        sums = xxhash.xxh3_128()
        for opened in self.inputs():
            with opened as source:
                while data := source.file.read(STEP):
                    sums.update(data)
        return f"xxh3:{sums.hexdigest()}"


def in_memory(where: str, files: list[tuple[str, bytes, bool]], directory: bool) -> Data:
    """Files (name, bytes, whether it is a dump) in memory."""

    def inputs() -> Inputs:
        for name, data, is_dump in files:
            yield nullcontext(MemberInput(io.BytesIO(data), where, name, len(data), is_dump))

    return Data(where, directory, sum(len(data) for _, data, _ in files), inputs)


@contextmanager
def opened(sources: Iterable[Source]) -> Iterator[list[Data]]:
    """The data of sources as ``compress`` takes them; what can be read only once is kept in a temporary file.

    Raises DumpError for what is compressed already or is not there.
    """
    with ExitStack() as held:
        found = [_data(source, held) for source in sources]
        if not found:
            raise DumpError("nothing to tune on; name a dump")
        yield found


def _data(source: Source, held: ExitStack) -> Data:
    if isinstance(source, bytes | bytearray | memoryview):
        data = bytes(source)
        _refuse_container(io.BufferedReader(cast(Any, io.BytesIO(data))), "input")
        return in_memory("input", [("", data, True)], False)
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        return _folder(Path(source))
    if not isinstance(source, str | os.PathLike):
        return _kept(source, str(getattr(source, "name", "input")), held)
    with FileSource(source) as file:
        _refuse_container(file.file, file.name)
        if source == "-" or file.size is None:
            return _kept(cast(BinaryIO, file.file), file.name, held)
        return Data(file.name, False, file.size, lambda: [file_input(source)])


def _folder(folder: Path) -> Data:
    files = members(folder).files
    if not files:
        raise DumpError(f"it holds no file: {shown(folder)}; name a dump or a folder of dumps")
    size = sum(path.stat().st_size for _, path in files)
    return Data(shown(folder), True, size, lambda: directory_inputs(files))


def _kept(file: BinaryIO, where: str, held: ExitStack) -> Data:
    """A copy of what can be read only once."""
    copy = kept(file, held)
    size = copy.seek(0, 2)

    def inputs() -> Inputs:
        copy.seek(0)
        yield nullcontext(MemberInput(copy, where, size=size))

    return Data(where, False, size, inputs)


def _refuse_container(file: Any, where: str) -> None:
    if starts_container(file):
        raise DumpError(f"already compressed: {where}; decompress it and tune on the dump")
