"""The coding loop equals its twin in both directions; each parameter does what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from twin import COUNTERS, Twin

from kvzip.coder import rans
from kvzip.errors import ContainerError
from kvzip.windows import triggers
from kvzip.windows.model import Coded, PlaneModel
from kvzip.windows.parameters import Parameters
from kvzip.windows.prior import Fields

BYTES = Fields(0, 0, 8)
BF16 = Fields(8, 0, 0)
FP8 = Fields(4, 1, 3)
SIGN = Fields(0, 1, 0)


def opened(symbols, tokens, channels, fields=BF16, classes=4, **values):
    """A model opened on these symbols, and a second one reopened from its opening."""
    parameters = Parameters().of(**values)
    make = [PlaneModel(len(tokens), channels, classes, fields, parameters) for _ in range(2)]
    opening = make[0].open(symbols, np.array(tokens))
    assert len(opening) == make[0].opening.size
    make[1].reopen(opening, "test")
    return make


def round_trip(symbols, tokens, channels, **options):
    """Encode, decode, compare; return the encoder's model and the coded run."""
    encoder, decoder = opened(symbols, tokens, channels, **options)
    counts = np.array(tokens)
    coded = encoder.encode(symbols, counts, np.zeros(0, np.uint8), True)
    decoded, _ = decoder.decode(coded, counts, "test", True)
    assert np.array_equal(decoded, symbols)
    assert np.array_equal(encoder.states[:, triggers.COUNTERS], decoder.states[:, triggers.COUNTERS])
    return encoder, coded


def bell(rng, count, centre=120.0, width=2.0):
    return np.clip(np.round(rng.normal(centre, width, count)), 0, 255).astype(np.uint8)


TOPICS = np.concatenate([bell(np.random.default_rng(3), 8 * 40, c, w) for c, w in ((120, 2), (90, 4), (120, 1))])
CASES = {
    "defaults": {},
    "decay": {"alpha": 0.9},
    "steep-decay": {"alpha": 0.5, "n_update": 64},
    "smoothing": {"beta": 0.9, "n_update": 3},
    "confidence": {"theta_low": 0.02},
    "novelty": {"theta_new": 0.05},
    "often": {"n_update": 1},
    "warmup": {"warmup": 50, "n_update": 5},
    "drift": {"drift": 1.2, "drift_keep": 0.25},
    "sampling": {"sampling": 6, "n_update": 4},
    "small-tables": {"table_bits": 10},
    "large-tables": {"table_bits": 14},
    "one-class": {"classes": 1},
    "light-prior": {"prior_weight": 1},
    "everything": {
        "alpha": 0.95, "beta": 0.8, "theta_low": 0.01, "theta_new": 0.02, "n_update": 7, "warmup": 20, "drift": 1.5,
        "drift_keep": 0.5, "sampling": 2, "table_bits": 13, "prior_weight": 7,
    },
}  # fmt: skip


def check_twin(symbols, tokens, channels, carried=None, **options):
    """Two blocks in a row through kernel and twin, both directions, to the same words, literals and counters."""
    encoder, decoder = opened(symbols, tokens, channels, **options)
    forth, back = Twin(encoder), Twin(decoder)
    bits = encoder.parameters.table_bits
    for block in (symbols, symbols[::-1].copy()):
        lanes = 1 << rans.lanes_log2(len(block))
        rides = np.arange(lanes, dtype="<u2") * 77 if carried else np.zeros(0, "<u2")
        coded = encoder.encode(block, np.array(tokens), rides.view(np.uint8), True)
        intervals, literals = forth.encode(block.tolist(), tokens)
        assert coded.literals.tolist() == literals
        assert (coded.states.tolist(), coded.words.tolist()) == _slow_words(intervals, lanes, bits, rides)
        decoded, rode = decoder.decode(coded, np.array(tokens), "test", True)
        assert np.array_equal(decoded, block)
        assert np.array_equal(rode.view("<u2")[: len(rides)], rides)
        assert back.decode(coded, tokens)[0] == block.tolist()
        for model, twin in ((encoder, forth), (decoder, back)):
            seen = [[stream.seen[name] for name in COUNTERS] for stream in twin.streams]
            assert model.states[:, triggers.COUNTERS].tolist() == seen
    return encoder


