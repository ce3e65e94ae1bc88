"""Samples of dumps that behave as the whole: some layers, all heads, the first tokens, as dumps in memory.

What is learnt from token to token, what repeats and what one layer tells of the next must be in a sample as it is in
the whole. So layers come in runs of neighbours, the lowest one always (it tells which tokens repeat), with all heads,
and tokens are cut off only at the end, few samples having fewer than 1024 of them: a short stream overrates the cost
of learning. Tensors that no layout knows are cut to a share of their elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from kvzip.dumps.safetensors import read_header
from kvzip.layouts.registry import TensorLayout, recognise
from kvzip.tuning.cut import LEAST_OPAQUE, Cut, File, cut_dump, kept_bytes
from kvzip.tuning.data import Data, in_memory

MOST_TOKENS, FEWEST_TOKENS = 2048, 1024
RUN = 2  # neighbouring layers that are taken together


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


def sampled(data: Data, wanted: Wanted, layout: str | None = None) -> Sample:
    """A sample of one dump or directory; the whole if that is no larger."""
    files = list(_described(data, layout))
    layers = sorted({layer for file in files for found in file.layouts.values() for layer in layers_of(found)})
    most = max((found.size("token") for file in files for found in file.layouts.values()), default=0)
    if data.nbytes <= wanted.nbytes:
        return Sample(data, sum(map(_values, files)), len(layers), most, True)
    cut = _fitting(files, layers, most, wanted, data.nbytes)
    kept = _spread_files([file for file in files if kept_bytes(file, cut)], cut, wanted.nbytes)
    taken = dict(_cut_files(data, kept, cut, layout))
    out = in_memory(data.where, [(f.name, taken[f.name], f.header is not None) for f in kept], data.directory)
    values = sum(_values(again) for again in _described(out, layout))
    return Sample(out, values, len(cut.layers), min(cut.tokens, most), False)


def layers_of(found: TensorLayout) -> Sequence[int]:
    """The layers that a tensor holds; none if its layout does not tell."""
    if any(axis.label == "layer" for axis in found.axes):
        return range(found.size("layer"))
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


def _described(data: Data, layout: str | None) -> Iterator[File]:
    for opened in data.inputs():
        with opened as source:
            if not source.is_dump:
                yield File(source.name, source.where, source.size or 0, None, {})
                continue
            header = read_header(source.file, source.where)
            layouts = recognise(header.entries, source.name or source.where, layout)
            size = len(header.raw) + header.data_size
            yield File(source.name, source.where, size, header, layouts)


def _fitting(files: list[File], layers: list[int], most: int, wanted: Wanted, total: int) -> Cut:
    """As many layers as fit with all tokens; where too few do, fewer tokens."""
    share = min(1.0, wanted.nbytes / max(1, total))
    tokens = min(most, wanted.tokens)
    least = min(len(layers), wanted.layers)

    def fits(count: int) -> bool:
        cut = Cut(spread(layers, count), tokens, share)
        return sum(kept_bytes(file, cut) for file in files) <= wanted.nbytes

    while not fits(least) and tokens > FEWEST_TOKENS:
        tokens = max(FEWEST_TOKENS, tokens // 2)
    low, high = least, len(layers) + 1  # low fits, or is the least; high does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return Cut(spread(layers, low), tokens, share)


def _spread_files(files: list[File], cut: Cut, limit: int) -> list[File]:
    """As many files, evenly spread, as stay within about ``limit`` bytes: a folder may hold thousands of chunks."""
    sizes = [kept_bytes(file, cut) for file in files]
    keep = len(files)
    while keep > 1 and sum(sizes[at * len(files) // keep] for at in range(keep)) > 2 * limit:
        keep = keep * 3 // 4
    return [files[at * len(files) // keep] for at in range(keep)]


def _cut_files(data: Data, kept: list[File], cut: Cut, layout: str | None) -> Iterator[tuple[str, bytes]]:
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
            yield file.name, cut_dump(source, file, cut, layout)


def _values(file: File) -> int:
    return sum(prod(entry.shape) for entry in file.header.entries) if file.header else file.size
