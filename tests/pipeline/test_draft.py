"""A dump compressed relative to a draft comes back with that draft and no other, whatever form the draft is given in;
a draft that is of no use costs next to nothing."""

from __future__ import annotations

import io
import os
import threading
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import made
import numpy as np
import pytest
from apart import put_together, take_apart
from hypothesis import given, settings
from hypothesis import strategies as some
from test_hostile import mutated
from test_roundtrip import dumps

import kvzip
from kvzip.blocks import codec, united
from kvzip.blocks.united import UnitCoder
from kvzip.container import records
from kvzip.container.shared import DraftPart, draft_payload, holds_draft
from kvzip.container.structures import BlockHead
from kvzip.container.unit import Unit
from kvzip.errors import DraftError
from kvzip.pipeline.draft import open_draft

REAL = Path(__file__).parents[2] / "fixtures/real"
LEVELS = (1, 2, 3, 4, 6, 7, 9)
UNITED = 4  # the first level that codes layers together
TOKENS, LAYERS = 160, 3


@cache
def arrays(tokens=TOKENS, noise=0.0, layers=LAYERS, seed=0):
    """(heads, tokens, channels) float32 by (layer, kind); with noise an approximation."""
    source = np.random.default_rng(seed)
    out = {}
    for number in range(layers):
        for kind, x in zip(("key", "value"), made.layer(number, tokens=TOKENS + 40), strict=True):
            x = x[:, :tokens] + noise * source.normal(size=x[:, :tokens].shape)
            out[number, kind] = x.astype(np.float32)
    return out


def dump(given, dtype="BF16"):
    """The usual layout, a tensor for each array."""
    return made.dump(
        [(f"layers.{number}.{kind}", dtype, (1, *x.shape), made.bits_of(x, dtype).tobytes())
         for (number, kind), x in given.items()]
    )  # fmt: skip


def vllm(given, dtype="BF16"):
    """(name, bytes) of a file for each layer, keys and values (2, tokens, heads, channels)."""
    for number in sorted({number for number, _ in given}):
        x = np.stack([given[number, kind].transpose(1, 0, 2) for kind in ("key", "value")])
        name = f"model.layers.{number}.self_attn.attn"
        yield name, made.dump([("kv_cache", dtype, x.shape, made.bits_of(x, dtype).tobytes())])


def written(path, data):
    path.write_bytes(data)
    return path


def folder(path, files):
    path.mkdir()
    for name, data in files:
        (path / f"{name}.safetensors").write_bytes(data)
    (path / "notes.txt").write_bytes(b"beside")
    return path


DATA = dump(arrays())
NEAR = arrays(noise=0.02)
DRAFT = dump(NEAR, "F8_E4M3")
PLAIN = made.Lazy(lambda level: kvzip.compress(DATA, level=level, threads=1))
PACKED = made.Lazy(lambda level: kvzip.compress(DATA, level=level, threads=1, draft=DRAFT))
FORMS = {
    "path": lambda at: written(at / "draft.safetensors", DRAFT),
    "text": lambda at: str(written(at / "draft.safetensors", DRAFT)),
    "bytes": lambda at: DRAFT,
    "bytearray": lambda at: bytearray(DRAFT),
    "memoryview": lambda at: memoryview(DRAFT),
    "container": lambda at: written(at / "draft.kvz", kvzip.compress(DRAFT, level=3)),
    "bytes of a container": lambda at: kvzip.compress(DRAFT, level=9),
    "folder": lambda at: folder(at / "draft", vllm(NEAR, "F8_E4M3")),
    "container of a folder": lambda at: _packed_folder(at),
    "float32": lambda at: NEAR,
    "float16": lambda at: {key: x.astype(np.float16) for key, x in NEAR.items()},
    "out of order": lambda at: {key: np.asfortranarray(NEAR[key]) for key in reversed(NEAR)},
    "BF16": lambda at: dump(NEAR),
    "F16": lambda at: dump(NEAR, "F16"),
    "F32": lambda at: dump(NEAR, "F32"),
    "U8": lambda at: dump(NEAR, "U8"),
    "scaled": lambda at: {key: -7 * x for key, x in NEAR.items()},
    "fewer tokens": lambda at: arrays(tokens=70, noise=0.02),
    "one token": lambda at: arrays(tokens=1, noise=0.02),
    "more tokens": lambda at: arrays(tokens=TOKENS + 40, noise=0.02),
    "fewer layers": lambda at: arrays(layers=1, noise=0.02),
    "keys alone": lambda at: {(n, kind): x for (n, kind), x in NEAR.items() if kind == "key"},
    "fewer heads": lambda at: {key: x[:1] for key, x in NEAR.items()},
    "other channels": lambda at: {key: x[:, :, :16] for key, x in NEAR.items()},
    "other tokens": lambda at: {key: x[:, ::-1].copy() for key, x in NEAR.items()},
    "no numbers": lambda at: {key: x * np.float32(np.nan) for key, x in NEAR.items()},
    "huge": lambda at: {key: np.full_like(x, 3e38) for key, x in NEAR.items()},
    "the dump itself": lambda at: DATA,
}
SOURCES = list(FORMS)[:9]  # the same values
PARTIAL = ("fewer tokens", "keys alone")
USELESS = ("one token", "fewer layers", "fewer heads", "other channels", "other tokens", "no numbers", "huge")


