"""Section 10.4 of docs/format.md: the draft, and what it has for the streams of an extent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from .grid import BITS, F8_E4M3FNUZ, F8_E5M2FNUZ, F32, F64, FLOATS
from .reading import Bytes, require

if TYPE_CHECKING:
    from .blocks import Extent

MOST_PARTS = 1 << 17
SCALE = 4  # the first kind that pairs with nothing
LEAST_SCALE = 2.0**-60
Floats = NDArray[np.float32]
Draft = dict[tuple[int, int], tuple[int, NDArray[Any]]]
"""By layer (-1: unknown) and kind: the element type and the values (heads, tokens, channels), unsigned integers."""


def checked(data: Bytes, given: Draft) -> Draft:
    """What a draft's record names of the draft that was given, which must be the same."""
    found: Draft = {}
    for _ in range(data.varint(1, MOST_PARTS)):
        layer, kind = data.varint(0, 1 << 32) - 1, data.number(1)
        shape = (data.varint(), data.varint(), data.varint())
        dtype, digest = data.number(1), data.take(16)
        require(kind <= 5, "a kind that is unknown")
        mine, values = given.get((layer, kind), (0, np.zeros((0, 0, 0), np.uint8)))
        require((mine, values.shape) == (dtype, shape), "another draft")
        raw = values.astype(f"<u{BITS[dtype] // 8}").tobytes()
        require(xxhash.xxh3_128_digest(raw) == digest, "another draft")
        found[layer, kind] = dtype, values
    data.finish()
    return found


@dataclass
class DraftRows:
    """Values (streams, tokens, channels)."""

    dtype: int
    values: NDArray[Any]

    @property
    def tokens(self) -> int:
        return int(self.values.shape[1])

    def of(self, streams: list[int]) -> DraftRows:
        return DraftRows(self.dtype, self.values[streams])

    def numbers(self, start: int, stop: int, scales: list[float]) -> Floats:
        """Tokens from ``start`` to ``stop`` as numbers; ``scales`` are by stream, or none."""
        numbers = numbers_of(self.dtype, self.values[:, start:stop])
        if not scales:
            return numbers
        with np.errstate(over="ignore"):
            scaled = numbers * np.array(scales, np.float32)[:, None, None]
        return np.where(abs(scaled) < np.float32(2.0**60), scaled, np.float32(0))


def rows_of(extent: Extent, draft: Draft) -> DraftRows | None:
    """What a draft has for all streams of an extent, as many tokens as it has of each."""
    found = []
    dtypes = set()
    for layer, kind, head in extent.names():
        dtype, values = draft.get((layer, kind), (0, np.zeros((0, 0, 0), np.uint8)))
        fits = kind < SCALE and head < len(values) and values.shape[2] == extent.axes[-1][1]
        if not fits or dtype not in FLOATS or dtype == F64:
            return None
        dtypes.add(dtype)
        found.append(values[head])
    tokens = min(extent.tokens, *(len(rows) for rows in found))
    if len(dtypes) > 1 or not tokens:
        return None
    return DraftRows(dtypes.pop(), np.stack([rows[:tokens] for rows in found]))


def numbers_of(dtype: int, values: NDArray[Any]) -> Floats:
    """Section 11.10: the numbers of a draft."""
    if dtype == F32:
        numbers = values.astype("<u4").view(np.float32)
    else:
        exponent, mantissa = FLOATS[dtype]
        bias = (1 << (exponent - 1)) - 1 + (dtype in (F8_E4M3FNUZ, F8_E5M2FNUZ))
        code = values.astype(np.int64)
        power = code >> mantissa & ((1 << exponent) - 1)
        fraction = code & ((1 << mantissa) - 1) | np.where(power, 1 << mantissa, 0)
        size = np.ldexp(fraction.astype(np.float64), np.maximum(power, 1) - bias - mantissa)
        size = np.where(size < 2.0**60, size, 0.0)
        numbers = np.where(code >> (exponent + mantissa), -size, size).astype(np.float32)
    return np.where(abs(numbers) < np.float32(2.0**60), numbers, np.float32(0))


def read_factors(data: Bytes, streams: int) -> list[float]:
    """What each stream's draft is multiplied by."""
    scales = np.frombuffer(data.take(4 * streams), "<f4").tolist()
    require(all(LEAST_SCALE < abs(scale) < 1 / LEAST_SCALE for scale in scales), "an impossible scale")
    return scales
