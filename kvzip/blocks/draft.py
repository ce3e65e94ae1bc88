"""What a draft has for the streams of an extent: values that are expected to be about those, which both sides have.

A draft is another cache of the same tokens from the first one on: of the same model in other numbers, of an older
checkpoint, of fewer tokens or more. Streams pair by layer, kind and head; how both are laid out does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvzip.coder import aligned
from kvzip.coder.lanes import WIDTH
from kvzip.dtypes import Dtype
from kvzip.predict.grid import grid_of
from kvzip.predict.model import numbers_of
from kvzip.predict.nearness import first_difference, wide
from kvzip.streams.extent import Extent

if TYPE_CHECKING:
    from kvzip.container.shared import DraftPart

Floats = NDArray[np.float32]
HUGE = np.float32(2.0**60)  # from here on, and NaN, a draft says 0


@dataclass(frozen=True)
class DraftRows:
    """The draft's bits, (streams, tokens, channels), for the streams of an extent, as many tokens as all have."""

    bits: NDArray[Any]
    dtype: Dtype

    @property
    def tokens(self) -> int:
        """How many tokens the draft reaches."""
        return int(self.bits.shape[1])

    def of(self, streams: tuple[int, ...]) -> DraftRows:
        """The same for some of the streams, by number."""
        return DraftRows(self.bits[list(streams)] if len(streams) < len(self.bits) else self.bits, self.dtype)

    def numbers(self, start: int, stop: int, scales: Floats | None = None) -> Floats:
        """Tokens ``start`` to ``stop`` as numbers below 2^60, each stream's times its scale, rounded once."""
        return self.spared(start, stop, scales)[:-WIDTH].reshape(self.bits[:, start:stop].shape)

    def spared(self, start: int, stop: int, scales: Floats | None = None) -> Floats:
        """The same flat, at a cache line, and WIDTH spare ones behind them."""
        part = np.ascontiguousarray(self.bits[:, start:stop])
        spared: Floats = aligned.empty(part.size + WIDTH, np.float32)
        numbers = spared[: part.size].reshape(part.shape)
        spared[part.size :] = 0
        if self.dtype.name in ("F32", "BF16"):
            wide(part.reshape(-1), 32 - self.dtype.bits, HUGE.view(np.uint32), spared.view(np.uint32))
        else:
            grid = grid_of(self.dtype)
            assert grid is not None
            numbers[:] = numbers_of(part, grid)
        if scales is not None:
            numbers *= scales[:, None, None]
            numbers[~(np.abs(numbers) < HUGE)] = 0
        return spared

    def same(self, values: NDArray[Any], dtype: Dtype, start: int) -> int:
        """How many of the first rows of ``values``, from token ``start`` on, are the draft's to the bit."""
        if dtype != self.dtype:
            return 0
        count = min(values.shape[1], max(0, self.tokens - start))
        wrong: int = count
        for stream, mine in zip(values, self.bits, strict=True):
            wrong = _first_difference(stream[:wrong], mine[start : start + wrong])
        return wrong

    def has(self, values: NDArray[Any], dtype: Dtype) -> bool:
        """Whether all ``values`` are the draft's first rows to the bit."""
        return bool(self.tokens >= values.shape[1] == self.same(values, dtype, 0))


def matches(values: NDArray[Any], dtype: Dtype, drafted: Floats) -> NDArray[np.int64]:
    """(streams, 2): how many ``values`` there are of each stream, and how many are the draft's number."""
    if dtype.name == "F32":
        numbers = np.ascontiguousarray(values).view(np.float32)
    else:
        grid = grid_of(dtype)
        assert grid is not None
        numbers = numbers_of(values, grid)
    same = (numbers == drafted).sum((1, 2))
    return np.stack([np.full(len(values), values[0].size), same], axis=1).astype(np.int64)


def _first_difference(a: NDArray[Any], b: NDArray[Any]) -> int:
    """The first row in which two arrays (rows, channels) differ, or how many rows there are."""
    if not a.size or not np.array_equal(a[0], b[0]):  # most drafts differ at once
        return 0
    x, y = (np.ascontiguousarray(part).reshape(-1).view(np.uint8) for part in (a, b))
    whole = len(x) - len(x) % 8
    at = 8 * int(first_difference(x[:whole].view(np.uint64), y[:whole].view(np.uint64)))
    different = np.flatnonzero(x[at : at + 8] != y[at : at + 8])
    return (at + int(different[0])) // (len(x) // len(a)) if len(different) else len(a)


@dataclass(frozen=True)
class UnitDraft:
    """What a draft has for a unit's extents; ``scales`` for each stream, empty for none; ``pays``, the encoder's:
    whether rows that are not the same are relative to it."""

    extents: tuple[DraftRows, ...]
    scales: tuple[float, ...] = ()
    pays: bool = True

    @property
    def tokens(self) -> int:
        """How many tokens it reaches in all of them."""
        return min(rows.tokens for rows in self.extents)

    def numbers(self, start: int, stop: int) -> list[Floats]:
        """(tokens, channels) of each stream; 0 from where it does not reach."""
        out: list[Floats] = []
        for rows in self.extents:
            scales = np.array(self.scales[len(out) : len(out) + len(rows.bits)], np.float32) if self.scales else None
            part = np.zeros((len(rows.bits), stop - start, rows.bits.shape[2]), np.float32)
            reach = max(start, min(stop, self.tokens))
            part[:, : reach - start] = rows.numbers(start, reach, scales)
            out += list(part)
        return out

    def same(self, values: list[NDArray[Any]], dtype: Dtype, start: int) -> int:
        """How many of the first rows of all extents are the draft's to the bit."""
        if self.scales:
            return 0
        counts = [rows.same(part, dtype, start) for rows, part in zip(self.extents, values, strict=True)]
        return max(0, min(*counts, self.tokens - start))


class DraftSource(Protocol):
    """Where drafts come from."""

    def rows(self, extent: Extent) -> DraftRows | None:
        """The draft of an extent's streams, None if it lacks one of them."""

    def require(self, parts: list[DraftPart], container: str) -> None:
        """DraftError unless this is the draft that a container was made with."""


def rows_of(source: DraftSource | None, extents: tuple[Extent, ...]) -> tuple[DraftRows, ...] | None:
    """The draft of each of the extents, None if it lacks any."""
    found = [source.rows(extent) if source else None for extent in extents]
    rows = tuple(part for part in found if part is not None)
    return rows if len(rows) == len(extents) else None


def can_draft(dtype: Dtype) -> bool:
    """Whether a type's values can be a draft or have one."""
    return dtype.name == "F32" or grid_of(dtype) is not None
