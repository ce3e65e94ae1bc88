"""The plan: slabs tile the extent, blocks tile the streams, chains stay together, gathering is undone exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from test_extent import extents

from kvzip.dtypes import DTYPES
from kvzip.streams.extent import Extent
from kvzip.streams.plan import GROUP_BYTES, blocks_of, gather, scatter, slabs

BF16 = DTYPES["BF16"]
SIZES = some.sampled_from([1, 100, 1 << 12, 1 << 21])


@settings(max_examples=100, deadline=None)
@given(extents(16), SIZES)
def test_slabs_are_the_extent_in_order_and_come_back(extent, block_bytes):
    data = np.random.default_rng(0).bytes(extent.nbytes)
    at, out = 0, b""
    for slab in slabs(extent, block_bytes):
        assert slab.start == at
        assert slab.nbytes > 0
        at += slab.nbytes
        part = data[slab.start : at]
        values = gather(extent, slab, part)
        assert bytes(scatter(extent, slab, values)) == part
        out += part
    assert out == data


def number_of_every_value(extent):
    """For each value in file order: its stream's number in the order of ``stream_names``, and its token."""
    labels = [label for label, _ in extent.axes]
    places = np.indices([size for _, size in extent.axes])
    number = np.zeros_like(places[0])
    for label, place, (_, size) in zip(labels, places, extent.axes, strict=True):
        if label not in ("token", "channel"):
            number = number * size + place
    return number.ravel(), places[labels.index("token")].ravel()


@settings(max_examples=80, deadline=None)
@given(extents(12).filter(lambda e: not e.opaque), some.sampled_from([1, 64, 400, 1 << 12]))
def test_blocks_hold_the_streams_they_name_token_after_token(extent, block_bytes):
    numbers, tokens = number_of_every_value(extent)
    wide = Extent(DTYPES["U64"], extent.elements, extent.axes)
    done: dict[int, int] = {}
    closed: set[int] = set()
    for slab in slabs(wide, block_bytes):
        low, high = slab.start // 8, (slab.start + slab.nbytes) // 8
        by_stream = gather(wide, slab, numbers[low:high].astype("<u8").tobytes())
        by_token = gather(wide, slab, tokens[low:high].astype("<u8").tobytes())
        first = 0
        for block in blocks_of(wide, slab):
            assert block.first == first
            first += block.streams
            rows = slice(block.first, first)
            assert by_stream[rows].shape == (block.streams, block.tokens, block.channels)
            for i, name in enumerate(block.names):
                assert (by_stream[rows][i] == name).all()
                begin = done.get(name, 0)
                assert (by_token[rows][i] == np.arange(begin, begin + block.tokens)[:, None]).all()
                done[name] = begin + block.tokens
            assert block.chain not in closed
            if block.last_of_chain:
                closed.add(block.chain)
        assert first == len(by_stream)
    tokens_each = dict(extent.axes)["token"]
    assert done == dict.fromkeys(range(len(done)), tokens_each)
    assert len(done) == numbers.max() + 1


@settings(max_examples=60, deadline=None)
@given(extents(16), SIZES)
def test_a_chain_holds_the_same_streams_throughout(extent, block_bytes):
    seen: dict[int, tuple[int, ...]] = {}
    for slab in slabs(extent, block_bytes):
        for block in blocks_of(extent, slab):
            assert seen.setdefault(block.chain, block.names) == block.names


def test_a_short_last_slab_has_the_shares_of_the_others():
    axes = (("token", 1500), ("head", 64), ("channel", 128))
    extent = Extent(BF16, 1500 * 64 * 128, axes)
    shares = [[block.names for block in blocks_of(extent, slab)] for slab in slabs(extent, 1 << 21)]
    assert len(shares) == 12
    assert len(shares[0]) == 8
    assert all(share == shares[0] for share in shares)


@pytest.mark.parametrize(
    ("axes", "slab_count", "blocks_each", "chains"),
    [
        ((("head", 8), ("token", 32768), ("channel", 128)), 32, 1, 8),
        ((("token", 32768), ("head", 8), ("channel", 128)), 32, 8, 8),
        ((("head", 64), ("token", 100), ("channel", 128)), 1, 2, 2),
    ],
)
def test_the_examples_of_the_docstring(axes, slab_count, blocks_each, chains):
    extent = Extent(BF16, int(np.prod([size for _, size in axes])), axes)
    found = list(slabs(extent, 1 << 21))
    blocks = [blocks_of(extent, slab) for slab in found]
    assert len(found) == slab_count
    assert {len(part) for part in blocks} == {blocks_each}
    assert len({block.chain for part in blocks for block in part}) == chains


def test_blocks_are_about_a_group_or_the_slab():
    extent = Extent(BF16, 64 * 1024 * 64, (("head", 64), ("token", 1024), ("channel", 64)))
    for slab in slabs(extent, 1 << 21):
        for block in blocks_of(extent, slab):
            assert block.streams * block.tokens * block.channels * 2 <= GROUP_BYTES


def test_opaque_data_is_rows_of_256_and_what_is_left_a_row_of_its_own():
    extent = Extent(BF16, 1000)
    data = np.arange(1000, dtype="<u2").tobytes()
    whole, left = slabs(extent, 1 << 21)
    assert [gather(extent, s, data[s.start : s.start + s.nbytes]).shape for s in (whole, left)] == [
        (1, 3, 256),
        (1, 1, 232),
    ]
    assert [(b.chain, b.tokens, b.channels) for s in (whole, left) for b in blocks_of(extent, s)] == [
        (0, 3, 256),
        (1, 1, 232),
    ]
    restored = b"".join(
        scatter(extent, s, gather(extent, s, data[s.start : s.start + s.nbytes])) for s in (whole, left)
    )
    assert restored == data
    small = Extent(BF16, 3)
    assert [b.channels for s in slabs(small, 4096) for b in blocks_of(small, s)] == [3]


def test_a_block_has_at_most_128_streams():
    extent = Extent(BF16, 1000 * 128, (("head", 1000), ("token", 1), ("channel", 128)))
    (slab,) = slabs(extent, 1 << 21)
    assert [b.streams for b in blocks_of(extent, slab)] == [128] * 7 + [104]
