"""The state of one group, and its two directions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.coder import aligned
from kvzip.linear import loop
from kvzip.linear.begin import START
from kvzip.linear.columns import Group
from kvzip.linear.mixing import SLOTS, A
from kvzip.linear.panel import SIDE, TILE
from kvzip.linear.parts import PARTS, start_weights
from kvzip.linear.posterior import MOMENTS, integrate
from kvzip.linear.quantile import COUNT_ROW, COUNTS, INVERSE_ROW, PRIOR, ROW, UNIT, invert, start_table
from kvzip.linear.range64 import encode_symbols
from kvzip.linear.repeats import LEVELS, Memory
from kvzip.linear.settings import Settings
from kvzip.linear.state import BASE, WITH_PARTS, Columns, Recursion, Symbols, Work
from kvzip.linear.symbols import Alphabet

Draft = NDArray[np.float32] | None
"""(tokens, own columns) of numbers that values are coded relative to, scaled as the values are."""

LEAST_SPREAD = 1e-6  # of a column, of the greatest one
DRAFTED_SPREAD = 1 / 256  # the first tokens may be equal to a draft, and others not
FIRST_ADAPT = 8  # the token after which the distributions adapt for the first time


def _floats(count: int, value: float = 0.0) -> NDArray[np.float32]:
    out: NDArray[np.float32] = aligned.zeros(count, np.float32)
    if value:
        out[:] = value
    return out


def _recursion(blocks: int, limit: int, delta: float | NDArray[np.float32]) -> Recursion:
    tiles = sum(blocks - b for b in range(min(limit, blocks)))
    fields = {name: _floats(SIDE * blocks) for name in Recursion._fields}
    fields["lower"] = _floats(TILE * tiles + TILE)
    fields["d"][:] = fields["delta"][:] = delta
    return Recursion(**fields)


def _columns(own: int, wide: int, variance: float) -> Columns:
    fields = {name: _floats(own) for name in Columns._fields}
    fields["y"] = _floats(wide)
    fields["inverse"][:] = 1.0
    fields["variance"][:] = variance
    return Columns(**fields)


def _symbols(alphabet: Alphabet, own: int) -> Symbols:
    symbols = len(alphabet.values)
    counts = np.zeros((2, 2, COUNT_ROW), np.int64)
    counts[:, 0] = PRIOR * UNIT
    shape = [23 - alphabet.mantissa, alphabet.offset, alphabet.half, symbols // 2, symbols // 2 - 1, 0]
    return Symbols(
        alphabet.values, alphabet.edges, np.array(shape, np.int64),
        np.array([alphabet.least, min(alphabet.step, 1e30)], np.float32), np.tile(start_table(symbols), 2),
        _floats(2 * INVERSE_ROW), np.zeros(2 * MOMENTS), counts.reshape(-1), np.zeros(COUNT_ROW, np.int64),
        np.zeros(own, np.int32), np.zeros(own, np.int32),
    )  # fmt: skip


def _memory(slots: int, own: int) -> Memory:
    return Memory(
        _floats(slots * own), np.full(slots, -1, np.int64), np.zeros(slots, np.int64), _floats(LEVELS * own),
        _floats(LEVELS * own), _floats(LEVELS * own), _floats(LEVELS * own), _floats(LEVELS * own, 1.0),
        _floats(own, 1.0), np.zeros(LEVELS, np.int64),
    )  # fmt: skip


def _work(group: Group, count: int, whole: list[Any], real: list[float], settings: Settings) -> Work:
    """``count`` columns of the base are used; ``whole`` and ``real`` are the parameters, see ``state``."""
    own = len(group.source)
    base_blocks = whole[BASE]
    mix = np.zeros((own // SIDE + 1) * SLOTS)
    mix[A::SLOTS] = 1.0
    if whole[WITH_PARTS]:
        mix = start_weights(own // SIDE)
    constant = _floats(SIDE)
    constant[0] = 1.0
    start, most = settings.energy_start, settings.energy_memory
    return Work(
        kinds=np.concatenate([np.zeros((base_blocks, 3), np.int64), group.kinds]),
        kind_of=group.kind_of,
        history=np.zeros((START, own), np.float32),
        base_history=np.zeros((START, count), np.float32),
        blurs=_floats(own),
        sharp=_floats(count),
        centres=np.zeros(count),
        inverses=np.zeros(count),
        angle=np.tile(np.array([1.0, 0.0]), (group.pairs, 1)),
        turn=group.turn,
        rates=np.array([1 / min(start + i, most) for i in range(1, own + 1)], np.float32),
        shares=np.array([UNIT // (i + 1) for i in range(COUNTS)], np.int64),
        mix=mix,
        whole=np.array(whole, np.int64),
        real=np.array(real, np.float32),
        counters=np.array([0, FIRST_ADAPT, 0, 0], np.int64),
        constant=constant,
        spare=_floats(SIDE),
        room=_floats((PARTS + 2) * SIDE),
        means=np.zeros(own),
        devs=np.zeros(own),
    )


class GroupCoder:
    """Codes the columns of one group, token after token."""

    def __init__(
        self,
        group: Group,
        alphabet: Alphabet,
        base_columns: int,
        near_columns: int,
        settings: Settings,
        variance: float,
        drafted: bool,
        measure: bool,
    ) -> None:
        own = len(group.source)
        self.own = own
        stride = -(-base_columns // settings.most_base) if base_columns and settings.most_base else 1
        count = -(-base_columns // stride) if settings.most_base else 0
        base_blocks = -(-(1 + count) // SIDE)
        blocks = base_blocks + own // SIDE
        both = settings.two and count > 0
        back = (base_blocks - 1) * SIDE
        limit = min(blocks, settings.most_rows // SIDE) if settings.most_rows else blocks
        near = min(-(-near_columns // stride), count)
        delta = _floats(SIDE * blocks, settings.delta_base if count else settings.delta)
        if count:
            delta[base_blocks * SIDE :] *= settings.delta_own
            delta[1 + near : base_blocks * SIDE] *= settings.delta_far
        self.one = _recursion(blocks, limit, delta)
        self.two = _recursion(own // SIDE + 1, blocks, settings.delta) if both else _recursion(1, 1, 1.0)
        self.cols = _columns(own, SIDE * blocks, variance)
        self.sym = _symbols(alphabet, own)
        self.refresh_inverse()
        for kind in range(2):
            integrate(self.sym.table, kind * ROW, self.sym.moments, kind * MOMENTS)
        self.memory = _memory(settings.slots if settings.repeats else 1, own)
        whole = [blocks, base_blocks, limit, back, both, group.pairs, own, settings.repeats, stride,
                 settings.count_every, settings.coarse, both and settings.parts,
                 min((1 + near) // SIDE + 1, base_blocks)]  # fmt: skip
        real = [settings.keep_base if count else settings.keep, settings.weight_floor, settings.weight_ceiling,
                settings.rate, settings.keep, settings.surprise, 0.0,
                DRAFTED_SPREAD if drafted else LEAST_SPREAD, drafted * variance**0.5]  # fmt: skip
        self.work = _work(group, count, whole, real, settings)
        self.nothing = _floats(own)  # a draft that says nothing, the same for every token
        self.starts = self.freqs = np.empty(0, np.uint32)
        self.measure = measure
        self.costs = _floats(0)  # (tokens, own) bits of the values coded last, if they are measured

    def refresh_inverse(self) -> None:
        """Make the decoder's guesses fit the distributions."""
        for kind in range(2):
            invert(self.sym.table, kind * ROW, self.sym.inverse, kind * INVERSE_ROW)

    def _run(self, decoding: bool, k: Any, draft: Any, base: Any, ids: Any, words: Any) -> tuple[Any, Any, int]:
        if len(self.starts) < 2 * k.size:  # a channel that seems constant takes two symbols
            self.starts = np.empty(2 * k.size, np.uint32)
            self.freqs = np.empty(2 * k.size, np.uint32)
        starts, freqs = self.starts, self.freqs
        draft = self.nothing if draft is None else np.ascontiguousarray(draft, np.float32).reshape(-1)
        self.costs = np.zeros((len(k), self.own) if self.measure else 0, np.float32)
        count = loop.run(
            decoding, k.reshape(-1), len(k), draft, base, ids, self.one, self.two, self.cols, self.sym, self.memory,
            self.work, words, starts, freqs, self.costs.reshape(-1),
        )  # fmt: skip
        return starts, freqs, count

    def encode(
        self, k: NDArray[np.uint16], base: NDArray[np.float32], ids: NDArray[np.int64], draft: Draft = None
    ) -> bytes:
        """Code rows of ordered integers."""
        starts, freqs, count = self._run(False, k, draft, base, ids, np.zeros(4, np.uint32))
        words = np.empty(count + 4, np.uint32)
        at = encode_symbols(starts, freqs, count, words)
        return words[at:].astype("<u4").tobytes()

    def decode(
        self,
        payload: bytes,
        tokens: int,
        base: NDArray[np.float32],
        ids: NDArray[np.int64],
        draft: Draft = None,
    ) -> Any:
        """Rows of ordered integers; anything at all if the payload is not what ``encode`` made."""
        words = np.zeros(max(4, -(-len(payload) // 4)) + 1, "<u4")
        words.view(np.uint8)[: len(payload)] = np.frombuffer(payload, np.uint8)
        k = np.empty((tokens, self.own), np.uint16)
        self._run(True, k, draft, base, ids, words.astype(np.uint32))
        return k
