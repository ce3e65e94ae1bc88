"""Finding how keys were rotated, from the keys alone.

The encoder's side: what it finds is stored, so any arithmetic will do here.

A pair of key channels has a strong mean before RoPE. After it the pair, taken as a complex number a + ib, is that
mean turning by w a token: a line at w in the pair's spectrum.

    gain of a pair at w  =  log of (power - line at 0 or -w) / (power - line at w), nats, summed over kv heads

is what a predictor saves by turning its mean with w instead of letting it rest; it is about 0 or below anywhere but
at the right w. (What repeats in the text has lines at w and -w alike: that is no rotation.) One FFT of a sample gives
the gain of every pairing at every w, so all bases theta can be tried, the known ones and those between. Measured on
SmolLM2, 512 tokens: 0.18 to 0.34 nats a channel at the right theta, at most 0.06 at others that models use, -0.4 to
-0.1 on keys before RoPE.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvzip.coder.jit import borrowing
from kvzip.coder.memory import advance, peek, pointer_of, poke
from kvzip.predict.rope import Pairing, Rope

Floats = NDArray[np.floating[Any]]
Waves = NDArray[np.complexfloating[Any, Any]]

HEADS = 4  # heads looked at, evenly spread
HINT_TOKENS = 64  # tokens of one head that must agree with what another layer has
TOKENS = 512  # tokens that the search looks at
LONG = 2048  # tokens that the refinement looks at
BLOCK = 16  # tokens averaged into one once the coarse angle is taken off
FEWEST_TOKENS = 24
MOST_CHANNELS = 2048  # a row of more is not searched: it would take seconds
MARGIN = 0.004  # nats for each turned channel below which no rope is believed
FREE_MARGIN = 0.05  # the same where each pair has a speed of its own
KNOWN = (1e4, 1e5, 2.5e5, 5e5, 1e6, 2e6, 5e6, 8e6, 1e7)
GRID = np.exp(np.arange(math.log(1e3), math.log(1e11), 0.15))  # a main lobe of 512 tokens is 0.19 wide or more
SLOWED = (2.0, 4.0, 8.0, 16.0, 32.0)  # linear scaling for longer contexts
EVIDENCE = 80.0  # nats of likelihood (gain * tokens; many, since neighbours are alike) that settle a single pair
OTHERS = 13  # speeds that a rope found in another layer is held against: neighbours share much of a line
ROPE_EVIDENCE = 160.0  # and the whole question


def find(keys: NDArray[np.float32], hints: Sequence[Rope] = ()) -> Rope | None:
    """How ``keys`` (heads, tokens, channels) were rotated; None if they were not, or nothing shows it.

    The tokens must be consecutive; 128 are enough, more than 2048 are not used. ``hints`` are ropes found in other
    layers: one that does as well here as any other speed is taken at once.
    """
    if hint := agreeing(keys, hints):
        return hint
    sample = _sampled(keys)
    if sample is None:
        return None
    spectrum = Spectrum.of(sample[:, :, :TOKENS])
    fits = _fits(spectrum)
    best = max((fit.gain for fit in fits), default=0.0)
    found = [_refined(sample, fit) for fit in fits if fit.gain > 0.85 * best]
    if found:
        fit = min(found, key=lambda fit: (fit.theta not in KNOWN, fit.slowed, fit.pairing.channels, -fit.gain))
        return _chosen(spectrum, fit.pairing, fit.angles(), MARGIN)
    return _free(spectrum)


def agreeing(keys: NDArray[np.float32], hints: Sequence[Rope]) -> Rope | None:
    """The first of ``hints`` that does as well on the first head's first tokens as other speeds do, if any does.

    Much cheaper than a search. Keys with values that are no number are left to that.
    """
    head = keys[0, :HINT_TOKENS] if len(keys) else keys.reshape(0, 1)
    if len(head) < FEWEST_TOKENS:
        return None
    for hint in hints:
        if hint.first and max(*hint.first, *hint.second) < head.shape[1] and _agrees(head, hint):
            return hint
    return None


def gain(keys: NDArray[np.float32], rope: Rope) -> float:
    """Nats a value that turning the channels' means as ``rope`` does saves on ``keys``; below 0 if it costs."""
    sample = _sampled(keys)
    if sample is None or not rope.first:
        return 0.0
    spectrum = Spectrum.of(sample[:, :, :TOKENS])
    heads, channels, _ = sample.shape
    return float(spectrum.gains(np.array(rope.pairs), np.array(rope.angles)).sum() / (heads * channels))


