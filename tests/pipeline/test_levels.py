"""Every level, every kind of dump: it comes back, for any number of threads, from pipes, and tensor by tensor."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import made
import numpy as np
import pytest
from apart import take_apart

import kvzip
from kvzip.blocks.codec import PREDICTED
from kvzip.blocks.united import LINEAR, UnitCoder
from kvzip.container import records
from kvzip.container.structures import BlockHead
from kvzip.container.unit import TYPES, Unit
from kvzip.linear.symbols import SUPPORTED
from kvzip.pipeline.decode_unit import UnitDecoder
from kvzip.pipeline.options import Options

LEVELS = range(1, 10)
APART = [level for level in LEVELS if Options.make(level).unites is None]
UNITED = [level for level in LEVELS if level not in APART]
DATA = made.dump(made.tensors(range(3), tokens=600, heads=1))  # two blocks a unit
PACKED = made.Lazy(lambda level: kvzip.compress(DATA, level=level, threads=1))


def methods(blob):
    """The methods of a container's blocks."""
    return {BlockHead.split(memoryview(p), "")[1][0] for kind, p in take_apart(blob) if kind == records.BLOCK}


def kinds(blob):
    return {kind for kind, _ in take_apart(blob)}


# ---- one container, however it comes about


@pytest.mark.parametrize("level", LEVELS)
def test_threads_do_not_matter(level):
    assert {kvzip.compress(DATA, level=level, threads=threads) for threads in (2, 3)} == {PACKED[level]}
    for threads in (1, 2, 3):
        assert kvzip.decompress(PACKED[level], threads=threads) == DATA


def test_levels_use_what_they_should():
    assert records.SHARED in kinds(PACKED[2])
    assert PREDICTED in methods(PACKED[2]) & methods(PACKED[3])
    for level in UNITED:
        assert records.UNIT in kinds(PACKED[level])
        assert LINEAR in methods(PACKED[level]) <= {LINEAR, PREDICTED}  # the latter where the tokens are
    units = [Unit.from_bytes(memoryview(p), "") for kind, p in take_apart(PACKED[9]) if kind == records.UNIT]
    assert [unit.bases for unit in units] == [(), (1,), (1, 2)]
    assert all(unit.rope and unit.tokens for unit in units)


def test_levels_pay_on_what_looks_like_a_cache():
    sizes = [len(PACKED[level]) for level in LEVELS]
    assert sizes[1] < 0.97 * sizes[0]
    assert sizes[2] < sizes[1]
    assert max(sizes[3:]) < sizes[2]
    assert sizes[-1] < 0.9 * sizes[2]


@pytest.mark.parametrize("level", [2, 3, UNITED[0], UNITED[-1]])
def test_pipes_give_and_take_the_same(level):
    read, write = os.pipe()

    def feed():
        with open(write, "wb") as file:
            for at in range(0, len(DATA), 4099):
                file.write(DATA[at : at + 4099])

    feeding = threading.Thread(target=feed)
    feeding.start()
    with open(read, "rb", buffering=0) as pipe:
        assert kvzip.compress(pipe, level=level) == PACKED[level]
    feeding.join()


@pytest.mark.parametrize("level", LEVELS)
def test_verify_changes_nothing(level):
    assert kvzip.compress(DATA, level=level, verify=True) == PACKED[level]


def test_verify_notices_a_united_block_that_does_not_come_back(monkeypatch):
    real = UnitCoder.decode
    monkeypatch.setattr(UnitCoder, "decode", lambda *a: [part ^ 1 for part in real(*a)])
    with pytest.raises(kvzip.KvzipError, match="did not survive --verify"):
        kvzip.compress(DATA, level=UNITED[0], verify=True)


@pytest.mark.parametrize("switch", ["NUMBA_DISABLE_JIT"])
def test_without_the_compiler_the_bytes_are_the_same(switch, tmp_path):
    data = made.dump(made.tensors(range(2), tokens=60, heads=1, channels=20))
    levels = (1, 3, UNITED[-1])
    (tmp_path / "dump").write_bytes(data)
    code = (
        "import sys, hashlib, kvzip; data = open(sys.argv[1], 'rb').read()\n"
        "for level in map(int, sys.argv[2:]):\n"
        "    packed = kvzip.compress(data, level=level, threads=1)\n"
        "    assert kvzip.decompress(packed, threads=1) == data\n"
        "    print(hashlib.sha256(packed).hexdigest())"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "dump"), *map(str, levels)]
    environment = {**os.environ, switch: "1"}
    root = Path(kvzip.__file__).resolve().parents[1]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=root)
    expected = [hashlib.sha256(kvzip.compress(data, level=level, threads=1)).hexdigest() for level in levels]
    assert done.stdout.split() == expected, done.stderr


# ---- every kind of dump


def _by_kind():
    both = made.tensors(range(3))
    return both[::2] + both[1::2]


def _vllm(name="model.layers.{}.self_attn.attn.kv_cache"):
    out = []
    for number in range(2):
        x = np.stack([part.transpose(1, 0, 2) for part in made.layer(number)])
        out.append((name.format(number), "BF16", x.shape, made.bits_of(x, "BF16").tobytes()))
    return out


def _latents():
    out = []
    for number in range(3):
        x = np.concatenate(made.layer(number, heads=1, channels=64, value_channels=512)[::-1], 2)[0]
        out.append((f"layers.{number}.kv_cache", "BF16", x.shape, made.bits_of(x, "BF16").tobytes()))
    return out


