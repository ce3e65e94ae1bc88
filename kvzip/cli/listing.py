"""What ``list`` shows: the tensors of a dump or a container, without decoding any and without numba."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvzip.container import records
from kvzip.container.records import RecordReader, starts_container
from kvzip.container.structures import SINGLE, BlockHead, Member, Start
from kvzip.dumps.safetensors import Header, parse_header, read_header
from kvzip.errors import ContainerError, DumpError
from kvzip.files import FileSource, members
from kvzip.layouts.registry import recognise


@dataclass
class TensorRow:
    """One tensor; ``packed`` is the bytes of its blocks, None in a dump or where it shares an extent."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    layout: str
    packed: int | None = None


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

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "file": self.file,
            "member": self.member or None,
            "source_bytes": self.source_bytes,
            "container_bytes": self.container_bytes,
            "level": self.level,
            "metadata": self.metadata,
            "tensors": [
                {
                    "name": row.name,
                    "dtype": row.dtype,
                    "shape": list(row.shape),
                    "bytes": row.nbytes,
                    "layout": row.layout,
                    "packed_bytes": row.packed,
                }
                for row in self.tensors
            ],
        }


def listings(name: str) -> list[Listing]:
    """A dump's or a container's tensors; a directory's dumps one by one."""
    if name != "-" and Path(name).is_dir():
        return [item for _, path in members(Path(name)).files for item in _try(str(path))]
    with FileSource(name) as source:
        if starts_container(source.file):
            return _container(source)
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


def _container(source: FileSource) -> list[Listing]:
    """Read every record but decode none."""
    reader = RecordReader(source.file, source.name)
    first = reader.next()
    if first.type != records.START:
        raise reader.damaged(first.offset, "should be the first one")
    start = Start.from_bytes(first.payload, source.name)
    listing: Listing | None = None
    spent: dict[int, int] = {}
    found: list[Listing] = []
    while True:
        record = reader.next()
        if record.type == records.MEMBER:
            member = Member.from_bytes(record.payload, source.name)
            listing = Listing(source.name, member.name, member.size, len(record.payload), start.level)
            spent = {}
        elif record.type == records.BLOCK and listing:
            head, payload = BlockHead.split(record.payload, source.name)
            spent[head.extent] = spent.get(head.extent, 0) + len(payload)
        elif record.type == records.MEMBER_END and listing:
            found.append(_restored(listing, member, spent, source.name))
        elif record.type == records.INDEX:
            reader.finish(record.offset)
            if start.source == SINGLE and found:
                found[0].container_bytes = reader.offset
            return found
        else:
            raise reader.damaged(record.offset, "is out of place")


def _restored(listing: Listing, member: Member, spent: dict[int, int], where: str) -> Listing:
    """Fill in a member's tensors and what their blocks take."""
    listing.container_bytes = (listing.container_bytes or 0) + sum(spent.values())
    if not member.header:
        return listing
    header = parse_header(member.header, where)
    _fill(listing, header, member.name or where.removesuffix(".kvz"))
    at = 0
    starts = {}
    for number, extent in enumerate(member.extents):
        starts[at, extent.nbytes] = number
        at += extent.nbytes
    for row, entry in zip(listing.tensors, header.entries, strict=True):
        row.packed = spent.get(starts.get((entry.start, entry.stop - entry.start), -1))
    return listing
