"""Reads the header of a safetensors file: which tensors it holds, of what type and shape, and where.

    | N: 8 bytes, little-endian | N bytes of JSON | data: tensors back to back |

It reads nothing of the data and knows nothing of layouts. Whether the data is all there, the caller sees.

A header is accepted exactly when the safetensors library (0.8) accepts it, so that every file that loads can
be compressed and a damaged one is found before any work is done. Differences kept on purpose:

- The float types of :data:`ALIASES`, which LMCache writes and the library refuses, are read as what they
  mean.
- Numbers in unknown keys may lie within a hair of the largest double; the library rounds those to infinity.
- The library checks that the data is as long as the offsets say; here the caller does.

As in the library, a tensor may be named twice and the last entry counts, but no field may occur twice in one
entry, nor may ``__metadata__``; an entry may be an array of its three fields in order, and a dtype may be
written ``{"BF16": null}``.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, NoReturn, TypeGuard

from kvzip.dtypes import DTYPES
from kvzip.dumps.foreign import SNIFF_BYTES, identify
from kvzip.dumps.strict_json import SIZE_LIMIT, JsonError, Repeating, deeper_than, load, pairs
from kvzip.errors import DumpError

LENGTH_BYTES = 8
HEADER_SIZES = range(len("{}"), 100_000_000 + 1)
MAX_DEPTH = 127

ALIASES = {
    "F8E4M3FN": "F8_E4M3",
    "F8_E4M3FN": "F8_E4M3",
    "F8E4M3": "F8_E4M3",
    "F8E5M2": "F8_E5M2",
    "F8E4M3FNUZ": "F8_E4M3FNUZ",
    "F8E5M2FNUZ": "F8_E5M2FNUZ",
}
"""Names that the library refuses, and the element types they mean."""

_READ_BYTES = 1 << 20  # a lying length costs at most this much memory beyond what the file holds
_METADATA = "__metadata__"
_FIELDS = ("dtype", "shape", "data_offsets")
_INT = {int}
_REWRITE = "write the dump again with the safetensors library"
_REFETCH = "copy or download the file again"


@dataclass(frozen=True)
class TensorEntry:
    """One tensor; ``start`` and ``stop`` are byte offsets in the data section, ``dtype`` a name in DTYPES."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True)
class Header:
    """The exact header bytes, length field included, and what they say.

    The entries cover ``data_size`` bytes from offset 0 without a hole or an overlap. They are in offset
    order; empty tensors at one offset are in header order.
    """

    raw: bytes
    entries: tuple[TensorEntry, ...]
    metadata: Mapping[str, str] | None
    data_size: int


class _Flaw(Exception):
    """What is wrong with a header, or with one tensor of it."""

    def __init__(self, what: str, name: str | None = None) -> None:
        super().__init__(what)
        self.name = name


def read_header(file: BinaryIO, where: str) -> Header:
    """Read the 8 + N header bytes off ``file`` and no more; :class:`DumpError` names it ``where``.

    Only a file that is refused may be read further, to say what it is.
    """
    raw = _read_up_to(file, LENGTH_BYTES)
    length = int.from_bytes(raw, "little")
    if len(raw) < LENGTH_BYTES or length not in HEADER_SIZES:
        raw += _read_up_to(file, SNIFF_BYTES - len(raw))
    else:
        raw += _read_up_to(file, length)
    return parse_header(raw, where)


def parse_header(raw: bytes, where: str) -> Header:
    """Parse ``raw``, the 8 + N header bytes; :class:`DumpError` unless the library would accept them."""
    length = int.from_bytes(raw[:LENGTH_BYTES], "little")
    if len(raw) < LENGTH_BYTES:
        _refuse(raw, "too short for a safetensors file", where, _REFETCH)
    if length not in HEADER_SIZES:
        _refuse(raw, f"not a safetensors file (header length {length})", where, "give kvzip a .safetensors file")
    if len(raw) < LENGTH_BYTES + length:
        missing = LENGTH_BYTES + length - len(raw)
        _refuse(raw, f"header cut short, {missing} bytes missing", where, _REFETCH)
    try:
        if len(raw) > LENGTH_BYTES + length:
            raise _Flaw("bytes after the header")
        table = load(raw[LENGTH_BYTES:])
        metadata = _read_metadata(table)
        entries = _read_entries(table)
        data_size = _check_offsets(entries)
    except JsonError as error:
        _refuse(raw, f"header {error}", where, _REWRITE)
    except _Flaw as flaw:
        place = where if flaw.name is None else f"{where}, tensor {_shown(flaw.name)}"
        _refuse(raw, str(flaw), place, _REWRITE)
    return Header(bytes(raw), entries, metadata, data_size)


def element_count(entry: TensorEntry) -> int:
    """Number of elements of a tensor; 1 for shape ``[]``."""
    return math.prod(entry.shape)


def header_bytes(
    tensors: Iterable[tuple[str, str, Sequence[int], int]], metadata: Mapping[str, str] | None = None
) -> bytes:
    """The header, length field included, of tensors (name, dtype, shape, bytes) one after the other.

    Padded with spaces to a multiple of 8. Whether it is short enough to be read again, the caller sees.
    """
    table: dict[str, object] = {_METADATA: dict(metadata)} if metadata else {}
    at = 0
    for name, dtype, shape, nbytes in tensors:
        table[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + nbytes]}
        at += nbytes
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def dump_bytes(
    tensors: Sequence[tuple[str, str, Sequence[int], bytes]], metadata: Mapping[str, str] | None = None
) -> bytes:
    """A dump of tensors (name, dtype, shape, data)."""
    header = header_bytes(((name, dtype, shape, len(data)) for name, dtype, shape, data in tensors), metadata)
    return b"".join((header, *(data for *_, data in tensors)))


