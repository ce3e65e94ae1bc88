"""What a prediction beside a draft begins with: the tokens since then, and rows that both sides had already."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.coder import aligned
from kvzip.coder.lanes import WIDTH
from kvzip.dtypes import DTYPES
from kvzip.predict.grid import grid_of
from kvzip.predict.model import ResidualModel, scales_of
from kvzip.predict.rope import from_spec
from kvzip.predict.tokens import Occurrences
from kvzip.windows.parameters import LEVELS, Parameters

IDS = some.lists(some.integers(0, 6), max_size=40).map(lambda picks: first_seen(picks))
DRIFTING = Parameters().of(table_bits=10, prior_weight=0, alpha=0.9, drift=1.05, theta_low=0.02, theta_new=0.02)


def first_seen(picks):
    """Numbered by first appearance."""
    numbers = {}
    return np.array([numbers.setdefault(pick, len(numbers)) for pick in picks], np.int32)


def renumbered(slots):
    """Slots in order of first appearance; -1 stays."""
    numbers = {-1: -1}
    return [numbers.setdefault(slot, len(numbers) - 1) for slot in slots.tolist()]


@given(IDS, some.data())
def test_tokens_since_are_those_of_a_dump_that_begins_there(ids, data):
    start = data.draw(some.integers(0, len(ids)))
    since, own = Occurrences.of(ids).since(start), Occurrences.of(first_seen(ids[start:].tolist()))
    for name in ("slot", "pair"):
        assert renumbered(getattr(since, name)) == renumbered(getattr(own, name))
    for name in ("times", "pair_times"):
        assert getattr(since, name).tolist() == getattr(own, name).tolist()
    assert (since.slots, since.pair_slots) == (own.slots, own.pair_slots)
    for slots, count in ((since.slot, since.slots), (since.pair, since.pair_slots)):
        assert sorted({*slots.tolist()} - {-1}) == list(range(count))


@given(IDS, some.data())
def test_since_twice_is_since_once(ids, data):
    first = data.draw(some.integers(0, len(ids)))
    second = data.draw(some.integers(0, len(ids) - first))
    twice, once = Occurrences.of(ids).since(first).since(second), Occurrences.of(ids).since(first + second)
    assert twice.times.tolist() == once.times.tolist()
    assert renumbered(twice.pair) == renumbered(once.pair)
    assert (twice.slots, twice.pair_slots) == (once.slots, once.pair_slots)


# ---- learning from what both sides have


def cache(dtype, streams, tokens, channels, seed=0):
    source = np.random.default_rng(seed)
    x = source.normal(size=(streams, 1, channels)) + 0.3 * source.normal(size=(streams, tokens, channels))
    wide = x.astype("<f4").view("<u4")
    if dtype.bits == 8:
        return (x * 30).astype(np.int8).view(np.uint8)
    return x.astype("<f2").view("<u2") if dtype.name == "F16" else (wide >> 16).astype("<u2")


def models(values, dtype, seen, parameters, rope=None):
    streams, _, channels = values.shape
    grid = grid_of(dtype)
    return [
        ResidualModel(
            streams, channels, grid, parameters, rope, (True,) * streams, scales_of(values, grid),
            seen.slots, seen.pair_slots, together=min(2, streams),
        )
        for _ in range(2)
    ]  # fmt: skip


def drafted(values, dtype, seed):
    """Something like the values, as floats with room behind them."""
    flat = aligned.zeros(values.size + WIDTH, np.float32)
    flat[: values.size] = np.random.default_rng(seed).normal(size=values.size)
    return flat


@settings(max_examples=40, deadline=None)
@given(some.data())
def test_a_model_that_learnt_goes_on_alike_on_both_sides(data):
    dtype = DTYPES[data.draw(some.sampled_from(["BF16", "F16", "F8_E4M3"]))]
    channels = data.draw(some.sampled_from([1, 7, 16, 33, 64]))
    tokens, streams = data.draw(some.integers(2, 60)), data.draw(some.integers(1, 3))
    values = cache(dtype, streams, tokens, channels, data.draw(some.integers(0, 9)))
    if data.draw(some.booleans()):
        values = np.frombuffer(np.random.default_rng(tokens).bytes(values.nbytes), values.dtype).reshape(values.shape)
    seen = Occurrences.none(tokens)
    if data.draw(some.booleans()):
        seen = Occurrences.of(first_seen(np.random.default_rng(1).integers(0, 9, tokens).tolist()))
    rope = from_spec("half:theta=1e4", channels) if channels > 8 and data.draw(some.booleans()) else None
    parameters = data.draw(some.sampled_from([LEVELS[2], LEVELS[3], DRIFTING]))
    forth, back = models(values, dtype, seen, parameters, rope)
    cuts = sorted({*data.draw(some.lists(some.integers(1, tokens - 1), min_size=1, max_size=3)), tokens})
    near = data.draw(some.booleans())
    first = np.ascontiguousarray(values[:, : cuts[0]]).reshape(-1)
    for model in (forth, back):
        model.learn(first, cuts[0], seen.part(0, cuts[0]))
    for start, stop in pairwise(cuts):
        part = np.ascontiguousarray(values[:, start:stop])
        draft = drafted(part, dtype, start) if near else None
        nothing = np.zeros(0, np.uint8)
        coded = forth.encode(part.reshape(-1), stop - start, seen.part(start, stop), nothing, draft=draft)
        found, rode = back.decode(
            coded, part.dtype, stop - start, seen.part(start, stop), "test", draft=draft
        )  # fmt: skip
        assert found.tobytes() == part.tobytes()
        assert not rode.any()
    for name in ("token", "learned", "angle"):
        assert np.array_equal(getattr(forth, name), getattr(back, name)), name
    live = forth.live != 0
    for name in ("averages", "gains", "memory", "pair_memory"):
        ours, theirs = (getattr(model, name).reshape(-1, len(live))[:, live] for model in (forth, back))
        assert np.array_equal(ours, theirs), name
    if len(cuts) > 1:
        assert np.array_equal(forth.tables.counts, back.tables.counts)
        assert np.array_equal(forth.tables.probs, back.tables.probs)


@pytest.mark.parametrize("dtype", ["BF16", "F16"])
def test_what_was_learnt_is_of_use(dtype):
    """As much as if it had been coded: but for when the tables are made."""
    values = cache(DTYPES[dtype], 2, 400, 64)
    seen = Occurrences.none(400)
    size = {}
    for how in ("fresh", "learnt", "coded"):
        model = models(values, DTYPES[dtype], seen, LEVELS[3])[0]
        first = np.ascontiguousarray(values[:, :384]).reshape(-1)
        if how == "learnt":
            model.learn(first, 384, seen.part(0, 384))
        elif how == "coded":
            model.encode(first, 384, seen.part(0, 384), np.zeros(0, np.uint8))
        rest = np.ascontiguousarray(values[:, 384:388]).reshape(-1)
        size[how] = len(model.encode(rest, 4, seen.part(384, 388), np.zeros(0, np.uint8)).words)
    assert size["learnt"] < 0.95 * size["fresh"]
    assert size["learnt"] == pytest.approx(size["coded"], rel=0.02)
