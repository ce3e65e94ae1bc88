"""What could not be restored: blocks, then, for whoever asks, tensors and tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvzip.container.structures import Member
from kvzip.dumps.safetensors import parse_header
from kvzip.errors import DumpError
from kvzip.files.faults import shown
from kvzip.streams.extent import Extent

DAMAGED, UNVERIFIED, DEPENDS = "damaged", "unverified", "depends"
_WORDS = {
    DAMAGED: "is damaged",
    UNVERIFIED: "does not pass the check of its values",
    DEPENDS: "cannot be decoded without what is lost",
}
NAMED = 3  # tensors in a line


@dataclass(frozen=True)
class Lost:
    """A block of an extent: ``streams`` by number, tokens (rows of opaque data) from ``first`` to before ``stop``.

    ``offset`` is where in the container it should be, None if that is not known.
    """

    number: int
    streams: tuple[int, ...]
    first: int
    stop: int
    start: int  # bytes of the extent that it lies in
    end: int
    nbytes: int  # of these, how many are its own
    cause: str
    offset: int | None


@dataclass(frozen=True)
class Damage:
    """Lost blocks that follow each other: what of which tensors they held, and why they are lost."""

    file: str
    tensors: tuple[str, ...]
    layer: int | None
    kind: str
    heads: tuple[int, ...]
    tokens: tuple[int, int] | None
    blocks: tuple[int, int]
    nbytes: int
    offset: int | None
    cause: str

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "file": self.file or None,
            "tensors": list(self.tensors),
            "layer": self.layer,
            "kind": self.kind or None,
            "heads": list(self.heads),
            "tokens": None if self.tokens is None else list(self.tokens),
            "blocks": list(self.blocks),
            "bytes": self.nbytes,
            "offset": self.offset,
            "cause": self.cause,
        }

    def __str__(self) -> str:
        """In words, for a line."""
        first, stop = self.blocks
        block = f"block {first}" if stop == first + 1 else f"blocks {first} to {stop - 1}"
        verb = _WORDS[self.cause] if stop == first + 1 else _WORDS[self.cause].replace("is ", "are ", 1)
        place = "" if self.offset is None else f" at byte {self.offset}"
        names = ", ".join(map(shown, self.tensors[:NAMED])) or "data of no tensor"
        more = f" and {len(self.tensors) - NAMED} more" if len(self.tensors) > NAMED else ""
        which = "" if self.tokens is None else f", tokens {self.tokens[0]} to {self.tokens[1] - 1}"
        file = f"{shown(self.file)}: " if self.file else ""
        return f"{file}{block} of {names}{more}{which}{place} {verb}; {self.nbytes} bytes lost"


@dataclass
class Losses:
    """Everything that a container has lost.

    ``members`` counts files whose record is lost, None if nobody can tell; ``doubts`` are files of which all blocks
    pass their checks, and which still are not what was compressed.
    """

    damages: list[Damage] = field(default_factory=list)
    members: int | None = 0
    doubts: list[str] = field(default_factory=list)
    faults: int = 0  # places in the container that are damaged, also where nothing is lost by it

    @property
    def nbytes(self) -> int:
        """Bytes of files that are known to be lost."""
        return sum(damage.nbytes for damage in self.damages)

    def __bool__(self) -> bool:
        """Whether anything is lost, or may be."""
        return bool(self.damages or self.doubts or self.members is None or self.members)

    def to_json(self) -> dict[str, Any]:
        """Stable keys for pipelines."""
        return {
            "lost_bytes": self.nbytes,
            "lost_files": self.members,
            "doubts": self.doubts,
            "lost": [damage.to_json() for damage in self.damages],
        }

    def take(self, member: Member, number: int, extent: Extent, lost: list[Lost], where: str) -> None:
        """Take in the lost blocks of a file's extent ``number``, in order; runs of one cause become one."""
        start = sum(before.nbytes for before in member.extents[:number])
        names = list(extent.stream_names())
        for run in _runs(sorted(lost, key=lambda one: one.number)):
            first, last = run[0], run[-1]
            heads = sorted({names[stream].head for stream in first.streams}) if not extent.opaque else []
            self.damages.append(
                Damage(
                    member.name,
                    _tensors(member, start + first.start, start + last.end, where),
                    extent.layer if extent.layer >= 0 else None,
                    extent.kind,
                    tuple(heads),
                    None if extent.opaque else (first.first, last.stop),
                    (first.number, last.number + 1),
                    sum(one.nbytes for one in run),
                    first.offset,
                    first.cause,
                )
            )


def _runs(lost: list[Lost]) -> list[list[Lost]]:
    """Blocks of the same streams, one behind the other and lost for the same reason, in one list."""
    runs: list[list[Lost]] = []
    for one in lost:
        for run in reversed(runs):
            if run[-1].streams == one.streams and run[-1].stop == one.first:
                if run[-1].cause == one.cause:
                    run.append(one)
                else:
                    runs.append([one])
                break
        else:
            runs.append([one])
    return runs


def _tensors(member: Member, start: int, end: int, where: str) -> tuple[str, ...]:
    """The tensors that have bytes between two places of a file's data."""
    if not member.header:
        return ()
    try:
        entries = parse_header(member.header, where).entries
    except DumpError:
        return ()
    return tuple(entry.name for entry in entries if entry.start < min(end, entry.stop) and entry.stop > start)