def main_dtype(header: Header) -> str:
    """The type that most bytes of a dump have; U8 if it holds none."""
    held: Counter[str] = Counter()
    for entry in header.entries:
        held[entry.dtype] += entry.stop - entry.start
    return held.most_common(1)[0][0] if held else "U8"


def _read_up_to(file: BinaryIO, size: int) -> bytes:
    """Up to ``size`` bytes, fewer only at the end of the file."""
    pieces: list[bytes] = []
    while size > 0 and (piece := file.read(min(size, _READ_BYTES))):
        pieces.append(piece)
        size -= len(piece)
    return b"".join(pieces)


def _refuse(raw: bytes, what: str, where: str, remedy: str) -> NoReturn:
    """Raise the DumpError; a file of another well-known kind is named as such instead."""
    if foreign := identify(raw[:SNIFF_BYTES]):
        what, remedy = foreign
    raise DumpError(f"{what}: {where}; {remedy}")


def _shown(name: str) -> str:
    """A tensor name on one line, whatever it holds."""
    return ascii(name if len(name) <= 80 else name[:77] + "...")


def _read_metadata(table: dict[str, object]) -> Mapping[str, str] | None:
    found = [value for key, value in pairs(table) if key == _METADATA]
    if len(found) > 1:
        raise _Flaw(f"{_METADATA} twice in the header")
    if not found or found[0] is None:
        return None
    metadata = found[0]
    if not isinstance(metadata, dict):
        raise _Flaw(f"{_METADATA} is no JSON object")
    texts: dict[str, str] = {}
    for key, value in pairs(metadata):
        if not isinstance(value, str):
            raise _Flaw(f"{_METADATA} holds something other than text")
        texts[key] = value
    return texts


def _read_entries(table: dict[str, object]) -> tuple[TensorEntry, ...]:
    entries = {name: _read_entry(name, value) for name, value in pairs(table) if name != _METADATA}
    return tuple(sorted(entries.values(), key=lambda entry: (entry.start, entry.stop)))


def _read_entry(name: str, value: object) -> TensorEntry:
    if isinstance(value, list) and len(value) == len(_FIELDS):
        value = dict(zip(_FIELDS, value, strict=True))
    if not isinstance(value, dict):
        raise _Flaw("entry is no JSON object", name)
    if len(value) > len(_FIELDS) or isinstance(value, Repeating):
        _check_extra_keys(name, value)
    for field in _FIELDS:
        if field not in value:
            raise _Flaw(f"entry has no {field}", name)
    shape, offsets = value["shape"], value["data_offsets"]
    if not _is_sizes(shape):
        raise _Flaw("shape is no list of sizes", name)
    if not _is_sizes(offsets) or len(offsets) != 2:
        raise _Flaw("data_offsets is no pair of sizes", name)
    return TensorEntry(name, _read_dtype(name, value["dtype"]), tuple(shape), offsets[0], offsets[1])


def _check_extra_keys(name: str, value: dict[str, object]) -> None:
    keys = [key for key, _ in pairs(value)]
    for field in _FIELDS:
        if keys.count(field) > 1:
            raise _Flaw(f"entry has {field} twice", name)
    if deeper_than(value, MAX_DEPTH - 1):  # the header object is one level itself
        raise _Flaw("header nested too deeply", name)


def _is_sizes(value: object) -> TypeGuard[list[int]]:
    """Whether a JSON value is an array of unsigned 64-bit integers: ``strict_json`` makes no other ints."""
    return isinstance(value, list) and _INT.issuperset(map(type, value))


def _read_dtype(name: str, value: object) -> str:
    if isinstance(value, dict):
        (*others, (key, unit)) = pairs(value) or ((None, None),)
        value = key if unit is None and not others else None
    if not isinstance(value, str):
        raise _Flaw("dtype is no text", name)
    dtype = ALIASES.get(value, value)
    if dtype not in DTYPES:
        raise _Flaw(f"unknown dtype {_shown(value)}", name)
    return dtype


def _check_offsets(entries: tuple[TensorEntry, ...]) -> int:
    """Size of the data section, which the entries must cover in turn, each with what its shape needs."""
    end = 0
    for entry in entries:
        if entry.stop < entry.start:
            raise _Flaw(f"data_offsets [{entry.start}, {entry.stop}] run backwards", entry.name)
        if entry.start != end:
            fault = "a hole before" if entry.start > end else "an overlap at"
            raise _Flaw(f"{fault} data offset {entry.start}", entry.name)
        size = _size_of(entry)
        if size != entry.stop - entry.start:
            raise _Flaw(f"shape needs {size} bytes, data_offsets give {entry.stop - entry.start}", entry.name)
        end = entry.stop
    return end


def _size_of(entry: TensorEntry) -> int:
    """Bytes that dtype and shape take, in the library's 64-bit arithmetic."""
    bits = 1
    for size in (*entry.shape, DTYPES[entry.dtype].bits):
        bits *= size
        if bits >= SIZE_LIMIT:
            raise _Flaw("shape is too large for any file", entry.name)
    if bits % 8:
        raise _Flaw(f"shape does not fill whole bytes of {entry.dtype}", entry.name)
    return bits // 8