def _slow_words(intervals, lanes, bits, rides):
    states, words = [65536 + int(r) for r in rides] or [65536] * lanes, []
    for i in reversed(range(len(intervals))):
        start, freq = intervals[i]
        x = states[i % lanes]
        if x >= freq << (32 - bits):
            words.append(x & 0xFFFF)
            x >>= 16
        states[i % lanes] = (x // freq << bits) + start + x % freq
    return states, words[::-1]


@pytest.mark.parametrize("name", CASES)
def test_the_loop_equals_its_twin(name):
    check_twin(TOPICS, [60, 60], 8, **CASES[name])


@pytest.mark.parametrize("fields", [BYTES, FP8, SIGN])
def test_the_loop_equals_its_twin_on_other_planes(fields):
    symbols = np.random.default_rng(4).integers(0, 1 << fields.width, 5 * 30).astype(np.uint8)
    check_twin(symbols, [10, 0, 20], 5, fields=fields, carried=True, beta=0.5, n_update=2, theta_low=0.01)


def test_the_loop_equals_its_twin_without_a_prior():
    check_twin(TOPICS, [60, 60], 8, prior_weight=0)


@settings(max_examples=25, deadline=None)
@given(some.data())
def test_the_loop_equals_its_twin_on_anything(data):
    channels = data.draw(some.integers(1, 6))
    tokens = data.draw(some.lists(some.integers(0, 12), min_size=1, max_size=3))
    count = sum(tokens) * channels
    symbols = np.frombuffer(data.draw(some.binary(min_size=count, max_size=count)), np.uint8)
    values = {
        "alpha": data.draw(some.sampled_from([0.5, 0.9, 0.999, 1.0])),
        "beta": data.draw(some.sampled_from([0.0, 0.5, 0.999])),
        "theta_low": data.draw(some.sampled_from([0.0, 0.001, 0.5])),
        "theta_new": data.draw(some.sampled_from([0.0, 0.01, 0.999])),
        "n_update": data.draw(some.integers(1, 5)),
        "warmup": data.draw(some.integers(0, 9)),
        "drift": data.draw(some.sampled_from([0, 1.01, 2.0])),
        "table_bits": data.draw(some.integers(10, 14)),
        "prior_weight": data.draw(some.integers(1, 4096)),
    }
    check_twin(symbols, tokens, channels, fields=data.draw(some.sampled_from([BYTES, BF16, FP8])), **values)


def test_renormalising_keeps_the_twin():
    """Half the weight a token: the increment passes its ceiling every 14 tokens, between updates and at them."""
    encoder = check_twin(bell(np.random.default_rng(0), 200 * 2), [200], 2, alpha=0.5, n_update=40)
    assert encoder.states[0, triggers.INCREMENT] < 1 << 30


@pytest.mark.parametrize("change", ["word more", "word less", "literal more", "literal less", "state", "carried"])
def test_a_decoder_uses_exactly_its_bytes(change):
    symbols = np.concatenate([bell(np.random.default_rng(1), 2000), np.arange(256, dtype=np.uint8)[:160]])
    encoder, decoder = opened(symbols, [270], 8, prior_weight=1)
    coded = encoder.encode(symbols, np.array([270]), np.zeros(0, np.uint8))
    assert len(coded.literals)
    states, words, literals = coded.states.copy(), coded.words, coded.literals
    if change == "state":
        states[0] = 65535
    if change == "carried":
        words = words ^ np.uint16(0x8000)
    if change.startswith("word"):
        words = words[:-1] if change.endswith("less") else np.append(words, words[:1])
    if change.startswith("literal"):
        literals = literals[:-1] if change.endswith("less") else np.append(literals, literals[:1])
    changed = Coded(coded.lanes_log2, states, words, literals)
    with pytest.raises(ContainerError):
        decoder.decode(changed, np.array([270]), "test")


@pytest.mark.parametrize("width", [1.0, 3.0, 20.0])
def test_the_size_is_near_the_entropy_of_a_stationary_source(width):
    """Within 1 % and 200 bytes of the source's entropy; measured from the drawn probabilities, not the sample."""
    edges = (np.arange(257) - 0.5 - 120) / width / math.sqrt(2)
    p = np.diff([0.5 * (1 + math.erf(x)) for x in edges])
    p /= p.sum()
    symbols = np.random.default_rng(5).choice(256, 4096 * 64, p=p).astype(np.uint8)
    entropy = -sum(q * math.log2(q) for q in p if q) * len(symbols) / 8
    options = {"sampling": 0, "classes": 1, "table_bits": 14, "fields": BYTES, "prior_weight": 1}
    encoder, coded = round_trip(symbols, [4096], 64, **options)
    assert coded.size + encoder.opening.size <= entropy * 1.01 + 200
    assert coded.size >= entropy * 0.99


def test_the_measured_length_is_the_size():
    encoder, coded = round_trip(TOPICS, [120], 8)
    measured = encoder.states[0, triggers.LENGTH] / 256 / 8
    assert abs(measured - coded.size) <= 6 + measured * 0.01
