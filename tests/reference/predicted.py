"""Section 11 of docs/format.md: a block of method 2 is values relative to their predictions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from .grid import F32, OUT, Grid
from .prediction import Angles, F, Predictor, Row, bits_of, turn, turn_back
from .reading import Bytes, require
from .shared import Known, Occurrence
from .windows import ESCAPE, Stream, Window

if TYPE_CHECKING:
    from .blocks import Extent

CONTINUED, STARTED = range(2)
VALUE, SCALE = 2, 4
UNIQUE, TOGETHER = 1, 2
NOTHING = Occurrence(-1, 0, -1, 0)


class ResidualWindows(Stream):
    """Section 11.9: one window for each context, for all streams of a block; tables only for those counted in."""

    def __init__(self, rows: list[list[int]], parameters: dict[str, int]) -> None:
        self.parameters = {**parameters, "warmup": max(128, parameters["warmup"])}
        windows = []
        for row in rows:
            weight = 32 * parameters["prior_weight"]
            counts = [x * weight for x in row[:128]] + [0] * 128 + [row[128] * weight]
            windows.append(Window(counts))
        super().__init__(windows, [])
        self.touched = set(windows)
        self.update(self.parameters)

    def count(self, coded: list[tuple[Window, int, bool]]) -> None:
        weight = self.weight(self.parameters["sampling"])
        if weight:
            for window, symbol, escaped in coded:
                self.touched.add(window)
                if symbol != OUT:
                    window.counts[symbol] += weight
                if escaped:
                    window.counts[ESCAPE] += weight

    def watch_drift(self, freqs: list[int], escapes: int, parameters: dict[str, int]) -> bool:
        reset = super().watch_drift(freqs, escapes, parameters)
        if reset:
            self.touched = set(self.windows)
        return reset

    def update(self, parameters: dict[str, int]) -> None:
        self.stale = True

    def refresh(self) -> None:
        """Tables for the next rows, if an update was called for."""
        if self.stale:
            for window in self.touched:
                window.make_table(self.parameters["beta"], self.parameters["table_bits"])
            self.touched.clear()
        self.stale = False


class Reader:
    """Lanes, words and literals of a block."""

    def __init__(self, states: list[int], words: list[int], literals: list[int], bits: int) -> None:
        require(min(states) >= 1 << 16, "a state below its floor")
        self.states, self.words, self.literals, self.bits = states, words, literals, bits
        self.word = self.literal = 0
        self.values = 0  # so many before the group at hand

    def symbol(self, number: int, window: Window) -> int:
        lane = number % len(self.states)
        x = self.states[lane]
        slot = x & ((1 << self.bits) - 1)
        s = window.slots[slot]
        self._put(lane, window.freq[s] * (x >> self.bits) + slot - window.start[s])
        return s

    def low(self, number: int, width: int) -> int:
        """So many uniform bits."""
        lane, keep = number % len(self.states), self.bits - width
        x = self.states[lane]
        low = (x & ((1 << self.bits) - 1)) >> keep
        self._put(lane, (x >> self.bits << keep) + (x & ((1 << keep) - 1)))
        return low

    def _put(self, lane: int, x: int) -> None:
        if x < 1 << 16:
            require(self.word < len(self.words), "words run out")
            x = x << 16 | self.words[self.word]
            self.word += 1
        self.states[lane] = x

    def take_literal(self) -> int:
        require(self.literal < len(self.literals), "literals run out")
        self.literal += 1
        return self.literals[self.literal - 1]

    def finish(self) -> bytes:
        """What the lanes carried."""
        ends = (self.word, self.literal) == (len(self.words), len(self.literals))
        require(ends and max(self.states) < 1 << 17, "a block that does not decode to its end")
        return b"".join((x - (1 << 16)).to_bytes(2, "little") for x in self.states)


class Prediction:
    """The prediction of a chain between its blocks."""

    def __init__(self, extent: Extent, kinds: list[int], parameters: dict[str, int], known: Known) -> None:
        self.extent, self.kinds, self.parameters, self.known = extent, kinds, parameters, known
        self.grid = Grid(extent)
        self.predictors: list[Predictor] = []
        self.token = 0

    def decode(self, data: Bytes, shape: tuple[int, int, int]) -> list[int]:
        streams, tokens, channels = shape
        kind = data.number(1)
        require(kind <= STARTED and (kind == STARTED or self.predictors), "a prediction that was not begun")
        count = tokens - data.varint(0, tokens)
        if kind == STARTED:
            self._start(data, channels)
        seen = self.tokens[self.token : self.token + count] if self.tokens else [NOTHING] * count
        kept = [t for t in range(count) if not (self.unique and seen[t].times)]
        size = streams * len(kept) * channels
        values = self._values(data, [NOTHING if self.unique else seen[t] for t in kept], size)
        if self.extent.dtype == F32:
            carried = self.carried if len(self.carried) <= 2 * size else b""
            low = Bytes(data.take(2 * size - len(carried)) + carried).numbers(2, size)
            values = [top << 16 | half for top, half in zip(values, low, strict=True)]
            self.carried = self.carried[len(carried) :]
        require(not any(self.carried), "start states that carry bytes of nothing")
        data.finish()
        coded = [values[at : at + channels] for at in range(0, size, channels)]
        out: list[int] = []
        for stream in range(streams):
            rows = dict(zip(kept, coded[stream * len(kept) :], strict=False))
            for t, token in enumerate(seen):
                if t in rows and token.times == 0:
                    self.store[stream, token.slot] = rows[t]
                out += rows[t] if t in rows else self.store.get((stream, token.slot), [0] * channels)
            out += [0] * ((tokens - count) * channels)
        self.token += tokens
        return out

    def _start(self, data: Bytes, channels: int) -> None:
        flags, self.energy = data.number(1), data.number(1)
        self.together = data.number(1) if flags & TOGETHER else 1
        rope, tokens = data.varint(0, len(self.known.ropes)), data.varint(0, len(self.known.tokens))
        scales = [(data.signed(), data.signed()) for _ in self.kinds]
        self.unique = flags & UNIQUE
        impossible = flags > UNIQUE | TOGETHER or (
            flags & TOGETHER and not 2 <= self.together <= min(16, len(self.kinds))
        )
        impossible = impossible or (self.unique and (not tokens or self.extent.dtype == F32))
        require(not impossible and all(-120 <= x <= 120 for pair in scales for x in pair), "an impossible start")
        self.tokens = self.known.tokens[tokens - 1] if tokens else []
        require(not tokens or (len(self.tokens) == self.extent.tokens and not self.token), "tokens of another dump")
        turns = self.known.ropes[rope - 1] if rope else None
        require(not turns or turns.channels <= channels, "a rope for wider rows")
        firsts, seconds = [[pair[i] for pair in turns.pairs] if turns else [] for i in range(2)]
        rest = [c for c in range(channels) if c not in {*firsts, *seconds}]
        self.order = firsts + seconds + rest
        edges = [0, len(firsts), 2 * len(firsts), channels]
        self.groups = [(at, min(at + 16, end)) for start, end in pairwise(edges) for at in range(start, end, 16)]
        self.angles = Angles(turns.cos, turns.sin) if turns else Angles([], [])
        self.predictors = [Predictor(channels, pair) for pair in scales]
        self.usual = [-333 << 8] * len(scales)
        self.windows = ResidualWindows(self.known.residuals[self.grid.mantissa], self.parameters)
        self.store: dict[tuple[int, int], list[int]] = {}

    def _values(self, data: Bytes, seen: list[Occurrence], size: int) -> list[int]:
        """The coded values, stream after stream, channels in their natural order; what states carried is kept."""
        lanes_log2, words, literals = data.number(1), data.varint(0, 2 * size), data.varint(0, size)
        require(lanes_log2 <= 7, "too many lanes")
        coded = (data.numbers(4, 1 << lanes_log2), data.numbers(2, words), data.numbers(self.grid.item, literals))
        self.reader = Reader(*coded, self.parameters["table_bits"])
        angles = [self.angles.next() for _ in seen]
        self.energies = [0] * len(seen)
        rows: dict[tuple[int, int], list[int]] = {}
        streams = len(self.predictors)
        with np.errstate(all="ignore"):
            for band in range(0, streams, self.together):
                size = min(self.together, streams - band)
                for step in range(len(seen) + size - 1):
                    self.windows.refresh()
                    at = [(band + j, step - j) for j in range(size) if 0 <= step - j < len(seen)]
                    coded = [self._row(stream, t, seen[t], angles[t]) for stream, t in at]
                    for _ in self.groups:
                        for row in coded:
                            next(row)
                    for key, row in zip(at, coded, strict=True):
                        rows[key] = next(row)
        out: list[int] = []
        for key in sorted(rows):
            natural = [0] * len(self.order)
            for value, channel in zip(rows[key], self.order, strict=True):
                natural[channel] = value
            out += natural
        self.carried = self.reader.finish()
        return out

    def _row(self, stream: int, t: int, token: Occurrence, angle: tuple[Row, Row]) -> Iterator[list[int]]:
        """A row in the order of the rope's pairs, group by group: what is there of it; at last it is learnt from."""
        predictor, channels = self.predictors[stream], len(self.order)
        mean, variance = predictor.predict(token.slot, token.times, token.pair, token.pair_times)
        turned = self.kinds[stream] != VALUE and self.kinds[stream] < SCALE
        if turned:
            mean, variance = turn(mean, variance, *angle)
        values: list[int] = []
        x: list[Row] = []
        coded: list[tuple[Window, int, bool]] = []
        freqs: list[int] = []
        total, usual = 0, self.usual[stream] >> 8
        loud = F(1)
        for number_of_group, (start, end) in enumerate(self.groups):
            part = slice(start, end)
            if self.energy and number_of_group % self.energy == 0:
                loud = self._factor(self.energies[t], stream * channels + start)
            values += self._group(mean[part], variance[part] * loud, coded, freqs)
            x.append(self.grid.numbers(np.array(values[part], np.int64), mean[part]))
            e = x[-1] - mean[part]
            logs = np.clip(bits_of(e * e) - bits_of(variance[part]), -6 << 23, 6 << 23) >> 15
            total += int(logs.sum())
            self.energies[t] += int(logs.sum()) - usual * (end - start)
            yield values
        if self.energy:
            self.usual[stream] += ((total << 8) // channels - self.usual[stream]) >> 5
        learnt = np.concatenate(x)
        predictor.learn(turn_back(learnt, *angle) if turned else learnt)
        self.windows.count(coded)
        self.windows.end_token(freqs, sum(escaped for *_, escaped in coded), self.windows.parameters)
        yield values

    def _factor(self, total: int, channels: int) -> np.float32:
        """Section 11.6: what an energy makes of variances."""
        log = min(max(F(total) / F(channels + 8), F(-2048)), F(2048))
        return np.array([(127 << 23) + (int(log) << 15)], np.int32).view(np.float32)[0]

    def _group(self, mean: Row, variance: Row, coded: list[tuple[Window, int, bool]], freqs: list[int]) -> list[int]:
        """The values of up to sixteen channels."""
        contexts = self.grid.contexts_of(mean, variance)
        windows = [self.windows.windows[at.window] for at in contexts]
        number = self.reader.values
        self.reader.values += len(contexts)
        symbols = [self.reader.symbol(number + i, window) for i, window in enumerate(windows)]
        values = []
        for i, (symbol, at) in enumerate(zip(symbols, contexts, strict=True)):
            low = self.reader.low(number + i, at.shift) if symbol != ESCAPE else 0
            values.append(self.grid.value(symbol, low, at) if symbol != ESCAPE else 0)
        for i, (symbol, at, window) in enumerate(zip(symbols, contexts, windows, strict=True)):
            freqs.append(window.freq[symbol])
            if symbol == ESCAPE:
                values[i] = self.reader.take_literal()
                symbol = self.grid.symbol(values[i], at)
                require(symbol == OUT or not window.freq[symbol], "a literal that is no escaped symbol")
                coded.append((window, symbol, True))
            else:
                coded.append((window, symbol, False))
        return values
