"""The decoder that was written from docs/format.md alone restores what kvzip compressed, byte for byte."""

from __future__ import annotations

import ast
import hashlib
import json
import re
import time
from pathlib import Path

import numpy as np
import pytest

import kvzip
from kvzip.dtypes import DTYPES

from . import archive
from .decoder import decode
from .reading import DamagedError, UnsupportedError

ROOT = Path(__file__).parents[2]
PRIORS = ROOT / "kvzip" / "priors"
FIXTURES = ROOT / "fixtures"
SECONDS, SECONDS_PER_BYTE = 40, 1e-5  # what the fixtures may take, and about what a byte of a container takes


def dump(**tensors):
    """A safetensors file from name=(dtype, shape, bytes); ``__`` in a name stands for a dot."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        span = [len(data), len(data) + len(content)]
        header[name.replace("__", ".")] = {"dtype": dtype, "shape": list(shape), "data_offsets": span}
        data += content
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def bits(dtype, shape, seed=0, spread=1.0):
    """Values like a cache's: each channel with its own exponents and sign, mantissas at random."""
    rng = np.random.default_rng(seed)
    row = DTYPES[dtype]
    if not row.is_float:
        width = 8 * row.container_bytes
        values = rng.normal(size=shape).round().astype(np.int64).astype(np.uint64)
        return (values & np.uint64((1 << width) - 1)).astype(f"<u{width // 8}")
    middle = (1 << (row.exponent - 1)) - 2
    top = (1 << row.exponent) - 1
    centre = rng.normal(middle, spread, shape[-1])
    exponent = np.clip(np.rint(rng.normal(centre, spread, shape)), 0, top).astype(np.uint64)
    sign = (rng.random(shape) < rng.random(shape[-1])).astype(np.uint64)
    low = rng.integers(0, 1 << row.mantissa, shape, np.uint64)
    values = sign << np.uint64(row.exponent + row.mantissa) | exponent << np.uint64(row.mantissa) | low
    return values.astype(f"<u{row.container_bytes}")


def tensor(dtype, shape, seed=0, spread=1.0):
    return dtype, shape, bits(dtype, shape, seed, spread).tobytes()


