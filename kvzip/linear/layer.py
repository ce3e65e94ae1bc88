"""A layer's coder: streams in, one payload out, and back. Successive calls continue the same tokens.

    payload    mode 1 byte (0 coded, 1 as it is, 2 coded with lower halves) | scale 1 byte | exponent 1 byte
               for each group its length, 4 bytes | the groups | the lower halves of 32-bit floats

``scale`` is a power of two that all values are multiplied by, ``exponent`` where the first deviations are looked for
(both signed; those of the first call count).

A block that coding would not shrink is written as it is; both sides still learn from it.

A *draft* is an approximate version of the values that both sides have. With one, what is predicted and learnt from
is how far the values are from it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.dtypes import Dtype
from kvzip.linear.columns import Group, Rope, make_groups, soften, unrotate
from kvzip.linear.group import GroupCoder
from kvzip.linear.settings import Settings
from kvzip.linear.symbols import alphabet, arrange, choose_scale, restore, typical_exponent

CODED, PLAIN, HALVES = 0, 1, 2
Bits = NDArray[np.unsignedinteger[Any]]
Draft = Sequence[NDArray[np.float32]] | None
"""For each stream (tokens, channels) of finite numbers, in the order of the values."""

FINER = 6  # bits below a value's last one: no residual is expected to be smaller, were the draft exact so far
MOST_DRAFT = np.float32(1e18)  # as with values, squares must not overflow


class LayerCoder:
    """Codes all streams of one layer together, in either direction (one object for one direction)."""

    def __init__(
        self,
        dtype: Dtype,
        kinds: Sequence[str],
        channels: Sequence[int],
        ropes: Sequence[Rope | None],
        base_columns: int = 0,
        settings: Settings | None = None,
        measure: bool = False,
        near_columns: int | None = None,
    ) -> None:
        """``near_columns`` of the base are the nearest layer's, all unless it says otherwise."""
        self.dtype, self.measure = dtype, measure
        self.kinds = tuple(kinds)
        self.channels = tuple(channels)
        self.settings = (settings or Settings()).bounded()
        self.base_columns = base_columns
        self.near_columns = base_columns if near_columns is None else near_columns
        self.groups = make_groups(kinds, channels, ropes)
        self.columns_out = sum(channels)
        self._coders: list[GroupCoder] = []
        self._start: tuple[int, int] | None = None  # scale and exponent
        self._last = CODED, 0  # mode and tokens of the last payload
        self._angles = [np.tile(np.array([1.0, 0.0]), (group.pairs, 1)) for group in self.groups]
        self._variances = [np.zeros(len(group.source), np.float32) for group in self.groups]
        self._softened = 0  # tokens
        self._plain = alphabet(dtype, 0)
        self._sign = 1 << (self._plain.width - 1)
        self._starts = [sum(self.channels[:i]) for i in range(len(self.channels))]
        self._unsigned = np.dtype(f"<u{dtype.bits // 8}")

    def _begin(self, scale: int, exponent: int, drafted: bool) -> tuple[int, int]:
        if self._start is None:
            self._start = max(-120, min(120, scale)), max(-30, min(30, exponent))
            letters = alphabet(self.dtype, self._start[0])
            variance = 4.0 ** self._start[1]
            self._coders = [
                GroupCoder(
                    group,
                    letters,
                    self.base_columns,
                    self.near_columns,
                    self.settings,
                    variance,
                    drafted,
                    self.measure,
                )
                for group in self.groups
            ]
        return self._start

    @property
    def _scale(self) -> int:
        return self._start[0] if self._start else 0

    def _gather(self, values: Sequence[Bits], group: Group) -> NDArray[np.uint16]:
        """Ordered integers of a group's columns."""
        rows = np.empty((len(values[0]), len(group.source)), np.uint16)
        rows[:, group.source < 0] = 0
        for part, start in zip(values, self._starts, strict=True):
            arrange(np.ascontiguousarray(part), self._plain.raw, self._sign, group.column_of, start, rows)
        return rows

    def _gather_draft(self, draft: Sequence[NDArray[np.float32]], group: Group, scale: int) -> NDArray[np.float32]:
        """A draft's numbers in a group's columns, multiplied by ``2^scale``."""
        rows = np.zeros((len(draft[0]), len(group.source)), np.float32)
        own = group.source >= 0
        whole = np.concatenate([np.asarray(part, np.float32) for part in draft], axis=1)
        rows[:, own] = whole[:, group.source[own]]
        with np.errstate(over="ignore", invalid="ignore"):
            rows *= np.float32(2.0**scale)
        np.clip(rows, -MOST_DRAFT, MOST_DRAFT, out=rows)
        return rows

    def _near(self, draft: Draft, group: Group) -> NDArray[np.float32] | None:
        return None if draft is None else self._gather_draft(draft, group, self._scale)

    def _side(self, tokens: int, base: Any, ids: Any) -> tuple[Any, Any]:
        if base is None:
            base = np.zeros((tokens, self.base_columns), np.float32)
        if ids is None:
            ids = np.full(tokens, -1)
        return np.ascontiguousarray(base, np.float32), np.ascontiguousarray(ids, np.int64)

    def encode(
        self,
        values: Sequence[Bits],
        base: NDArray[np.float32] | None = None,
        ids: NDArray[np.int32] | None = None,
        draft: Draft = None,
    ) -> bytes:
        """Code the next tokens: one (tokens, channels) array of bits for each stream."""
        tokens = len(values[0])
        start = self._start or self._begin(*self._choose_start(values, draft), draft is not None)
        parts = self._code(values, base, ids, draft)
        head = struct.pack(f"<{len(parts)}I", *map(len, parts))
        mode = CODED
        if self._plain.raw:
            halves = [(np.asarray(part) & np.uint32(0xFFFF)).astype("<u2") for part in values]
            if any(half.any() for half in halves):
                mode = HALVES
                parts += [half.tobytes() for half in halves]
        payload = struct.pack("<Bbb", mode, *start) + head + b"".join(parts)
        if len(payload) > 3 + tokens * sum(self.channels) * self.dtype.bits // 8:
            plain = [np.ascontiguousarray(part, self._unsigned).tobytes() for part in values]
            self._last = PLAIN, tokens
            return struct.pack("<Bbb", PLAIN, *start) + b"".join(plain)
        self._last = mode, tokens
        return payload

    def _choose_start(self, values: Sequence[Bits], draft: Draft) -> tuple[int, int]:
        """The scale that suits the values, and the exponent of what the draft leaves of them."""
        scale, exponent = choose_scale(np.asarray(values[-1]), self.dtype)
        if draft is None:
            return scale, exponent
        letters = alphabet(self.dtype, scale)
        left = [
            letters.values[self._gather(values, group)] - self._gather_draft(draft, group, scale)
            for group in self.groups
        ]
        return scale, max(typical_exponent(np.concatenate(left, axis=1), -30), exponent - letters.mantissa - FINER)

    def _code(self, values: Sequence[Bits], base: Any, ids: Any, draft: Draft) -> list[bytes]:
        base, ids = self._side(len(values[0]), base, ids)
        return [
            coder.encode(self._gather(values, group), base, ids, self._near(draft, group))
            for group, coder in zip(self.groups, self._coders, strict=True)
        ]

    def decode(
        self,
        payload: bytes | memoryview,
        tokens: int,
        base: NDArray[np.float32] | None = None,
        ids: NDArray[np.int32] | None = None,
        draft: Draft = None,
    ) -> list[Bits]:
        """The next tokens. A payload that ``encode`` did not make gives some values or other, never an error."""
        payload = bytes(payload)
        mode, scale, exponent = struct.unpack("<Bbb", payload[:3].ljust(3, b"\0"))
        self._begin(scale, exponent, draft is not None)
        self._last = mode, tokens
        if mode != PLAIN:
            return self._decode_groups(payload, mode, tokens, base, ids, draft)
        at = 3
        values = []
        for channels in self.channels:
            size = tokens * channels * self._unsigned.itemsize
            flat = np.frombuffer(payload[at : at + size].ljust(size, b"\0"), self._unsigned)
            values.append(flat.astype(self._unsigned.newbyteorder("=")).reshape(tokens, channels))
            at += size
        self._code(values, base, ids, draft)
        for coder in self._coders:
            coder.refresh_inverse()
        return values

    def _decode_groups(self, payload: bytes, mode: int, tokens: int, base: Any, ids: Any, draft: Draft) -> list[Bits]:
        base, ids = self._side(tokens, base, ids)
        count = len(self.groups)
        lengths = struct.unpack(f"<{count}I", payload[3 : 3 + 4 * count].ljust(4 * count, b"\0"))
        at = 3 + 4 * count
        values: list[Bits] = [np.empty((tokens, c), self._unsigned.newbyteorder("=")) for c in self.channels]
        for group, coder, length in zip(self.groups, self._coders, lengths, strict=True):
            rows = coder.decode(payload[at : at + length], tokens, base, ids, self._near(draft, group))
            for part, start in zip(values, self._starts, strict=True):
                restore(rows, self._plain.raw, self._sign, group.column_of, start, part)
            at += length
        if mode == HALVES and self._plain.raw:
            for part in values:
                size = 2 * part.size
                part |= np.frombuffer(payload[at : at + size].ljust(size, b"\0"), "<u2").reshape(part.shape)
                at += size
        return values

    def learn(
        self, values: Sequence[Bits], base: NDArray[np.float32] | None, ids: NDArray[np.int32] | None, payload: bytes
    ) -> None:
        """Learn from tokens that both sides have, as if they had been coded, before the first ones that are.

        ``payload`` is that of the first ones for the decoder, whose start it tells, and empty for the encoder.
        """
        if payload:
            _, scale, exponent = struct.unpack("<Bbb", payload[:3].ljust(3, b"\0"))
            self._begin(scale, exponent, False)
        else:
            self._begin(*self._choose_start(values, None), False)
        self._code(values, base, ids, None)
        for coder in self._coders:
            coder.refresh_inverse()

    def costs(self) -> list[NDArray[np.float32]]:
        """(tokens, channels) bits of each stream's values that were coded last, but for the lower halves of F32, if
        they are measured."""
        mode, tokens = self._last
        whole = np.full((tokens, sum(self.channels)), self._plain.width if mode == PLAIN else 0, np.float32)
        for group, coder in zip(self.groups, self._coders, strict=True):
            own = group.source >= 0
            if mode != PLAIN:
                whole[:, group.source[own]] = coder.costs[:, own]
        return [whole[:, at : at + size] for at, size in zip(self._starts, self.channels, strict=True)]

    @property
    def halved(self) -> bool:
        """Whether 16 more bits of each value followed what was coded last."""
        return self._last[0] != CODED and self._plain.raw > 0

    def columns(self, values: Sequence[Bits], draft: Draft = None) -> NDArray[np.float32]:
        """The next layer's base: keys before RoPE and values. Successive calls continue the same tokens.

        With a draft they are what it leaves of both.
        """
        parts = []
        for group, angle, variance in zip(self.groups, self._angles, self._variances, strict=True):
            k = self._gather(values, group)
            floats = self._plain.values[k]
            if draft is not None:
                floats = self._left_of(floats, k, group, variance, self._gather_draft(draft, group, 0))
            out = np.empty_like(floats)
            unrotate(floats, group.pairs, angle, group.turn, out)
            parts.append(out[:, group.source >= 0])
        self._softened += len(values[0])
        return np.ascontiguousarray(np.concatenate(parts, axis=1))

    def _left_of(self, floats: Any, k: Any, group: Group, variance: Any, draft: Any) -> NDArray[np.float32]:
        """What a draft leaves of values, which rounding to 8 bits made coarse."""
        left: NDArray[np.float32] = floats - draft
        if self._plain.width > 8:
            return left
        half = np.minimum(floats - self._plain.edges[k], self._plain.edges[1:][k] - floats)
        noise = half * half / np.float32(3.0)
        wild = ~(np.abs(left) < MOST_DRAFT)
        wild[:, group.source < 0] = True
        left[wild] = noise[wild] = 0.0
        soften(left, noise, variance, self._softened, np.count_nonzero(group.source >= 0))
        return left
