"""Arrays in zarr, versions 2 and 3, and Dask on top: bit for bit, and each chunk a container."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext

import numpy as np
import pytest

import kvzip
from kvzip.pipeline.compress import compress_members
from kvzip.pipeline.options import Options
from kvzip.pipeline.source import MemberInput

numcodecs = pytest.importorskip("numcodecs")
zarr = pytest.importorskip("zarr", minversion="3")

TYPES = {
    "BF16": "uint16",
    "F16": "float16",
    "F32": "float32",
    "F8_E4M3": "uint8",
    "F8_E5M2": "uint8",
    "F64": "float64",
}
SHAPE, CHUNKS = (2, 3, 100, 32), (1, 2, 64, 32)


def made(numpy_type, shape=SHAPE):
    source = np.random.default_rng(len(shape))
    x = source.normal(size=shape) * source.uniform(0.5, 4, shape[-1:])
    if numpy_type == "uint16":
        return (x.astype("<f4").view("<u4") >> 16).astype("u2")
    if numpy_type == "uint8":
        return (x.astype("<f2").view("<u2") >> 8).astype("u1")
    return x.astype(numpy_type)


def create(store, array, version, chunks, **configuration):
    if version == 2:
        codec = {"compressors": numcodecs.get_codec({"id": "kvzip", **configuration})}
    else:
        from kvzip.integrations.zarr import KvzipCodec

        codec = {"serializer": KvzipCodec(**configuration), "compressors": None, "filters": None}
    held = zarr.create_array(
        store, shape=array.shape, chunks=chunks, dtype=array.dtype, zarr_format=version, fill_value=0, **codec
    )
    held[...] = array
    return held


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("dtype", TYPES)
def test_round_trip(tmp_path, version, dtype):
    array = made(TYPES[dtype])
    create(tmp_path / "x", array, version, CHUNKS, dtype=dtype)
    again = zarr.open_array(tmp_path / "x", mode="r")
    assert again[...].tobytes() == array.tobytes()
    assert again[1, 2, 60:70, 5].tobytes() == array[1, 2, 60:70, 5].tobytes()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("shape", "chunks"),
    [
        ((7,), (3,)),
        ((5, 9), (5, 9)),
        ((1, 1, 1), (1, 1, 1)),
        ((2, 3, 50, 8), (2, 3, 13, 8)),
        ((3, 40, 12), (2, 7, 5)),
    ],
    ids=str,
)
def test_any_shape(tmp_path, version, shape, chunks):
    array = made("float16", shape)
    create(tmp_path / "x", array, version, chunks)
    assert zarr.open_array(tmp_path / "x", mode="r")[...].tobytes() == array.tobytes()


def test_no_axis_and_other_types(tmp_path):
    for version in (2, 3):
        for array in (np.array(1.5, "f4"), np.arange(60, dtype="i8").reshape(3, 20), np.ones((4, 4), "bool")):
            path = tmp_path / f"{version}-{array.dtype}"
            create(path, array, version, array.shape or ())
            assert zarr.open_array(path, mode="r")[...].tobytes() == array.tobytes()


def test_special_bits_come_back(tmp_path):
    bits = np.arange(1 << 16, dtype="u2").reshape(1, 1, 512, 128)  # every bfloat16 there is, NaN payloads and all
    create(tmp_path / "x", bits, 3, bits.shape, dtype="BF16")
    assert (zarr.open_array(tmp_path / "x", mode="r")[...] == bits).all()


def test_a_chunk_is_a_container(tmp_path):
    array = made("uint16", (1, 2, 64, 32))
    create(tmp_path / "x", array, 3, array.shape, level=6, dtype="BF16", kind="value")
    (chunk,) = [path for path in (tmp_path / "x").rglob("*") if path.is_file() and path.name != "zarr.json"]
    with kvzip.open(io.BytesIO(chunk.read_bytes())) as container:
        assert container.start.level == 6
        assert (container.tensor("layers.0.value").bits == array).all()
    said = json.loads((tmp_path / "x" / "zarr.json").read_text())["codecs"]
    assert said == [{"name": "kvzip", "configuration": {"level": 6, "kind": "value", "dtype": "BF16"}}]


def test_the_codec_alone():
    codec = numcodecs.get_codec({"id": "kvzip", "level": 1, "dtype": "F16"})
    array = made("float16")
    for given in (array, np.asfortranarray(array), array[:, ::2], array[..., 0]):
        packed = codec.encode(given)
        assert bytes(codec.decode(packed)) == np.ascontiguousarray(given).tobytes()
        out = np.empty(given.shape, given.dtype)
        codec.decode(packed, out=out)
        assert (out == given).all()
    assert bytes(codec.decode(codec.encode(np.zeros((0, 4), "f2")))) == b""
    plain = numcodecs.get_codec({"id": "kvzip"})
    assert bytes(plain.decode(plain.encode(b"any bytes"))) == b"any bytes"
    assert numcodecs.get_codec(codec.get_config()) == codec


@pytest.mark.parametrize("configuration", [{"level": 10}, {"kind": "neither"}])
def test_what_is_out_of_range(configuration):
    from kvzip.integrations.zarr import KvzipCodec

    with pytest.raises(kvzip.OptionError):
        numcodecs.get_codec({"id": "kvzip", **configuration})
    with pytest.raises(kvzip.OptionError):
        KvzipCodec(**configuration)
    with pytest.raises(kvzip.OptionError):
        numcodecs.get_codec({"id": "kvzip", "dtype": "F32"}).encode(np.zeros((4, 4), "f2"))


def test_damage_is_told(tmp_path):
    codec = numcodecs.get_codec({"id": "kvzip"})
    packed = bytearray(codec.encode(made("float16")))
    packed[len(packed) // 2] ^= 1
    for wrong in (packed, packed[:-1], b"x", opaque(b"\xff" * 20), opaque(b"abc")):
        with pytest.raises(kvzip.ContainerError):
            codec.decode(bytes(wrong))


def opaque(data):
    """A container of bytes that are no dump."""
    out = io.BytesIO()
    member = MemberInput(io.BytesIO(data), "made", size=len(data), is_dump=False)
    compress_members([nullcontext(member)], out, Options.make())
    return out.getvalue()


def test_dask_on_top(tmp_path):
    array_of = pytest.importorskip("dask.array")
    array = made("float16", (2, 4, 128, 32))
    create(tmp_path / "x", array, 3, (1, 2, 64, 32))
    lazy = array_of.from_zarr(zarr.open_array(tmp_path / "x", mode="r"))
    assert lazy.numblocks == (2, 2, 2, 1)
    doubled = lazy.map_blocks(lambda block: block * np.float16(2)).compute()
    assert doubled.tobytes() == (array * np.float16(2)).tobytes()
