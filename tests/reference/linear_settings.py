"""Section 13.1 of docs/format.md: the settings of linear prediction, as they are used."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .reading import Bytes, require


@dataclass
class Settings:
    """In their order, all but layers_back."""

    most_rows: int
    most_base: int
    two: bool
    repeats: bool
    slots: int
    keep: float
    keep_base: float
    delta: float
    delta_base: float
    rate: float
    weight_floor: float
    weight_ceiling: float
    energy_start: int
    energy_memory: int
    surprise: float
    count_every: int
    coarse: bool = False
    parts: bool = False
    delta_far: float = 1.0
    delta_own: float = 1.0

    @classmethod
    def read(cls, data: Bytes) -> Settings:
        def whole(low: int, high: int) -> int:
            return min(max(data.varint(0, 1 << 16), low), high)

        def real(low: float, high: float) -> float:
            (value,) = struct.unpack("<d", data.take(8))
            require(0 <= value <= 1 << 16, "a setting out of range")
            return min(max(value, low), high)

        settings = cls(
            whole(0, 1 << 14), whole(0, 1 << 13), bool(data.flag()), bool(data.flag()), whole(1, 1 << 16),
            real(0.5, 1), real(0.5, 1), real(1e-2, 1e6), real(1e-2, 1e6), real(1e-6, 0.5), real(1e-3, 1e3),
            real(1e-3, 1e3), whole(1, 1 << 16), whole(1, 1 << 16), real(0, 1), whole(1, 1 << 16),
        )  # fmt: skip
        data.varint(0, 1 << 16)  # layers_back
        settings.two &= not settings.most_rows
        settings.coarse = bool(data.flag())
        settings.parts = bool(data.flag()) and settings.two
        settings.delta_far, settings.delta_own = real(1e-2, 1e2), real(1e-2, 1e2)
        return settings
