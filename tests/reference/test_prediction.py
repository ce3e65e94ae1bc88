"""The same for what version 2 added: blocks that are predicted, whether or not that pays, and units that go apart."""

from __future__ import annotations

import numpy as np
import pytest

import kvzip
from kvzip.blocks.codec import Chain
from kvzip.dtypes import DTYPES
from kvzip.predict.grid import grid_of

from . import blocks
from .decoder import decode
from .reading import DamagedError
from .test_reference import PRIORS, check, dump

FLOATS = [name for name, dtype in DTYPES.items() if grid_of(dtype)]
SPECIAL = {1: (0, 1, 0x7C, 0x7F, 0x80, 0x81, 0xFC, 0xFF), 2: (0, 1, 0x7C00, 0x7F7F, 0x7F80, 0x7FC0, 0x8001, 0xFFFF)}


@pytest.fixture(autouse=True)
def predicted(monkeypatch):
    """Predict whatever can be; count the blocks that the reference decoder finds predicted."""
    found = []
    decode_block = blocks.Prediction.decode

    def counted(self, data, shape):
        found.append(shape)
        return decode_block(self, data, shape)

    monkeypatch.setattr(Chain, "promised", lambda self, values: 1 << 40)
    monkeypatch.setattr(blocks.Prediction, "decode", counted)
    return found


def nearest(dtype, numbers):
    """The bits of the values of a type below the numbers."""
    grid = grid_of(DTYPES[dtype])
    if DTYPES[dtype].container_bytes == 4:
        return numbers.astype("<f4").view("<u4")
    code = np.arange(1 << (grid.bits - 1))[: -(1 << grid.mantissa)]
    exponent = code >> grid.mantissa
    fraction = code - ((exponent - (exponent > 0)) << grid.mantissa)
    sizes = np.ldexp(fraction.astype(float), np.maximum(exponent, 1) - grid.bias - grid.mantissa)
    found = np.searchsorted(sizes, np.abs(numbers), "right") - 1
    return (found | (numbers < 0) << (grid.bits - 1)).astype(f"<u{grid.bits // 8}")


def stream(shape=(2, 90, 20), seed=0, turns=0, vocabulary=20):
    """Numbers (heads, tokens, channels) like a cache's; tokens repeat bit by bit, keys only nearly so."""
    rng = np.random.default_rng(seed)
    heads, tokens, channels = shape
    ids = np.random.default_rng(1).integers(0, vocabulary, tokens)
    x = 2 * rng.normal(size=(heads, 1, channels)) + rng.normal(size=(heads, vocabulary, channels))[:, ids]
    if turns:
        x += 0.3 * rng.normal(size=shape)
        angle = np.arange(tokens)[:, None] * 10000.0 ** (-np.arange(turns) / turns)
        a, b = x[..., :turns].copy(), x[..., turns : 2 * turns].copy()
        x[..., :turns] = a * np.cos(angle) - b * np.sin(angle)
        x[..., turns : 2 * turns] = b * np.cos(angle) + a * np.sin(angle)
    return x


def layer(dtype, *parts):
    """A dump of keys and values, bits (heads, tokens, channels)."""
    names = ("layers__0__key", "layers__0__value", "layers__1__key", "layers__1__value")
    return dump(**{name: (dtype, (1, *p.shape), p.tobytes()) for name, p in zip(names, parts, strict=False)})


@pytest.mark.parametrize("level", [2, 3])
@pytest.mark.parametrize("dtype", FLOATS)
def test_every_float(dtype, level, predicted):
    keys, values = nearest(dtype, stream(turns=8)), nearest(dtype, stream())
    check(layer(dtype, keys, values, keys[::-1], values[::-1]), level=level, rope="half:theta=10000,dim=16")
    assert len(predicted) == 4


@pytest.mark.parametrize("block_log2", [12, 14])
@pytest.mark.parametrize(
    ("channels", "rope"), [(1, 0), (7, 6), (16, 16), (33, 32), (40, 24), (48, 48), (80, 80), (129, 20)]
)
def test_pairs_and_groups_of_channels(channels, rope, block_log2, predicted):
    keys = nearest("BF16", stream((3, 100, channels), turns=rope // 2))
    values = nearest("BF16", stream((3, 100, channels)))
    check(
        layer("BF16", keys, values),
        block_log2=block_log2,
        rope=f"half:theta=10000,dim={rope}" if rope else "none",
    )
    assert predicted or channels == 1


@pytest.mark.parametrize("rope", ["interleaved:theta=500,start=3,dim=10", "none"])
def test_other_ropes(rope):
    check(layer("F16", nearest("F16", stream(turns=8)), nearest("F16", stream())), rope=rope)


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F8_E4M3", "F8_E5M2", "F32"])
def test_any_bits(dtype):
    rng = np.random.default_rng(0)
    good = nearest(dtype, stream(turns=8))
    noise = rng.integers(0, np.iinfo(good.dtype).max, good.shape, good.dtype, endpoint=True)
    odd = rng.random(good.shape) < 0.1
    special = good.copy()
    size = min(2, good.itemsize)
    special[odd] = rng.choice(np.array(SPECIAL[size], good.dtype), odd.sum()) << 8 * (good.itemsize - size)
    tails = good.copy()
    tails[:, 40:] = 0
    tails[0, 70] = good[0, 3]
    for values in (noise, special, tails, good * 0, good * 0 + good[0, 0]):
        check(layer(dtype, values, values[::-1]), block_log2=12)


@pytest.mark.parametrize(
    "options",
    [
        {"preset": "classic"},
        {"alpha": 0.5, "sampling": 0},
        {"drift": 1.01, "drift_keep": 0.5, "alpha": 0.97},
        {"drift": 1.01, "warmup": 300},
        {"theta_low": 0.01},
        {"theta_new": 0.001, "beta": 0.9},
        {"prior_weight": 0},
        {"prior_weight": 4096, "drift": 1.05},
        {"table_bits": 10},
        {"table_bits": 14, "sampling": 6, "n_update": 7},
    ],
    ids=str,
)
def test_parameters(options):
    for dtype in ("F16", "F8_E5M2"):
        check(layer(dtype, nearest(dtype, stream(turns=8)), nearest(dtype, stream(seed=2))), **options)


def test_units_that_go_apart(monkeypatch):
    monkeypatch.setattr(Chain, "promised", lambda self, values: 0)
    keys, values = nearest("BF16", stream(turns=8)), nearest("BF16", stream())
    for level in (4, 6):
        check(layer("BF16", keys, values, values, keys), level=level)


def test_damage_to_predictions_is_refused():
    whole = kvzip.compress(layer("F8_E4M3", nearest("F8_E4M3", stream((1, 24, 8)))), threads=1)
    for at in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        with pytest.raises(DamagedError):
            decode(bytes(damaged), PRIORS)
