"""The Python interface: memory, paths and file objects through the same pipeline as the command line."""

from __future__ import annotations

import io
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, cast, overload

from kvzip.container.records import starts_container
from kvzip.container.structures import DIRECTORY, Member, Start
from kvzip.container.writer import Nowhere
from kvzip.errors import OptionError
from kvzip.files import DirectoryTarget, FileSource, FileTarget, StreamTarget, guarded, members
from kvzip.files.faults import shown
from kvzip.pipeline.compress import compress_members
from kvzip.pipeline.decompress import Opening, decompress_members
from kvzip.pipeline.draft import Draft, DraftGiven, open_draft
from kvzip.pipeline.options import Options, Progress
from kvzip.pipeline.prior_file import PriorSource, read_prior
from kvzip.pipeline.reader import Reader
from kvzip.pipeline.report import Report
from kvzip.pipeline.source import MemberInput
from kvzip.pipeline.stats import Stats, summarise
from kvzip.pipeline.train import train
from kvzip.predict.prior import Prior

PathLike = str | os.PathLike[str]
Source = bytes | bytearray | memoryview | PathLike | BinaryIO
Target = PathLike | BinaryIO


@overload
def compress(source: Source, target: None = None, **options: Any) -> bytes: ...
@overload
def compress(source: Source, target: Target, **options: Any) -> Report: ...
def compress(
    source: Source,
    target: Target | None = None,
    *,
    level: int = 3,
    threads: int = 0,
    force: bool = False,
    progress: Progress | None = None,
    draft: DraftGiven | None = None,
    **options: Any,
) -> bytes | Report:
    """Compress a safetensors dump.

    source: the dump's bytes, its path, a directory of dumps, or a binary file at its start.
    target: a path (written whole or not at all; ``force`` overwrites), a binary file, or None to return bytes.
    options: the parameters of the estimator by name (alpha, beta, theta_low, theta_new, n_update, warmup, drift,
        symbol_bits, classes, ...), ``preset``, ``layout``, ``verify``, ``block_log2``; ``prior``, a path or the bytes
        that ``train_prior`` made, and ``embed_prior`` to put it into the container; ``draft``, see ``decompress``.

    Raises DumpError for bad input, OptionError for bad options, TargetError where writing fails.
    """
    with opened_draft(draft, threads, trained(options)) as drafts:
        chosen = Options.make(level, threads, draft=drafts, **options)
        if target is None:
            memory = io.BytesIO()
            _compress(source, memory, chosen, progress)
            return memory.getvalue()
        if isinstance(target, str | os.PathLike):
            inputs = [given for given in (source, draft) if isinstance(given, str | os.PathLike)]
            with FileTarget(target, force=force, inputs=inputs) as file:
                report = _compress(source, file.file, chosen, progress)
                file.commit()
            return report
        with StreamTarget(target, force=True) as stream:
            report = _compress(source, stream.file, chosen, progress)
            stream.commit()
        return report


def _compress(source: Source, out: BinaryIO, options: Options, progress: Progress | None) -> Report:
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        return compress_members(
            directory_inputs(members(Path(source)).files), out, options, directory=True, progress=progress
        )
    return compress_members([source_input(source)], out, options, progress=progress)


@contextmanager
def source_input(source: Source) -> Iterator[MemberInput]:
    """A dump wherever it is: a path ("-": standard input), bytes, or a binary file at its start."""
    if isinstance(source, str | os.PathLike):
        with file_input(source) as opened:
            yield opened
    elif isinstance(source, bytes | bytearray | memoryview):
        data = source if isinstance(source, bytes) else memoryview(source).cast("B")
        yield MemberInput(io.BytesIO(data), "input", size=len(data))
    else:
        yield MemberInput(guarded(source), _name(source))


def _name(file: BinaryIO) -> str:
    """What messages call a file object."""
    return shown(str(getattr(file, "name", "input")))


@contextmanager
def file_input(path: PathLike, name: str = "") -> Iterator[MemberInput]:
    """A dump in a file ("-": standard input), checked at the end not to have changed under the reader."""
    with FileSource(path) as source:
        yield MemberInput(source.file, source.name, name, source.size)
        source.check_unchanged()


def directory_inputs(files: Iterable[tuple[str, Path]]) -> Iterator[Any]:
    """Files (name, path) as members, in order; those that do not call themselves dumps may be anything."""
    for name, path in files:
        yield _member_input(name, path)


@contextmanager
def _member_input(name: str, path: Path) -> Iterator[MemberInput]:
    with file_input(path, name) as source:
        source.is_dump = name.endswith(".safetensors") or looks_like_dump(source.file)
        yield source


def looks_like_dump(file: Any) -> bool:
    """Whether a file with another suffix starts like a safetensors dump."""
    head = file.peek(9)[:9]
    length = int.from_bytes(head[:8], "little")
    return len(head) == 9 and 2 <= length <= 100_000_000 and head[8:9] in (b"{", b" ", b"\n", b"\t", b"\r")