def shifting(dtype="BF16", shape=(1, 2, 90, 8)):
    """A cache whose exponents jump half-way, so that drift and the triggers have something to see."""
    values = bits(dtype, shape)
    values[..., shape[2] // 2 :, :] = bits(dtype, shape, seed=1, spread=4.0)[..., shape[2] // 2 :, :]
    return dump(layers__0__key=(dtype, shape, values.tobytes()))


def check(source, **options):
    container = kvzip.compress(source, threads=1, **options)
    assert decode(container, PRIORS) == {"": source}
    return container


LAYOUTS = {
    "huggingface": {"layers__3__value": (1, 3, 33, 16)},
    "vllm": {"kv_cache": (2, 17, 128)},
    "vllm heads": {"kv_cache": (2, 17, 3, 16)},
    "vllm pairs": {"kv_cache": (20, 2, 32)},
    "lmcache": {"kv_chunk": (3, 2, 12, 2, 16)},
    "lmcache gds": {"kvcache": (2, 3, 11, 128)},
    "lmcache latent": {"kvcache": (1, 2, 18, 40)},
    "mla": {"model__layers__0__kv_c": (3, 1, 576)},
    "omlx": {"layer_0_keys": (2, 2, 16, 16), "layer_0_values": (2, 2, 16, 16)},
    "research": {"K_layer0": (34, 2, 16), "V_layer0": (34, 2, 16)},
    "generic": {"some_cache": (2, 2, 3, 25, 12)},
    "opaque": {"weight": (700,)},
}
PARAMETERS = [
    {"preset": "classic"},
    {"alpha": 0.9, "level": 2},
    {"alpha": 0.5, "sampling": 0},
    {"alpha": 0.9, "drift": 1.01, "drift_keep": 0.0},
    {"drift": 1.05, "drift_keep": 0.5, "warmup": 40},
    {"drift": 1.01, "drift_keep": 1.0, "prior_weight": 4096},
    {"warmup": 20, "n_update": 7},
    {"warmup": 65535},
    {"theta_low": 0.01},
    {"theta_low": 0.5, "beta": 0.999},
    {"theta_new": 0.01},
    {"beta": 0.5, "n_update": 1},
    {"sampling": 6},
    {"table_bits": 10, "classes": 16},
    {"table_bits": 14, "classes": 1},
    *({"classes": classes} for classes in (2, 4, 8)),
    *({"symbol_bits": width} for width in range(8, 17)),
]


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_and_level(dtype, level):
    shape = (40, 2, 18)
    content = bits(dtype, shape).tobytes()
    if DTYPES[dtype].bits < 8:
        shape = (len(content) * 8 // DTYPES[dtype].bits,)
    check(dump(K_layer0=(dtype, shape, content)), level=level)


@pytest.mark.parametrize("block_log2", [12, 21])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout(name, block_log2):
    tensors = {tensor_name: tensor("BF16", shape) for tensor_name, shape in LAYOUTS[name].items()}
    check(dump(**tensors), block_log2=block_log2)


@pytest.mark.parametrize("block_log2", [12, 21])
@pytest.mark.parametrize("options", PARAMETERS, ids=str)
def test_parameters(options, block_log2):
    check(shifting(), block_log2=block_log2, **options)


@pytest.mark.parametrize("drift", [0, 1.01])
def test_without_a_prior(drift):
    check(shifting(), prior_weight=0, drift=drift, alpha=0.9)
    check(shifting(shape=(1, 1, 400, 8)), prior_weight=0, drift=drift, alpha=0.99)  # long enough for a reset


@pytest.mark.parametrize("options", [{}, {"drift": 1.05, "alpha": 0.9, "theta_new": 0.1}], ids=str)
@pytest.mark.parametrize("shape", [(1, 3, 150, 20), (150, 3, 20), (1, 2, 3, 3000)], ids=str)
def test_chains_of_several_blocks(shape, options):
    name = "K_layer0" if len(shape) == 3 else "layers__0__key"
    for dtype in ("F8_E4M3", "F16"):
        check(dump(**{name: tensor(dtype, shape)}), block_log2=12, **options)


def test_long_sequences_are_sampled_and_renormalised():
    check(shifting("F8_E5M2", (1, 1, 700, 8)), level=1, alpha=0.97, drift=1.2)
    check(shifting("F8_E4M3", (1, 1, 700, 8)), level=2, alpha=0.9, beta=0.9)


def test_many_lanes():
    check(dump(layers__0__key=tensor("F8_E4M3", (1, 1, 1100, 128))), level=2)
    check(dump(layers__0__key=tensor("BF16", (1, 1, 300, 16))), level=2)


@pytest.mark.parametrize("block_log2", [12, 21])
def test_tails_of_zeros(block_log2):
    values = bits("BF16", (1, 4, 70, 16))
    values[0, 1, 40:] = 0
    values[0, 2] = 0
    values[0, 3, 69:] = 0
    check(dump(layers__0__key=("BF16", values.shape, values.tobytes())), block_log2=block_log2)


def test_constant_planes_and_what_comes_after_them():
    values = bits("BF16", (1, 1, 512, 16))
    values[0, 0, 128:256] = 0x3F80
    values[0, 0, 256:384] = np.random.default_rng(3).integers(0, 1 << 16, (128, 16))
    check(dump(layers__0__key=("BF16", values.shape, values.tobytes())), block_log2=12)
    check(dump(layers__0__key=("BF16", values.shape, bytes(values.nbytes))), block_log2=12)


def test_every_bit_pattern():
    for dtype in ("BF16", "F16"):
        values = np.arange(1 << 16, dtype="<u2")[:: -1 if dtype == "F16" else 1][::7]
        check(dump(layers__0__key=(dtype, (1, 1, len(values) // 8, 8), values[: len(values) // 8 * 8].tobytes())))


def test_stored_blocks():
    noise = np.random.default_rng(0).bytes(3000)
    check(dump(some=("U8", (3000,), noise), K_layer0=("F8_E4M3", (30, 2, 50), noise)), block_log2=12)


def test_small_empty_and_joined_tensors():
    tensors = {f"t{i}": tensor("F32", (i,), i) for i in range(4)}
    check(
        dump(
            **tensors, scalar=tensor("I64", (), 9), odd=tensor("BF16", (3, 257)), layers__0__key=tensor("F16", (1, 2))
        )
    )
    check(dump())


def test_directory(tmp_path):
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "layer_1.safetensors").write_bytes(dump(kv_cache=tensor("BF16", (2, 20, 64))))
    (tmp_path / "a" / "deep" / "ä.safetensors").write_bytes(dump(layers__0__key=tensor("F16", (1, 2, 20, 16))))
    (tmp_path / "config.json").write_bytes(b'{"a": 1}' * 400)
    (tmp_path / "empty").write_bytes(b"")
    kvzip.compress(tmp_path, tmp_path.with_suffix(".kvz"), threads=1)
    found = {
        path.relative_to(tmp_path).as_posix(): path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    }
    assert decode(tmp_path.with_suffix(".kvz").read_bytes(), PRIORS) == found


def example():
    """The hexdump of the format page."""
    text = (ROOT / "docs" / "format.md").read_text().partition(". Example")[2]
    return bytes.fromhex("".join(re.findall(r"^    [0-9a-f]{3}  ((?:[0-9a-f]{2}(?: |$))+)", text, re.MULTILINE)))


def test_the_example_of_the_format_page():
    (restored,) = decode(example(), PRIORS).values()
    values = np.full(512, 0x3F80, "<u2")
    values[[3, 19, 35, 100, 259, 275, 403, 500]] = 0xBF80
    assert restored[96:] == values.tobytes()
    assert json.loads(restored[8:96])["layers.0.key"]["shape"] == [1, 1, 32, 16]


def test_every_damage_is_refused():
    whole = example()
    for size in range(len(whole)):
        with pytest.raises(DamagedError):
            decode(whole[:size], PRIORS)
    for at in range(len(whole)):
        for mask in (1, 0x80):
            damaged = bytearray(whole)
            damaged[at] ^= mask
            with pytest.raises(DamagedError):
                decode(bytes(damaged), PRIORS)
    with pytest.raises(DamagedError):
        decode(whole + b"\0", PRIORS)


def test_it_imports_nothing_from_kvzip():
    for path in Path(__file__).parent.glob("*.py"):
        if not path.name.startswith("test_"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not any(name.split(".")[0] == "kvzip" for name in names), path


def fixtures(*outcomes):
    """The manifest's containers with one of these outcomes, the smallest first."""
    manifest = FIXTURES / "manifest.json"
    rows = json.loads(manifest.read_text("utf-8")) if manifest.exists() else []
    rows = [row for row in rows if row["outcome"] in outcomes]
    return sorted(rows, key=lambda row: (FIXTURES / row["file"]).stat().st_size) or pytest.skip(
        "no such fixtures here"
    )


def draft_of(row):
    """The draft that a fixture needs, a dump (batch 1, head, token, channel), as the reference takes it."""
    if "draft" not in row:
        return None
    whole = (FIXTURES / row["draft"]).read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    out = {}
    for name, entry in json.loads(whole[8:start]).items():
        if found := re.fullmatch(r"layers\.(\d+)\.(key|value)", name):
            dtype = DTYPES[entry["dtype"]]
            first, last = (start + offset for offset in entry["data_offsets"])
            values = np.frombuffer(whole[first:last], f"<u{dtype.container_bytes}").reshape(entry["shape"][1:])
            out[int(found[1]), ("", "key", "value").index(found[2])] = dtype.id, values
    return out


def test_good_fixtures():
    begin = time.monotonic()
    for row in fixtures("good"):
        if row["file"].endswith(".kva"):
            continue
        container = (FIXTURES / row["file"]).read_bytes()
        if time.monotonic() - begin + len(container) * SECONDS_PER_BYTE > SECONDS:
            break
        files = decode(container, PRIORS, draft=draft_of(row))
        restored = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
        assert restored == row.get("decoded", restored), row["file"]


def test_good_archives():
    for row in fixtures("good"):
        if row["file"].endswith(".kva"):
            files = archive.unpack((FIXTURES / row["file"]).read_bytes(), PRIORS)
            assert {name: hashlib.sha256(data).hexdigest() for name, data in files.items()} == row["decoded"]


def test_bad_and_unsupported_fixtures():
    for row in fixtures("bad", "unsupported"):
        if "-large-" in row["file"]:
            continue  # what they say they are takes this decoder its time: it makes no haste
        with pytest.raises(UnsupportedError if row["outcome"] == "unsupported" else DamagedError):
            decode((FIXTURES / row["file"]).read_bytes(), PRIORS, draft=draft_of(row))