def _packed_folder(at):
    kvzip.compress(folder(at / "files", vllm(NEAR, "F8_E4M3")), at / "draft.kvz", level=6)
    return at / "draft.kvz"


def methods(blob):
    """The methods of a container's blocks."""
    return {BlockHead.split(memoryview(p), "")[1][0] for kind, p in take_apart(blob) if kind == records.BLOCK}


# ---- there and back


@pytest.mark.parametrize("level", [3, 6])
@pytest.mark.parametrize("form", SOURCES)
def test_a_dump_comes_back_wherever_its_draft_is(form, level, tmp_path):
    draft = FORMS[form](tmp_path)
    packed = kvzip.compress(DATA, level=level, draft=draft)
    assert packed == PACKED[level]
    assert kvzip.decompress(packed, draft=draft) == DATA


@pytest.mark.parametrize("level", [1, 3, 4, 9])
@pytest.mark.parametrize("form", [form for form in FORMS if form not in SOURCES])
def test_a_dump_comes_back_with_its_draft(form, level, tmp_path):
    draft = FORMS[form](tmp_path)
    packed = kvzip.compress(DATA, level=level, threads=2, draft=draft)
    assert kvzip.decompress(packed, threads=2, draft=draft) == DATA
    least = len(PLAIN[level])
    assert len(packed) <= 1.005 * least + 400
    if form in PARTIAL:
        assert len(packed) < least
    elif form == "the dump itself":
        assert len(packed) < 2000
    elif form not in USELESS:
        assert len(packed) < 0.95 * least


@pytest.mark.parametrize("level", LEVELS)
def test_levels_use_the_draft(level):
    found = methods(PACKED[level])
    assert (codec.DRAFTED if level < UNITED else united.DRAFTED) in found
    units = [Unit.from_bytes(memoryview(p), "") for kind, p in take_apart(PACKED[level]) if kind == records.UNIT]
    assert bool(units) == (level >= UNITED)
    assert all(unit.near for unit in units)
    kinds = [kind for kind, _ in take_apart(PACKED[level])]
    assert kinds[:2] == [records.START, records.SHARED]


@pytest.mark.parametrize("level", LEVELS)
def test_neither_threads_nor_verifying_matter(level):
    found = {kvzip.compress(DATA, level=level, threads=threads, draft=DRAFT) for threads in (2, 3)}
    found.add(kvzip.compress(DATA, level=level, verify=True, draft=DRAFT))
    assert found == {PACKED[level]}
    for threads in (1, 2, 3):
        assert kvzip.decompress(PACKED[level], threads=threads, draft=DRAFT) == DATA


@pytest.mark.parametrize("dtype", ["F16", "F32", "F8_E4M3", "U8"])
@pytest.mark.parametrize("level", [1, 3, 6])
def test_dumps_of_other_types_come_back(dtype, level):
    data = dump(arrays(), dtype)
    for draft in (DRAFT, NEAR, data):
        packed = kvzip.compress(data, level=level, draft=draft)
        assert kvzip.decompress(packed, draft=draft) == data
        assert len(packed) < 0.99 * len(kvzip.compress(data, level=level))


