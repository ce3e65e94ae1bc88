"""A draft: a cache that a dump is compared to, from a dump, a directory of them, a container, or arrays.

Values are read when they are asked for; the last ones stay in memory. Streams are found by layer, kind and head.
"""

from __future__ import annotations

import io
import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from kvzip.blocks.draft import DraftRows, can_draft
from kvzip.container.records import starts_container
from kvzip.container.shared import DraftPart
from kvzip.dtypes import DTYPES, Dtype
from kvzip.dumps.safetensors import read_header
from kvzip.errors import DraftError, DumpError
from kvzip.files import FileSource, members
from kvzip.pipeline.reader import Reader
from kvzip.pipeline.survey import BYTES_SAMPLE, type_of_bytes
from kvzip.predict.prior import Prior
from kvzip.streams.describe import bytes_cache, extents_of
from kvzip.streams.extent import Extent, StreamName
from kvzip.streams.plan import gather_whole

Arrays = Mapping[tuple[int, str], Any]
DraftGiven = str | os.PathLike[str] | bytes | bytearray | memoryview | Arrays
MOST_HELD = 256 << 20  # bytes of values that stay in memory
PAIRED = ("key", "value", "latent", "")
FLOATS = {
    "float32": "F32",
    "float16": "F16",
    "bfloat16": "BF16",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
}


@dataclass(frozen=True)
class Piece:
    """A run of streams: how it is laid out, and how its (streams, tokens, channels) unsigned integers are read."""

    names: tuple[StreamName, ...]
    tokens: int
    channels: int
    dtype: Dtype
    load: Callable[[], NDArray[Any]]


class Draft:
    """An open draft. Use it as a context manager, or call ``close``."""

    def __init__(self, pieces: list[Piece], where: str, files: ExitStack | None = None) -> None:
        self.pieces, self.where, self.files = pieces, where, files or ExitStack()
        self.places: dict[StreamName, tuple[int, int]] = {}
        for number, piece in enumerate(pieces):
            for at, name in enumerate(piece.names):
                self.places.setdefault(name, (number, at))
        self.held: OrderedDict[int, NDArray[Any]] = OrderedDict()

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close what is open."""
        self.files.close()

    def first(self, tokens: int) -> Draft:
        """The same cache, of its first ``tokens`` only."""
        pieces = [
            replace(piece, tokens=min(tokens, piece.tokens), load=partial(_first, piece.load, tokens))
            for piece in self.pieces
        ]
        return Draft(pieces, self.where, self.files)

    def rows(self, extent: Extent) -> DraftRows | None:
        """What there is for the streams of an extent; None if it lacks one of them, or they are of another width."""
        if extent.opaque or not can_draft(extent.dtype) or extent.streams > len(self.places):
            return None
        names = list(extent.stream_names())
        if any(name not in self.places or name.kind not in PAIRED for name in names):
            return None
        found = [self.places[name] for name in names]
        pieces = [self.pieces[number] for number, _ in found]
        one = pieces[0]
        if any(piece.dtype != one.dtype or piece.channels != extent.axes[-1][1] for piece in pieces):
            return None
        tokens = min(extent.tokens, min(piece.tokens for piece in pieces))
        if not tokens:
            return None
        if len({number for number, _ in found}) == 1 and [at for _, at in found] == list(range(len(one.names))):
            return DraftRows(self._values(found[0][0])[:, :tokens], one.dtype)
        return DraftRows(np.stack([self._values(number)[at, :tokens] for number, at in found]), one.dtype)

    def stream(self, name: StreamName) -> tuple[NDArray[Any], Dtype] | None:
        """One stream, (tokens, channels) of unsigned integers, and their type; None if there is none."""
        place = self.places.get(name)
        return None if place is None else (self._values(place[0])[place[1]], self.pieces[place[0]].dtype)

    def parts(self) -> list[DraftPart]:
        """What a container says of its draft: for each layer and kind its heads, its shape and its digest."""
        grouped: dict[tuple[int, str], list[StreamName]] = {}
        for name in self.places:
            grouped.setdefault((name.layer, name.kind), []).append(name)
        return [self._part(key, sorted(names, key=lambda n: n.head)) for key, names in sorted(grouped.items())]

    def require(self, parts: list[DraftPart], container: str) -> None:
        """DraftError unless this is the draft that a container was made with."""
        mine = {(part.layer, part.kind): part for part in self.parts()}
        for part in parts:
            if mine.get((part.layer, part.kind)) != part:
                what = f"layer {part.layer} {part.kind}".strip()
                raise DraftError(
                    f"{self.where}: is not the draft of {container} ({what} differs); give that one with --draft"
                )

    def _part(self, key: tuple[int, str], names: list[StreamName]) -> DraftPart:
        digest = xxhash.xxh3_128()
        first = self.pieces[self.places[names[0]][0]]
        for name in names:
            number, at = self.places[name]
            digest.update(np.ascontiguousarray(self._values(number)[at]).data)
        return DraftPart(*key, len(names), first.tokens, first.channels, first.dtype.id, digest.digest())

    def _values(self, number: int) -> NDArray[Any]:
        """A piece's values, (streams, tokens, channels)."""
        if number not in self.held:
            self.held[number] = self.pieces[number].load()
            while len(self.held) > 1 and sum(values.nbytes for values in self.held.values()) > MOST_HELD:
                self.held.popitem(last=False)
        self.held.move_to_end(number)
        return self.held[number]


