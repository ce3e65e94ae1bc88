"""A part of a dump that is a dump itself and as much like the whole as its size allows.

What slow codecs are measured on. Whole layers, because they predict each other: the lowest, by which tokens are told
apart, and a run from the middle; the lowest few alone are easier than the rest (of five of 30 layers, level 9 with
the ratio of level 3 taken into account was 3.5 to 6.5 % off; of the lowest and four from the middle, 0.3 to 0.7 %).
Where that leaves fewer than ``LEAST_LAYERS``, that many with the first tokens only. Tensors whose layout is not
known are left out, unless all are: then it is the beginning of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from kvzip.dtypes import DTYPES
from kvzip.dumps.safetensors import Header, TensorEntry, dump_bytes
from kvzip.layouts.registry import TensorLayout, recognise

LEAST_LAYERS = 4
LEAST_TOKENS = 64
Fetch = Callable[[TensorEntry], bytes]
"""Reads the bytes of a tensor; called in the order of the data."""


@dataclass(frozen=True)
class Piece:
    """Of a tensor: which indices along one axis (``at``, None for all of it), then the first of each axis."""

    entry: TensorEntry
    shape: tuple[int, ...]
    at: int | None = None
    kept: tuple[int, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of the elements that are kept."""
        return prod(self.shape) * DTYPES[self.entry.dtype].bits // 8

    def of(self, data: bytes) -> bytes:
        """The elements that are kept, out of the tensor's bytes."""
        if self.shape == self.entry.shape:
            return data
        if len(self.shape) != len(self.entry.shape):  # flat
            return data[: self.nbytes]
        elements = np.frombuffer(data, np.uint8).reshape(*self.entry.shape, DTYPES[self.entry.dtype].bits // 8)
        if self.at is not None:
            elements = np.take(elements, self.kept, self.at)
        return elements[tuple(slice(size) for size in self.shape)].tobytes()


@dataclass(frozen=True)
class Plan:
    """What a part holds, and how to call it."""

    pieces: tuple[Piece, ...]
    label: str

    @property
    def nbytes(self) -> int:
        """Bytes of the part's data."""
        return sum(piece.nbytes for piece in self.pieces)

    def dump(self, fetch: Fetch) -> bytes:
        """The part, as a safetensors file."""
        return dump_bytes([(p.entry.name, p.entry.dtype, p.shape, p.of(fetch(p.entry))) for p in self.pieces])


def plan(header: Header, path: str, nbytes: int) -> Plan:
    """The part of a dump that has about ``nbytes``; ``path`` is the file's, whose name may hold the layer."""
    layouts = recognise(header.entries, path)
    known = [(entry, layouts[entry.name]) for entry in header.entries if entry.name in layouts]
    if not known:
        return _beginning(header, nbytes)
    numbers = sorted({layout.layer for _, layout in known if layout.layer is not None})
    layers = max(1, len(numbers), *(layout.size("layer") for _, layout in known))
    tokens = max(layout.size("token") for _, layout in known)

    def of(count: int, length: int) -> Plan:
        chosen = _spread(count, layers)
        named = {numbers[at] for at in chosen if at < len(numbers)}
        pieces = [_piece(*each, chosen, length) for each in known if each[1].layer is None or each[1].layer in named]
        return Plan(tuple(pieces), _label(chosen, layers, length, tokens))

    count = max((n for n in range(1, layers + 1) if of(n, tokens).nbytes <= nbytes), default=0)
    if count >= min(LEAST_LAYERS, layers):
        return of(count, tokens)
    count = min(LEAST_LAYERS, layers)
    return of(count, min(tokens, max(LEAST_TOKENS, tokens * nbytes // max(1, of(count, tokens).nbytes))))


def _spread(count: int, layers: int) -> tuple[int, ...]:
    """So many of the layers: the lowest, the others in a row from the middle."""
    start = max(1, (layers - count + 1) // 2)
    return (0, *range(start, start + count - 1))


def _label(chosen: tuple[int, ...], layers: int, length: int, tokens: int) -> str:
    words = []
    if len(chosen) < layers:
        words.append(f"{len(chosen)} of {layers} layers, the lowest and some from the middle")
    if length < tokens:
        words.append(f"the first {length} of {tokens} tokens")
    return ", ".join(words) or "what its layout knows"


def _piece(entry: TensorEntry, layout: TensorLayout, layers: tuple[int, ...], tokens: int) -> Piece:
    """A tensor with these layers, if they are an axis of it, and the first tokens."""
    sizes, at = list(entry.shape), None
    kept: tuple[int, ...] = ()
    for number, axis in enumerate(layout.axes[: len(sizes)]):
        if axis.size != sizes[number]:  # the last axis, which the layout splits
            continue
        if axis.label == "layer":
            at, kept = number, tuple(layer for layer in layers if layer < axis.size)
            sizes[number] = len(kept)
        elif axis.label == "token":
            sizes[number] = min(sizes[number], tokens)
    return Piece(entry, tuple(sizes), at, kept)


def _beginning(header: Header, nbytes: int) -> Plan:
    """The first tensors, the last of them flat and cut."""
    pieces: list[Piece] = []
    left = nbytes
    for entry in header.entries:
        size = entry.stop - entry.start
        if size > left:
            whole = max(1, left // 24) * 24  # bytes, which elements of any width fill
            pieces.append(Piece(entry, (min(whole * 8 // DTYPES[entry.dtype].bits, prod(entry.shape)),)))
            break
        pieces.append(Piece(entry, entry.shape))
        left -= size
    size = sum(piece.nbytes for piece in pieces)
    return Plan(tuple(pieces), f"the first {size / 1e6:.3g} MB")
