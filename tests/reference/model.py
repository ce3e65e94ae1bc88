"""Sections 11.2 to 11.9 of docs/format.md: what a prediction has learnt, and the runs of values that it codes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .grid import OUT, Context, Grid
from .prediction import Angles, F, Predictor, Row, bits_of, turn, turn_back
from .reading import Bytes, require
from .shared import Known, Occurrence, Rope
from .windows import ESCAPE, Stream, Window

VALUE, SCALE = 2, 4
Ints = NDArray[np.int64]


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

    def renew(self) -> None:
        """Section 11.10: all windows get new tables."""
        self.touched = set(self.windows)
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


class Model:
    """Predictors of streams of these kinds, and the windows that they share."""

    def __init__(
        self,
        grid: Grid,
        kinds: list[int],
        channels: int,
        parameters: dict[str, int],
        known: Known,
        rope: Rope | None,
        scales: list[tuple[int, int]],
        energy: int,
        together: int,
    ) -> None:
        self.grid, self.kinds, self.energy, self.together = grid, kinds, energy, together
        firsts, seconds = [[pair[i] for pair in rope.pairs] if rope else [] for i in range(2)]
        rest = [c for c in range(channels) if c not in {*firsts, *seconds}]
        self.order = firsts + seconds + rest
        edges = [0, len(firsts), 2 * len(firsts), channels]
        self.groups = [(at, min(at + 16, end)) for start, end in pairwise(edges) for at in range(start, end, 16)]
        self.angles = Angles(rope.cos, rope.sin) if rope else Angles([], [])
        self.predictors = [Predictor(channels, pair) for pair in scales]
        self.usual = [-333 << 8] * len(scales)
        self.bits = parameters["table_bits"]
        self.windows = ResidualWindows(known.residuals[grid.mantissa], parameters)

    def decode(self, data: Bytes, seen: list[Occurrence], draft: Row | None = None) -> tuple[list[int], bytes]:
        """The values of a run, stream after stream, channels in their natural order, and what states carried.

        ``draft`` is of (streams, rows, channels).
        """
        size = len(self.kinds) * len(seen) * len(self.order)
        lanes_log2, words, literals = data.number(1), data.varint(0, 2 * size), data.varint(0, size)
        require(lanes_log2 <= 7, "too many lanes")
        coded = (data.numbers(4, 1 << lanes_log2), data.numbers(2, words), data.numbers(self.grid.item, literals))
        self.reader: Reader | None = Reader(*coded, self.bits)
        rows = self._rows(seen, draft, None)
        out: list[int] = []
        for key in sorted(rows):
            natural = [0] * len(self.order)
            for value, channel in zip(rows[key], self.order, strict=True):
                natural[channel] = value
            out += natural
        return out, self.reader.finish()

    def learn(self, values: Ints, seen: list[Occurrence]) -> None:
        """Section 11.10: take in a run of (streams, rows, channels) that is known."""
        self.reader = None
        self._rows(seen, None, values)
        self.windows.renew()

    def _rows(
        self, seen: list[Occurrence], draft: Row | None, values: Ints | None
    ) -> dict[tuple[int, int], list[int]]:
        """The rows of a run by stream and number."""
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
                    coded = [
                        self._row(
                            stream, t, seen[t], angles[t],
                            None if draft is None else draft[stream, t, self.order],
                            [] if values is None else values[stream, t, self.order].tolist(),
                        )
                        for stream, t in at
                    ]  # fmt: skip
                    for _ in self.groups:
                        for row in coded:
                            next(row)
                    for key, row in zip(at, coded, strict=True):
                        rows[key] = next(row)
        return rows

    def _row(
        self, stream: int, t: int, token: Occurrence, angle: tuple[Row, Row], draft: Row | None, given: list[int]
    ) -> Iterator[list[int]]:
        """A row in the order of the rope's pairs, group by group: what is there of it; at last it is learnt from.

        ``draft`` and ``given``, its values if it is only learnt from, have that order too.
        """
        predictor, channels = self.predictors[stream], len(self.order)
        mean, variance = predictor.predict(token.slot, token.times, token.pair, token.pair_times)
        turned = self.kinds[stream] != VALUE and self.kinds[stream] < SCALE
        if turned:
            mean, variance = turn(mean, variance, *angle)
        if draft is not None:
            mean = mean + draft
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
            values += self._group(mean[part], variance[part] * loud, coded, freqs, given[part])
            x.append(self.grid.numbers(np.array(values[part], np.int64), mean[part]))
            e = x[-1] - mean[part]
            logs = np.clip(bits_of(e * e) - bits_of(variance[part]), -6 << 23, 6 << 23) >> 15
            total += int(logs.sum())
            self.energies[t] += int(logs.sum()) - usual * (end - start)
            yield values
        if self.energy:
            self.usual[stream] += ((total << 8) // channels - self.usual[stream]) >> 5
        learnt = np.concatenate(x)
        if draft is not None:
            learnt = learnt - draft
        predictor.learn(turn_back(learnt, *angle) if turned else learnt)
        self.windows.count(coded)
        self.windows.end_token(freqs, sum(escaped for *_, escaped in coded), self.windows.parameters)
        yield values

    def _factor(self, total: int, channels: int) -> np.float32:
        """Section 11.6: what an energy makes of variances."""
        log = min(max(F(total) / F(channels + 8), F(-2048)), F(2048))
        return np.array([(127 << 23) + (int(log) << 15)], np.int32).view(np.float32)[0]

    def _group(
        self, mean: Row, variance: Row, coded: list[tuple[Window, int, bool]], freqs: list[int], given: list[int]
    ) -> list[int]:
        """The values of up to sixteen channels."""
        contexts = self.grid.contexts_of(mean, variance)
        windows = [self.windows.windows[at.window] for at in contexts]
        if self.reader is None:
            symbols = [self.grid.symbol(value, at) for value, at in zip(given, contexts, strict=True)]
            read = [s if s != OUT and w.freq[s] else ESCAPE for s, w in zip(symbols, windows, strict=True)]
            values = given
        else:
            read, values = self._read_group(self.reader, contexts, windows)
        for value, symbol, at, window in zip(values, read, contexts, windows, strict=True):
            freqs.append(window.freq[symbol])
            coded.append((window, self.grid.symbol(value, at) if symbol == ESCAPE else symbol, symbol == ESCAPE))
        return values

    def _read_group(
        self, reader: Reader, contexts: list[Context], windows: list[Window]
    ) -> tuple[list[int], list[int]]:
        """Symbols, the escape among them, and values."""
        number = reader.values
        reader.values += len(contexts)
        symbols = [reader.symbol(number + i, window) for i, window in enumerate(windows)]
        values = []
        for i, (symbol, at) in enumerate(zip(symbols, contexts, strict=True)):
            low = reader.low(number + i, at.shift) if symbol != ESCAPE else 0
            values.append(self.grid.value(symbol, low, at) if symbol != ESCAPE else 0)
        for i, (symbol, at, window) in enumerate(zip(symbols, contexts, windows, strict=True)):
            if symbol == ESCAPE:
                values[i] = reader.take_literal()
                symbol = self.grid.symbol(values[i], at)
                require(symbol == OUT or not window.freq[symbol], "a literal that is no escaped symbol")
        return symbols, values