def _first(load: Callable[[], NDArray[Any]], tokens: int) -> NDArray[Any]:
    return np.ascontiguousarray(load()[:, :tokens])


def open_draft(given: DraftGiven, threads: int = 0, layout: str | None = None, prior: Prior | None = None) -> Draft:
    """The draft that a user names: a path, bytes, or arrays (heads, tokens, channels) by (layer, kind)."""
    if isinstance(given, Mapping):
        if pieces := _arrays(given):
            return Draft(pieces, "draft")
        raise DraftError("draft: holds no arrays; give floats (heads, tokens, channels) by (layer, 'key' or 'value')")
    if not isinstance(given, str | os.PathLike | bytes | bytearray | memoryview):
        raise DraftError(f"draft: is a {type(given).__name__}; give a path, bytes or arrays by (layer, kind)")
    files = ExitStack()
    try:
        pieces = []
        if isinstance(given, bytes | bytearray | memoryview):
            where = "draft"
            pieces += _file(io.BytesIO(given), where, where, threads, layout, prior)
        else:
            where = str(given)
            folder = Path(given).is_dir()
            paths = [path for _, path in members(Path(given)).files] if folder else [Path(given)]
            for path in paths:
                source = files.enter_context(FileSource(path))
                if folder and not path.name.endswith((".safetensors", ".kvz")):
                    continue
                pieces += _file(source.file, source.name, str(path), threads, layout, prior)
        if not pieces:
            raise DraftError(f"{where}: has no keys or values of floats; give a dump of the same model")
        return Draft(pieces, where, files)
    except DumpError as error:
        files.close()
        raise DraftError(f"--draft: {error}") from None
    except BaseException:
        files.close()
        raise


def _file(file: Any, where: str, path: str, threads: int, layout: str | None, prior: Prior | None) -> Iterator[Piece]:
    """The streams of a dump or a container."""
    file = file if hasattr(file, "peek") else io.BufferedReader(file)
    if not file.seekable():
        raise DraftError(f"{where}: a draft is read more than once; give a file, not a pipe")
    if starts_container(file):
        try:
            reader = Reader(file, where, threads, owned=False, prior=prior)
        except DraftError:
            raise DraftError(f"{where}: needs a draft itself; decompress it first and give the dump") from None
        for member, held in enumerate(reader.members):
            for number, extent in enumerate(held.extents):
                if not extent.opaque and can_draft(extent.dtype):
                    yield _piece(extent, partial(_from_container, reader, member, number))
        return
    header = read_header(file, where)
    at = file.tell()
    extents = extents_of(header, path, layout, 0, _bytes_as(file, at, header, path, layout))
    for extent in extents:
        if not extent.opaque and can_draft(extent.dtype):
            yield _piece(extent, partial(_from_dump, file, where, at, extent))
        at += extent.nbytes


def _bytes_as(file: Any, start: int, header: Any, path: str, layout: str | None) -> str:
    """What the bytes of a U8 cache are, as the encoder of a dump takes them."""
    entry = bytes_cache(header, path, layout)
    if entry is None:
        return "F8_E4M3"
    file.seek(start + entry.start)
    return type_of_bytes(np.frombuffer(file.read(min(entry.stop - entry.start, BYTES_SAMPLE)), np.uint8))


def _piece(extent: Extent, load: Callable[[], NDArray[Any]]) -> Piece:
    return Piece(tuple(extent.stream_names()), extent.tokens, extent.axes[-1][1], extent.dtype, load)


def _from_container(reader: Reader, member: int, number: int) -> NDArray[Any]:
    return gather_whole(reader.members[member].extents[number], reader.extent(member, number))


def _from_dump(file: Any, where: str, start: int, extent: Extent) -> NDArray[Any]:
    file.seek(start)
    data = file.read(extent.nbytes)
    if len(data) != extent.nbytes:
        raise DraftError(f"{where}: ends too early; the draft is incomplete, fetch it again")
    return gather_whole(extent, data)


def _arrays(given: Arrays) -> list[Piece]:
    """Arrays (heads, tokens, channels) of floats by (layer, kind)."""
    pieces = []
    for key, array in given.items():
        layer, kind = key if isinstance(key, tuple) and len(key) == 2 else (None, None)
        values = np.asarray(array)
        name = FLOATS.get(values.dtype.name)
        possible = isinstance(layer, int | np.integer) and 0 <= layer < 1 << 31 and kind in PAIRED
        if not possible or name is None or values.ndim != 3 or not values.size:
            raise DraftError(
                f"draft: {key!r} is {values.dtype.name} {values.shape}; "
                "give floats (heads, tokens, channels) by (layer, 'key' or 'value')"
            )
        native = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("="), copy=False))
        bits = native.view(f"<u{values.dtype.itemsize}")
        names = tuple(StreamName(int(layer), kind, head) for head in range(len(bits)))
        pieces.append(Piece(names, bits.shape[1], bits.shape[2], DTYPES[name], partial(np.asarray, bits)))
    return pieces
