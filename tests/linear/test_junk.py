"""A payload that no encoder wrote decodes to something; settings out of range are drawn into it."""

from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest

from kvzip.linear.settings import LEVELS, Settings

from .made import SETTINGS, TYPES, Layer, encoded, junk


def decode(layer, settings, payload):
    (whole,) = layer.blocks()
    restored = layer.coder(settings).decode(payload, layer.tokens, *whole[1:])
    assert [x.shape for x in restored] == [x.shape for x in layer.streams]
    return restored


@pytest.mark.parametrize("dtype", TYPES)
def test_noise(dtype):
    layer = Layer(dtype, (18,), (7,), 40, base=20)
    for seed in range(3):
        payload = junk(layer, seed)
        for settings in SETTINGS.values():
            decode(layer, settings, payload)
        for size in (0, 1, 3, 7, 8, 30, 300):
            decode(layer, SETTINGS["two"], payload[:size])
            decode(layer, SETTINGS["two"], payload[-size:])


def test_damage():
    layer = Layer(keys=(18,), values=(7,), tokens=40, base=20)
    (payload,) = encoded(layer, SETTINGS["two"])
    rng = np.random.default_rng(0)
    for at in [*range(40), *rng.integers(0, len(payload), 40)]:
        damaged = bytearray(payload)
        damaged[at] ^= 1 << rng.integers(8)
        decode(layer, SETTINGS["two"], bytes(damaged))
    for size in rng.integers(0, len(payload), 20):
        decode(layer, SETTINGS["two"], payload[:size])


EXTREMES = [
    *({name: value} for name in ("keep", "keep_base", "delta", "delta_base", "rate") for value in (0.0, 65536.0)),
    *({"weight_floor": x, "weight_ceiling": y} for x in (0.0, 65536.0) for y in (0.0, 65536.0)),
    *({"energy_start": x, "energy_memory": x} for x in (0, 1, 65536)),
    *({"most_rows": x, "two": y} for x in (1, 16, 24, 65536) for y in (False, True)),
    *({"most_base": x} for x in (1, 15, 16, 65536)),
    *({"slots": x} for x in (0, 1, 65536)),
    *({"surprise": x} for x in (0.0, 65536.0)),
    *({"count_every": x} for x in (0, 65536)),
]


@pytest.mark.parametrize("extreme", EXTREMES, ids=str)
def test_extreme_settings(extreme):
    settings = replace(SETTINGS["two"], **extreme)
    layer = Layer(keys=(18,), values=(7,), tokens=70, base=40)
    (payload,) = encoded(layer, settings)
    for before, after in zip(layer.streams, decode(layer, settings, payload), strict=True):
        np.testing.assert_array_equal(before, after)
    decode(layer, settings, junk(layer))


def test_levels_are_within_bounds():
    for settings in [*LEVELS.values(), Settings()]:
        assert astuple(settings.bounded()) == astuple(settings)
