"""Make a large dump out of a small one, as a stream: nothing of the large dump is ever held.

Two ways to grow, because a streaming compressor's memory may depend on the largest tensor:

    layers   the tensors again and again under new layer numbers: many tensors of the old sizes
    tokens   every tensor's rows (second to last axis) repeated: as many tensors, each larger
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

PIECE = 1 << 20
NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Seed:
    """The small dump, left on disk: its data after ``base``, its tensors (name -> header entry) by offset."""

    file: BinaryIO
    base: int
    size: int
    entries: dict[str, dict[str, Any]]
    metadata: dict[str, str] | None

    def pieces(self, start: int, stop: int) -> Iterator[bytes]:
        """Yield a span of the data section, at most 1 MiB at a time."""
        self.file.seek(self.base + start)
        while start < stop:
            yield self.file.read(min(PIECE, stop - start))
            start += PIECE


def read_seed(path: Path) -> Seed:
    """Open a small safetensors file."""
    file = path.open("rb")
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    metadata = header.pop("__metadata__", None)
    order = sorted(header, key=lambda name: header[name]["data_offsets"])
    base = 8 + length
    return Seed(file, base, path.stat().st_size - base, {name: header[name] for name in order}, metadata)


def times_for(seed: Seed, wanted: int) -> int:
    """Return how often the seed fits into the wanted number of bytes, at least once."""
    return max(1, wanted // max(1, seed.size))


def enlarged(seed: Seed, times: int, grow: str) -> Iterator[bytes]:
    """Yield the pieces of the large dump in file order, header first."""
    yield from (_more_layers if grow == "layers" else _more_tokens)(seed, times)


def _header(seed: Seed, tensors: list[tuple[str, dict[str, Any], int]]) -> bytes:
    """Lay out (name, entry, size) one after the other; JSON padded with spaces to a multiple of 8."""
    header: dict[str, Any] = {} if seed.metadata is None else {"__metadata__": seed.metadata}
    at = 0
    for name, entry, size in tensors:
        header[name] = {**entry, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _size(entry: dict[str, Any]) -> int:
    start, stop = entry["data_offsets"]
    return int(stop - start)


def _more_layers(seed: Seed, times: int) -> Iterator[bytes]:
    numbers = [int(found[0]) for name in seed.entries if (found := NUMBER.search(name))]
    step = max(numbers, default=-1) + 1
    tensors = []
    for copy in range(times):
        for name, entry in seed.entries.items():
            tensors.append((_renumbered(name, copy, step), entry, _size(entry)))
    yield _header(seed, tensors)
    for _ in range(times):
        yield from seed.pieces(0, seed.size)


def _renumbered(name: str, copy: int, step: int) -> str:
    if NUMBER.search(name):
        return NUMBER.sub(lambda found: str(int(found[0]) + copy * step), name, count=1)
    return f"{name}.{copy}"


def _more_tokens(seed: Seed, times: int) -> Iterator[bytes]:
    grown = []
    for name, entry in seed.entries.items():
        shape = list(entry["shape"])
        if len(shape) < 2:
            raise SystemExit(f"no token axis: tensor {name} of shape {shape}; use --grow layers")
        shape[-2] *= times
        grown.append((name, {**entry, "shape": shape}, times * _size(entry)))
    yield _header(seed, grown)
    for entry in seed.entries.values():
        start, stop = entry["data_offsets"]
        span = (stop - start) // max(1, math.prod(entry["shape"][:-2]))
        for at in range(start, stop, span or 1):
            for _ in range(times):
                yield from seed.pieces(at, at + span)
