"""Sections 8 and 9 of docs/format.md: the windows of one plane of a chain, and the rANS that they steer."""

from __future__ import annotations

from math import log2

from .reading import Bytes, packed_size, require, unpack

ESCAPE = 256
SIGN = (162, 360, 795, 1743, 3757, 7812, 15170, 26300, 39236, 50366, 57724, 61779, 63793, 64741, 65176, 65374)
LOG2_FRACTION = [round(256 * log2(1 + i / 256)) for i in range(256)]


def log_length(n: int) -> int:
    """L(n) of section 8.5."""
    x = n.bit_length() - 1
    return 256 * x + LOG2_FRACTION[(n << 8 >> x) - 256]


class Window:
    """One class of channels of one stream."""

    def __init__(self, counts: list[int]) -> None:
        self.counts = counts
        self.initial = list(counts)
        self.probs = [0] * 257
        self.freq = [0] * 257
        self.start = [0] * 257
        self.slots: list[int] = []

    def make_table(self, beta: int, table_bits: int) -> None:
        """Section 8.4."""
        total = sum(self.counts)
        if total:
            r = (1 << 62) // total
            keep = beta if any(self.probs) else 0
            pairs = zip(self.probs, self.counts, strict=True)
            self.probs = [(keep * p + (65536 - keep) * (c * r >> 38)) >> 16 for p, c in pairs]
        scaled = [p << table_bits for p in self.probs]
        freq = [(u >> 24) or int(u >= 1 << 23) for u in scaled]
        freq[ESCAPE] = max(1, scaled[ESCAPE] >> 24)
        left = (1 << table_bits) - sum(freq)
        if left > 0:
            most = max(freq[:ESCAPE])
            freq[freq.index(most) if most else ESCAPE] += left
        while left < 0:
            for s in range(ESCAPE):
                take = min((freq[s] + 6) >> 3, freq[s] - 1, -left)
                if take > 0:
                    freq[s] -= take
                    left += take
            take = min(freq[ESCAPE] - 1, -left)
            freq[ESCAPE] -= take
            left += take
        self.freq = freq
        self.slots = []
        for s, f in enumerate(freq):
            self.start[s] = len(self.slots)
            self.slots += [s] * f