@overload
def decompress(
    source: Source,
    target: None = None,
    *,
    threads: int = 0,
    force: bool = False,
    progress: Progress | None = None,
    prior: PriorSource | None = None,
    draft: DraftGiven | None = None,
) -> bytes: ...
@overload
def decompress(
    source: Source,
    target: Target,
    *,
    threads: int = 0,
    force: bool = False,
    progress: Progress | None = None,
    prior: PriorSource | None = None,
    draft: DraftGiven | None = None,
) -> Report: ...
def decompress(
    source: Source,
    target: Target | None = None,
    *,
    threads: int = 0,
    force: bool = False,
    progress: Progress | None = None,
    prior: PriorSource | None = None,
    draft: DraftGiven | None = None,
) -> bytes | Report:
    """Restore what ``compress`` was given, byte for byte.

    source: the container's bytes, path, or a binary file at its start.
    target: a path (of a directory if one was compressed), a binary file, or None to return bytes.
    prior: the file that ``compress`` was given, if the container does not hold it; a path or bytes.
    draft: the draft that ``compress`` was given: the path of a dump, of a directory of dumps or of a container, the
        bytes of one, or arrays (heads, tokens, channels) by (layer, "key" or "value").

    Raises PriorError or DraftError without the prior or the draft needed, ContainerError if the container is
    damaged; nothing is then left at a target path.
    """
    known = None if prior is None else read_prior(prior)
    with container_input(source) as (file, where), opened_draft(draft, threads, known) as drafts:
        opening = Opening.of(file, where, known, drafts)
        if isinstance(target, str | os.PathLike):
            inputs = [given for given in (source, draft) if isinstance(given, str | os.PathLike)]
            return restore(opening, target, threads, force=force, inputs=inputs, progress=progress)
        if opening.start.source == DIRECTORY:
            raise OptionError(f"{where}: holds a directory; name a target path")
        if target is None:
            gathered = _Gathered()
            decompress_members(opening, gathered, threads, progress=progress)
            return gathered.value()
        with StreamTarget(target, force=True) as stream:
            report = decompress_members(opening, into(stream.file), threads, progress=progress)
            stream.commit()
        return report


def opened_draft(
    given: DraftGiven | None, threads: int = 0, prior: Prior | None = None
) -> AbstractContextManager[Draft | None]:
    """A draft as ``decompress`` takes it, open; or none."""
    return nullcontext() if given is None else open_draft(given, threads, prior=prior)


def trained(options: dict[str, Any]) -> Prior | None:
    """The prior among the options of a compression, if it is a file."""
    given = options.get("prior")
    return None if given in (None, "builtin", "none") else read_prior(given)


def restore(
    opening: Opening,
    target: PathLike,
    threads: int = 0,
    *,
    force: bool = False,
    inputs: Any = (),
    like: os.stat_result | None = None,
    progress: Progress | None = None,
    parents: bool = False,
) -> Report:
    """Restore a container to a path: a file, or a directory if one was compressed."""
    if opening.start.source == DIRECTORY:
        with DirectoryTarget(target, force=force, inputs=inputs, parents=parents) as folder:
            report = decompress_members(
                opening, lambda member, _: folder.create(member.name), threads, progress=progress
            )
            folder.commit()
        return report
    with FileTarget(target, force=force, like=like, inputs=inputs, parents=parents) as file:
        report = decompress_members(opening, into(file.file), threads, progress=progress)
        file.commit()
    return report


MOST_ROOM = 1 << 28  # bytes of memory, untouched until they are written, that a container's word is taken for


class _Gathered:
    """Where a container's only member goes: room is made for all of it at once, and given away without a copy."""

    def __init__(self) -> None:
        self.file = io.BytesIO()

    def __call__(self, member: Member, number: int) -> AbstractContextManager[BinaryIO]:
        self.file = io.BytesIO(bytes(min(member.size, MOST_ROOM)))
        return nullcontext(self.file)

    def value(self) -> bytes:
        return self.file.getvalue()


def into(out: Any) -> Any:
    """A ``create`` that puts every member's bytes into one place, None for nowhere."""
    return lambda member, number: nullcontext(out)


@contextmanager
def container_input(source: Source) -> Iterator[tuple[BinaryIO, str]]:
    """A container wherever it is, and what to call it."""
    if isinstance(source, str | os.PathLike):
        with FileSource(source) as opened:
            yield opened.file, opened.name
    elif isinstance(source, bytes | bytearray | memoryview):
        yield io.BytesIO(source), "input"
    else:
        yield guarded(source), _name(source)


