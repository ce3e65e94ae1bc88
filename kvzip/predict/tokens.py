"""Which tokens repeat, read off from the data: rows of layer 0's values that are bit-identical are one token's.

An *id* is the number of a distinct row in the order of first appearance. From the ids follows, for every token, its
place in the memory of repeated tokens and of repeated pairs (previous id, id), and how often it was seen before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


@dataclass(frozen=True)
class Occurrences:
    """Per token: its slot (-1 if it never repeats) and how often it was seen before; the same for pairs."""

    slot: Ints
    times: Ints
    pair: Ints
    pair_times: Ints
    slots: int = 0
    pair_slots: int = 0

    @classmethod
    def none(cls, tokens: int) -> Occurrences:
        """Nothing repeats."""
        nowhere, never = np.full(tokens, -1, np.int32), np.zeros(tokens, np.int32)
        return cls(nowhere, never, nowhere, never)

    @classmethod
    def of(cls, ids: Ints) -> Occurrences:
        """From the ids of a dump's tokens."""
        before = np.concatenate([np.full(1, -1, np.int64), ids[:-1].astype(np.int64)])
        slot, times, slots = _places(ids.astype(np.int64))
        pair, pair_times, pair_slots = _places(before * np.int64(ids.max(initial=0) + 1) + ids)
        return cls(slot, times, pair, pair_times, slots, pair_slots)

    def since(self, start: int) -> Occurrences:
        """The tokens from ``start`` on, as if there were none before: with the slots that they have here."""
        left = self.slot[start:]
        fresh = left.astype(np.int64)
        fresh[left < 0] = -1 - np.arange(np.count_nonzero(left < 0))
        numbers: dict[int, int] = {}
        return Occurrences.of(np.array([numbers.setdefault(n, len(numbers)) for n in fresh.tolist()], np.int32))

    def part(self, start: int, stop: int) -> Occurrences:
        """The tokens from ``start`` to ``stop``."""
        cut = slice(start, stop)
        return Occurrences(
            self.slot[cut], self.times[cut], self.pair[cut], self.pair_times[cut], self.slots, self.pair_slots
        )


def _places(keys: NDArray[np.int64]) -> tuple[Ints, Ints, int]:
    """Slots for the keys that occur more than once, in ascending order of key; how often each occurred before."""
    if not len(keys):
        return np.zeros(0, np.int32), np.zeros(0, np.int32), 0
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    slots = np.full(len(counts), -1, np.int32)
    repeated = counts > 1
    slots[repeated] = np.arange(int(repeated.sum()), dtype=np.int32)
    order = np.argsort(inverse, kind="stable")
    starts = np.cumsum(counts) - counts
    times = np.empty(len(keys), np.int32)
    times[order] = np.arange(len(keys)) - np.repeat(starts, counts)
    return slots[inverse], times, int(repeated.sum())


def identify(rows: Iterable[bytes]) -> Ints:
    """The id of each row: equal if and only if the rows are. Rows are kept once each."""
    seen: dict[bytes, int] = {}
    return np.array([seen.setdefault(row, len(seen)) for row in rows], np.int32)
