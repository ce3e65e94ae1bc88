"""Section 11.2 of docs/format.md: a block of method 2 is values relative to their predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .grid import F32, Grid
from .model import Model
from .reading import Bytes, require
from .shared import Known, Occurrence, Rope

if TYPE_CHECKING:
    from .blocks import Extent

CONTINUED, STARTED = range(2)
UNIQUE, TOGETHER = 1, 2
NOTHING = Occurrence(-1, 0, -1, 0)


class Prediction:
    """The prediction of a chain between its blocks."""

    def __init__(self, extent: Extent, kinds: list[int], parameters: dict[str, int], known: Known) -> None:
        self.extent, self.kinds, self.parameters, self.known = extent, kinds, parameters, known
        self.grid = Grid(extent)
        self.model: Model | None = None
        self.token = 0

    def decode(self, data: Bytes, shape: tuple[int, int, int]) -> list[int]:
        streams, tokens, channels = shape
        kind = data.number(1)
        require(kind <= STARTED and (kind == STARTED or self.model), "a prediction that was not begun")
        count = tokens - data.varint(0, tokens)
        if kind == STARTED:
            self._start(data, channels)
        assert self.model is not None
        seen = self.tokens[self.token : self.token + count] if self.tokens else [NOTHING] * count
        kept = [t for t in range(count) if not (self.unique and seen[t].times)]
        size = streams * len(kept) * channels
        values, rode = self.model.decode(data, [NOTHING if self.unique else seen[t] for t in kept])
        if self.extent.dtype == F32:
            carried = rode if len(rode) <= 2 * size else b""
            low = Bytes(data.take(2 * size - len(carried)) + carried).numbers(2, size)
            values = [top << 16 | half for top, half in zip(values, low, strict=True)]
            rode = rode[len(carried) :]
        require(not any(rode), "start states that carry bytes of nothing")
        data.finish()
        coded = [values[at : at + channels] for at in range(0, size, channels)]
        out: list[int] = []
        for stream in range(streams):
            rows = dict(zip(kept, coded[stream * len(kept) :], strict=False))
            for t, token in enumerate(seen):
                if t in rows and token.times == 0:
                    self.store[stream, token.slot] = rows[t]
                out += rows[t] if t in rows else self.store.get((stream, token.slot), [0] * channels)
            out += [0] * ((tokens - count) * channels)
        self.token += tokens
        return out

    def _start(self, data: Bytes, channels: int) -> None:
        flags, energy = data.number(1), data.number(1)
        together = data.number(1) if flags & TOGETHER else 1
        rope, tokens = data.varint(0, len(self.known.ropes)), data.varint(0, len(self.known.tokens))
        scales = read_scales(data, len(self.kinds))
        self.unique = flags & UNIQUE
        impossible = flags > UNIQUE | TOGETHER or (flags & TOGETHER and not 2 <= together <= min(16, len(self.kinds)))
        impossible = impossible or (self.unique and (not tokens or self.extent.dtype == F32))
        require(not impossible and not self.token, "an impossible start")
        self.tokens, turns = referred(self.known, self.extent, channels, rope, tokens)
        self.model = Model(
            self.grid, self.kinds, channels, self.parameters, self.known, turns, scales, energy, together
        )
        self.store: dict[tuple[int, int], list[int]] = {}


def read_scales(data: Bytes, streams: int) -> list[tuple[int, int]]:
    """Where the variances of each stream start."""
    scales = [(data.signed(), data.signed()) for _ in range(streams)]
    require(all(-120 <= x <= 120 for pair in scales for x in pair), "an impossible start")
    return scales


def referred(
    known: Known, extent: Extent, channels: int, rope: int, tokens: int
) -> tuple[list[Occurrence], Rope | None]:
    """The tokens and the rope that a prediction names."""
    seen = known.tokens[tokens - 1] if tokens else []
    require(not tokens or len(seen) == extent.tokens, "tokens of another dump")
    turns = known.ropes[rope - 1] if rope else None
    require(not turns or turns.channels <= channels, "a rope for wider rows")
    return seen, turns
