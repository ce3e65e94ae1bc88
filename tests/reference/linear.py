"""Section 13 of docs/format.md: the blocks of a unit that linear prediction codes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .linear_columns import Alphabet, F, Row, Stream, groups_of
from .linear_group import GroupDecoder
from .linear_settings import Settings
from .linear_symbols import Lanes
from .reading import Bytes, UnsupportedError, require

if TYPE_CHECKING:
    from .blocks import Extent

CODED, PLAIN, HALVES = range(3)
MOST = F(1e18)


class LinearDecoder:
    """All groups of a unit."""

    def __init__(
        self, extent: Extent, streams: list[Stream], base: int, settings: Settings, near: int | None = None
    ) -> None:
        """``near`` of the ``base`` columns are the first base's; all, unless it says otherwise."""
        self.extent, self.streams, self.base, self.settings = extent, streams, base, settings
        self.near = base if near is None else near
        self.groups = groups_of(streams)
        self.plain = self.alphabet(0)
        self.decoders: list[GroupDecoder] = []

    def alphabet(self, scale: int) -> Alphabet:
        return Alphabet(self.extent.dtype, self.extent.bits, self.extent.exponent, scale)

    def decode(
        self, data: Bytes, tokens: int, base: Row, names: list[int], draft: Row | None = None
    ) -> list[list[int]]:
        """Values of the block: a row of all channels for each token. ``draft`` are such rows of numbers."""
        mode, scale, exponent = data.number(1), data.signed(), data.signed()
        if mode > HALVES:
            raise UnsupportedError(f"linear prediction's mode {mode}")
        require(mode != HALVES or self.plain.raw, "halves of whole values")
        if not self.decoders:
            self.scale = min(max(scale, -120), 120)
            letters = self.alphabet(self.scale)
            exponent = min(max(exponent, -30), 30)
            self.decoders = [
                GroupDecoder(group, letters, self.base, self.near, self.settings, exponent, draft is not None)
                for group in self.groups
            ]
        if draft is not None:
            with np.errstate(all="ignore"):
                draft = draft * np.float32(2.0**self.scale)
            draft = np.where(draft > MOST, MOST, np.where(draft < -MOST, -MOST, draft))
        rows = [[0] * sum(stream.channels for stream in self.streams) for _ in range(tokens)]
        if mode == PLAIN:
            self._join(data, self.extent.item, rows)
            self._groups([None] * len(self.groups), base, names, draft, rows)
        else:
            lengths = data.numbers(4, len(self.groups))
            require(all(length >= 16 and length % 4 == 0 for length in lengths), "a group of an odd length")
            lanes = [Lanes(data.take(length)) for length in lengths]
            self._groups(lanes, base, names, draft, rows)
            require(all(lane.ended for lane in lanes), "a group that does not decode to its end")
        if mode == HALVES:
            self._join(data, 2, rows)
        data.finish()
        return rows

    def _groups(
        self,
        lanes: list[Lanes] | list[None],
        base: Row,
        names: list[int],
        draft: Row | None,
        rows: list[list[int]],
    ) -> None:
        for group, decoder, lane in zip(self.groups, self.decoders, lanes, strict=True):
            for t, row in enumerate(rows):
                ks = [self.plain.k_of(row[channel]) if channel >= 0 else 0 for channel in group.source]
                near = [draft[t][c] if draft is not None and c >= 0 else F(0) for c in group.source]
                decoder.decode(lane, base[t], names[t], np.array(near, F), ks)
                if lane:
                    for channel, k in zip(group.source, ks, strict=True):
                        if channel >= 0:
                            row[channel] = self.plain.bits_of(k)

    def _join(self, data: Bytes, size: int, rows: list[list[int]]) -> None:
        """Add numbers of ``size`` bytes, stream after stream."""
        for stream in self.streams:
            numbers = data.numbers(size, len(rows) * stream.channels)
            for t, row in enumerate(rows):
                for c in range(stream.channels):
                    row[stream.first + c] |= numbers[t * stream.channels + c]
