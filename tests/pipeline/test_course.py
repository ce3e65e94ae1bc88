"""How a stream's bits lie along the tokens and by channel: they add up, and both directions agree on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made import dump

import kvzip
from kvzip.blocks.course import BINS, Courses

REAL = Path(__file__).resolve().parents[2] / "fixtures" / "real"
BESIDE = {"side", "stored"}


def both(data: bytes, draft: bytes | None = None, **options):
    """Statistics of compressing, and of what that makes."""
    packed = kvzip.compress(data, draft=draft, **options)
    return kvzip.stats(data, draft=draft, **options), kvzip.stats(packed, draft=draft)


def one(name, dtype, values) -> bytes:
    """A dump of one tensor."""
    return dump([(name, dtype, values.shape, values.tobytes())])


def values_only(stream) -> float:
    """Bits of a stream but for what belongs to no value."""
    return stream.values * sum(bits for what, bits in stream.spent.items() if what not in BESIDE)


@pytest.mark.parametrize("name", ["prose_bf16", "chat_fp8"])
@pytest.mark.parametrize("level", [1, 2, 3, 4, 9])
def test_courses_add_up_and_are_the_same_in_both_directions(name, level):
    ways = both((REAL / f"{name}.safetensors").read_bytes(), level=level, threads=2)
    for one, other in zip(*(way.streams for way in ways), strict=True):
        for stream in (one, other):
            course = stream.course
            assert course.values.sum() == stream.values
            assert course.tokens.sum() == pytest.approx(course.channels.sum())
            assert course.tokens.sum() == pytest.approx(values_only(stream), rel=1e-3, abs=64)
        np.testing.assert_allclose(one.course.tokens, other.course.tokens, rtol=1e-3, atol=1)
        np.testing.assert_allclose(one.course.channels, other.course.channels, rtol=1e-3, atol=1)
        for what, counts in one.course.events.items():
            assert (counts == other.course.events[what]).all(), what
            wanted = one.resets if what == "resets" else one.updates[what]
            if level == 1:
                assert counts.sum() == wanted


def test_drafts_and_their_ends():
    whole = (REAL / "chat_bf16.safetensors").read_bytes()
    ways = both(whole, (REAL / "chat_bf16_draft-int8.safetensors").read_bytes(), threads=1)
    for way in ways:
        for stream in way.streams:
            assert stream.course.tokens.sum() == pytest.approx(values_only(stream), rel=1e-3, abs=64)


@pytest.mark.parametrize("level", [1, 3, 6])
def test_it_says_where_along_the_tokens_and_in_which_channels(level):
    """Noise in the second half of the tokens, and in one channel throughout, else the same value again and again."""
    draw = np.random.default_rng(5)
    values = np.full((1, 2, 512, 16), 0x3F80, np.uint16)
    noise = draw.integers(0, 1 << 16, values.shape, np.uint16)
    values[:, :, 256:] = noise[:, :, 256:]
    values[..., 3] = noise[..., 3]
    course = kvzip.stats(one("layers.0.value", "BF16", values), level=level).streams[0].course
    half = len(course.values) // 2
    assert course.bits_along[:half].mean() < 6 < 12 < course.bits_along[half:].mean()
    assert np.argmax(course.bits_by_channel) == 3


@pytest.mark.parametrize("tokens", [100, BINS, BINS + 1, 3 * BINS - 1])
def test_bins(tokens):
    values = np.random.default_rng(tokens).standard_normal((1, 1, tokens, 8)).astype("<f2").view("<u2")
    stream = kvzip.stats(one("layers.0.key", "F16", values), level=1).streams[0]
    assert len(stream.course.values) <= BINS
    assert (stream.course.values[:-1] == 8 * stream.course.step).all()
    assert stream.course.values.sum() == stream.values


@pytest.mark.parametrize("tokens", [1, 2, BINS, BINS + 1])
def test_blocks_are_binned_by_their_place(tokens):
    """Bit by bit or all at once: the same bins."""
    bits = np.random.default_rng(tokens).random((tokens, 3))
    whole, pieces = Courses(1, tokens, 3), Courses(1, tokens, 3)
    whole.add(0, np.arange(tokens), bits)
    for pieces.token in range(tokens):
        pieces.add(0, np.zeros(1, np.int64), bits[pieces.token : pieces.token + 1])
    np.testing.assert_allclose(whole.of(0).tokens, pieces.of(0).tokens)
    assert whole.of(0).values.sum() == 3 * tokens
    whole.token = 0
    whole.spread(tokens, 2.0)
    np.testing.assert_allclose((whole.of(0).tokens - pieces.of(0).tokens), 2.0 * whole.of(0).values)


def test_what_no_layout_knows_has_no_course():
    values = np.arange(4096, dtype=np.uint16).reshape(64, 64)
    assert kvzip.stats(one("something", "U16", values)).streams[0].course is None


@pytest.mark.parametrize("parameters", [{"drift": 1.05, "alpha": 0.98}, {"theta_low": 0.01}, {"theta_new": 0.05}])
def test_triggers_are_where_they_fire(parameters):
    """Half-way the values become others: what fires then fires there."""
    draw = np.random.default_rng(3)
    values = draw.standard_normal((1, 1, 1024, 16)).astype(np.float32)
    values[:, :, 512:] *= 1e9
    bits = (values.view(np.uint32) >> 16).astype(np.uint16)
    course = kvzip.stats(one("layers.0.value", "BF16", bits), level=1, **parameters).streams[0].course
    what = {"drift": "resets", "theta_low": "confidence", "theta_new": "novelty"}[next(iter(parameters))]
    counts = course.events[what]
    half = len(counts) // 2
    assert counts[half : half + 16].sum() > 0
    assert counts[half : half + 16].sum() >= counts[half // 2 : half // 2 + 16].sum()
