"""Layers come back bit for bit, whatever they hold, however they are cut into blocks, on whatever machine."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from .made import SETTINGS, SPOILS, TYPES, Layer, digests, encoded, rope


def check(layer, settings, steps=()):
    """The sizes of the payloads, once they were decoded."""
    payloads = encoded(layer, settings, steps)
    coder = layer.coder(settings)
    for payload, (streams, *around) in zip(payloads, layer.blocks(steps), strict=True):
        restored = coder.decode(payload, len(streams[0]), *around)
        for before, after in zip(streams, restored, strict=True):
            np.testing.assert_array_equal(before, after, strict=True)
        assert len(payload) <= 3 + sum(x.nbytes for x in streams)
    return [len(payload) for payload in payloads]


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("dtype", TYPES)
def test_any_bits(dtype, spoil):
    for name in ("rows", "two"):
        check(Layer(dtype, (20,), (9, 16), 70, base=40).spoil(spoil), SETTINGS[name], (33, 1))


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("base", [0, 1, 20, 100])
def test_any_settings(name, base):
    check(Layer(keys=(16, 16), values=(16,), tokens=130, base=base, seed=base), SETTINGS[name], (64, 5))


SHAPES = {
    "one value": ((), (1,), 1),
    "one token": ((16,), (16,), 1),
    "two channels": ((2,), (1,), 50),
    "odd": ((15, 33), (7,), 40),
    "keys": ((24, 24, 24), (), 40),
    "values": ((), (40,), 40),
    "two groups": ((200, 200), (200, 200), 18),
    "one wide head": ((600,), (9,), 18),
}


@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
def test_any_shape(shape, turned):
    keys, values, tokens = SHAPES[shape]
    check(Layer("BF16", keys, values, tokens, turned=turned, base=33), SETTINGS["base"], (3, 14))


def test_many_tokens():
    for name in ("rows", "two"):
        check(Layer(keys=(2,), values=(3,), tokens=900, base=4), SETTINGS[name], (512,))


def test_blocks_change_little():
    """What was learnt goes on from block to block: each costs its head and the lanes' states."""
    layer = Layer(tokens=200)
    (whole,) = check(layer, SETTINGS["alone"])
    assert sum(check(layer, SETTINGS["alone"], (50, 50, 50))) <= whole + 3 * 24


def test_what_helps():
    layer = Layer(keys=(32,), values=(32,), tokens=400, base=64)
    (alone,), (base,) = check(layer, SETTINGS["alone"]), check(layer, SETTINGS["two"])
    (nameless,) = check(layer, SETTINGS["plain"])
    layer.ropes = [None, None]
    (straight,) = check(layer, SETTINGS["alone"])
    assert base < 0.95 * alone
    assert alone < 0.995 * nameless
    assert alone < 0.95 * straight


def test_floats_that_were_narrow():
    layer = Layer("F32", tokens=100)
    for x in layer.streams:
        x &= 0xFFFF0000
    (payload,) = encoded(layer, SETTINGS["alone"])
    narrow = Layer("BF16", tokens=100)
    assert payload[0] == 0
    assert abs(len(payload) - len(encoded(narrow, SETTINGS["alone"])[0])) < 0.02 * len(payload)
    layer.streams[1][50, 3] |= 1
    assert encoded(layer, SETTINGS["alone"])[0][0] == 2


def test_columns_go_on():
    layer = Layer(keys=(33, 16), values=(16, 16), tokens=80)
    whole = layer.coder(SETTINGS["alone"]).columns(layer.streams)
    coder = layer.coder(SETTINGS["alone"])
    parts = [coder.columns(streams) for streams, *_ in layer.blocks((30, 1))]
    np.testing.assert_array_equal(whole, np.concatenate(parts))
    assert whole.shape == (80, coder.columns_out)


def test_columns_of_a_turning_key_stand_still():
    turn = rope(16)
    angle = np.arange(1, 2000)[:, None] * np.arctan2(turn.sin, turn.cos)
    layer = Layer("F32", (16,), (), 1999)
    layer.streams[0][:] = np.concatenate([np.cos(angle), np.sin(angle)], axis=1).astype(np.float32).view(np.uint32)
    columns = layer.coder(SETTINGS["alone"]).columns(layer.streams)
    np.testing.assert_allclose(columns[:, ::2], 1, atol=0.02)
    np.testing.assert_allclose(columns[:, 1::2], 0, atol=0.02)


def test_threads_change_nothing():
    layers = [Layer(tokens=120, seed=seed, base=40) for seed in range(4)]
    alone = [encoded(layer, SETTINGS["two"], (64,)) for layer in layers]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda layer: encoded(layer, SETTINGS["two"], (64,)), layers)) == alone


@pytest.mark.parametrize("name", ["generic", "slow"])
def test_machines_agree(name, elsewhere):
    out, _ = elsewhere[name].communicate(timeout=300)
    assert out.split("\n")[:-1] == list(digests())