@dataclass(frozen=True)
class Fit:
    """A pairing, its base and slowing, and the gain there, in nats over all heads and pairs."""

    pairing: Pairing
    theta: float
    slowed: float
    gain: float

    def angles(self, theta: float | None = None) -> Floats:
        """Radians a token of each pair."""
        return np.array(self.pairing.angles(theta or self.theta)) / self.slowed


@dataclass(frozen=True)
class Spectrum:
    """waves: FFT of each channel, (heads, channels, bins), bins from 0 to pi; power: what |waves|^2 can reach."""

    waves: Waves
    power: Floats
    tokens: int

    @classmethod
    def of(cls, sample: Floats) -> Spectrum:
        """Of (heads, channels, tokens), with four bins or more to a line's width."""
        tokens = sample.shape[2]
        waves = np.fft.rfft(sample, 1 << (4 * tokens - 1).bit_length(), axis=2)
        return cls(waves, tokens * np.einsum("hct,hct->hc", sample, sample), tokens)

    def bins(self, angles: Floats) -> NDArray[np.intp]:
        """The bin of each angle from 0 to pi."""
        last = self.waves.shape[2] - 1
        bins: NDArray[np.intp] = np.clip(np.rint(angles * (last / math.pi)), 0, last).astype(np.intp)
        return bins

    def gains(self, pairs: NDArray[np.intp], angles: Floats) -> Floats:
        """(..., pairs) nats, heads summed, of ``pairs`` (pairs, 2) at ``angles`` (..., pairs)."""
        heads, channels, bins = self.waves.shape
        flat = self.waves.reshape(heads, channels * bins)
        first, second = pairs[:, 0] * bins, pairs[:, 1] * bins
        at = self.bins(np.abs(angles))
        a, b = flat.take(first + at, 1), flat.take(second + at, 1)
        both = _square(a) + _square(b)
        cross = 2 * (a.imag * b.real - a.real * b.imag) * np.sign(angles).astype(np.float32)
        rest = _square(flat.take(first, 1) + 1j * flat.take(second, 1))
        power = self.power[:, pairs[:, 0]] + self.power[:, pairs[:, 1]]
        middle = (slice(None), *[None] * (angles.ndim - 1))
        total: Floats = _log_ratio(power[middle], np.maximum(rest[middle], both - cross), both + cross).sum(0)
        return total

    def convinces(self, total: float, channels: int, margin: float = MARGIN) -> bool:
        """Whether ``total`` nats on ``channels`` turned channels of each head are no accident."""
        return _convinces(total, self.waves.shape[0] * channels, self.tokens, margin)


def _convinces(total: float, channels: int, tokens: int, margin: float = MARGIN) -> bool:
    return bool(total > max(margin * channels, ROPE_EVIDENCE / tokens))


def _log_ratio(power: Floats, rest: Floats, line: Floats) -> Floats:
    """Log of what is left of ``power`` without ``rest`` to what is left without ``line``, kept finite."""
    floor = 1e-4 * power + 1e-30
    ratio: Floats = np.log((power - rest).clip(0) + floor) - np.log((power - line).clip(0) + floor)
    return ratio.clip(-2, 2)


def _square(wave: Waves) -> Floats:
    squares: Floats = wave.real**2 + wave.imag**2
    return squares


