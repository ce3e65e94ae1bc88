"""One dump cut down: of each tensor the layers and tokens that are kept, read and written as a smaller dump."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import Header, TensorEntry, dump_bytes
from kvzip.layouts.registry import TensorLayout, recognise

LEAST_OPAQUE = 1 << 16  # bytes of what no layout knows that are taken from each tensor or file
GRAIN = 16  # elements: whole bytes of every type


@dataclass(frozen=True)
class File:
    """A file's place in its data, and what its header says; None for what is no dump."""

    name: str
    where: str
    size: int
    header: Header | None
    layouts: dict[str, TensorLayout]


@dataclass(frozen=True)
class Cut:
    """The layers that are kept, the number of tokens, and the share of what no layout knows."""

    layers: frozenset[int]
    tokens: int
    share: float


def _axes(entry: TensorEntry, found: TensorLayout, cut: Cut) -> list[Sequence[int]] | None:
    """For each axis the places that are kept; None if the tensor is not."""
    if found.layer is not None and found.layer not in cut.layers:
        return None
    kept: list[Sequence[int]] = []
    for axis in found.axes:
        places: Sequence[int] = range(axis.size)
        if axis.label == "token":
            places = range(min(axis.size, cut.tokens))
        elif axis.label == "layer":
            places = [n for n in places if n in cut.layers]
        kept.append(places)
    return kept if DTYPES[entry.dtype].bits % 8 == 0 else [range(axis.size) for axis in found.axes]


def _elements(entry: TensorEntry, cut: Cut) -> int:
    """How many elements are kept of a tensor that no layout knows."""
    total = prod(entry.shape)
    least = LEAST_OPAQUE * 8 // DTYPES[entry.dtype].bits
    return min(total, max(least, int(total * cut.share)) // GRAIN * GRAIN)


def kept_bytes(file: File, cut: Cut) -> int:
    """Bytes of a file's tensors in the sample; of what is no dump, its first ones."""
    if file.header is None:
        return min(file.size, LEAST_OPAQUE)
    size = 0
    for entry in file.header.entries:
        bits = DTYPES[entry.dtype].bits
        if (found := file.layouts.get(entry.name)) is None:
            size += _elements(entry, cut) * bits // 8
        elif (places := _axes(entry, found, cut)) is not None:
            size += prod(map(len, places)) * bits // 8
    return size


def cut_dump(source: Any, file: File, cut: Cut, layout: str | None) -> bytes:
    """The sample of a dump whose data comes next."""
    assert file.header is not None
    blobs: list[tuple[str, str, tuple[int, ...], bytes]] = []
    at = 0
    for entry in file.header.entries:
        if entry.start < at:
            continue  # a second name for the bytes before
        runs, shape = _runs(entry, file, cut, layout)
        parts = []
        for start, stop in runs:
            _skip(source, entry.start + start - at)
            parts.append(source.read(stop - start))
            at = entry.start + stop
        if runs or entry.start == entry.stop:
            blobs.append((entry.name, entry.dtype, shape, b"".join(parts)))
    _skip(source, file.header.data_size - at)
    return dump_bytes(blobs, file.header.metadata)


def _runs(
    entry: TensorEntry, file: File, cut: Cut, layout: str | None
) -> tuple[list[tuple[int, int]], tuple[int, ...]]:
    """The runs of a tensor's bytes that are kept, and the shape that they make; no runs if it is left out."""
    found = file.layouts.get(entry.name)
    bits = DTYPES[entry.dtype].bits
    if found is None:
        count = _elements(entry, cut)
        return [(0, count * bits // 8)] if count else [], entry.shape if count == prod(entry.shape) else (count,)
    places = _axes(entry, found, cut)
    if places is None:
        return [], entry.shape
    sizes = [axis.size for axis in found.axes]
    shape = _shape(entry, sizes, [len(kept) for kept in places])
    if shape is None or not _same(replace(entry, shape=shape), found, file, layout):
        places, shape = [range(size) for size in sizes], entry.shape
    inner = len(sizes)
    while inner and len(places[inner - 1]) == sizes[inner - 1]:
        inner -= 1
    if not inner:
        return [(0, entry.stop - entry.start)], shape
    step = prod(sizes[inner:]) * bits // 8
    runs = []
    for index in product(*places[: inner - 1]):
        base = 0
        for size, at in zip(sizes, index, strict=False):
            base = base * size + at
        for first, count in _neighbours(places[inner - 1]):
            start = (base * sizes[inner - 1] + first) * step
            runs.append((start, start + count * step))
    return runs, shape


def _shape(entry: TensorEntry, sizes: list[int], kept: list[int]) -> tuple[int, ...] | None:
    """The tensor's own shape with the kept sizes: a layout may have cut one of its axes into two."""
    shape, at = [], 0
    for size in entry.shape:
        first, full, left = at, 1, 1
        while at < len(sizes) and (full < size or (full == size and sizes[at] == 1 and first == at)):
            full *= sizes[at]
            left *= kept[at]
            at += 1
        if full != size:
            return None
        shape.append(left)
    return tuple(shape) if prod(shape) == prod(kept) else None


def _same(entry: TensorEntry, found: TensorLayout, file: File, layout: str | None) -> bool:
    """Whether a smaller tensor is still read as the whole one is: axes are told apart by their sizes."""
    again = recognise([entry], file.name or file.where, layout).get(entry.name)
    return again is not None and [a.label for a in again.axes] == [a.label for a in found.axes]


def _neighbours(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Runs (first, count) of consecutive numbers."""
    first = count = 0
    for place in places:
        if count and place == first + count:
            count += 1
            continue
        if count:
            yield first, count
        first, count = place, 1
    if count:
        yield first, count


def _skip(source: Any, count: int) -> None:
    if count and source.file.seekable():
        source.file.seek(count, 1)
        return
    while count:
        count -= len(source.read(min(count, 1 << 22)))
