"""An *extent*: a run of a member's data that is coded as one array, described well enough to decode it alone.

    axes      (label, size) from the outermost to the innermost, the element type of ``dtype`` innermost of all
    streams   the axes that tell streams apart: batch, layer, kind, head; a stream is (tokens, channels)
    opaque    no axes: rows of 256 elements, then what is left as a row of its own

Several tensors may share one extent: duplicates with equal offsets, and neighbours too small to stand alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from kvzip.dtypes import DTYPES_BY_ID, Dtype
from kvzip.errors import UnsupportedError
from kvzip.wire import Cursor, put_varint

LABELS = ("batch", "layer", "kind", "head", "token", "channel")
KINDS = ("", "key", "value", "latent", "scale", "bias")
OPAQUE_ROW = 256
MAX_AXES = 16
MAX_CHANNELS = 1 << 16
MAX_BYTES = 1 << 62


@dataclass(frozen=True)
class StreamName:
    """Which stream: layer (-1 when unknown), kind, and the index over batch and head axes."""

    layer: int
    kind: str
    head: int


@dataclass(frozen=True)
class Extent:
    """A run of data; ``elements`` of ``dtype``. ``axes`` is empty for opaque data."""

    dtype: Dtype
    elements: int
    axes: tuple[tuple[str, int], ...] = ()
    layer: int = -1
    kind: str = ""
    symbol_bits: int = 8

    @property
    def opaque(self) -> bool:
        """Whether no layout knows what the data is."""
        return not self.axes

    @property
    def itemsize(self) -> int:
        """Bytes of the unsigned integers that the data is read as."""
        return self.dtype.container_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the extent in the dump."""
        return self.elements * self.itemsize

    @property
    def tokens(self) -> int:
        """The size of the token axis, 0 if there is none."""
        return dict(self.axes).get("token", 0)

    @property
    def streams(self) -> int:
        """How many streams there are; 1 of opaque data."""
        return prod(size for label, size in self.axes if label not in ("token", "channel"))

    def kinds(self, streams: tuple[int, ...]) -> tuple[str, ...]:
        """The kinds of some streams, by number."""
        if all(label != "kind" for label, _ in self.axes):
            return (self.kind,) * len(streams)
        return tuple(self.stream_name(number).kind for number in streams)

    def stream_names(self) -> Iterator[StreamName]:
        """The streams in coding order: the stream axes' indices in file order, outermost slowest."""
        return map(self.stream_name, range(self.streams))

    def stream_name(self, number: int) -> StreamName:
        """The stream of a number in that order."""
        layer, kind, head, scale = self.layer, self.kind, 0, 1
        for label, size in reversed(self.axes):
            if label in ("token", "channel"):
                continue
            number, at = divmod(number, size)
            if label == "layer":
                layer = at
            elif label == "kind" and size == 2:
                kind = ("key", "value")[at]
            else:
                head += at * scale
                scale *= size
        return StreamName(layer, kind, head)

    def write_to(self, out: bytearray) -> None:
        """Append the description."""
        out += bytes((self.dtype.id, self.symbol_bits, KINDS.index(self.kind), len(self.axes)))
        put_varint(out, self.layer + 1)
        for label, size in self.axes:
            out.append(LABELS.index(label))
            put_varint(out, size)
        if self.opaque:
            put_varint(out, self.elements)

    @classmethod
    def read_from(cls, cursor: Cursor) -> Extent:
        """Read and check what ``write_to`` wrote."""
        dtype_id, symbol_bits, kind, count = (cursor.u8() for _ in range(4))
        if dtype_id not in DTYPES_BY_ID or kind >= len(KINDS):
            raise UnsupportedError(f"{cursor.where} uses an element type or kind unknown here; use a newer kvzip")
        if not 8 <= symbol_bits <= 16 or count > MAX_AXES:
            raise cursor.damaged("describes an impossible tensor")
        layer = cursor.varint(1 << 32) - 1
        axes = []
        for _ in range(count):
            label = cursor.u8()
            if label >= len(LABELS):
                raise UnsupportedError(f"{cursor.where} has an axis unknown here; use a newer kvzip")
            axes.append((LABELS[label], cursor.varint(MAX_BYTES)))
        elements = prod(size for _, size in axes) if axes else cursor.varint(MAX_BYTES)
        extent = cls(DTYPES_BY_ID[dtype_id], elements, tuple(axes), layer, KINDS[kind], symbol_bits)
        if not extent.is_sound():
            raise cursor.damaged("describes an impossible tensor")
        return extent

    def is_sound(self) -> bool:
        """Whether axes and sizes make sense together."""
        labels = [label for label, _ in self.axes]
        if not 0 < self.nbytes <= MAX_BYTES:
            return False
        if not labels:
            return True
        single = all(labels.count(label) == 1 for label in ("token", "channel"))
        return single and labels[-1] == "channel" and self.axes[-1][1] <= MAX_CHANNELS
