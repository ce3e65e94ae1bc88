"""The same for linear prediction: what the kernels code, and containers of units, with one layer or two behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from linear.made import DRAFTS, SETTINGS, SPOILS, TYPES, Layer, bits_of, encoded

import kvzip
from kvzip.blocks.codec import Chain
from kvzip.container.unit import Unit as WrittenUnit
from kvzip.dtypes import DTYPES
from kvzip.linear.settings import LEVELS
from kvzip.pipeline.units import PlannedUnit

from . import linear
from .blocks import BITS, FLOATS, Extent
from .decoder import decode
from .linear_columns import Stream, base_columns
from .reading import Bytes, DamagedError
from .shared import Rope
from .test_reference import PRIORS, dump
from .unit import Unit


def twin(layer, settings):
    """The reference's decoder of a layer."""
    written = WrittenUnit(0, 1, 0, 0, 1, 0, (), settings).to_bytes()
    dtype = DTYPES[layer.dtype].id
    extent = Extent(dtype, 0, 1, BITS[dtype], *FLOATS[dtype], 9, [], 1)
    streams = []
    for first, channels, kind, turn in zip(
        np.cumsum([0, *layer.channels]), layer.channels, layer.kinds, layer.ropes, strict=False
    ):
        rope = Rope(list(zip(turn.first, turn.second, strict=True)), list(turn.cos), list(turn.sin)) if turn else None
        streams.append(Stream(int(first), channels, kind == "value", rope))
    width = layer.base.shape[1] if layer.base is not None else 0
    return linear.LinearDecoder(extent, streams, width, Unit.read(Bytes(written)).settings, layer.near)


def compare(layer, settings, steps=()):
    """The modes of the payloads, once the reference has decoded them."""
    payloads = encoded(layer, settings, steps)
    decoder = twin(layer, settings)
    for payload, (streams, base, ids, draft) in zip(payloads, layer.blocks(steps), strict=True):
        tokens = len(streams[0])
        base = np.zeros((tokens, 0), np.float32) if base is None else base
        names = [-1] * tokens if ids is None else ids.tolist()
        near = None if draft is None else np.concatenate(draft, axis=1)
        assert decoder.decode(Bytes(payload), tokens, base, names, near) == np.concatenate(streams, axis=1).tolist()
    return {payload[0] for payload in payloads}


@pytest.mark.parametrize("spoil", SPOILS)
def test_any_bits(spoil):
    modes = set()
    for dtype in TYPES:
        modes |= compare(Layer(dtype, (16,), (9,), 60, base=20).spoil(spoil), SETTINGS["two"], (35, 1))
    assert modes == {"noise": {1}}.get(spoil, modes)


@pytest.mark.parametrize("how", DRAFTS)
def test_any_draft(how):
    for dtype in TYPES:
        for name in ("two", "coarse"):
            compare(Layer(dtype, (16, 3), (9,), 70, base=20).drafted(how), SETTINGS[name], (35, 1))


@pytest.mark.parametrize("spoil", SPOILS)
def test_any_bits_with_a_draft(spoil):
    for dtype in ("BF16", "F8_E4M3"):
        layer = Layer(dtype, (16,), (9,), 60, base=20).drafted()
        compare(layer.spoil(spoil), SETTINGS["coarse"], (35, 1))
        compare(layer.drafted(), SETTINGS["coarse"], (35, 1))


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3"])
def test_a_draft_that_ends(dtype):
    layer = Layer(dtype, (32,), (16,), 90, base=20).drafted("exact")
    for x in layer.draft:
        x[30:] = 0
    for name in ("alone", "two", "coarse"):
        compare(layer, SETTINGS[name], (40,))


def test_every_mode():
    assert compare(Layer("F32", tokens=30), SETTINGS["alone"]) == {2}
    assert compare(Layer("F32", tokens=60).spoil("noise"), SETTINGS["alone"]) == {1}
    mixed = Layer("F32", tokens=60)
    for x in mixed.streams:
        x[:40] &= 0xFFFF0000
    assert compare(mixed, SETTINGS["alone"], (40,)) == {0, 2}


