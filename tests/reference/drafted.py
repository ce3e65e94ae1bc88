"""Section 11.10 of docs/format.md: a block of method 3 is values relative to a draft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .draft import DraftRows, read_factors
from .grid import F32, Grid
from .model import Model
from .predicted import CONTINUED, NOTHING, STARTED, read_scales, referred
from .reading import Bytes, require
from .shared import Known, Occurrence, occurrences

if TYPE_CHECKING:
    from .blocks import Extent

SCALED = 1
PRIMED = 512
NEAR, FAR = True, False


class Drafted:
    """The two predictions of a chain between its blocks."""

    def __init__(
        self, extent: Extent, kinds: list[int], parameters: dict[str, int], known: Known, draft: DraftRows
    ) -> None:
        self.extent, self.kinds, self.parameters, self.known, self.draft = extent, kinds, parameters, known, draft
        self.grid = Grid(extent)
        self.token = 0
        self.begun = False
        self.models: dict[bool, Model] = {}
        self.seen: dict[bool, list[Occurrence]] = {}  # of the tokens from a prediction's first one on
        self.began: dict[bool, int] = {}
        self.past = np.zeros((len(kinds), 0, extent.axes[-1][1]), np.int64)  # the last rows

    def decode(self, data: Bytes, shape: tuple[int, int, int]) -> list[int]:
        streams, tokens, channels = shape
        kind = data.number(1)
        require(kind == (CONTINUED if self.begun else STARTED), "a prediction that does not go on as it should")
        count = tokens - data.varint(0, tokens)
        if kind == STARTED:
            require(not self.token, "a prediction that starts in the middle")
            self._start(data, channels)
        reached = min(count, max(0, self.draft.tokens - self.token))
        same = data.varint(0, reached)
        require(not same or (not self.scales and self.draft.dtype == self.extent.dtype), "a draft of another type")
        close = same + data.varint(0, reached - same)
        whole = np.zeros(shape, np.int64)
        whole[:, :same] = self.draft.values[:, self.token : self.token + same]
        half = 16 if self.extent.dtype == F32 else 0
        top = whole >> half
        for near, start, stop in ((NEAR, same, close), (FAR, close, count)):
            if start < stop:
                top[:, start:stop] = self._rows(data, near, start, stop)
            first = 0 if near else start
            if FAR not in self.models:
                self.past = np.concatenate([self.past, top[:, first:stop]], axis=1)[:, -PRIMED:]
        whole[:, same:count] = top[:, same:count] << half
        if half:
            low = data.numbers(2, streams * (count - same) * channels)
            whole[:, same:count] |= np.array(low, np.int64).reshape(streams, -1, channels)
        data.finish()
        self.token += tokens
        out: list[int] = whole.reshape(-1).tolist()
        return out

    def _start(self, data: Bytes, channels: int) -> None:
        flags, self.energy, self.together = data.numbers(1, 3)
        rope, tokens = data.varint(0, len(self.known.ropes)), data.varint(0, len(self.known.tokens))
        self.scales = read_factors(data, len(self.kinds)) if flags & SCALED else []
        possible = flags <= SCALED and 1 <= self.together <= min(16, len(self.kinds))
        require(possible, "an impossible start")
        self.tokens, self.rope = referred(self.known, self.extent, channels, rope, tokens)
        self.begun = True

    def _rows(self, data: Bytes, near: bool, start: int, stop: int) -> NDArray[Any]:
        """Rows of the block that are coded by one of the predictions."""
        if near not in self.models:
            self._begin(data, near, start)
        first, last = self.token + start, self.token + stop
        draft = self.draft.numbers(first, last, self.scales) if near else None
        values, rode = self.models[near].decode(data, self._seen(near, first, last), draft)
        require(not any(rode), "start states that carry bytes of nothing")
        return np.array(values, np.int64).reshape(len(self.kinds), stop - start, -1)

    def _begin(self, data: Bytes, near: bool, start: int) -> None:
        scales = read_scales(data, len(self.kinds))
        self.models[near] = Model(
            self.grid, self.kinds, self.past.shape[2], self.parameters, self.known, self.rope, scales, self.energy,
            self.together,
        )  # fmt: skip
        known = 0 if near else self.past.shape[1]
        self.began[near] = self.token + start - known
        self.seen[near] = occurrences([token.name for token in self.tokens[self.began[near] :]])
        if known:
            seen = self._seen(near, self.began[near], self.token + start)
            self.models[near].learn(self.past, seen)

    def _seen(self, near: bool, start: int, stop: int) -> list[Occurrence]:
        if not self.tokens:
            return [NOTHING] * (stop - start)
        began = self.began[near]
        return self.seen[near][start - began : stop - began]
