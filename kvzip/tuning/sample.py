"""Samples of dumps that behave as the whole: some layers, all heads, the first tokens, as dumps in memory.

What is learnt from token to token, what repeats and what one layer tells of the next must be in a sample as it is in
the whole. So layers come in runs of neighbours, the lowest one always (it tells which tokens repeat), with all heads,
and tokens are cut off only at the end, few samples having fewer than 1024 of them: a short stream overrates the cost
of learning. Tensors that no layout knows are cut to a share of their elements.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Any

from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import Header, TensorEntry, read_header
from kvzip.layouts.registry import TensorLayout, recognise
from kvzip.tuning.data import Data, in_memory

MOST_TOKENS, FEWEST_TOKENS = 2048, 1024
RUN = 2  # neighbouring layers that are taken together
LEAST_OPAQUE = 1 << 16  # bytes of what no layout knows that are taken from each tensor or file
GRAIN = 16  # elements: whole bytes of every type


@dataclass(frozen=True)
class Wanted:
    """How large a sample may be: about ``nbytes``, but ``layers`` at least, of up to ``tokens`` tokens."""

    nbytes: int
    layers: int
    tokens: int = MOST_TOKENS


@dataclass(frozen=True)
class Sample:
    """A sample, what part of the data it is, and how many values it holds."""

    data: Data
    values: int
    layers: int
    tokens: int
    whole: bool


@dataclass(frozen=True)
class _File:
    """A file's place in its data, and what its header says; None for what is no dump."""

    name: str
    where: str
    size: int
    header: Header | None
    layouts: dict[str, TensorLayout]


@dataclass(frozen=True)
class _Cut:
    """The layers that are kept, the number of tokens, and the share of what no layout knows."""

    layers: frozenset[int]
    tokens: int
    share: float


def sampled(data: Data, wanted: Wanted, layout: str | None = None) -> Sample:
    """A sample of one dump or directory; the whole if that is no larger."""
    files = list(_described(data, layout))
    layers = sorted({layer for file in files for found in file.layouts.values() for layer in layers_of(found)})
    most = max((_size(found, "token") for file in files for found in file.layouts.values()), default=0)
    if data.nbytes <= wanted.nbytes:
        return Sample(data, sum(map(_values, files)), len(layers), most, True)
    cut = _fitting(files, layers, most, wanted, data.nbytes)
    kept = _spread_files([file for file in files if _kept_bytes(file, cut)], cut, wanted.nbytes)
    taken = dict(_cut_files(data, kept, cut, layout))
    out = in_memory(data.where, [(f.name, taken[f.name], f.header is not None) for f in kept], data.directory)
    values = sum(_values(again) for again in _described(out, layout))
    return Sample(out, values, len(cut.layers), min(cut.tokens, most), False)


def layers_of(found: TensorLayout) -> Sequence[int]:
    """The layers that a tensor holds; none if its layout does not tell."""
    if any(axis.label == "layer" for axis in found.axes):
        return range(_size(found, "layer"))
    return () if found.layer is None else (found.layer,)


