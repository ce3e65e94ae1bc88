"""Tensors taken out of dumps and containers, and the difference of two of them."""

from __future__ import annotations

import json

import ml_dtypes  # noqa: F401  numpy learns bfloat16 and the 8-bit floats
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made import dump, layer
from safetensors.numpy import load

import kvzip
from kvzip.dtypes import DTYPES
from kvzip.errors import DumpError, KvzipError, OptionError
from kvzip.pipeline.difference import compare, compare_bits, numbers
from kvzip.pipeline.parts import Wanted, header_of, write_parts
from kvzip.pipeline.tensors import open_tensors

FLOATS = {
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}


def cache(layers=3, tokens=64, dtype="F16"):
    """A dump of some layers in float16, and metadata."""
    rows = []
    for number in range(layers):
        for kind, values in zip(("key", "value"), layer(number, tokens), strict=True):
            bits = values.astype("<f2")
            rows.append((f"layers.{number}.{kind}", dtype, (1, *bits.shape), bits.tobytes()))
    return dump(rows, {"model": "made"})


def taken(path, **wanted):
    """What ``cat`` would write."""
    import io

    out = io.BytesIO()
    with open_tensors(path) as tensors:
        write_parts(Wanted.of(**wanted).pick(tensors), tensors, out)
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("parts")
    data = cache()
    (made / "dump.safetensors").write_bytes(data)
    for level in (1, 3, 6, 8):
        kvzip.compress(made / "dump.safetensors", made / f"{level}.kvz", level=level)
    (made / "many").mkdir()
    for number in range(2):
        piece = {f"layers.{number}.{kind}": x for kind, x in zip(("key", "value"), layer(number), strict=True)}
        rows = [("kv_cache", "F32", x.shape, x.astype("<f4").tobytes()) for x in list(piece.values())[:1]]
        (made / "many" / f"layers.{number}.safetensors").write_bytes(dump(rows))
    (made / "many" / "notes.txt").write_text("something else")
    kvzip.compress(made / "many", made / "many.kvz")
    return made


@pytest.mark.parametrize("name", ["dump.safetensors", "1.kvz", "3.kvz", "6.kvz", "8.kvz"])
def test_all_tensors_are_those_of_the_dump(folder, name):
    whole = load((folder / "dump.safetensors").read_bytes())
    again = load(taken(folder / name))
    assert set(again) == set(whole)
    for tensor, values in whole.items():
        assert again[tensor].tobytes() == values.tobytes()
        assert again[tensor].shape == values.shape
        alone = load(taken(folder / name, names=[tensor]))
        assert list(alone) == [tensor]
        assert alone[tensor].tobytes() == values.tobytes()


@pytest.mark.parametrize("name", ["dump.safetensors", "3.kvz"])
def test_choices(folder, name):
    def names(**wanted):
        return sorted(load(taken(folder / name, **wanted)))

    assert names(layers=["1"]) == ["layers.1.key", "layers.1.value"]
    assert names(layers=["0-1"], kinds=["key"]) == ["layers.0.key", "layers.1.key"]
    assert names(layers=["2,0"], kinds=["value"]) == ["layers.0.value", "layers.2.value"]
    assert names(names=["*.key"], layers=["1-7"]) == ["layers.1.key", "layers.2.key"]


def test_header(folder):
    raw = taken(folder / "3.kvz", layers=["1"])
    length = int.from_bytes(raw[:8], "little")
    assert length % 8 == 0
    assert json.loads(raw[8 : 8 + length])["__metadata__"] == {"model": "made"}
    assert raw == taken(folder / "dump.safetensors", layers=["1"])


@pytest.mark.parametrize("name", ["many", "many.kvz"])
def test_files_of_a_directory(folder, name):
    """Names that repeat get their file's before them; other files are no tensors."""
    both = load(taken(folder / name))
    assert sorted(both) == ["layers.0.safetensors:kv_cache", "layers.1.safetensors:kv_cache"]
    assert list(load(taken(folder / name, layers=["1"]))) == ["kv_cache"]
    assert list(load(taken(folder / name, names=["layers.0.safetensors:kv_cache"]))) == ["kv_cache"]


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ({"names": ["layer.1.key"]}, ["layers.1.key", "did you mean"]),
        ({"names": ["zzz"]}, ["kvzip list"]),
        ({"layers": ["7"]}, ["no layer 7", "0-2"]),
        ({"names": ["layers.0.key"], "layers": ["1"]}, ["all of this"]),
    ],
)
def test_what_is_not_there(folder, wanted, words):
    with pytest.raises(KvzipError) as error:
        taken(folder / "3.kvz", **wanted)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("wanted", [{"layers": ["x"]}, {"layers": ["5-3"]}, {"layers": [""]}, {"kinds": ["keys"]}])
def test_what_cannot_be_meant(wanted):
    with pytest.raises(OptionError):
        Wanted.of(**wanted)


def test_a_dump_that_is_cut_short(folder):
    (folder / "cut").write_bytes((folder / "dump.safetensors").read_bytes()[:-1])
    with pytest.raises(DumpError, match="incomplete"):
        taken(folder / "cut")


def test_strange_names(tmp_path):
    names = ["", "a/b", "né", "\n", "\0", "\U0001f600", '"', "x" * 300]
    rows = [(name, "U8", (2,), bytes([i, i])) for i, name in enumerate(names)]
    (tmp_path / "d").write_bytes(dump(rows))
    with open_tensors(tmp_path / "d") as tensors:
        found = tensors.tensors
        assert list(json.loads(header_of(found, tensors)[8:])) == names
    assert taken(tmp_path / "d", names=["a/b"])[-2:] == b"\1\1"