class Stream:
    """One stream's windows by class, its channels' classes, and its numbers."""

    def __init__(self, windows: list[Window], class_of: list[int]) -> None:
        self.windows = windows
        self.by_channel = [windows[k] for k in class_of]
        self.increment = 65536
        self.token = self.since = self.symbols = self.escapes = 0
        self.fast = self.slow = self.rest = 0

    def weight(self, sampling: int) -> int:
        """Step 1 of section 8.3."""
        skip = 1
        while 2 * skip <= 1 << sampling and 32 * 2 * skip <= self.token:
            skip *= 2
        return 0 if self.token % skip else self.increment

    def end_token(self, freqs: list[int], escapes: int, parameters: dict[str, int]) -> None:
        """Steps 3 to 6 of section 8.3; ``freqs`` are those of the token's symbols."""
        reset = parameters["drift"] and self.watch_drift(freqs, escapes, parameters)
        self.token += 1
        self.since += 1
        self.symbols += len(freqs)
        self.escapes += escapes
        if parameters["alpha"] < 65536:
            self.increment = self.increment * ((1 << 32) // parameters["alpha"]) >> 16
            if self.increment >= 1 << 30:
                self.renormalise()
        if self.token < parameters["warmup"]:
            return
        theta_low, theta_new = parameters["theta_low"], parameters["theta_new"]
        confidence = theta_low > 0 and min(freqs) << (16 - parameters["table_bits"]) < theta_low
        novelty = theta_new > 0 and self.escapes << 16 > self.symbols * theta_new
        period = self.since >= min(parameters["n_update"], max(1, self.token >> 1))
        if reset or confidence or novelty or period:
            self.renormalise()
            self.since = self.symbols = self.escapes = 0
            self.update(parameters)

    def update(self, parameters: dict[str, int]) -> None:
        for window in self.windows:
            window.make_table(parameters["beta"], parameters["table_bits"])

    def renormalise(self) -> None:
        while self.increment >= 1 << 30 or max(sum(window.counts) for window in self.windows) >= 1 << 38:
            for window in self.windows:
                window.counts = [c >> 4 for c in window.counts]
            self.increment = max(16, self.increment >> 4)

    def watch_drift(self, freqs: list[int], escapes: int, parameters: dict[str, int]) -> bool:
        """Section 8.5; True on a reset."""
        whole = log_length(1 << parameters["table_bits"])
        length = 256 * (sum(whole - log_length(f) for f in freqs) + 2048 * escapes)
        if self.fast == 0:
            self.fast = self.slow = length
        self.fast += (length - self.fast) >> 3
        self.slow += (length - self.slow) >> 7
        self.rest += 1
        if self.rest < 32 or self.fast << 8 <= self.slow * parameters["drift"]:
            return False
        keep = parameters["drift_keep"]
        self.renormalise()
        for window in self.windows:
            pairs = zip(window.counts, window.initial, strict=True)
            window.counts = [(c * keep + ((c0 >> 8) * self.increment >> 8) * (256 - keep)) >> 8 for c, c0 in pairs]
        self.slow = self.fast
        self.rest = 0
        return True


def prior_counts(
    spec: Bytes, fields: tuple[int, int, int], prior_weight: int, members: int, asset: bytes
) -> list[int]:
    """Section 8.2: a window's counts at the start; reads its bytes of the opening."""
    counts = [0] * 257
    if not prior_weight:
        return counts
    exponent, sign, rest = fields
    shape = [0] * (1 << exponent)
    if exponent:
        row, reference = spec.number(1), spec.number(1)
        require(row < 32, "a shape that does not exist")
        for i in range(64):
            at = 64 * row + i
            x = min(max(i - 40 + reference, 0), len(shape) - 1)
            shape[x] += int.from_bytes(asset[2 * at : 2 * at + 2], "little")
    else:
        shape[0] = 1 << 15
    share = [65536]
    if sign:
        level = spec.number(1)
        require(level < 16, "a sign level that does not exist")
        share = [65536 - SIGN[level], SIGN[level]]
    weight = min(prior_weight * members, 1 << 20)
    for s in range(1 << (exponent + sign + rest)):
        x, y = s >> (sign + rest), s >> rest & sign
        counts[s] = ((shape[x] * share[y]) >> (15 + rest)) * weight
    counts[ESCAPE] = 16 * weight
    return counts


class PlaneWindows:
    """The windows of all streams of a plane, from its opening on."""

    def __init__(
        self,
        head: Bytes,
        shape: tuple[int, int, int],
        most_classes: int,
        fields: tuple[int, int, int],
        parameters: dict[str, int],
        asset: bytes,
    ) -> None:
        """Read the opening (8.1) and make the first tables."""
        count, tokens, channels = shape
        bits = 0
        while 2 << bits <= min(most_classes, tokens // 16) and 1 << bits < channels:
            bits += 1
        self.width = sum(fields)
        self.parameters = parameters
        flat = [0] * (count * channels)
        if bits:
            flat = unpack(head.take(packed_size(len(flat), bits)), bits, len(flat))
        self.streams = []
        for i in range(count):
            class_of = flat[i * channels : (i + 1) * channels]
            windows = []
            for k in range(1 << bits):
                members = class_of.count(k)
                windows.append(Window(prior_counts(head, fields, parameters["prior_weight"], members, asset)))
                windows[-1].make_table(parameters["beta"], parameters["table_bits"])
            self.streams.append(Stream(windows, class_of))

    def decode(
        self, tokens: list[int], states: list[int], words: list[int], literals: bytes
    ) -> tuple[list[int], bytes]:
        """The symbols of a block, stream after stream, and the bytes that the start states carried."""
        require(min(states) >= 1 << 16, "a state below its floor")
        bits, lanes = self.parameters["table_bits"], len(states)
        symbols: list[int] = []
        word = literal = 0
        for stream, count in zip(self.streams, tokens, strict=True):
            for _ in range(count):
                weight = stream.weight(self.parameters["sampling"])
                freqs, escapes = [], 0
                for window in stream.by_channel:
                    lane = len(symbols) % lanes
                    x = states[lane]
                    slot = x % (1 << bits)
                    s = window.slots[slot]
                    freqs.append(window.freq[s])
                    x = window.freq[s] * (x >> bits) + slot - window.start[s]
                    if x < 1 << 16:
                        require(word < len(words), "words run out")
                        x = x << 16 | words[word]
                        word += 1
                    states[lane] = x
                    if s == ESCAPE:
                        require(literal < len(literals), "literals run out")
                        s = literals[literal]
                        require(s < 1 << self.width and not window.freq[s], "a literal that is no escaped symbol")
                        literal += 1
                        escapes += 1
                        window.counts[ESCAPE] += weight
                    window.counts[s] += weight
                    symbols.append(s)
                stream.end_token(freqs, escapes, self.parameters)
        require((word, literal) == (len(words), len(literals)), "words or literals left over")
        require(max(states) < 1 << 17, "a lane that does not end at its floor")
        return symbols, b"".join((x - (1 << 16)).to_bytes(2, "little") for x in states)
