"""Extents: what is written comes back, what is impossible is refused, streams are named as NumPy counts them."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from kvzip.dtypes import DTYPES
from kvzip.errors import ContainerError, UnsupportedError
from kvzip.streams.extent import KINDS, LABELS, MAX_CHANNELS, Extent
from kvzip.wire import Cursor

BF16 = DTYPES["BF16"]
AXES = (("batch", 1), ("head", 3), ("token", 40), ("channel", 8))
GOOD = Extent(BF16, 960, AXES, 3, "key", 9)


@some.composite
def extents(draw, most=64):
    """Any extent of at most about ``most`` tokens, channels and streams each."""
    dtype = draw(some.sampled_from(list(DTYPES.values())))
    if draw(some.booleans()):
        return Extent(dtype, draw(some.integers(1, most * most)))
    outer = draw(
        some.lists(
            some.tuples(some.sampled_from(["batch", "layer", "kind", "head"]), some.integers(1, 4)), max_size=3
        )
    )
    outer.insert(draw(some.integers(0, len(outer))), ("token", draw(some.integers(1, most))))
    axes = (*outer, ("channel", draw(some.integers(1, most))))
    layer, kind = draw(some.integers(-1, 1 << 20)), draw(some.sampled_from(KINDS))
    return Extent(dtype, prod(size for _, size in axes), axes, layer, kind, draw(some.integers(8, 16)))


def read(data):
    cursor = Cursor(data, "test")
    extent = Extent.read_from(cursor)
    cursor.finish()
    return extent


def written(extent):
    out = bytearray()
    extent.write_to(out)
    return bytes(out)


@settings(max_examples=100, deadline=None)
@given(extents())
def test_what_is_written_comes_back(extent):
    assert extent.is_sound()
    assert read(written(extent)) == extent


@settings(max_examples=50, deadline=None)
@given(extents())
def test_every_prefix_is_refused(extent):
    data = written(extent)
    for end in range(len(data)):
        with pytest.raises(ContainerError):
            read(data[:end])


@pytest.mark.parametrize(
    "axes",
    [
        (("head", 3), ("channel", 8)),
        (("token", 40),),
        (("channel", 8), ("token", 40)),
        (("token", 40), ("head", 3)),
        (("token", 2), ("token", 20), ("channel", 8)),
        (("token", 40), ("channel", 2), ("channel", 4)),
        (("token", 40), ("channel", MAX_CHANNELS + 1)),
        (("token", 0), ("channel", 8)),
        (("head", 1 << 40), ("token", 1 << 40), ("channel", 8)),
        (("head", 1),) * 15 + (("token", 1), ("channel", 1)),
    ],
)
def test_impossible_axes_are_refused(axes):
    with pytest.raises(ContainerError):
        read(written(replace(GOOD, axes=axes)))


@pytest.mark.parametrize("bits", [0, 7, 17, 255])
def test_impossible_symbols_are_refused(bits):
    with pytest.raises(ContainerError):
        read(written(replace(GOOD, symbol_bits=bits)))


def test_an_empty_opaque_extent_is_refused():
    with pytest.raises(ContainerError):
        read(written(Extent(BF16, 0)))


@pytest.mark.parametrize(("at", "value"), [(0, 0), (0, 23), (0, 255), (2, len(KINDS)), (5, len(LABELS))])
def test_unknown_ids_need_a_newer_kvzip(at, value):
    data = bytearray(written(GOOD))
    data[at] = value
    with pytest.raises(UnsupportedError):
        read(bytes(data))


@settings(max_examples=60, deadline=None)
@given(extents(4))
def test_streams_are_named_in_file_order(extent):
    names = list(extent.stream_names())
    axes = [(label, size) for label, size in extent.axes if label not in ("token", "channel")]
    assert len(names) == prod(size for _, size in axes)
    heads = [
        i for i, (label, size) in enumerate(axes) if label not in ("layer",) and not (label == "kind" and size == 2)
    ]
    for name, index in zip(names, np.ndindex(*(size for _, size in axes)), strict=True):
        layers = [at for (label, _), at in zip(axes, index, strict=True) if label == "layer"]
        assert name.layer == (layers[0] if layers else extent.layer)
        sizes = [axes[i][1] for i in heads]
        assert name.head == (int(np.ravel_multi_index([index[i] for i in heads], sizes)) if heads else 0)


def test_a_kind_axis_of_two_is_key_and_value():
    axes = (("kind", 2), ("token", 4), ("head", 2), ("channel", 8))
    names = list(Extent(BF16, 128, axes, 5).stream_names())
    assert [(n.layer, n.kind, n.head) for n in names] == [
        (5, "key", 0),
        (5, "key", 1),
        (5, "value", 0),
        (5, "value", 1),
    ]