# -- differences


def differ(a, b):
    with open_tensors(a) as one, open_tensors(b) as other:
        return compare(one, other)


@pytest.mark.parametrize("name", ["dump.safetensors", "3.kvz", "8.kvz", "many", "many.kvz"])
def test_nothing_differs_from_itself(folder, name):
    found = differ(folder / name, folder / name)
    assert not found
    assert found.same_tensors > 0
    assert not differ(folder / "dump.safetensors", folder / "6.kvz")
    assert not differ(folder / "many", folder / "many.kvz")


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_flipped_bits_are_found(tmp_path_factory, data):
    """Exactly the tensors, values, tokens and heads whose bits were flipped."""
    tmp = tmp_path_factory.mktemp("flip")
    whole = bytearray(cache())
    start = 8 + int.from_bytes(whole[:8], "little")
    (tmp / "a").write_bytes(whole)
    size = 2 * 64 * 32 * 2
    places = data.draw(st.lists(st.integers(0, len(whole) - start - 1), min_size=1, max_size=5, unique=True))
    for at in places:
        whole[start + at] ^= 1 << data.draw(st.integers(0, 7))
    (tmp / "b").write_bytes(whole)
    found = differ(tmp / "a", tmp / "b")
    assert not found.header
    wanted = {}
    for at in places:
        number, within = divmod(at, size)
        wanted.setdefault(f"layers.{number // 2}.{('key', 'value')[number % 2]}", set()).add(within // 2)
    assert {one.name for one in found.tensors} == set(wanted)
    for one in found.tensors:
        values = wanted[one.name]
        assert one.what == "values"
        assert one.differing == len(values)
        index = np.unravel_index(min(values), (1, 2, 64, 32))
        assert one.first == tuple(map(int, index))
        rows = {value // 32 % 64 for value in values}
        assert one.tokens == (len(rows), min(rows), max(rows))
        assert one.heads == tuple(sorted({value // 2048 for value in values}))


@pytest.mark.parametrize(("name", "numpy_name"), FLOATS.items())
def test_numbers_are_those_of_the_type(name, numpy_name):
    draw = np.random.default_rng(1)
    width = DTYPES[name].container_bytes
    bits = np.arange(1 << 8 * width, dtype=f"<u{width}") if width < 4 else draw.integers(0, 1 << 63, 999, np.uint64)
    bits = bits.astype(f"<u{width}")
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(numbers(bits, DTYPES[name]), bits.view(numpy_name).astype(np.float64))


@pytest.mark.parametrize("name", FLOATS)
def test_units_in_the_last_place(name):
    dtype = DTYPES[name]
    width = dtype.container_bytes
    one = 1 << (8 * width - 3)
    sign = 1 << (8 * width - 1)

    def ulp(a, b):
        a, b = (np.array([x], f"<u{width}") for x in (a, b))
        return compare_bits("x", a, b, dtype)

    assert ulp(one, one + 3).greatest_ulp == 3
    assert ulp(2 | sign, 3).greatest_ulp == 5
    if not name.endswith("FNUZ"):
        zeros = ulp(sign, 0)
        assert (zeros.greatest_ulp, zeros.greatest, zeros.signed_zeros, zeros.differing) == (0, 0.0, 1, 1)
    nan = sign - 1
    if not name.endswith("FNUZ"):
        assert (ulp(nan, one).nans, ulp(nan, one).greatest) == (1, None)


@pytest.mark.parametrize(("name", "a", "b", "gap"), [("I8", 127, -128, 255), ("U64", 0, 2**64 - 1, 2**64 - 1)])
def test_integers(name, a, b, gap):
    dtype = DTYPES[name]
    width = dtype.container_bytes
    one, other = (np.array([x % (1 << 8 * width)], f"<u{width}") for x in (a, b))
    found = compare_bits("x", one, other, dtype)
    assert found.greatest_ulp == gap
    assert found.first_values == (a, b)


def test_headers(tmp_path):
    rows = [(f"layers.0.{kind}", "F16", (1, 2, 16, 32), bytes(2048)) for kind in ("key", "value")]
    (tmp_path / "a").write_bytes(dump(rows, {"x": "1"}))
    (tmp_path / "b").write_bytes(dump(rows, {"x": "2", "y": "3"}))
    (tmp_path / "c").write_bytes(dump(rows[::-1], {"x": "1"}))
    assert differ(tmp_path / "a", tmp_path / "b").header == ["metadata 'x' differs", "metadata 'y' only in B"]
    assert differ(tmp_path / "a", tmp_path / "c").header == ["the same tensors in another order"]
    spaced = dump(rows, {"x": "1"})
    length = int.from_bytes(spaced[:8], "little")
    spaced = (length + 8).to_bytes(8, "little") + spaced[8 : 8 + length] + b" " * 8 + spaced[8 + length :]
    (tmp_path / "d").write_bytes(spaced)
    assert "other words" in differ(tmp_path / "a", tmp_path / "d").header[0]
    (tmp_path / "e").write_bytes(dump([*rows[:1], ("new", "F16", (8,), bytes(16))], {"x": "1"}))
    (tmp_path / "f").write_bytes(dump([(rows[0][0], "BF16", *rows[0][2:]), ("new", "F16", (2, 4), bytes(16))]))
    found = differ(tmp_path / "a", tmp_path / "e").tensors
    assert [(one.name, one.what) for one in found] == [("layers.0.value", "only in A"), ("new", "only in B")]
    found = differ(tmp_path / "e", tmp_path / "f").tensors
    assert [(one.what, one.detail) for one in found] == [("type", "F16 and BF16"), ("shape", "8 and 2x4")]
