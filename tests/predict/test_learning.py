"""Gains of repeated tokens, energies and angles are what their formulas say."""

from __future__ import annotations

import math

import numba
import numpy as np
import pytest

from kvzip.predict import energy, repeats
from kvzip.predict.energy import DOUBT, USUAL_START
from kvzip.predict.repeats import MOST_COUNTED, MOST_SHARE, SHRINK, due, gains, shares
from kvzip.predict.rope import from_spec
from kvzip.predict.turning import turn_tokens

factor = numba.njit(lambda total, channels: FACTOR(total, channels))
learn_usual = numba.njit(lambda learn, at, total, channels: LEARN(learn, at, total, channels))
FACTOR, LEARN = energy.factor, energy.learn_usual


# ---- repeats


def test_gains_follow_the_estimator():
    """g = k c / ((k - 1) c + 1) is least squares for a mean of k rows, each the token's own part plus noise."""
    c = np.linspace(0, float(MOST_SHARE), 32).astype(np.float32)
    out = np.zeros(3 * MOST_COUNTED * 32, np.float32)
    gains(c, 0, 32, out)
    gain, spread, inverse = out.reshape(3, MOST_COUNTED, 32)
    for n in range(MOST_COUNTED):
        k, share = n + 1.0, c.astype(np.float64)
        # of a row x = p + e with var p = c, var e = 1 - c; h = p + mean of k e
        expected = share / (share + (1 - share) / k)
        assert gain[n] == pytest.approx(expected, abs=1e-5)
        assert spread[n] == pytest.approx((1 - share * expected) / (1 - share**2), rel=1e-3)
        assert spread[n] * inverse[n] == pytest.approx(np.ones(32), rel=1e-5)
    assert spread[0] == pytest.approx(np.ones(32), rel=1e-4)


def test_shares_are_drawn_towards_their_mean_and_bounded():
    own = np.zeros(64, np.float32)
    own[:16] = np.linspace(-1, 3, 16)
    own[32:48] = 1
    live = np.array([-1] * 16 + [0] * 16, np.int32)
    out = np.zeros(32, np.float32)
    raw = np.clip(own[:16], -1, 1)
    for n in (0, 10, 10_000):
        shares(own, 0, 32, n, MOST_SHARE, live, 32, out, 0)
        weight = float(SHRINK) / (n + float(SHRINK))
        assert out[:16] == pytest.approx(np.clip(raw + weight * (raw.mean() - raw), 0, MOST_SHARE), abs=1e-5)
    shares(np.zeros(64, np.float32), 0, 32, 5, np.float32(1), live, 32, out, 0)
    assert not out.any()  # 0 / 0 counts as nothing known


def test_gains_are_refreshed_ever_less_often():
    assert [n for n in range(1, 400) if due(n)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 384]
    assert repeats.REFRESH == 128


# ---- energy


@pytest.mark.parametrize("channels", [0, 1, 16, 500])
def test_the_factor_is_two_to_the_mean_logarithm(channels):
    for log in np.linspace(-7.9, 7.9, 99):
        total = int(log * 256 * (channels + DOUBT))
        exact = 2.0 ** (total / 256 / (channels + DOUBT))
        assert factor(np.int64(total), np.int64(channels)) == pytest.approx(exact, rel=0.07)  # linear between powers


def test_the_factor_grows_within_its_bounds():
    found = [factor(np.int64(t), np.int64(8)) for t in range(-50_000, 50_000, 77)]
    assert found == sorted(found)
    assert (found[0], found[-1]) == (2.0**-8, 2.0**8)
    assert factor(np.int64(0), np.int64(3)) == 1


def test_the_usual_energy_approaches_what_comes():
    learn = np.array([0, USUAL_START << 8], np.int64)
    for _ in range(400):
        learn_usual(learn, 1, np.int64(-100 * 64), np.int64(64))
    assert abs((learn[1] >> 8) + 100) <= 1
    assert learn[0] == 0


def test_gaussian_errors_have_about_the_usual_energy_to_start_with():
    """The mean of log2 of a squared standard Gaussian, clipped, read off float32 bits."""
    square = (np.random.default_rng(0).normal(size=100_000) ** 2).astype(np.float32)
    logs = np.clip(square.view(np.int32) - np.float32(1).view(np.int32), -6 << 23, 6 << 23) >> 15
    assert logs.mean() == pytest.approx(USUAL_START, rel=0.3)


# ---- angles


def turned(rope, cuts):
    """Cosines and sines of every token, made in pieces."""
    pairs = len(rope.cos)
    state = np.stack([np.ones(pairs), np.zeros(pairs)])
    parts, token = [], 0
    for stop in cuts:
        out = np.zeros((stop - token) * 2 * 48, np.float32)
        turn_tokens(np.array(rope.cos), np.array(rope.sin), state, token, stop - token, 48, out)
        parts.append(out.reshape(-1, 2, 48)[:, :, :pairs])
        token = stop
    return np.concatenate(parts)


def test_angles_are_exact_enough_over_long_dumps_and_independent_of_blocks():
    rope = from_spec("half:theta=1e4", 64)
    whole = turned(rope, [40_000])
    assert np.array_equal(whole, turned(rope, [1, 63, 64, 65, 1000, 17_000, 40_000]))
    for token in (0, 1, 63, 64, 9999, 39_999):
        for pair, angle in enumerate(rope.angles):
            expected = (math.cos(token * angle), math.sin(token * angle))
            assert whole[token, :, pair] == pytest.approx(expected, abs=1e-6)
    assert np.abs((whole.astype(np.float64) ** 2).sum(1) - 1).max() < 1e-6


def test_a_step_that_is_not_quite_a_rotation_stays_bounded():
    """The container's cosines and sines may be off by what ``Rope.read_from`` lets pass."""
    off = 1 + 4e-7
    state = np.array([[1.0], [0.0]])
    out = np.zeros(200_000 * 2 * 16, np.float32)
    turn_tokens(np.array([off * math.cos(1)]), np.array([off * math.sin(1)]), state, 0, 200_000, 16, out)
    assert np.abs(out).max() < 1.001