@pytest.mark.parametrize("level", [1, 3, 6])
def test_small_blocks_and_drafts_that_end_in_one_come_back(level):
    for tokens in (70, 128, TOKENS + 3):
        draft = arrays(tokens=tokens, noise=0.02)
        packed = kvzip.compress(DATA, level=level, draft=draft, block_log2=12, threads=2)
        assert kvzip.decompress(packed, draft=draft, threads=2) == DATA


@pytest.mark.parametrize("level", [1, 3, 6])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_slabs_of_some_heads_and_all_their_tokens_come_back(heads, level):
    """A slab of 4096 bytes is one head; drafts are exact, near, and exact in the first head alone."""
    made_of = {
        (0, kind): x.astype(np.float32)
        for kind, x in zip(("key", "value"), made.layer(0, tokens=128, heads=heads, channels=16), strict=True)
    }
    data = dump(made_of)
    parted = {key: x + 0.02 * (np.arange(heads) > 0)[:, None, None] for key, x in made_of.items()}
    for draft in (data, dump({key: x + 0.02 for key, x in made_of.items()}), dump(parted)):
        packed = kvzip.compress(data, level=level, draft=draft, block_log2=12, threads=2, verify=True)
        assert kvzip.decompress(packed, draft=draft, threads=1) == data


@cache
def long(reach=None, exact=0):
    """1100 tokens of one head, for several blocks a unit: the dump, or a draft of ``reach`` tokens."""
    source, out = np.random.default_rng(0), {}
    for number in range(2):
        for kind, x in zip(("key", "value"), made.layer(number, tokens=1100, heads=1, channels=16), strict=True):
            y = x[:, :reach].copy()
            y[:, exact:] += 0.02 * source.normal(size=y[:, exact:].shape) * (reach is not None)
            out[number, kind] = y.astype(np.float32)
    return out