def _sampled(keys: NDArray[np.float32]) -> Floats | None:
    """(heads, channels, tokens) of a few heads: finite, 1 at most, outliers cut; None if too little or too much."""
    heads, tokens, channels = keys.shape
    if tokens < FEWEST_TOKENS or not 2 <= channels <= MOST_CHANNELS or not heads:
        return None
    most = max(1, min(heads, HEADS, MOST_CHANNELS // (2 * channels)))
    chosen = np.linspace(0, heads - 1, most).round().astype(int)
    sample = np.array(keys[chosen, :LONG].transpose(0, 2, 1), np.float32, order="C")
    np.nan_to_num(sample, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    top = np.abs(sample).max((1, 2), keepdims=True)
    sample /= np.where(top > 0, top, 1)
    limit = 4 * np.sqrt((sample**2).mean(2, keepdims=True))
    return sample.clip(-limit, limit)


@lru_cache(maxsize=16)
def _pairings(channels: int) -> tuple[Pairing, ...]:
    """What is in use: all channels, or a part at the start or (MLA) at the end, or several heads in one row."""
    dims = {d for d in (channels, channels * 3 // 4, channels // 2, channels // 4, 32, 64, 128) if d and d % 2 == 0}
    places = {(channels - dim if end else 0, dim) for dim in dims if 2 <= dim <= channels for end in (False, True)}
    rows = {(0, dim, channels // dim) for dim in dims if channels % dim == 0}
    every = sorted({(*place, 1) for place in places} | rows)
    return tuple(Pairing(kind, *place) for kind in (False, True) for place in every)


@lru_cache(maxsize=64)
def _family(pairing: Pairing) -> tuple[NDArray[np.intp], Floats, list[tuple[float, float]]]:
    """Pairs, angles (members, pairs) and (theta, slowed) of each member to try."""
    members = [(float(theta), 1.0) for theta in GRID] + [(theta, s) for theta in (1e4, 5e5, 1e6) for s in SLOWED]
    angles = np.array([pairing.angles(theta) for theta, _ in members]) / np.array([[s] for _, s in members])
    return np.array(pairing.pairs()), angles, members


def _fits(spectrum: Spectrum) -> list[Fit]:
    """The best member of each pairing that gains."""
    fits = []
    for pairing in _pairings(spectrum.waves.shape[1]):
        pairs, angles, members = _family(pairing)
        totals = spectrum.gains(pairs, angles).sum(1)
        best = int(totals.argmax())
        if spectrum.convinces(totals[best], pairing.channels):
            fits.append(Fit(pairing, *members[best], float(totals[best])))
    return fits


def _refined(sample: Floats, fit: Fit) -> Fit:
    """The fit with theta to three digits or better, and a round one if that is as good."""
    for tokens, reach in ((TOKENS, 0.16), (LONG, 0.02)):
        try_at = _around(sample[:, :, :tokens], fit)
        thetas = [fit.theta * math.exp(reach * step / 8) for step in range(-8, 9)]
        totals = try_at(thetas)
        best = int(totals.argmax())
        fit = Fit(fit.pairing, thetas[best], fit.slowed, float(totals[best]))
    return _rounded(try_at, fit, sample.shape[2])


def _rounded(try_at: Callable[[Sequence[float]], Floats], fit: Fit, tokens: int) -> Fit:
    """The fit with a known theta, or one of few digits, unless the keys speak against it."""
    tried = [(float(f"{fit.theta:.{digits}e}"), 0.005 * fit.gain) for digits in range(3)]
    near = min(KNOWN, key=lambda theta: abs(math.log(theta / fit.theta)))
    if abs(math.log(near / fit.theta)) < 0.3:
        tried.insert(0, (near, _slack(fit.gain, tokens)))
    for (theta, slack), total in zip(tried, try_at([theta for theta, _ in tried]), strict=True):
        if total >= fit.gain - slack:
            return Fit(fit.pairing, theta, fit.slowed, float(total))
    return fit


def _around(sample: Floats, fit: Fit) -> Callable[[Sequence[float]], Floats]:
    """A function from thetas near the fit's to the total gains there: the fit's angles taken off, blocks averaged."""
    pairs, angles = np.array(fit.pairing.pairs()), fit.angles()
    blocks = max(sample.shape[2] // BLOCK, 1)
    length = min(BLOCK, sample.shape[2])
    part = sample[:, :, : blocks * length]
    time = np.arange(part.shape[2])
    pair = part[:, pairs[:, 0]] + 1j * part[:, pairs[:, 1]]
    power = _square(pair).mean(2)
    rest = _square(pair.mean(2))
    back = np.exp(-1j * angles[:, None] * time).astype(np.complex64)
    blocked = (pair * back).reshape(*pair.shape[:2], blocks, length).mean(3)

    def totals(thetas: Sequence[float]) -> Floats:
        off = np.array([fit.angles(theta) for theta in thetas]) - angles
        turn = np.exp(-1j * length * off[..., None] * np.arange(blocks)).astype(np.complex64)
        line = _square(np.einsum("hpb,mpb->mhp", blocked, turn) / blocks)
        total: Floats = _log_ratio(power, rest, line).sum((1, 2))
        return total

    return totals


def _chosen(spectrum: Spectrum, pairing: Pairing, angles: Floats, margin: float) -> Rope | None:
    """Pair by pair: keep the angle, or move to a line that is clearly stronger, or leave the pair at rest.

    A pair that turns less than half round in the sample cannot be told from drift and keeps its angle.
    """
    pairs = np.array(pairing.pairs())
    step = math.pi / (spectrum.waves.shape[2] - 1)
    here = spectrum.gains(pairs, angles)
    spread = spectrum.gains(pairs, np.repeat(np.arange(spectrum.waves.shape[2])[:, None] * step, len(pairs), 1))
    peak, top = spread.argmax(0), spread.max(0)
    sure = EVIDENCE / spectrum.tokens
    slow = (angles > 0) & (angles * spectrum.tokens < math.pi)
    moved = ~slow & (top > here.clip(0) + sure)
    angles = np.where(moved, (peak + _vertex(spread, peak)) * step, angles)
    here = np.where(moved, top, here)
    kept = np.flatnonzero((angles > 0) & (slow | (here > -sure)))
    if not spectrum.convinces(here[kept].sum(), pairing.channels, margin):
        return None
    return Rope.of([(int(a), int(b)) for a, b in pairs[kept]], [float(w) for w in angles[kept]])


def _vertex(curves: Floats, peak: NDArray[np.intp]) -> Floats:
    """Where in -0.5..0.5 bins around each column's ``peak`` the parabola through it and its neighbours is highest."""
    column, last = np.arange(len(peak)), len(curves) - 1
    before, top, after = (curves[(peak + d).clip(0, last), column] for d in (-1, 0, 1))
    bend = before - 2 * top + after
    shift: Floats = 0.5 * (before - after) / np.where(bend < 0, bend, -1e30)
    return shift.clip(-0.5, 0.5)


def _free(spectrum: Spectrum) -> Rope | None:
    """Angles of no known family: each pair by itself, in the two common pairings."""
    channels = spectrum.waves.shape[1] // 2 * 2
    rest = np.zeros(channels // 2)
    found = [_chosen(spectrum, Pairing(kind, 0, channels), rest, FREE_MARGIN) for kind in (False, True)]
    return max(
        (rope for rope in found if rope),
        key=lambda rope: float(spectrum.gains(np.array(rope.pairs), np.array(rope.angles)).sum()),
        default=None,
    )


def _agrees(head: Floats, hint: Rope) -> bool:
    """Whether a hint gains on (tokens, channels), and as much as powers of its angles (other thetas) do."""
    tokens = len(head)
    first, second, cosines, sines = _against(hint, tokens)
    pairs = np.ascontiguousarray(np.stack([head[:, first], head[:, second]]))
    sums = np.zeros((len(cosines), 2, len(first)), np.float32)
    turn_back(pairs, cosines, sines, sums)
    with np.errstate(all="ignore"):
        power = (pairs * pairs).sum((0, 1)) / tokens
        lines = (sums * sums).sum(1) / tokens**2
        totals = _log_ratio(power, lines[-1], lines[:-1]).sum(1)
    top = float(totals.max())
    return _convinces(totals[0], 2 * len(first), tokens) and bool(totals[0] >= top - _slack(top, tokens))


@borrowing
def turn_back(pairs, cosines, sines, out):  # type: ignore[no-untyped-def]
    """Of ``pairs`` (2, tokens, pairs) float32 the mean, turned by ``cosines`` and ``sines`` (speeds, tokens, pairs),
    into ``out`` (speeds, 2, pairs), which starts at zero."""
    _, tokens, count = pairs.shape
    both, cos, sin, sums = pointer_of(pairs), pointer_of(cosines), pointer_of(sines), pointer_of(out)
    for m in range(len(cosines)):
        real = advance(sums, 2 * m * count)
        imaginary = advance(real, count)
        for t in range(tokens):
            first, c = advance(both, t * count), advance(cos, (m * tokens + t) * count)
            second, s = advance(first, tokens * count), advance(sin, (m * tokens + t) * count)
            for p in range(count):
                a, b = peek(first, p), peek(second, p)
                poke(real, p, peek(real, p) + (a * peek(c, p) - b * peek(s, p)))
                poke(imaginary, p, peek(imaginary, p) + (a * peek(s, p) + b * peek(c, p)))


@lru_cache(maxsize=4)
def _against(hint: Rope, tokens: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats, Floats]:
    """The pairs' channels, and (speeds, tokens, pairs) cosines and sines of what turns pairs back by the hint's
    angles, by powers of them, which are other thetas, and not at all."""
    angles = np.array(hint.angles)
    powers = np.concatenate([[1.0], np.linspace(0.6, 1.6, OTHERS)])
    speeds = np.sign(angles) * np.abs(angles) ** powers[:, None]
    speeds = np.concatenate([speeds, np.zeros((1, len(angles)))])
    back = -speeds[:, None] * np.arange(tokens)[:, None]
    cosines, sines = np.cos(back).astype(np.float32), np.sin(back).astype(np.float32)
    return np.array(hint.first), np.array(hint.second), cosines, sines


def _slack(total: float, tokens: int) -> float:
    """Nats by which a speed known from elsewhere may fall behind the best: drift biases the best."""
    return max(0.03 * total, EVIDENCE / (2 * tokens))
