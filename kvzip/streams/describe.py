"""From a dump's header to the extents of its data: which tensors are streams, which are opaque, what is merged.

Tensors with a layout become one extent each; the rest become opaque extents, neighbours of one type joined while
they are small, as are tensors too small to carry a block of their own. Empty tensors need none.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from kvzip.dtypes import DTYPES, Dtype
from kvzip.dumps.safetensors import Header, TensorEntry
from kvzip.layouts.registry import TensorLayout, recognise
from kvzip.planes.split import default_symbol_bits
from kvzip.streams.extent import KINDS, MAX_AXES, MAX_CHANNELS, Extent

SMALL = 1 << 10  # bytes: a smaller tensor is joined with its neighbours, whatever it is
SHORTEST_STREAM = 1 << 8  # bytes
JOINED = 1 << 16  # bytes: an opaque tensor below this is joined with the one before it


def extents_of(
    header: Header, path: str, layout: str | None, symbol_bits: int, bytes_as: str = "F8_E4M3"
) -> tuple[Extent, ...]:
    """The extents that cover the data section of a dump, in order. ``symbol_bits`` 0 takes each type's default.

    A U8 cache may be an fp8 cache under another tag: its bytes are read as ``bytes_as``. The header is left alone.
    """
    layouts = recognise(header.entries, path, layout)
    out: list[Extent] = []
    at = 0
    joinable = False
    for entry in header.entries:
        size = entry.stop - entry.start
        if size == 0 or entry.stop <= at:
            continue  # nothing, or a second name for the bytes before
        at = entry.stop
        extent = _extent(entry, layouts.get(entry.name), symbol_bits, bytes_as)
        if joinable and extent.opaque and size < JOINED and out[-1].dtype == extent.dtype:
            out[-1] = replace(out[-1], elements=out[-1].elements + extent.elements)
        else:
            out.append(extent)
        joinable = extent.opaque
    return tuple(out)


def opaque_bytes(size: int) -> tuple[Extent, ...]:
    """The extent of a file that is no dump."""
    return (Extent(DTYPES["U8"], size),) if size else ()


def bytes_cache(header: Header, path: str, layout: str | None) -> TensorEntry | None:
    """The first U8 tensor that a layout knows as keys or values, if there is one."""
    if all(entry.dtype != "U8" for entry in header.entries):
        return None
    layouts = recognise(header.entries, path, layout)
    for entry in header.entries:
        if entry.dtype == "U8" and (found := layouts.get(entry.name)) and _fits(found, DTYPES["U8"]):
            return entry
    return None


def _extent(entry: TensorEntry, layout: TensorLayout | None, symbol_bits: int, bytes_as: str) -> Extent:
    """One tensor's extent."""
    dtype = DTYPES[entry.dtype]
    size = entry.stop - entry.start
    elements = size // dtype.container_bytes
    if layout is None or size < SMALL or not _fits(layout, dtype):
        return Extent(dtype, elements, symbol_bits=8)
    dtype = DTYPES[bytes_as] if dtype.name == "U8" else dtype
    return Extent(
        dtype,
        elements,
        tuple((axis.label, axis.size) for axis in layout.axes),
        -1 if layout.layer is None else layout.layer,
        layout.kind if layout.kind in KINDS else "",
        max(8, min(symbol_bits or default_symbol_bits(dtype), 8 * dtype.container_bytes)),
    )


def _fits(layout: TensorLayout, dtype: Dtype) -> bool:
    """Whether the container can say it, and streams are long enough to be worth windows of their own."""
    stream = prod(axis.size for axis in layout.axes if axis.label in ("token", "channel")) * dtype.container_bytes
    sizes = len(layout.axes) <= MAX_AXES and layout.axes[-1].size <= MAX_CHANNELS and (layout.layer or 0) < 1 << 32
    return sizes and stream >= SHORTEST_STREAM
