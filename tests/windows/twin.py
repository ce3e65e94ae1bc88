"""A slow, obvious twin of the windows: plain lists and Python integers, one function for both directions.

It knows the rules, not the kernels: no spans, no dirty bits for single windows, no rows at once, whole tables anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvzip.windows.lengths import code_lengths

ESCAPE = 256
COUNTERS = ("periodic", "confidence", "novelty", "rebuilds", "resets", "escapes", "length")


def renormalise(windows: list[list[int]], increment: int) -> int:
    """Divide everything by 16 until increment and totals are below their ceilings."""
    while increment >= 1 << 30 or max(map(sum, windows)) >= 1 << 38:
        for counts in windows:
            counts[:] = [n >> 4 for n in counts]
        increment = max(16, increment >> 4)
    return increment


def smooth(counts: list[int], probs: list[int], beta: int) -> list[int]:
    """beta * P + (1 - beta) * C / sum C with 24 fractional bits, beta and 1 - beta of 2^16."""
    total = sum(counts)
    if not total:
        return probs
    keep = beta if any(probs) else 0
    estimates = [n * ((1 << 62) // total) >> 38 for n in counts]
    return [(keep * p + (65536 - keep) * e) >> 16 for p, e in zip(probs, estimates, strict=True)]


def quantise(probs: list[int], bits: int) -> list[int]:
    """Frequencies that sum to 2^bits."""
    freqs = [max((p << bits) >> 24, int(p << bits >= 1 << 23)) for p in probs[:ESCAPE]]
    escape = max(1, (probs[ESCAPE] << bits) >> 24)
    left = (1 << bits) - sum(freqs) - escape
    if left > 0:
        if any(freqs):
            freqs[freqs.index(max(freqs))] += left
        else:
            escape += left
    while left < 0:
        for s, freq in enumerate(freqs):
            take = max(0, min((freq + 6) // 8, freq - 1, -left))
            freqs[s] -= take
            left += take
        take = min(escape - 1, -left)
        escape -= take
        left += take
    return [*freqs, escape]


def cumulative(freqs: list[int]) -> list[int]:
    """Where each symbol's interval starts, in symbol order, the escape last."""
    return [sum(freqs[:s]) for s in range(len(freqs))]


@dataclass
class Stream:
    """One stream's windows and what its triggers remember."""

    counts: list[list[int]]
    prior: list[list[int]]
    probs: list[list[int]]
    freqs: list[list[int]]
    starts: list[list[int]]
    increment: int = 1 << 16
    stale: bool = True
    token: int = 0
    since_update: int = 0
    symbols: int = 0
    novel: int = 0
    fast: int = 0
    slow: int = 0
    since_reset: int = 0
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTERS, 0))


