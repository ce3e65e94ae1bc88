"""What ``list`` shows: the tensors of a dump or a container, without decoding any and without numba."""

from __future__ import annotations

import json as json_module
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import xxhash

from kvzip.cli.voice import Voice
from kvzip.container import records
from kvzip.container.indexed import read_index, read_members
from kvzip.container.records import RecordReader, starts_archive, starts_container
from kvzip.container.shared import holds_draft
from kvzip.container.spans import Spans, spans_of
from kvzip.container.structures import SINGLE, Index, Member, Start
from kvzip.container.unit import Unit
from kvzip.dumps.safetensors import Header, parse_header, read_header
from kvzip.errors import ContainerError, DumpError, KvzipError
from kvzip.files import FileSource, members, place
from kvzip.files.source import kept
from kvzip.layouts.registry import recognise


@dataclass
class TensorRow:
    """One tensor; ``packed`` is the bytes of its blocks, None in a dump or where it shares an extent.

    Where tensors are coded together it is the tensor's share of them. ``needs`` are the other tensors, by name, that
    must be decoded to get it: those coded with it, and those that its prediction refers to, member and name.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    layout: str
    packed: int | None = None
    needs: tuple[str, ...] = ()


@dataclass
class Listing:
    """One dump, or one member of a container; ``container_bytes`` counts the member's records, or the whole file."""

    file: str
    member: str
    source_bytes: int
    container_bytes: int | None
    level: int | None
    tensors: list[TensorRow] = field(default_factory=list)
    metadata: dict[str, str] = field(default_factory=dict)
    prior: str = ""  # the identity of the trained prior that it needs
    draft: str = ""  # the digest of what its draft must be

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "file": self.file,
            "member": self.member or None,
            "source_bytes": self.source_bytes,
            "container_bytes": self.container_bytes,
            "level": self.level,
            "prior": self.prior or None,
            "draft": self.draft or None,
            "metadata": self.metadata,
            "tensors": [
                {
                    "name": row.name,
                    "dtype": row.dtype,
                    "shape": list(row.shape),
                    "bytes": row.nbytes,
                    "layout": row.layout,
                    "packed_bytes": row.packed,
                    "needs": list(row.needs),
                }
                for row in self.tensors
            ],
        }


def list_tensors(inputs: Sequence[str], *, json: bool) -> None:
    """Show the tensors of every input."""
    found = []
    failed = False
    for name in inputs:
        try:
            found += listings(name)
        except KvzipError as error:
            if error.exit_code == 2:
                raise
            failed = True
            Voice(False, False).error(str(error))
    if json:
        print(json_module.dumps({"command": "list", "files": [item.to_json() for item in found]}))
    else:
        from kvzip.cli.show.listing import show_listing

        for item in found:
            show_listing(item)
    if failed:
        raise SystemExit(1)


def listings(name: str) -> list[Listing]:
    """A dump's or a container's tensors; a directory's dumps one by one."""
    if name != "-" and place(name).is_dir():
        return [item for _, path in members(place(name)).files for item in _try(os.fspath(path))]
    with FileSource(name) as source:
        if starts_archive(source.file):
            return list(_archive(source))
        if starts_container(source.file):
            with ExitStack() as opened:
                file = source.file if source.file.seekable() else kept(source.file, opened)
                return _container(file, source.name)
        return [_dump(source)]


def _try(name: str) -> list[Listing]:
    """The listing of a file in a directory; files that are neither dump nor container have none."""
    try:
        return listings(name)
    except (DumpError, ContainerError):
        if name.endswith((".safetensors", ".kvz")):
            raise
        return []


def _dump(source: FileSource) -> Listing:
    header = read_header(source.file, source.name)
    listing = Listing(source.name, "", len(header.raw) + header.data_size, None, None)
    return _fill(listing, header, source.name)


def _fill(listing: Listing, header: Header, path: str) -> Listing:
    layouts = recognise(header.entries, path)
    listing.metadata = dict(header.metadata or {})
    for entry in header.entries:
        layout = layouts.get(entry.name)
        row = TensorRow(entry.name, entry.dtype, entry.shape, entry.stop - entry.start, "opaque")
        if layout:
            row.layout = layout.layout
        listing.tensors.append(row)
    return listing


@dataclass
class _Union:
    """A unit of a container: its tensors by member and extent, and by name once they are known."""

    unit: Unit
    number: int
    names: list[str] = field(default_factory=list)


