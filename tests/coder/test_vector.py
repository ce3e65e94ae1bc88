"""The vector kernels give the bytes of their scalar twins, in both directions."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import llvmlite.binding as llvm
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

import kvzip
from kvzip.coder import rans, vector
from kvzip.coder.vector import WIDTH, low16
from kvzip.coder.vector_text import TEXT
from kvzip.predict.symbols import take_lows
from kvzip.windows.rows import refill

FIXTURES = Path(__file__).parents[2] / "fixtures" / "real"
DUMPS = ("excerpt_bf16", "excerpt_fp8")
LEVELS = (1, 3)  # linear prediction has no vector code of this kind

SCRIPT = """
import hashlib, json, os, sys
import kvzip
from kvzip.coder import vector
assert vector.VECTORS == int(os.environ["KVZIP_VECTORS"])
out = {}
for path in sys.argv[2:]:
    data = open(path, "rb").read()
    for level in (1, 3):
        out[f"{path} {level}"] = hashlib.sha256(kvzip.compress(data, level=level)).hexdigest()
assert kvzip.decompress(sys.argv[1] + "/there.kvz") == open(sys.argv[2], "rb").read()
print(json.dumps(out))
"""


@pytest.mark.parametrize("width", [0, 256])
def test_narrower_kernels_write_and_read_the_same_bytes(tmp_path, width):
    """Scalar ones, and AVX2 where there is AVX-512."""
    if width >= vector.VECTORS:
        pytest.skip("this CPU has no wider vectors to compare with")
    paths = [str(FIXTURES / f"{name}.safetensors") for name in DUMPS]
    (tmp_path / "there.kvz").write_bytes(kvzip.compress(paths[0]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), *paths],
        env={**os.environ, "KVZIP_VECTORS": str(width)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    narrow = json.loads(done.stdout)
    for path in paths:
        for level in LEVELS:
            packed = kvzip.compress(path, level=level)
            assert hashlib.sha256(packed).hexdigest() == narrow[f"{path} {level}"], (path, level)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="for x86-64 alone")
@pytest.mark.parametrize(
    ("width", "cpu", "used"),
    [(512, "icelake-server", {"vpgatherdd", "vpexpandw", "vpcompressw"}), (256, "znver3", {"vpshufb", "vpinsrd"})],
)
def test_the_code_for_each_width_is_code_for_its_cpus(width, cpu, used):
    module = llvm.parse_assembly(TEXT[width])
    module.triple = llvm.get_process_triple()
    module.verify()
    machine = llvm.Target.from_triple(module.triple).create_target_machine(cpu=cpu, opt=3)
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(3))
    builder.getModulePassManager().run(module, builder)
    found = {line.split()[0] for line in machine.emit_assembly(module).splitlines() if line.startswith("\t")}
    assert used <= found
    assert not {"callq", "call"} & found


@numba.njit
def lows_by_vector(lanes, widths, words, out, bits):
    return low16(lanes, 0, widths, 1, words, 0, out, 2, bits)


@numba.njit
def lows_by_scalar(lanes, widths, words, out, bits):
    take_lows(0, 1, 1 + WIDTH, widths, bits, lanes, out)
    return refill(lanes, 0, WIDTH, words, 0)


@pytest.mark.skipif(not vector.VECTORS, reason="this CPU has no vectors to compare with")
@settings(max_examples=100, deadline=None)
@given(some.integers(0, 1 << 30), some.integers(1, rans.MAX_TABLE_BITS))
def test_low_bits_are_taken_from_the_lanes_as_by_the_scalar_twin(seed, bits):
    source = np.random.default_rng(seed)
    lanes = source.integers(1 << 16, 1 << source.integers(17, 33), WIDTH).astype(np.uint32)
    widths = source.integers(0, min(bits, 10) + 1, WIDTH + 1).astype(np.int32)
    words = source.integers(0, 1 << 16, 2 * WIDTH).astype(np.uint16)
    results = []
    for take, place in ((lows_by_vector, 2), (lows_by_scalar, 1)):
        states, out = lanes.copy(), np.zeros(WIDTH + 4, np.uint32)
        read = take(states, widths, words, out, bits)
        results.append((read, states.tolist(), out[place : place + WIDTH].tolist()))
    assert results[0] == results[1]