class Twin:
    """Takes classes and priors from an opened model; then codes like it."""

    def __init__(self, model: Any) -> None:
        self.p, self.channels, self.classes = model.parameters, model.channels, model.classes
        self.class_of = model.class_of.reshape(model.streams, model.channels).tolist()
        self.lengths = code_lengths(self.p.table_bits).tolist()
        self.streams = []
        for i in range(model.streams):
            rows = model.counts[i * self.classes : (i + 1) * self.classes].tolist()
            zeros = [[0] * 257 for _ in rows]
            copies = [[list(row) for row in part] for part in (rows, rows, zeros, zeros, zeros)]
            self.streams.append(Stream(*copies))

    def encode(self, symbols: list[int], tokens: list[int]) -> tuple[list[tuple[int, int]], list[int]]:
        """The interval (start, freq) of every symbol, and the literals."""
        writer = _Writer(symbols)
        self._run(writer, tokens)
        return writer.intervals, writer.literals

    def decode(self, coded: Any, tokens: list[int]) -> tuple[list[int], list[int]]:
        """The symbols, and what the lanes carried."""
        reader = _Reader(coded, self.p.table_bits)
        self._run(reader, tokens)
        assert reader.words == []
        assert reader.literals == []
        return reader.symbols, [x - 65536 for x in reader.states]

    def _run(self, side: Any, tokens: list[int]) -> None:
        for stream, count, class_of in zip(self.streams, tokens, self.class_of, strict=True):
            for _ in range(count):
                self._token(stream, side, class_of)

    def _token(self, s: Stream, side: Any, class_of: list[int]) -> None:
        if s.stale:
            self._rebuild(s)
        row = []
        for k in class_of:
            symbol = side.symbol(s.freqs[k], s.starts[k])
            known = s.freqs[k][symbol] > 0
            row.append((k, symbol, s.freqs[k][symbol if known else ESCAPE], known))
        weight = s.increment if s.token % self._skip(s.token) == 0 else 0
        for k, symbol, _, known in row:
            s.counts[k][symbol] += weight
            s.counts[k][ESCAPE] += 0 if known else weight
        escapes = sum(not known for *_, known in row)
        low = min(freq for _, _, freq, _ in row) << (16 - self.p.table_bits)
        length = sum(self.lengths[freq] for _, _, freq, _ in row) + 2048 * escapes
        s.seen["length"] += length
        s.seen["escapes"] += escapes
        s.novel += escapes
        s.symbols += self.channels
        drifted = self.p.drift > 0 and self._drifts(s, length << 8)
        self._end_token(s, low, drifted)

    def _skip(self, token: int) -> int:
        skip = 1
        while skip < 1 << self.p.sampling and token >= 64 * skip:
            skip *= 2
        return skip

    def _rebuild(self, s: Stream) -> None:
        for k in range(self.classes):
            s.probs[k] = smooth(s.counts[k], s.probs[k], self.p.beta)
            freqs = quantise(s.probs[k], self.p.table_bits)
            s.seen["rebuilds"] += freqs != s.freqs[k]
            s.freqs[k], s.starts[k] = freqs, cumulative(freqs)
        s.stale = False

    def _drifts(self, s: Stream, length: int) -> bool:
        if s.fast == 0:
            s.fast = s.slow = length
        s.fast += (length - s.fast) >> 3
        s.slow += (length - s.slow) >> 7
        s.since_reset += 1
        if s.since_reset < 32 or s.fast * 256 <= s.slow * self.p.drift:
            return False
        for counts, prior in zip(s.counts, s.prior, strict=True):
            fresh = [((n >> 8) * s.increment) >> 8 for n in prior]
            keep = self.p.drift_keep
            counts[:] = [(n * keep + f * (256 - keep)) >> 8 for n, f in zip(counts, fresh, strict=True)]
        s.slow, s.since_reset = s.fast, 0
        s.seen["resets"] += 1
        return True

    def _end_token(self, s: Stream, low: int, drifted: bool) -> None:
        s.token += 1
        s.since_update += 1
        inverse = (1 << 32) // self.p.alpha
        if inverse > 65536:
            s.increment = s.increment * inverse >> 16
            if s.increment >= 1 << 30:
                s.increment = renormalise(s.counts, s.increment)
        if s.token < self.p.warmup:
            return
        reason = None
        if low < self.p.theta_low:
            reason = "confidence"
        elif self.p.theta_new and s.novel << 16 > s.symbols * self.p.theta_new:
            reason = "novelty"
        elif s.since_update >= min(self.p.n_update, max(1, s.token // 2)):
            reason = "periodic"
        if reason:
            s.seen[reason] += 1
        if reason or drifted:
            s.increment = renormalise(s.counts, s.increment)
            s.stale = True
            s.since_update = s.symbols = s.novel = 0


class _Writer:
    def __init__(self, symbols: list[int]) -> None:
        self.left, self.intervals, self.literals = iter(symbols), [], []

    def symbol(self, freqs: list[int], starts: list[int]) -> int:
        symbol = next(self.left)
        coded = symbol if freqs[symbol] else ESCAPE
        if coded == ESCAPE:
            self.literals.append(symbol)
        self.intervals.append((starts[coded], freqs[coded]))
        return symbol


class _Reader:
    def __init__(self, coded: Any, bits: int) -> None:
        self.states, self.words, self.literals = coded.states.tolist(), coded.words.tolist(), coded.literals.tolist()
        self.bits, self.symbols = bits, []

    def symbol(self, freqs: list[int], starts: list[int]) -> int:
        lane = len(self.symbols) % len(self.states)
        x = self.states[lane]
        slot = x & ((1 << self.bits) - 1)
        coded = next(s for s in range(257) if starts[s] <= slot < starts[s] + freqs[s])
        x = freqs[coded] * (x >> self.bits) + slot - starts[coded]
        self.states[lane] = x << 16 | self.words.pop(0) if x < 1 << 16 else x
        self.symbols.append(self.literals.pop(0) if coded == ESCAPE else coded)
        return self.symbols[-1]