def spread(layers: Sequence[int], count: int) -> frozenset[int]:
    """``count`` of the ``layers``: the lowest, and runs of ``RUN`` neighbours evenly up to the highest."""
    total = len(layers)
    if count >= total:
        return frozenset(layers)
    chosen = {0} if count else set()
    runs = max(1, count // RUN)
    for run in range(runs):
        start = round((run + 1) * (total - RUN) / runs) if runs > 1 else (total - RUN) // 2
        chosen.update(n for n in range(start, start + RUN) if 0 <= n < total and len(chosen) < count)
    chosen.update([n for n in range(total) if n not in chosen][: count - len(chosen)])
    return frozenset(layers[n] for n in chosen)


def _described(data: Data, layout: str | None) -> Iterator[_File]:
    for opened in data.inputs():
        with opened as source:
            if not source.is_dump:
                yield _File(source.name, source.where, source.size or 0, None, {})
                continue
            header = read_header(source.file, source.where)
            layouts = recognise(header.entries, source.name or source.where, layout)
            size = len(header.raw) + header.data_size
            yield _File(source.name, source.where, size, header, layouts)


def _fitting(files: list[_File], layers: list[int], most: int, wanted: Wanted, total: int) -> _Cut:
    """As many layers as fit with all tokens; where too few do, fewer tokens."""
    share = min(1.0, wanted.nbytes / max(1, total))
    tokens = min(most, wanted.tokens)
    least = min(len(layers), wanted.layers)
    while True:
        for count in range(len(layers), max(least, 1) - 1, -1):
            cut = _Cut(spread(layers, count), tokens, share)
            if sum(_kept_bytes(file, cut) for file in files) <= wanted.nbytes:
                return cut
        if tokens <= FEWEST_TOKENS:
            return _Cut(spread(layers, least), tokens, share)
        tokens = max(FEWEST_TOKENS, tokens // 2)


def _spread_files(files: list[_File], cut: _Cut, limit: int) -> list[_File]:
    """As many files, evenly spread, as stay within about ``limit`` bytes: a folder may hold thousands of chunks."""
    sizes = [_kept_bytes(file, cut) for file in files]
    keep = len(files)
    while keep > 1 and sum(sizes[at * len(files) // keep] for at in range(keep)) > 2 * limit:
        keep = keep * 3 // 4
    return [files[at * len(files) // keep] for at in range(keep)]


# -- what is kept of a tensor


def _axes(entry: TensorEntry, found: TensorLayout, cut: _Cut) -> list[Sequence[int]] | None:
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


def _elements(entry: TensorEntry, cut: _Cut) -> int:
    """How many elements are kept of a tensor that no layout knows."""
    total = prod(entry.shape)
    least = LEAST_OPAQUE * 8 // DTYPES[entry.dtype].bits
    return min(total, max(least, int(total * cut.share)) // GRAIN * GRAIN)


def _kept_bytes(file: _File, cut: _Cut) -> int:
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


def _cut_files(data: Data, kept: list[_File], cut: _Cut, layout: str | None) -> Iterator[tuple[str, bytes]]:
    wanted = {file.name: file for file in kept}
    for opened in data.inputs():
        with opened as source:
            file = wanted.get(source.name)
            if file is None:
                continue
            if file.header is None:
                yield file.name, source.file.read(LEAST_OPAQUE)
                continue
            read_header(source.file, source.where)
            yield file.name, _cut_dump(source, file, cut, layout)


def _cut_dump(source: Any, file: _File, cut: _Cut, layout: str | None) -> bytes:
    """The sample of a dump whose data comes next."""
    assert file.header is not None
    blobs: list[tuple[TensorEntry, bytes]] = []
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
            blobs.append((replace(entry, shape=shape), b"".join(parts)))
    _skip(source, file.header.data_size - at)
    return dump_of(blobs, file.header.metadata or {})


def _runs(
    entry: TensorEntry, file: _File, cut: _Cut, layout: str | None
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


def _same(entry: TensorEntry, found: TensorLayout, file: _File, layout: str | None) -> bool:
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


def dump_of(blobs: Iterable[tuple[TensorEntry, bytes]], metadata: Any) -> bytes:
    """A safetensors dump of tensors, one after the other."""
    table: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at, parts = 0, []
    for entry, blob in blobs:
        table[entry.name] = {"dtype": entry.dtype, "shape": entry.shape, "data_offsets": [at, at + len(blob)]}
        at += len(blob)
        parts.append(blob)
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))


def _values(file: _File) -> int:
    return sum(prod(entry.shape) for entry in file.header.entries) if file.header else file.size


def _size(found: TensorLayout, label: str) -> int:
    return next((axis.size for axis in found.axes if axis.label == label), 0)