@pytest.mark.parametrize("level", [1, 3, 6, 7])
@pytest.mark.parametrize("reach", [0, 300, 512, 700, 1100])
def test_long_dumps_come_back_wherever_their_drafts_end(reach, level):
    """The first of a draft's rows are the dump's, the rest are near; beyond it there are blocks or only parts."""
    data = dump(long())
    for exact, block_log2 in ((0, 12), (reach // 2, 14), (reach, 21)):
        draft = dump(long(reach, exact)) if reach else NEAR
        packed = kvzip.compress(data, level=level, draft=draft, block_log2=block_log2, threads=1, verify=True)
        assert packed == kvzip.compress(data, level=level, draft=draft, block_log2=block_log2, threads=3)
        assert kvzip.decompress(packed, draft=draft, threads=2) == data
    if reach == 1100:
        assert len(packed) < 2500


@settings(max_examples=40, deadline=None)
@given(dumps(), dumps(), some.sampled_from(LEVELS), some.sampled_from([12, 21]))
def test_any_dump_comes_back_with_any_draft(data, draft, level, block_log2):
    with suppress(DraftError):
        packed = kvzip.compress(data, level=level, block_log2=block_log2, threads=1, draft=draft)
        assert kvzip.decompress(packed, threads=1, draft=draft) == data


SYNTHETIC = sorted(path for path in (REAL.parent / "synthetic").glob("*.safetensors") if "bad-" not in path.name)


@pytest.mark.parametrize("level", [3, 7])
def test_every_dump_is_its_own_draft_or_none(level):
    for path in SYNTHETIC:
        data = path.read_bytes()
        with suppress(DraftError):
            packed = kvzip.compress(data, level=level, draft=path, threads=1)
            assert kvzip.decompress(packed, draft=path, threads=1) == data
            assert len(packed) < max(2000, len(data) // 20) or path.name in BYTES


BYTES = ("mla-fp8-record.safetensors", "vllm-fp8-as-u8.safetensors")  # see test_a_cache_of_bytes_is_its_own_draft


def test_latents_have_drafts():
    x = np.concatenate(made.layer(0, heads=1, channels=64, value_channels=512)[::-1], 2)
    data = made.dump([("layers.0.kv_cache", "BF16", x[0].shape, made.bits_of(x[0], "BF16").tobytes())])
    draft = {(0, "latent"): (1.001 * x).astype(np.float32)}
    for level in (1, 3, 6):
        packed = kvzip.compress(data, level=level, draft=draft)
        assert kvzip.decompress(packed, draft=draft) == data
        assert len(packed) < 0.5 * len(kvzip.compress(data, level=level))


@pytest.mark.parametrize("level", [2, 3, 6])
def test_keys_and_values_may_be_of_different_types(level):
    exact = {key: made.bits_of(x, "BF16") for key, x in arrays().items()}
    mixed = {key: x if key[1] == "key" else x.astype(np.float16) for key, x in NEAR.items()}
    for draft in (mixed, dump_of_bits(exact, NEAR)):
        packed = kvzip.compress(DATA, level=level, draft=draft)
        assert kvzip.decompress(packed, draft=draft) == DATA
        assert len(packed) < 0.7 * len(PLAIN[level])


def dump_of_bits(keys, values):
    """A dump of exact keys beside values in other numbers."""
    out = []
    for number, kind in keys:
        bits, dtype = (
            (keys[number, kind], "BF16") if kind == "key" else (made.bits_of(values[number, kind], "F16"), "F16")
        )
        out.append((f"layers.{number}.{kind}", dtype, (1, *bits.shape), bits.tobytes()))
    return made.dump(out)


@pytest.mark.parametrize("level", LEVELS)
def test_tensors_are_read_one_by_one(level, tmp_path):
    expected = made.data_of(DATA)
    path = written(tmp_path / "c.kvz", PACKED[level])
    with kvzip.open(path, draft=DRAFT) as reader:
        for name in reversed(reader.names()):
            assert reader.tensor(name).bits.tobytes() == expected[name]
    with kvzip.open(io.BytesIO(PACKED[level]), draft=FORMS["folder"](tmp_path)) as reader:
        seen = [tensor for layer in reader.layers() for tensor in layer.tensors.values()]
    assert {tensor.name: tensor.bits.tobytes() for tensor in seen} == expected


@pytest.mark.parametrize("level", [1, 3, 6])
def test_a_directory_has_one_draft(level, tmp_path):
    files = folder(tmp_path / "in", vllm(arrays()))
    kvzip.compress(files, tmp_path / "c.kvz", level=level, draft=NEAR)
    kvzip.decompress(tmp_path / "c.kvz", tmp_path / "back", draft=NEAR)
    names = sorted(path.name for path in files.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "back").iterdir())
    assert all((files / name).read_bytes() == (tmp_path / "back" / name).read_bytes() for name in names)
    plain = io.BytesIO()
    kvzip.compress(files, plain, level=level)
    assert (tmp_path / "c.kvz").stat().st_size < 0.9 * len(plain.getvalue())


@pytest.mark.parametrize("level", [3, 6])
def test_statistics_add_up(level):
    seen = kvzip.stats(DATA, level=level, draft=DRAFT)
    assert seen.container_bytes == len(PACKED[level])
    again = kvzip.stats(PACKED[level], draft=DRAFT)
    assert again.container_bytes == len(PACKED[level])


def test_verify_notices_a_drafted_block_that_does_not_come_back(monkeypatch):
    real = UnitCoder._decode_drafted

    def wrong(self, cursor, values, start, stop):
        real(self, cursor, values, start, stop)
        values[0][0, start, 0] ^= 1

    monkeypatch.setattr(UnitCoder, "_decode_drafted", wrong)
    with pytest.raises(kvzip.KvzipError, match="did not survive --verify"):
        kvzip.compress(DATA, level=6, verify=True, draft=DRAFT)


# ---- values of a model


def real(name):
    return (REAL / f"{name}.safetensors").read_bytes()


@pytest.mark.parametrize("level", LEVELS)
def test_the_cache_of_another_prompt_costs_next_to_nothing(level):
    data, other = real("prose_bf16"), real("chat_bf16")
    packed = kvzip.compress(data, level=level, draft=other)
    assert len(packed) <= 1.005 * len(kvzip.compress(data, level=level)) + 400
    assert kvzip.decompress(packed, draft=other) == data


@pytest.mark.parametrize("level", [1, 3, 6])
@pytest.mark.parametrize(
    ("name", "draft", "most"),
    [
        ("chat_bf16", "chat_fp16", 0.47),
        ("chat_bf16", "chat_fp8", 0.61),
        ("chat_fp16", "chat_fp8", 0.75),
        ("chat_fp8", "chat_bf16", 0.2),
        ("chat_fp16", "chat_bf16", 0.62),
        ("prose_bf16", "prose_fp8-head", 0.6),
        ("prose_bf16", "prose_fp8_vllm", 0.6),
        ("prose_fp8-tensor", "prose_bf16_vllm", 0.2),
        ("prose_bf16_prefix1024", "prose_bf16", 0.37),
        ("prose_bf16", "prose_bf16_prefix1024", 0.7),
        ("prose_bf16", "prose_bf16_vllm-packed", 0.007),
    ],
)
def test_another_cache_of_the_same_tokens_saves_what_it_should(name, draft, most, level):
    data = real(name)
    found = REAL / draft if (REAL / draft).is_dir() else REAL / f"{draft}.safetensors"
    packed = kvzip.compress(data, level=level, draft=found)
    assert kvzip.decompress(packed, draft=found) == data
    assert len(packed) < most * len(kvzip.compress(data, level=level))


@pytest.mark.parametrize("level", [3, 4, 7])
def test_a_draft_that_is_hardly_near_costs_next_to_nothing(level):
    """That of an older checkpoint, say: as far from the dump as tokens are from each other."""
    with open_draft(REAL / "prose_bf16.safetensors") as opened:
        own = [(piece.names[0], (piece.load().astype("<u4") << 16).view("<f4")) for piece in opened.pieces]
    source, data = np.random.default_rng(0), real("prose_bf16")
    far = [x + 0.7 * x.std(axis=1, keepdims=True) * source.normal(size=x.shape) for _, x in own]
    draft = {(name.layer, name.kind): x.astype(np.float32) for (name, _), x in zip(own, far, strict=True)}
    packed = kvzip.compress(data, level=level, draft=draft)
    assert len(packed) <= 1.005 * len(kvzip.compress(data, level=level)) + 400


@pytest.mark.parametrize("level", [3, 4, 7])
def test_a_draft_that_repeated_tokens_and_other_layers_are_better_than_is_not_taken(level):
    packed = kvzip.compress(DATA, level=level, draft=arrays(noise=0.7))
    assert len(packed) <= 1.005 * len(PLAIN[level]) + 400


@pytest.mark.parametrize("level", [1, 3, 6])
def test_a_draft_that_parts_from_the_dump_saves_what_they_share(level):
    """Two prompts that begin alike: as good as the draft cut off where they part."""
    own, other = arrays(), {key: x[:, ::-1] for key, x in arrays().items()}
    parted = {key: np.concatenate([x[:, :120], other[key][:, 120:]], axis=1) for key, x in own.items()}
    shared = len(kvzip.compress(DATA, level=level, draft=dump({key: x[:, :120] for key, x in own.items()})))
    assert shared < 0.5 * len(PLAIN[level])
    assert len(kvzip.compress(DATA, level=level, draft=dump(parted))) < shared + 400


@pytest.mark.parametrize("level", [1, 3])
def test_a_scaled_draft_helps_even_if_its_first_row_is_zero(level):
    own = {key: x * (np.arange(TOKENS) > 0)[:, None].astype(np.float32) for key, x in arrays().items()}
    data, twice = dump(own), dump({key: 2 * x for key, x in own.items()})
    assert len(kvzip.compress(data, level=level, draft=twice)) < 0.5 * len(kvzip.compress(data, level=level))


@pytest.mark.parametrize("level", [1, 3, 6])
def test_a_cache_of_bytes_is_its_own_draft(level):
    data = _e5m2()
    assert len(kvzip.compress(data, level=level, draft=data)) < 2000


def _e5m2():
    """A cache of 8-bit floats with five bits of exponent, under the tag U8."""
    out = []
    for (number, kind), x in arrays().items():
        bits = (x.astype("<f2").view("<u2") >> 8).astype(np.uint8)
        out.append((f"layers.{number}.{kind}", "U8", (1, *x.shape), bits.tobytes()))
    return made.dump(out)


# ---- with another draft, or with none


def other_drafts():
    wrong = dict(NEAR)
    wrong[1, "value"] = wrong[1, "value"].copy()
    wrong[1, "value"][0, 5, 3] += 1
    return {
        "none": None,
        "one bit": dump(wrong, "F8_E4M3"),
        "another type": dump(NEAR, "F16"),
        "fewer tokens": dump(arrays(tokens=70, noise=0.02), "F8_E4M3"),
        "fewer layers": dump({key: x for key, x in NEAR.items() if key[0]}, "F8_E4M3"),
        "another": dump(arrays(noise=0.02, seed=1), "F8_E4M3"),
    }


@pytest.mark.parametrize("level", [1, 3, 4])
@pytest.mark.parametrize("name", other_drafts())
def test_another_draft_is_refused_before_anything_is_written(name, level, tmp_path):
    draft = other_drafts()[name]
    path, there = written(tmp_path / "c.kvz", PACKED[level]), written(tmp_path / "there", b"there")
    out = io.BytesIO()
    for read in (
        lambda: kvzip.decompress(path, tmp_path / "new", draft=draft),
        lambda: kvzip.decompress(path, there, force=True, draft=draft),
        lambda: kvzip.decompress(path, out, draft=draft),
        lambda: kvzip.decompress(PACKED[level], draft=draft),
        lambda: kvzip.open(path, draft=draft),
        lambda: kvzip.stats(path, draft=draft),
    ):
        with pytest.raises(DraftError, match="draft") as caught:
            read()
        assert "\n" not in str(caught.value)
        assert "c.kvz" in str(caught.value) or "input" in str(caught.value)
    assert (out.getvalue(), there.read_bytes()) == (b"", b"there")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c.kvz", "there"]


def test_a_draft_with_more_in_it_is_the_draft_as_well():
    """Layers, that is: what the container names must be there."""
    packed = kvzip.compress(DATA, draft={key: x for key, x in NEAR.items() if key[0] < 2})
    assert kvzip.decompress(packed, draft=NEAR) == DATA


def test_a_container_that_names_no_draft_ignores_one():
    assert kvzip.decompress(PLAIN[3], draft=DRAFT) == DATA


def test_the_error_is_part_of_the_interface():
    assert kvzip.DraftError is DraftError
    assert "DraftError" in kvzip.__all__


@pytest.mark.parametrize("level", [3, 6])
def test_a_draft_may_not_need_a_draft(level, tmp_path):
    path = written(tmp_path / "draft.kvz", PACKED[level])
    for draft in (path, PACKED[level]):
        with pytest.raises(DraftError, match="needs a draft itself"):
            kvzip.compress(DATA, draft=draft)


ODD = {
    "missing": lambda at: at / "missing",
    "empty": lambda at: written(at / "empty", b""),
    "no dump": lambda at: written(at / "text", b"no dump at all, but a text"),
    "cut short": lambda at: written(at / "short", DRAFT[:-9]),
    "bytes cut short": lambda at: DRAFT[:-9],
    "empty folder": lambda at: folder(at / "folder", []),
    "nothing to pair": lambda at: made.dump([("ids", "I32", (9,), bytes(36))]),
    "integers": lambda at: {(0, "key"): np.zeros((1, 2, 3), np.int32)},
    "too few axes": lambda at: {(0, "key"): np.zeros((2, 3), np.float32)},
    "an unknown kind": lambda at: {(0, "query"): np.zeros((1, 2, 3), np.float32)},
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_no_draft_is_refused_in_one_line(name, tmp_path):
    target = tmp_path / "target"
    with pytest.raises(DraftError) as caught:
        kvzip.compress(DATA, target, draft=ODD[name](tmp_path))
    assert "\n" not in str(caught.value)
    assert not target.exists()


ARRAY = np.zeros((1, 2, 3), np.float32)
NO_ARRAYS = {
    "nothing": {},
    "no heads": {(0, "key"): ARRAY[:0]},
    "a layer below 0": {(-2, "key"): ARRAY},
    "a layer that no record can name": {(1 << 40, "key"): ARRAY},
    "a kind alone": {"key": ARRAY},
    "a layer alone": {0: ARRAY},
    "the wrong way round": {("key", 0): ARRAY},
}


@pytest.mark.parametrize(
    "name",
    NO_ARRAYS,
)
def test_arrays_that_are_no_draft_are_refused_in_one_line(name):
    with pytest.raises(DraftError):
        kvzip.compress(DATA, draft=NO_ARRAYS[name])


def test_arrays_of_the_other_byte_order_are_the_same_numbers():
    turned = {key: x.astype(x.dtype.newbyteorder(">")) for key, x in NEAR.items()}
    assert kvzip.compress(DATA, draft=turned) == kvzip.compress(DATA, draft=NEAR)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_no_draft(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    def feed():
        with suppress(BrokenPipeError), open(tmp_path / "pipe", "wb") as file:
            file.write(DRAFT)

    feeding = threading.Thread(target=feed)
    feeding.start()
    with pytest.raises(DraftError, match="not a pipe") as caught:
        kvzip.compress(DATA, draft=tmp_path / "pipe")
    feeding.join()
    assert "\n" not in str(caught.value)


def test_a_draft_that_is_a_container_with_a_prior_is_read_with_it():
    prior = kvzip.train_prior([DRAFT])
    draft = kvzip.compress(DRAFT, prior=prior)
    packed = kvzip.compress(DATA, prior=prior, draft=draft)
    assert kvzip.decompress(packed, prior=prior, draft=draft) == DATA


def test_a_target_may_not_be_the_draft(tmp_path):
    """The container would be worth nothing without what it replaced."""
    path = written(tmp_path / "draft.safetensors", DRAFT)
    with pytest.raises(kvzip.KvzipError):
        kvzip.compress(DATA, path, force=True, draft=path)
    assert path.read_bytes() == DRAFT


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="only Linux lists what is open")
def test_files_are_closed_when_the_reader_is_and_when_there_is_none(tmp_path):
    draft, path = FORMS["path"](tmp_path), written(tmp_path / "c.kvz", PACKED[3])
    other = written(tmp_path / "other.safetensors", DATA)
    before = len(os.listdir("/proc/self/fd"))
    held = []  # else they are closed with the last reference to them
    for one in (draft, other):
        with suppress(DraftError) as caught, kvzip.open(path, draft=one) as reader:
            held += [reader, reader.draft, caught]
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_prior_may_lie_in_front_of_the_draft():
    prior = kvzip.train_prior([DRAFT])
    packed = kvzip.compress(DATA, prior=prior, embed_prior=True, draft=DRAFT)
    assert kvzip.decompress(packed, draft=DRAFT) == DATA
    with kvzip.open(io.BytesIO(packed), draft=DRAFT) as reader:
        assert reader.tensor("layers.1.key").bits.tobytes() == made.data_of(DATA)["layers.1.key"]
    with pytest.raises(DraftError):
        kvzip.decompress(packed)


def test_a_draft_that_is_damaged_is_refused_before_anything_is_written(tmp_path):
    draft = bytearray(kvzip.compress(DRAFT))
    draft[len(draft) // 2] ^= 1
    with pytest.raises(kvzip.KvzipError, match="draft") as caught:
        kvzip.compress(DATA, tmp_path / "target", draft=written(tmp_path / "draft.kvz", draft))
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["draft.kvz"]


# ---- records rewritten, with checks that fit


def rewritten(level, change):
    """The container with its DRAFT record's payload replaced by those that ``change`` makes of it."""
    out = []
    for kind, payload in take_apart(PACKED[level]):
        if kind == records.SHARED and holds_draft(memoryview(payload)):
            out += [(kind, new) for new in change(payload)]
        else:
            out.append((kind, payload))
    return put_together(out)


def errors(blob, draft):
    """What both readers make of a container: None or the error."""
    found = []
    for read in (
        lambda: kvzip.decompress(blob, threads=1, draft=draft),
        lambda: [kvzip.open(io.BytesIO(blob), threads=1, draft=draft).tensor(name) for name in made.data_of(DATA)],
    ):
        try:
            read()
            found.append(None)
        except kvzip.KvzipError as error:
            found.append(error)
    assert not any("\n" in str(error) for error in found)
    return found


def parts_of(draft):
    with open_draft(draft) as opened:
        return opened.parts()


@pytest.mark.parametrize("level", [1, 3, 4, 9])
def test_a_container_whose_draft_is_not_what_it_says_is_refused(level):
    other = dump(arrays(noise=0.02, seed=1), "F8_E4M3")
    fewer = {key: x for key, x in NEAR.items() if key[0] != 1}
    short = dump(arrays(tokens=70, noise=0.02), "F8_E4M3")
    assert errors(rewritten(level, lambda payload: [payload]), DRAFT) == [None, None]
    for draft in (DRAFT, None):
        for error in errors(rewritten(level, lambda _: []), draft):
            assert isinstance(error, kvzip.ContainerError)
    for draft in (other, dump(fewer, "F8_E4M3"), short, dump(NEAR, "F16"), {(0, "key"): np.zeros((1, 1, 1), "f4")}):
        blob = rewritten(level, lambda _, draft=draft: [draft_payload(parts_of(draft))])
        assert all(isinstance(error, DraftError) for error in errors(blob, None))
        assert all(isinstance(error, DraftError) for error in errors(blob, DRAFT)) or draft not in (other, short)
        found = errors(blob, draft)
        assert isinstance(found[0], kvzip.ContainerError)
        assert isinstance(found[1], kvzip.ContainerError)


@pytest.mark.parametrize("level", [3, 4])
def test_a_container_has_one_draft_and_that_in_front(level):
    twice = rewritten(level, lambda payload: [payload, payload])
    assert all(isinstance(error, kvzip.ContainerError) for error in errors(twice, DRAFT))
    parts = take_apart(PACKED[level])
    at = next(i for i, (kind, p) in enumerate(parts) if kind == records.SHARED and holds_draft(memoryview(p)))
    block = next(i for i, (kind, _) in enumerate(parts) if kind in (records.UNIT, records.BLOCK))
    late = put_together([*parts[:at], *parts[at + 1 : block], parts[at], *parts[block:]])
    assert all(isinstance(error, kvzip.ContainerError) for error in errors(late, DRAFT))


@pytest.mark.parametrize("level", [1, 3, 4, 9])
def test_a_record_of_layers_that_do_not_exist_asks_for_them(level):
    odd = [DraftPart(-1, "", 0, 0, 0, 255, bytes(16)), DraftPart(1 << 20, "bias", 1 << 40, 1, 1, 0, bytes(16))]
    for parts in (odd, odd[:1]):
        blob = rewritten(level, lambda _, parts=parts: [draft_payload(parts)])
        assert all(isinstance(error, DraftError) for error in errors(blob, DRAFT))


@pytest.mark.parametrize("level", [4, 9])
def test_units_that_do_not_fit_their_draft_are_refused(level):
    """Other scales, none where the blocks have a draft, one where they have none."""
    parts = take_apart(PACKED[level])
    at = next(i for i, (kind, _) in enumerate(parts) if kind == records.UNIT)
    unit = Unit.from_bytes(memoryview(parts[at][1]), "")
    for change in ({"scales": (1.5,)}, {"scales": (1.5,) * 99}, {"scales": (2.0**59,) * 4}, {"near": None}):
        parts[at] = (records.UNIT, replace(unit, **change).to_bytes())
        assert all(isinstance(error, kvzip.ContainerError) for error in errors(put_together(parts), DRAFT))
    plain = take_apart(PLAIN[level])
    for at, (kind, payload) in enumerate(plain):
        if kind == records.UNIT:
            plain[at] = (kind, replace(Unit.from_bytes(memoryview(payload), ""), near=unit.near).to_bytes())
    assert all(isinstance(error, kvzip.ContainerError) for error in errors(put_together(plain), None))
    named = [plain[0], parts[1], *plain[1:]]
    assert all(isinstance(error, kvzip.ContainerError) for error in errors(put_together(named), DRAFT))


@pytest.mark.parametrize("kind", [records.SHARED, records.UNIT, records.BLOCK], ids=str)
@pytest.mark.parametrize("level", [1, 3, 4, 9])
def test_hostile_records_are_refused_or_read_but_never_crash(level, kind):
    parts = take_apart(PACKED[level])
    places = [at for at, (found, _) in enumerate(parts) if found == kind]
    source = np.random.default_rng(level)
    for _ in range(15 if places else 0):
        at = int(source.choice(places))
        changed = list(parts)
        changed[at] = (kind, mutated(parts[at][1], source))
        errors(put_together(changed), DRAFT)
