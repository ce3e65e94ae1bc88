"""Which earlier cache a cache is most like: by the rows of its first layer, no token ids needed.

The values of layer 0 depend on the token alone, so the same tokens give the same rows: to the bit from the same
weights, and nearly so from rounded ones. Of each row two hashes are kept: one of its bits, and one that changes as
little as the numbers do, a bit for each of some pairs of channels that says which is the larger, as in
locality-sensitive hashing. Rows of one token differ in at most an eighth of these bits, those of two in about half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from kvzip.pipeline.draft import Draft
from kvzip.predict.grid import grid_of
from kvzip.predict.model import numbers_of
from kvzip.streams.extent import StreamName

BITS = 256  # of a row that are compared
SAME = 0.15  # of them may differ
FEWEST = 16  # tokens that must be alike
CLOSE = 8  # tokens at the end of a match that are not worth a cut
_ONES = np.array([bin(byte).count("1") for byte in range(256)], np.uint8)


@dataclass(frozen=True)
class Rows:
    """The hashes of a cache's tokens, (tokens,) and (tokens, bytes)."""

    exact: NDArray[np.uint64]
    rough: NDArray[np.uint8]

    def likeness(self, other: Rows) -> tuple[float, int]:
        """About how many tokens from the first one on are worth as much as if they were the same, and how many are
        alike; (0, 0) if too few."""
        tokens = min(len(self.exact), len(other.exact))
        if tokens < FEWEST or self.rough.shape[1] != other.rough.shape[1]:
            return 0.0, 0
        differing = _ONES[self.rough[:tokens] ^ other.rough[:tokens]].sum(1) / (8 * self.rough.shape[1])
        worth = np.where(differing < SAME, 0.8 - 2 * differing, -1.0)
        worth[self.exact[:tokens] == other.exact[:tokens]] = 1.0
        course = np.cumsum(worth)
        best = int(course.argmax())
        return (0.0, 0) if best + 1 < FEWEST or course[best] <= 0 else (float(course[best]), best + 1)


def rows_of(draft: Draft) -> Rows | None:
    """The hashes of an open cache; None if its first layer has no streams that can be compared."""
    names = _first_layer(draft)
    streams = [part for name in names if (part := draft.stream(name)) is not None]
    if not streams or len({bits.shape for bits, _ in streams}) > 1:
        return None
    exact = np.zeros(len(streams[0][0]), np.uint64)
    for token in range(len(exact)):
        state = xxhash.xxh3_64()
        for bits, _ in streams:
            state.update(np.ascontiguousarray(bits[token]).data)
        exact[token] = state.intdigest()
    half = streams[0][0].shape[1] // 2
    larger = []
    for bits, dtype in streams[: max(1, -(-BITS // max(1, half)))]:
        numbers = _numbers(bits, dtype)
        larger.append(numbers[:, :half] > numbers[:, half : 2 * half])
    return Rows(exact, np.packbits(np.concatenate(larger, 1)[:, :BITS], axis=1))


def _numbers(bits: NDArray[Any], dtype: Any) -> NDArray[Any]:
    if dtype.name == "F32":
        return np.ascontiguousarray(bits).view(np.float32)
    grid = grid_of(dtype)
    assert grid is not None
    numbers: NDArray[Any] = numbers_of(np.ascontiguousarray(bits)[None], grid)[0]
    return numbers


def _first_layer(draft: Draft) -> list[StreamName]:
    """The streams of the first layer that have no position in them: values, or else what there is."""
    for kind in ("value", "latent", "key", ""):
        layers = {name.layer for name in draft.places if name.kind == kind}
        if layers:
            first = [name for name in draft.places if (name.layer, name.kind) == (min(layers), kind)]
            return sorted(first, key=lambda name: name.head)
    return []


def best_of(rows: Rows, earlier: list[tuple[int, Rows]]) -> tuple[int, int] | None:
    """Which of ``earlier`` (steps to one that stands alone, rows) is the most like, and how many tokens of it to use.

    0 tokens are all of them. None if there is none. Of equals the one with fewer steps, then the earlier one.
    """
    best: tuple[float, int, int, int] | None = None
    for place, (steps, other) in enumerate(earlier):
        worth, tokens = rows.likeness(other)
        if worth and (best is None or (worth, -steps) > best[:2]):
            cut = 0 if tokens + CLOSE >= min(len(rows.exact), len(other.exact)) else tokens
            best = (worth, -steps, place, cut)
    return None if best is None else best[2:]
