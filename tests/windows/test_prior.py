"""The prior: its asset, the choice of shape and sign equal to brute force, the counts it starts with."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.errors import ContainerError
from kvzip.windows import prior
from kvzip.windows.lengths import code_lengths
from kvzip.windows.model import PlaneModel
from kvzip.windows.parameters import Parameters
from kvzip.windows.prior import REACH, SHAPE_CENTRE, SHAPES, SIGN_LEVELS, Fields, shapes

KINDS = [Fields(8, 0, 0), Fields(4, 1, 3), Fields(5, 1, 2), Fields(0, 1, 0), Fields(0, 0, 8), Fields(5, 1, 0)]


def parts(fields):
    return fields.exponent, fields.sign, fields.rest


def room(fields):
    return np.empty(1 << fields.exponent, np.int64), np.empty(prior.SHAPES, np.float64)


def choose(histograms, fields):
    specs = np.zeros(2 + len(histograms) * fields.bytes_per_class, np.uint8)
    prior.choose(histograms, *parts(fields), prior.shape_lengths(), prior.SIGN_MIDDLES, specs, 2, *room(fields))
    assert not specs[:2].any()
    return specs[2:].tobytes()


def fill(counts, specs, fields, tokens, members):
    given = np.frombuffer(b"\xff" + specs, np.uint8).copy()
    assert prior.exists(given, 1, len(counts), fields.exponent, fields.sign)
    prior.fill(counts, given, 1, members, tokens, shapes(), prior.SIGNS, *parts(fields), room(fields)[0])


def slow_choose(histogram, fields):
    """Brute force over shapes, references near the mean, and sign levels."""
    out = []
    parts = np.array(histogram[: 1 << fields.width]).reshape(1 << fields.exponent, 1 << fields.sign, -1)
    if fields.exponent:
        exponents = parts.sum((1, 2)).tolist()
        total = max(1, sum(exponents))
        mean = (2 * sum(n * e for e, n in enumerate(exponents)) + total) // (2 * total)
        lengths = code_lengths(15)[shapes()].tolist()
        best = None
        for reference in range(max(0, mean - REACH), min(255, mean + REACH) + 1):
            for shape in range(SHAPES):
                cost = 0
                for e, n in enumerate(exponents):
                    cost += n * lengths[shape][min(63, max(0, e - reference + SHAPE_CENTRE))]
                if best is None or cost < best[0]:
                    best = cost, shape, reference
        out += best[1:]
    if fields.sign:
        ones, total = int(parts[:, 1].sum()), int(parts.sum())
        share = (ones << 16) // total if total else 1 << 15
        out.append(sum(share >= (a + b) // 2 for a, b in pairwise(SIGN_LEVELS)))
    return bytes(out)


def slow_fill(spec, fields, weight):
    """Counts of one window, symbol by symbol."""
    counts = [0] * 257
    for s in range(1 << fields.width):
        exponent, sign = s >> (fields.sign + fields.rest), s >> fields.rest & 1
        mass = 1 << 15
        if fields.exponent:
            places = range(64)
            at = [min((1 << fields.exponent) - 1, max(0, i - SHAPE_CENTRE + spec[1])) for i in places]
            mass = sum(int(shapes()[spec[0]][i]) for i in places if at[i] == exponent)
        share = 1 << 16
        if fields.sign:
            share = SIGN_LEVELS[spec[-1]] if sign else (1 << 16) - SIGN_LEVELS[spec[-1]]
        counts[s] = ((mass * share >> 7) >> (8 + fields.rest)) * weight
    counts[256] = 16 * weight
    return counts


def test_the_shapes_are_distributions():
    assert shapes().shape == (SHAPES, 64)
    assert (shapes().sum(1) == 1 << 15).all()
    assert (shapes() >= 0).all()


@settings(max_examples=60, deadline=None)
@given(some.data())
def test_the_choice_is_brute_forces(data):
    fields = data.draw(some.sampled_from(KINDS))
    live = data.draw(some.dictionaries(some.integers(0, (1 << fields.width) - 1), some.integers(1, 500), max_size=8))
    histograms = np.zeros((3, 256), np.int64)
    histograms[1, list(live)] = list(live.values())
    histograms[2] = histograms[1, ::-1]
    histograms &= (1 << 63) - 1 if fields.width == 8 else np.where(np.arange(256) < 1 << fields.width, -1, 0)
    spec = choose(histograms, fields)
    assert len(spec) == 3 * fields.bytes_per_class
    assert spec == b"".join(slow_choose(histogram, fields) for histogram in histograms)


@settings(max_examples=60, deadline=None)
@given(some.data())
def test_the_counts_are_the_twins(data):
    fields = data.draw(some.sampled_from(KINDS))
    spec = []
    if fields.exponent:
        spec += [data.draw(some.integers(0, SHAPES - 1)), data.draw(some.integers(0, 255))]
    if fields.sign:
        spec.append(data.draw(some.integers(0, 15)))
    tokens, members = data.draw(some.integers(1, 4096)), data.draw(some.integers(0, 1 << 16))
    counts = np.zeros((1, 257), np.int64)
    fill(counts, bytes(spec), fields, tokens, np.array([members]))
    assert counts[0].tolist() == slow_fill(spec, fields, min(tokens * members, 1 << 20))
    assert counts.sum() < 1 << 38


@pytest.mark.parametrize("fields", KINDS)
def test_the_mass_is_one(fields):
    counts = np.zeros((1, 257), np.int64)
    fill(counts, choose(np.ones((1, 256), np.int64), fields), fields, 1, np.array([1]))
    assert counts.sum() == pytest.approx(65536, rel=0.01)


@pytest.mark.parametrize("sigma", [2.0**-20, 1.0, 3.7, 1000.0])
def test_gaussians_are_met_well(sigma):
    """A shape codes the exponents of a Gaussian of any scale within 0.1 bit of their entropy."""
    values = np.random.default_rng(0).normal(0, sigma, 20_000).astype(np.float32)
    histogram = np.bincount(values.view(np.uint32) >> 23 & 255, minlength=256)
    counts = np.zeros((1, 257), np.int64)
    fill(counts, choose(histogram[None], KINDS[0]), KINDS[0], 1, np.array([1]))
    live = histogram > 0
    p = histogram[live] / histogram.sum()
    excess = (p * np.log2(p / (counts[0, :256][live] / 65536))).sum()
    assert excess < 0.1


@pytest.mark.parametrize("wrong", [b"\x20\x78", b"\xff\x00"])
def test_a_prior_that_does_not_exist_is_damage(wrong):
    model = PlaneModel(1, 4, 1, KINDS[0], Parameters())
    with pytest.raises(ContainerError, match="prior"):
        model.reopen(np.frombuffer(wrong, np.uint8).copy(), "test")


def test_a_sign_level_that_does_not_exist_is_damage():
    model = PlaneModel(1, 4, 1, KINDS[3], Parameters())
    with pytest.raises(ContainerError, match="prior"):
        model.reopen(np.array([0x10], np.uint8), "test")