def open_container(
    source: PathLike | BinaryIO,
    *,
    threads: int = 0,
    prior: PriorSource | None = None,
    draft: DraftGiven | None = None,
) -> Reader:
    """Open a container for random access: ``tensor(name)``, ``layers()``, ``names()``.

    ``prior``, ``draft``: see ``decompress``.
    """
    known = None if prior is None else read_prior(prior)
    drafts = None if draft is None else open_draft(draft, threads, prior=known)
    if isinstance(source, str | os.PathLike):
        opened = FileSource(source)
        try:
            return Reader(opened.file, opened.name, threads, prior=known, draft=drafts)
        except BaseException:
            opened.close()
            raise
    return Reader(guarded(source), _name(source), threads, owned=False, prior=known, draft=drafts)


def stats(
    source: Source,
    *,
    level: int = 3,
    threads: int = 0,
    progress: Progress | None = None,
    draft: DraftGiven | None = None,
    **options: Any,
) -> Stats:
    """Measure a dump (by compressing it into nothing) or a container (by decoding it into nothing).

    source: bytes, a path ("-": standard input), a directory of dumps, or a binary file at its start.
    """
    with opened_draft(draft, threads, trained(options)) as drafts:
        return _stats(source, Options.make(level, threads, draft=drafts, **options), progress)


def _stats(source: Source, chosen: Options, progress: Progress | None) -> Stats:
    start = Start(level=chosen.level, parameters=chosen.parameters)
    began = time.perf_counter()
    if isinstance(source, str | os.PathLike) and Path(source).is_dir():
        folder = Path(source)
        report = _measured(lambda: directory_inputs(members(folder).files), chosen, True, progress)
        found = summarise(shown(folder), report, start, began, False)
        return _compared(found, lambda: directory_inputs(members(folder).files), chosen, True)
    with source_input(source) as opened:
        opened.file = peekable(opened.file)
        if starts_container(opened.file):
            opening = Opening.of(opened.file, opened.where, chosen.prior, chosen.draft)
            with _kept(opening) as kept:
                report = decompress_members(opening, into(kept), chosen.threads, progress=progress, observe=True)
                found = summarise(opened.where, report, opening.start, began, True)
                level, parameters = opening.start.level, opening.start.parameters
                again = replace(chosen, level=level, parameters=parameters)
                return _compared(found, lambda: [_again(kept, opened.where)], again, False) if kept else found
        size = opened.size if chosen.draft else None
        report = _measured(lambda: [nullcontext(opened)], chosen, False, progress)
        found = summarise(opened.where, report, start, began, False)
        if size is None or not opened.file.seekable():
            return replace(found, draft=chosen.draft.where if chosen.draft else "")
        opened.file.seek(-size, os.SEEK_CUR)
        return _compared(found, lambda: [nullcontext(opened)], chosen, False)


def _measured(
    inputs: Callable[[], Iterable[Any]], chosen: Options, directory: bool, progress: Progress | None = None
) -> Report:
    return compress_members(inputs(), Nowhere(), chosen, directory=directory, progress=progress, observe=True)


def _compared(found: Stats, inputs: Callable[[], Iterable[Any]], chosen: Options, directory: bool) -> Stats:
    """Statistics with what a draft saved, if there is one: everything is compressed once more without it."""
    if chosen.draft is None:
        return found
    plain = compress_members(inputs(), Nowhere(), replace(chosen, draft=None), directory=directory)
    return replace(found, draft=chosen.draft.where, undrafted_bytes=plain.container_bytes)


@contextmanager
def _kept(opening: Opening) -> Iterator[BinaryIO | None]:
    """A place for what a container with a draft holds, to compress it without; None for others and directories."""
    if not opening.shared.draft or opening.start.source == DIRECTORY:
        yield None
        return
    with tempfile.TemporaryFile() as file:
        yield cast(BinaryIO, file)


def _again(file: BinaryIO | None, where: str) -> AbstractContextManager[MemberInput]:
    assert file is not None
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return nullcontext(MemberInput(file, where, size=size, is_dump=looks_like_dump(peekable(file))))


def train_prior(
    sources: Iterable[Source],
    *,
    name: str = "",
    threads: int = 0,
    layout: str | None = None,
    progress: Progress | None = None,
) -> bytes:
    """Train a prior on dumps and return the bytes of its file, for ``prior=`` of compress and decompress.

    sources: dumps as ``compress`` takes them. name: at most 64 bytes, for people.
    """
    return train(_inputs(sources), name, threads=threads, layout=layout, progress=progress).data


def _inputs(sources: Iterable[Source]) -> Iterator[Any]:
    for source in sources:
        if isinstance(source, str | os.PathLike) and Path(source).is_dir():
            yield from directory_inputs(members(Path(source)).files)
        else:
            yield source_input(source)


def peekable(file: Any) -> Any:
    """The file, or a buffer around it that can peek."""
    return file if hasattr(file, "peek") else io.BufferedReader(file)