class _Reading:
    """A container's files one after the other; no block is read."""

    def __init__(self, where: str, start: Start, draft: str) -> None:
        self.where, self.start, self.draft = where, start, draft
        self.unions: list[_Union] = []

    def listing(self, member: Member, record_bytes: int, spans: Spans) -> Listing:
        """A file's tensors and what their blocks take."""
        spent, of_extent = self._shares(member, spans)
        packed = record_bytes + sum(spans.packed.values())
        listing = Listing(self.where, member.name, member.size, packed, self.start.level)
        listing.prior, listing.draft = self.start.needs, self.draft
        if not member.header:
            return listing
        header = parse_header(member.header, self.where)
        _fill(listing, header, member.name or self.where.removesuffix(".kvz"))
        at = 0
        starts = {}
        for number, extent in enumerate(member.extents):
            starts[at, extent.nbytes] = number
            at += extent.nbytes
        numbers = [starts.get((entry.start, entry.stop - entry.start), -1) for entry in header.entries]
        names = [f"{member.name}:{row.name}" if member.name else row.name for row in listing.tensors]
        for row, number, name in zip(listing.tensors, numbers, names, strict=True):
            row.packed = spent.get(number)
            if number in of_extent:
                of_extent[number].names.append(name)
        for row, number, own in zip(listing.tensors, numbers, names, strict=True):
            if number in of_extent:
                row.needs = tuple(name for name in self._needs(of_extent[number]) if name != own)
        return listing

    def _shares(self, member: Member, spans: Spans) -> tuple[dict[int, int], dict[int, _Union]]:
        """Bytes by extent, those of a unit shared out by size, and the units by extent."""
        spent: dict[int, int] = {}
        of_extent: dict[int, _Union] = {}
        for first, size in spans.packed.items():
            extents = [first]
            if first in spans.units:
                unit = spans.units[first]
                extents = list(range(unit.first, min(unit.first + unit.count, len(member.extents))))
                self.unions.append(_Union(unit, len(self.unions)))
                of_extent.update(dict.fromkeys(extents, self.unions[-1]))
            whole = sum(member.extents[number].nbytes for number in extents)
            for number in extents:
                spent[number] = size * member.extents[number].nbytes // max(1, whole)
        return spent, of_extent

    def _needs(self, union: _Union) -> list[str]:
        """The names of a unit's tensors and of those it refers to, the earliest unit first."""
        wanted, numbers = [union.number], {union.number}
        while wanted:
            number = wanted.pop()
            for back in self.unions[number].unit.bases:
                if number - back >= 0 and number - back not in numbers:
                    numbers.add(number - back)
                    wanted.append(number - back)
        return [name for number in sorted(numbers) for name in self.unions[number].names]


def _archive(source: FileSource) -> Iterator[Listing]:
    """The containers of an archive; their members' names begin with theirs."""
    from kvzip.archive.unpack import Archive

    with ExitStack() as opened:
        held = Archive(source.file if source.file.seekable() else kept(source.file, opened), source.name)
        for number, entry in enumerate(held.entries):
            for listing in _container(held.container(number), source.name):
                listing.member = entry.name
                yield listing


def _container(file: BinaryIO, where: str) -> list[Listing]:
    """Read the records at its ends, and of units; decode nothing."""
    reader = RecordReader(file, where)
    first = reader.next()
    if first.type != records.START:
        raise reader.damaged(first.offset, "should be the first one")
    start = Start.from_bytes(first.payload, where)
    index = read_index(file, where, start.version)
    members = read_members(file, where, index)
    reading = _Reading(where, start, _draft(file, where, index))
    spans = spans_of(file, where, start, index, members)
    found = []
    for member, part, (at, _) in zip(members, spans, index.members, strict=True):
        record = RecordReader.at(file, where, at).next()
        found.append(reading.listing(member, len(record.payload), part))
    if start.source == SINGLE and found:
        found[0].container_bytes = file.seek(0, 2)
    return found


def _draft(file: BinaryIO, where: str, index: Index) -> str:
    """The digest of what a container's draft must be, which is among its first two shared records."""
    for offset in index.shared[:2]:
        record = RecordReader.at(file, where, offset).next()
        if record.type == records.SHARED and holds_draft(record.payload):
            return xxhash.xxh3_128_hexdigest(record.payload)
    return ""
