"""Section 18 of docs/format.md: an archive, each dump by way of those that it is coded relative to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import xxhash

from .decoder import decode
from .draft import Draft
from .reading import Bytes, require

MAGIC = bytes.fromhex("89 4B 56 50 0D 0A 1A 0A")
END = b"KVP-END\n"
KINDS = {"key": 1, "value": 2}
DTYPES = {"F8_E4M3": (8, "u1"), "F8_E5M2": (9, "u1"), "F16": (14, "<u2"), "BF16": (15, "<u2"), "F32": (18, "<u4")}


def unpack(data: bytes, priors: str | Path) -> dict[str, bytes]:
    """The dumps of an archive by name."""
    require(data[:8] == MAGIC and data[-8:] == END, "no archive")
    at = int.from_bytes(data[-24:-16], "little")
    require(8 <= at < len(data) - 24, "a directory out of place")
    directory = data[at:-24]
    require(xxhash.xxh3_64_intdigest(directory) == int.from_bytes(data[-16:-8], "little"), "the directory's check")
    entries = Bytes(directory)
    require(entries.varint() == 1, "another version")
    files: dict[str, bytes] = {}
    end = 8
    for number in range(entries.varint()):
        name = entries.take(entries.varint()).decode()
        size, offset, length = entries.varint(), entries.varint(), entries.varint()
        draft, tokens = entries.varint(0, number), entries.varint()
        require(offset == end and name not in files, "an entry that cannot be")
        end += length
        given = cut(draft_of(list(files.values())[draft - 1]), tokens) if draft else None
        (restored,) = decode(data[offset:end], priors, draft=given).values()
        require(len(restored) == size, "another size")
        files[name] = restored
    entries.finish()
    require(end == at, "a gap before the directory")
    return files


def draft_of(dump: bytes) -> Draft:
    """What section 10.4 sees of a dump with tensors ``layers.N.KIND`` of (1, heads, tokens, channels)."""
    start = 8 + int.from_bytes(dump[:8], "little")
    found: Draft = {}
    for name, entry in json.loads(dump[8:start]).items():
        _, layer, kind = name.split(".")
        number, form = DTYPES[entry["dtype"]]
        low, high = entry["data_offsets"]
        values = np.frombuffer(dump[start + low : start + high], form).reshape(entry["shape"][1:])
        found[int(layer), KINDS[kind]] = number, values
    return found


def cut(draft: Draft, tokens: int) -> Draft:
    """The first ``tokens`` of every stream, all if 0."""
    return {key: (dtype, values[:, :tokens] if tokens else values) for key, (dtype, values) in draft.items()}
