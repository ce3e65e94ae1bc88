"""Ropes: their wire form, what a user may write, and that they are found in real, synthetic and hostile keys."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from kvzip.errors import ContainerError, OptionError
from kvzip.predict.rope import Pairing, Rope, from_spec
from kvzip.predict.rope_search import find, gain
from kvzip.wire import Cursor, put_varint

REAL = Path(__file__).resolve().parents[2] / "fixtures" / "real"
DTYPES = {"BF16": ml_dtypes.bfloat16, "F16": np.float16, "F32": np.float32, "F8_E4M3": ml_dtypes.float8_e4m3fn}
SMOLLM = from_spec("half:theta=1e5", 64)


def real_keys(name):
    """(heads, tokens, channels) of each layer of a fixture."""
    data = (REAL / f"{name}.safetensors").read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for tensor, entry in json.loads(data[8:start]).items():
        if tensor.endswith(".key"):
            first, last = entry["data_offsets"]
            bits = np.frombuffer(data[start + first : start + last], DTYPES[entry["dtype"]])
            yield bits.reshape(entry["shape"])[0].astype(np.float32)


def made_keys(rope, heads=3, tokens=512, channels=64, mean=0.7, seed=0):
    """Gaussian keys around a mean of each channel, then rotated."""
    rng = np.random.default_rng(seed)
    keys = rng.normal(size=(heads, 1, channels)) * mean + rng.normal(size=(heads, tokens, channels))
    for (a, b), w in zip(rope.pairs, rope.angles, strict=True) if rope else ():
        turned = (keys[..., a] + 1j * keys[..., b]) * np.exp(1j * w * (77 + np.arange(tokens)))
        keys[..., a], keys[..., b] = turned.real, turned.imag
    return keys.astype(np.float32)


def written(rope):
    out = bytearray()
    rope.write_to(out)
    return bytes(out)


# ---- the user's words


def test_half_pairs_a_channel_with_the_one_half_a_head_on():
    rope = from_spec("half:theta=1e4", 8)
    assert rope.pairs == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert rope.angles == pytest.approx([1, 0.1, 0.01, 0.001])


def test_interleaved_pairs_neighbours_from_start():
    rope = from_spec("interleaved:theta=1e4,dim=4,start=512", 576)
    assert rope.pairs == [(512, 513), (514, 515)]
    assert rope.angles == pytest.approx([1, 0.01])


def test_scaling_is_that_of_the_models():
    plain = from_spec("half:theta=5e5", 128).angles
    assert from_spec("half:theta=5e5,scaling=linear:8", 128).angles == pytest.approx([w / 8 for w in plain])
    llama = from_spec("half:theta=5e5,scaling=llama3:8:1:4:8192", 128).angles
    assert llama[:29] == pytest.approx(plain[:29])
    assert llama[35:] == pytest.approx([w / 8 for w in plain[35:]])
    assert all(w / 8 < slowed < w for w, slowed in zip(plain[29:35], llama[29:35], strict=True))


def test_none_is_none():
    assert from_spec("none", 64) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "auto",
        "half",
        "half:",
        "half:theta=",
        "half:theta=x",
        "half:theta=nan",
        "half:theta=inf",
        "half:theta=1",
        "half:theta=-1e4",
        "half:theta=1e4,theta=1e4",
        "half:theta=1e4,dim=63",
        "half:theta=1e4,dim=0",
        "half:theta=1e4,dim=66",
        "half:theta=1e4,dim=٣٢",
        "half:theta=1e4,dim=32,start=40",
        "half:theta=1e4,start=64",
        "half:theta=1e4,start=-2",
        "half:theta=1e4,wide=3",
        "half:theta=1e4,scaling=yarn:4",
        "half:theta=1e4,scaling=linear:0",
        "half:theta=1e4,scaling=llama3:8:4:1:8192",
        "both:theta=1e4\n",
    ],
)
def test_anything_else_is_one_clear_line(text):
    with pytest.raises(OptionError) as caught:
        from_spec(text, 64)
    assert "rope" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


# ---- on the wire


@pytest.mark.parametrize("rope", [SMOLLM, from_spec("interleaved:theta=1e4,dim=64,start=512", 576), Rope.of([], [])])
def test_a_rope_comes_back_to_the_bit(rope):
    cursor = Cursor(written(rope), "rope")
    assert Rope.read_from(cursor, 576) == rope
    cursor.finish()


def raw(*pairs):
    out = bytearray()
    put_varint(out, len(pairs))
    for a, b, c, s in pairs:
        put_varint(out, a)
        put_varint(out, b)
        out += struct.pack("<2d", c, s)
    return bytes(out)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        written(SMOLLM)[:-1],
        raw((0, 64, 1.0, 0.0)),
        raw((0, 0, 1.0, 0.0)),
        raw((0, 1, 1.0, 0.0), (2, 1, 1.0, 0.0)),
        raw((0, 1, math.nan, 0.0)),
        raw((0, 1, math.inf, 0.0)),
        raw((0, 1, 1e308, 1e308)),
        raw((0, 1, 0.0, 0.0)),
        raw((0, 1, 1.0, 0.01)),
        b"\x21" + written(SMOLLM)[1:] + raw((0, 1, 1.0, 0.0))[1:],
        b"\xff\xff\xff\xff\x0f",
    ],
)
def test_damage_is_refused(data):
    with pytest.raises(ContainerError, match=r"^rope "):
        Rope.read_from(Cursor(data, "rope"), 64)


# ---- found in real keys


@pytest.mark.parametrize("tokens", [64, 128, 256])
@pytest.mark.parametrize(
    "name", ["prose_bf16", "chat_bf16", "chat_fp16", "chat_fp8", "prose_fp8-head", "prose_fp32_t512"]
)
def test_real_keys_give_their_rope_exactly(name, tokens):
    for keys in real_keys(name):
        assert find(keys[:, :tokens]) == SMOLLM


def test_keys_before_rope_give_none():
    for keys in real_keys("prose_bf16_prerope"):
        for tokens in (32, 64, 128, 256):
            assert find(keys[:, :tokens]) is None
            assert find(keys[:, :tokens], [SMOLLM]) is None
        assert gain(keys, SMOLLM) < 0


def test_a_hint_is_taken_if_it_fits_and_only_then():
    wrong = [from_spec(f"half:theta={theta}", 64) for theta in ("1e4", "5e5")]
    for keys in real_keys("chat_bf16"):
        hint = Rope(SMOLLM.first, SMOLLM.second, SMOLLM.cos, SMOLLM.sin)
        assert find(keys, [*wrong, hint]) is hint
        assert find(keys, wrong) == SMOLLM
        assert gain(keys, SMOLLM) > 0.1 > max(gain(keys, rope) for rope in wrong)


def test_a_hint_of_wider_rows_is_passed_over():
    assert find(made_keys(None, channels=32), [SMOLLM]) is None


# ---- found in synthetic keys


@pytest.mark.parametrize(
    ("text", "channels"),
    [
        ("half:theta=5e5", 128),
        ("half:theta=1e6", 256),
        ("half:theta=130000", 128),
        ("half:theta=1e4,dim=32", 80),
        ("half:theta=1e4,dim=16", 64),
        ("half:theta=1e4,dim=96", 128),
        ("interleaved:theta=1e4,dim=32", 64),
        ("interleaved:theta=8e6", 128),
        ("interleaved:theta=1e4,dim=64,start=128", 192),
        ("interleaved:theta=1e4,dim=64,start=512", 576),
        ("half:theta=1e6,scaling=linear:8", 128),
    ],
)
def test_what_models_use_is_found(text, channels):
    rope = from_spec(text, channels)
    found = find(made_keys(rope, heads=2, channels=channels))
    assert found.pairs == rope.pairs
    assert found.angles == pytest.approx(rope.angles)


def test_several_heads_in_a_row_are_found():
    pairing = Pairing(False, 0, 64, 3)
    rope = Rope.of(pairing.pairs(), pairing.angles(1e5))
    assert find(made_keys(rope, heads=1, channels=192)) == rope


@pytest.mark.parametrize("factors", [np.linspace(1, 3, 48), np.repeat([1.0, 4.0], 24)], ids=["longrope", "yarn"])
def test_angles_off_the_family_are_found_pair_by_pair(factors):
    pairing = Pairing(False, 0, 96)
    rope = Rope.of(pairing.pairs(), list(pairing.angles(1e4) / factors))
    found = dict(zip((r := find(made_keys(rope, channels=96))).pairs, r.angles, strict=True))
    for pair, w in zip(rope.pairs, rope.angles, strict=True):
        assert abs(found.get(pair, 0) - w) * 512 < 3, pair  # radians off at the end: less than what shows


def test_pairs_that_are_zero_do_not_matter():
    keys = made_keys(SMOLLM, tokens=256)
    keys[:, :, [3, 35, 9, 41]] = 0
    assert find(keys) == SMOLLM


def test_a_weak_mean_is_enough_and_strange_values_are_no_harm():
    keys = made_keys(SMOLLM, mean=0.3)
    keys[0, 5, 3], keys[1, 6, 3], keys[2, 7] = np.nan, np.inf, 1e4
    assert find(keys) == SMOLLM


# ---- not found where there is none


@pytest.mark.parametrize("shape", [(3, 512, 64), (1, 64, 64), (2, 32, 64), (4, 256, 96)])
def test_noise_steps_and_repeats_give_none(shape):
    rng = np.random.default_rng(1)
    noise = rng.normal(size=shape).astype(np.float32)
    repeats = noise[:, np.arange(shape[1]) % 9] + 0.3 * rng.normal(size=shape).astype(np.float32)
    steps = noise + np.repeat(rng.normal(size=(shape[0], shape[1] // 16, shape[2])), 16, 1).astype(np.float32)
    for keys in (noise, noise + 3, repeats, np.exp(noise), steps):
        assert find(keys) is None


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-45, 3e38, np.inf, np.nan])
@pytest.mark.parametrize(
    "shape", [(3, 100, 64), (0, 100, 64), (3, 0, 64), (3, 100, 0), (3, 100, 1), (3, 100, 7), (1, 30, 9999)]
)
def test_nothing_to_see_gives_none(value, shape):
    with np.errstate(all="raise", under="ignore"):
        assert find(np.full(shape, value, np.float32), [SMOLLM]) is None
