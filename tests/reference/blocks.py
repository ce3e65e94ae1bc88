"""Sections 4.1, 5, 6 and 7 of docs/format.md: extents, the plan of their blocks, and what a block holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod

from .draft import rows_of
from .drafted import Drafted
from .grid import BITS, FLOATS, has_grid
from .predicted import Prediction
from .reading import Bytes, DamagedError, UnsupportedError, packed_size, require, unpack
from .shared import Known
from .windows import PlaneWindows

RAW, CONSTANT, CONTINUED, FRESH = range(4)
BATCH, LAYER, KIND, HEAD, TOKEN, CHANNEL = range(6)
NONE, KEY, VALUE, LATENT = range(4)
STORED, WINDOWS, PREDICTED, DRAFTED = range(4)
PACKED = (2, 3, 4)  # F4 and F6, read as bytes


@dataclass
class Extent:
    """A run of data; ``axes`` of (label, size) is empty where it is opaque."""

    dtype: int
    kind: int
    layer: int
    bits: int
    exponent: int
    mantissa: int
    symbol_bits: int
    axes: list[tuple[int, int]]
    elements: int

    @property
    def item(self) -> int:
        return self.bits // 8

    @classmethod
    def read(cls, data: Bytes) -> Extent:
        dtype, symbol_bits, kind, count = data.numbers(1, 4)
        if dtype not in BITS or kind > 5:
            raise UnsupportedError(f"dtype {dtype} or kind {kind} is unknown")
        require(8 <= symbol_bits <= 16 and count <= 16, "an impossible extent")
        layer = data.varint(0, 1 << 32)
        axes = [(data.number(1), data.varint(1, 1 << 62)) for _ in range(count)]
        labels = [label for label, _ in axes]
        if any(label > CHANNEL for label in labels):
            raise UnsupportedError("an unknown axis")
        if axes:
            require(labels.count(TOKEN) == labels.count(CHANNEL) == 1, "not one token and one channel axis")
            require(labels[-1] == CHANNEL and axes[-1][1] <= 65536, "impossible channels")
        elements = prod(size for _, size in axes) if axes else data.varint(1, 1 << 62)
        extent = cls(dtype, kind, layer, BITS[dtype], *FLOATS.get(dtype, (0, 0)), symbol_bits, axes, elements)
        require(elements * extent.item <= 1 << 62, "an extent too large")
        return extent

    @property
    def tokens(self) -> int:
        return dict(self.axes)[TOKEN]

    @property
    def streams(self) -> int:
        return prod(size for label, size in self.axes if label < TOKEN)

    def kind_of(self, stream: int) -> int:
        """The kind of a stream by its number: section 11.4."""
        kind = self.kind
        for label, size in reversed([axis for axis in self.axes if axis[0] < TOKEN]):
            if label == KIND and size == 2:
                kind = (KEY, VALUE)[stream % 2]
            stream //= size
        return kind

    def names(self) -> list[tuple[int, int, int]]:
        """Layer, kind and head of each stream by its number: section 10.4."""
        out = []
        for stream in range(self.streams):
            layer, head, scale, left = self.layer - 1, 0, 1, stream
            for label, size in reversed([axis for axis in self.axes if axis[0] < TOKEN]):
                left, at = divmod(left, size)
                if label == LAYER:
                    layer = at
                elif label != KIND or size != 2:
                    head += at * scale
                    scale *= size
            out.append((layer, self.kind_of(stream), head))
        return out

    def planes(self) -> list[tuple[int, tuple[int, int, int]]]:
        """(shift, (E, S, R)) of each plane from the top: section 7."""
        modelled = min(self.symbol_bits, self.bits)
        below = self.bits - modelled
        widths = [8, modelled - 8, below % 8, *[8] * (below // 8)]
        out, top = [], self.bits
        for width in filter(None, widths):
            bottom = top - width
            exponent = max(0, min(width, top - (self.mantissa + 1))) if self.exponent else 0
            sign = int(self.exponent > 0 and bottom <= self.mantissa < top)
            if exponent not in (0, self.exponent):
                exponent = sign = 0
            out.append((bottom, (exponent, sign, width - exponent - sign)))
            top = bottom
        return out

    def turn_back(self, value: int) -> int:
        if not self.exponent:
            return value
        low = value & ((1 << self.mantissa) - 1)
        sign = value >> self.mantissa & 1
        return sign << (self.bits - 1) | value >> (self.mantissa + 1) << self.mantissa | low


@dataclass
class Block:
    """One block of the plan: its streams' numbers, the first of which names its chain.

    ``places`` are the elements of the extent where its values go, in C order.
    """

    streams: list[int]
    shape: tuple[int, int, int]
    places: list[int]


def plan(extent: Extent, block_bytes: int) -> Iterator[Block]:
    """The blocks of an extent in order: section 5."""
    if not extent.axes:
        step, whole = block_bytes // extent.item, extent.elements // 256 * 256
        for at in range(0, whole, step):
            count = min(step, whole - at)
            yield Block([0], (1, count // 256, 256), list(range(at, at + count)))
        if extent.elements > whole:
            yield Block([1], (1, 1, extent.elements - whole), list(range(whole, extent.elements)))
        return
    labels = [label for label, _ in extent.axes]
    sizes = [size for _, size in extent.axes]
    strides = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
    token = labels.index(TOKEN)
    stream_axes = [i for i, label in enumerate(labels) if label not in (TOKEN, CHANNEL)]
    cut, inside = len(sizes) - 2, sizes[-1] * extent.item
    while cut > 0 and inside * sizes[cut] <= block_bytes:
        inside *= sizes[cut]
        cut -= 1
    step = max(1, block_bytes // inside)
    full = min(step, sizes[cut]) if cut == token else 1 if cut > token else sizes[token]
    group_bytes = 1 << 20 if full == sizes[token] else 1 << 18
    share = max(1, min(128, group_bytes // (full * sizes[-1] * extent.item)))
    for slab in range(prod(sizes[:cut])):
        outer = [slab // prod(sizes[i + 1 : cut]) % sizes[i] for i in range(cut)]
        for low in range(0, sizes[cut], step):
            ranges = [range(i, i + 1) for i in outer]
            ranges += [range(low, min(low + step, sizes[cut])), *(range(size) for size in sizes[cut + 1 :])]
            streams = list(product(*(ranges[i] for i in stream_axes)))
            for first in range(0, len(streams), share):
                group = streams[first : first + share]
                numbers = [0] * len(group)
                for axis, i in enumerate(stream_axes):
                    numbers = [n * sizes[i] + index[axis] for n, index in zip(numbers, group, strict=True)]
                bases = [sum(strides[i] * x for i, x in zip(stream_axes, index, strict=True)) for index in group]
                places = [b + t * strides[token] + c for b in bases for t in ranges[token] for c in ranges[-1]]
                yield Block(numbers, (len(group), len(ranges[token]), sizes[-1]), places)


class Chain:
    """Decodes the blocks of a chain of these streams in order: section 6."""

    def __init__(self, extent: Extent, streams: list[int], parameters: dict[str, int], known: Known) -> None:
        self.extent, self.streams, self.parameters, self.known = extent, streams, parameters, known
        self.kinds = [extent.kind_of(stream) for stream in streams]
        self.planes = extent.planes()
        self.windows: dict[int, PlaneWindows] = {}
        self.prediction: Prediction | Drafted | None = None
        self.token = 0  # of the chain's next block

    def decode(self, data: Bytes, shape: tuple[int, int, int]) -> list[int]:
        """The values (streams, tokens, channels) in C order."""
        self.token += shape[1]
        method = data.number(1)
        if method > DRAFTED or (method >= PREDICTED and (self.known.version < 2 or not has_grid(self.extent))):
            raise UnsupportedError(f"method {method} is unknown here")
        if method >= PREDICTED:
            self.windows.clear()
            if self.prediction is None:
                self.prediction = self._new_prediction(method)
                self.prediction.token = self.token - shape[1]
            require(isinstance(self.prediction, Drafted) == (method == DRAFTED), "another prediction goes on")
            return self.prediction.decode(data, shape)
        self.prediction = None
        if method == STORED:
            self.windows.clear()
            values = data.numbers(self.extent.item, prod(shape))
            data.finish()
            return values
        tokens = [shape[1]] * shape[0]
        if data.flag():
            tokens = [count - data.varint(0, count) for count in tokens]
        count = sum(tokens) * shape[2]
        heads = [self._read_head(data, number, shape, count) for number in range(len(self.planes))]
        symbols = self._read_planes(data, heads, tokens, count)
        data.finish()
        turned = [0] * count
        for (shift, _), plane in zip(self.planes, symbols, strict=True):
            turned = [value | s << shift for value, s in zip(turned, plane, strict=True)]
        values, at = [], 0
        for kept in tokens:
            values += map(self.extent.turn_back, turned[at : at + kept * shape[2]])
            values += [0] * ((shape[1] - kept) * shape[2])
            at += kept * shape[2]
        return values

    def _new_prediction(self, method: int) -> Prediction | Drafted:
        if method == PREDICTED:
            return Prediction(self.extent, self.kinds, self.parameters, self.known)
        draft = rows_of(self.extent, self.known.draft)
        if draft is None:
            raise DamagedError("a draft that is not there")
        return Drafted(self.extent, self.kinds, self.parameters, self.known, draft.of(self.streams))

    def _read_head(self, data: Bytes, number: int, shape: tuple[int, int, int], count: int) -> list[int]:
        """Kind, then the constant, or lanes, words and literals of a plane."""
        kind = data.number(1)
        if kind > FRESH:
            raise UnsupportedError(f"plane kind {kind} is unknown")
        fields = self.planes[number][1]
        if kind < CONTINUED:
            self.windows.pop(number, None)
            value = data.number(1) if kind == CONSTANT else 0
            require(value < 1 << sum(fields), "a constant wider than its plane")
            return [kind, value]
        lanes_log2, words, literals = data.number(1), data.varint(0, count), data.varint(0, count)
        require(lanes_log2 <= 7, "too many lanes")
        if kind == FRESH:
            classes = self.parameters["classes"] if self.extent.axes else 1
            self.windows[number] = PlaneWindows(data, shape, classes, fields, self.parameters, self.known.exponents)
        require(number in self.windows, "a plane continued without windows")
        return [kind, 1 << lanes_log2, words, literals]

    def _read_planes(self, data: Bytes, heads: list[list[int]], tokens: list[int], count: int) -> list[list[int]]:
        """The symbols of every plane: the coded ones, then the raw string with what start states carried."""
        widths = [sum(fields) for _, fields in self.planes]
        raw = [packed_size(count, width) for width, head in zip(widths, heads, strict=True) if head[0] == RAW]
        left = sum(raw)
        tail = b""
        symbols: list[list[int]] = [[] for _ in heads]
        for number, (kind, *head) in enumerate(heads):
            if kind == CONSTANT:
                symbols[number] = head * count
            elif kind != RAW:
                lanes, words, literals = head
                coded = data.numbers(4, lanes), data.numbers(2, words), data.take(literals)
                symbols[number], carried = self.windows[number].decode(tokens, *coded)
                if left >= len(carried):
                    left -= len(carried)
                    tail = carried + tail
                else:
                    require(not any(carried), "start states that carry bytes of nothing")
        string = Bytes(data.take(left) + tail)
        for number, (kind, *_) in enumerate(heads):
            if kind == RAW:
                symbols[number] = unpack(string.take(packed_size(count, widths[number])), widths[number], count)
        return symbols