@pytest.mark.parametrize("base", [0, 7, 40])
@pytest.mark.parametrize("name", SETTINGS)
def test_any_settings(name, base):
    compare(Layer(keys=(16,), values=(8,), tokens=80, base=base, near=base // 2), SETTINGS[name])


@pytest.mark.parametrize("spoil", SPOILS)
def test_parts(spoil):
    for dtype in TYPES:
        layer = Layer(dtype, (34,), (80,), 60, base=70, near=40).spoil(spoil)
        compare(layer, SETTINGS["parts"], (35, 1))
        compare(layer.drafted(), replace(SETTINGS["parts"], coarse=True), (35, 1))


@pytest.mark.parametrize("near", [0, 1, 14, 15, 31, 46, 47, 95, 100])
def test_nearest_columns(near):
    settings = SETTINGS["parts"]
    compare(Layer(keys=(16,), values=(8,), tokens=60, base=100, near=near), settings)
    compare(Layer(keys=(16,), values=(8,), tokens=60, base=100, near=near), replace(settings, parts=False))


@pytest.mark.parametrize("spoil", ["", "jump", "zeros"])
def test_rows_that_end_early(spoil):
    compare(Layer(keys=(32,), values=(16,), tokens=70, base=20).spoil(spoil), SETTINGS["rows"], (40,))


def test_many_tokens():
    for name in ("rows", "two", "clash"):
        compare(Layer(keys=(2,), values=(3,), tokens=420, base=4), SETTINGS[name], (300,))


def test_groups():
    compare(Layer(keys=(150, 90), values=(150, 150, 33), tokens=18, base=40), SETTINGS["two"], (17,))


def test_columns():
    for dtype in TYPES:
        layer = Layer(dtype, (33, 16), (16,), 30).spoil("no numbers")
        decoder = twin(layer, SETTINGS["alone"])
        columns = base_columns(decoder.plain, decoder.streams, np.concatenate(layer.streams, axis=1).tolist())
        np.testing.assert_array_equal(columns, layer.coder(SETTINGS["alone"]).columns(layer.streams))


@pytest.mark.parametrize("how", DRAFTS)
def test_columns_with_a_draft(how):
    for dtype in TYPES:
        layer = Layer(dtype, (33, 16), (16,), 40).spoil("no numbers").drafted(how)
        decoder = twin(layer, SETTINGS["alone"])
        rows, draft = np.concatenate(layer.streams, axis=1).tolist(), np.concatenate(layer.draft, axis=1)
        columns = base_columns(decoder.plain, decoder.streams, rows, draft)
        np.testing.assert_array_equal(columns, layer.coder(SETTINGS["alone"]).columns(layer.streams, layer.draft))


def layers(dtype, count, tokens=64, heads=2, channels=32, value_channels=None):
    """A dump of keys and values (1, heads, tokens, channels); tokens repeat, as the first layer's values tell."""
    tensors = {}
    names = np.random.default_rng(0).integers(0, tokens // 4, tokens)
    for number in range(count):
        layer = Layer(dtype, (channels,) * heads, (value_channels or channels,) * heads, tokens, seed=number)
        keys, values = np.stack(layer.streams[:heads]), np.stack(layer.streams[heads:])
        if number == 0:
            table = np.random.default_rng(1).normal(size=(heads, tokens, value_channels or channels))
            values = bits_of(table[:, names], dtype)
        for kind, x in (("key", keys), ("value", values)):
            tensors[f"layers__{number}__{kind}"] = dtype, (1, *x.shape), x.tobytes()
    return dump(**tensors)


@pytest.fixture
def blocks(monkeypatch):
    """Units of several blocks, which go apart in no case; the sizes of those the reference has decoded."""
    found = []
    decode_block = linear.LinearDecoder.decode

    def counted(self, data, tokens, base, names):
        found.append((tokens, base.shape[1], max(names)))
        return decode_block(self, data, tokens, base, names)

    monkeypatch.setattr(linear.LinearDecoder, "decode", counted)
    monkeypatch.setattr(Chain, "promised", lambda self, values: 1 << 40)
    monkeypatch.setattr(PlannedUnit, "step", property(lambda self: 40))
    return found


@pytest.mark.parametrize("level", LEVELS)
def test_containers(level, blocks):
    source = layers("BF16", 3)
    assert decode(kvzip.compress(source, level=level, threads=2, rope="half:theta=100"), PRIORS) == {"": source}
    widths = {width for _, width, _ in blocks}
    assert (max(widths) > 0) == (LEVELS[level].most_base > 0)
    assert min(widths) == 0
    assert [tokens for tokens, _, _ in blocks] == [40, 24] * (len(blocks) // 2)
    assert max(name for _, _, name in blocks) > 3


@pytest.mark.parametrize("dtype", ["F16", "F32", "F8_E4M3", "F8_E5M2"])
def test_containers_of_other_types(dtype, blocks):
    source = layers(dtype, 2, heads=1, value_channels=9)  # fewer than the rope's, which turns keys only
    assert decode(kvzip.compress(source, level=8, threads=1, rope="half:theta=100"), PRIORS) == {"": source}
    assert len(blocks) >= 4


def test_damage_is_refused():
    layer = Layer(keys=(16,), values=(8,), tokens=20)
    (payload,) = encoded(layer, SETTINGS["alone"])
    (whole,) = layer.blocks()
    want = np.concatenate(whole[0], axis=1).tolist()
    for damaged in (payload[:-1], payload[:-4], payload + b"\0\0\0\0", b"\3" + payload[1:], b"\2" + payload[1:]):
        with pytest.raises(DamagedError):
            twin(layer, SETTINGS["alone"]).decode(Bytes(damaged), 20, np.zeros((20, 0), np.float32), [-1] * 20)
    for at in range(7, len(payload), 41):
        damaged = bytearray(payload)
        damaged[at] ^= 4
        try:
            rows = twin(layer, SETTINGS["alone"]).decode(
                Bytes(bytes(damaged)), 20, np.zeros((20, 0), np.float32), whole[2].tolist()
            )
        except DamagedError:
            continue
        assert rows != want