def _noise(dtype, size):
    noise = np.random.default_rng(0)
    return [(f"layers.{i}.{k}", dtype, (1, 2, 40, 16), noise.bytes(2 * 40 * 16 * size)) for i in (0, 1) for k in (
        "key", "value")]  # fmt: skip


DUMPS = {
    "layers in lexical order": sorted(made.tensors(range(12), tokens=40, heads=1)),
    "layers backwards": made.tensors(reversed(range(4))),
    "keys before values": _by_kind(),
    "layers of different lengths": made.tensors([0, 2]) + made.tensors([1, 3], tokens=50) + made.tensors([4]),
    "one head": made.tensors(range(3), heads=1),
    "one token": made.tensors(range(2), tokens=1, channels=512),
    "seventeen tokens of odd channels": made.tensors(range(2), tokens=17, channels=34, heads=3),
    "wide keys": made.tensors(range(2), channels=48, value_channels=16),
    "vllm": _vllm(),
    "latents": _latents(),
    "F16": made.tensors(range(3), "F16"),
    "F32": made.tensors(range(3), "F32"),
    "fp8": made.tensors(range(3), "F8_E4M3"),
    "U8": made.tensors(range(3), "U8"),
    "U32": _noise("U32", 4),
    "F64": _noise("F64", 8),
    "FNUZ": _noise("F8_E4M3FNUZ", 1),
    "beside ids": [*made.tensors([0]), ("ids", "I32", (40,), bytes(range(160))), *made.tensors([1])],
}


@pytest.mark.parametrize("level", [2, 3, UNITED[0], 7, 9])
@pytest.mark.parametrize("name", DUMPS)
def test_dumps_come_back_whole_and_tensor_by_tensor(name, level):
    data = made.dump(DUMPS[name])
    packed = kvzip.compress(data, level=level, threads=2)
    assert kvzip.decompress(packed, threads=2) == data
    assert len(packed) <= len(data) * 1.005 + 2048
    expected = made.data_of(data)
    with kvzip.open(io.BytesIO(packed)) as reader:
        for tensor in reversed(reader.names()):  # those behind first: what they refer to is read for them
            assert reader.tensor(tensor).bits.tobytes() == expected[tensor]
    with kvzip.open(io.BytesIO(packed)) as reader:
        seen = [tensor for layer in reader.layers() for tensor in layer.tensors.values()]
    assert {tensor.name: tensor.bits.tobytes() for tensor in seen} == expected


@pytest.mark.parametrize("level", [3, UNITED[0], 9])
def test_a_directory_of_layers_comes_back(tmp_path, level):
    files = {f"model.layers.{n}.self_attn.attn.safetensors": made.dump([("kv_cache", *rest)])
             for n, (_, *rest) in enumerate(_vllm())}  # fmt: skip
    files |= {"notes.txt": b"beside", "x.safetensors": made.dump(made.tensors([2, 3]))}
    (tmp_path / "in").mkdir()
    for name, data in files.items():
        (tmp_path / "in" / name).write_bytes(data)
    kvzip.compress(tmp_path / "in", tmp_path / "out.kvz", level=level, threads=2)
    one = io.BytesIO()
    kvzip.compress(tmp_path / "in", one, level=level, threads=1)
    assert one.getvalue() == (tmp_path / "out.kvz").read_bytes()
    kvzip.decompress(tmp_path / "out.kvz", tmp_path / "back", threads=2)
    assert {p.name: p.read_bytes() for p in (tmp_path / "back").iterdir()} == files
    with kvzip.open(tmp_path / "out.kvz") as reader:
        for name in reader.names():
            member, _, tensor = name.partition(":")
            assert reader.tensor(name).bits.tobytes() == made.data_of(files[member])[tensor]


@pytest.mark.parametrize("level", LEVELS)
def test_noise_costs_hardly_more_than_at_level_1(level):
    """Gaussian numbers have nothing to predict; bits without any order nothing at all."""
    source = np.random.default_rng(0)
    shape = (1, 2, 1024, 64)
    normal = [(f"layers.0.{kind}", "BF16", shape, made.bits_of(source.normal(size=shape), "BF16").tobytes())
              for kind in ("key", "value")]  # fmt: skip
    data = made.dump(normal)
    assert len(kvzip.compress(data, level=level)) <= 1.005 * len(kvzip.compress(data, level=1))
    data = made.dump([(name, dtype, shape, source.bytes(len(bits))) for name, dtype, shape, bits in normal])
    assert len(kvzip.compress(data, level=level)) <= len(data) * 1.001 + 1024


# ---- what is kept in memory


def test_units_are_forgotten_once_nothing_refers_to_them():
    data = made.dump(made.tensors(range(24), tokens=40, heads=1))
    packed = kvzip.compress(data, level=7, threads=1, block_log2=12)  # little is in flight at once
    gc.collect()
    most = 0

    def look(done, read):
        nonlocal most
        gc.collect()
        most = max(most, sum(type(thing) is UnitDecoder for thing in gc.get_objects()))

    kvzip.decompress(packed, threads=1, progress=look)
    assert most <= 12


def test_a_long_chain_of_units_is_read_at_random():
    layers = made.tensors([0], tokens=16, heads=1)[:1]
    layers = [(f"layers.{n}.key", *layers[0][1:]) for n in range(520)]
    packed = kvzip.compress(made.dump(layers), level=7, threads=1)
    with kvzip.open(io.BytesIO(packed)) as reader:
        assert reader.tensor("layers.519.key").bits.tobytes() == layers[0][3]
        assert len(reader._units) < 9


def test_units_take_the_types_that_linear_prediction_knows():
    assert set(TYPES) == set(SUPPORTED)
