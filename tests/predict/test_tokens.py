"""Which tokens repeat, against a naive twin."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from kvzip.predict.tokens import Occurrences, identify

IDS = some.lists(some.integers(0, 6), max_size=40).map(lambda picks: first_seen(picks))


def first_seen(picks):
    """Numbered by first appearance."""
    numbers = {}
    return np.array([numbers.setdefault(pick, len(numbers)) for pick in picks], np.int32)


def slow(keys):
    """(slot, times, slots): slots go to keys that repeat, in ascending order."""
    slots = {key: slot for slot, key in enumerate(sorted(k for k in set(keys) if keys.count(k) > 1))}
    return [slots.get(k, -1) for k in keys], [keys[:at].count(k) for at, k in enumerate(keys)], len(slots)


@given(IDS)
def test_occurrences_are_counted(ids):
    seen = Occurrences.of(ids)
    tokens = ids.tolist()
    assert (seen.slot.tolist(), seen.times.tolist(), seen.slots) == slow(tokens)
    pairs = list(zip([-1, *tokens], tokens, strict=False))
    assert (seen.pair.tolist(), seen.pair_times.tolist(), seen.pair_slots) == slow(pairs)
    assert {a.dtype for a in (seen.slot, seen.times, seen.pair, seen.pair_times)} == {np.dtype(np.int32)}


@given(IDS, some.data())
def test_a_part_is_a_part(ids, data):
    start = data.draw(some.integers(0, len(ids)))
    stop = data.draw(some.integers(start, len(ids)))
    seen = Occurrences.of(ids)
    part = seen.part(start, stop)
    assert part.times.tolist() == seen.times.tolist()[start:stop]
    assert part.pair.tolist() == seen.pair.tolist()[start:stop]
    assert (part.slots, part.pair_slots) == (seen.slots, seen.pair_slots)


def test_of_nothing_nothing_repeats():
    seen = Occurrences.none(5)
    assert seen.slot.tolist() == seen.pair.tolist() == [-1] * 5
    assert seen.times.tolist() == seen.pair_times.tolist() == [0] * 5
    assert (seen.slots, seen.pair_slots) == (0, 0)


@given(some.lists(some.binary(min_size=3, max_size=3) | some.sampled_from([b"abc", b"\0\0\0"]), max_size=30))
def test_equal_rows_get_equal_ids_in_order_of_appearance(rows):
    table = np.frombuffer(b"".join(rows), np.uint8).reshape(-1, 3)
    assert identify(row.tobytes() for row in table).tolist() == first_seen(rows).tolist()
