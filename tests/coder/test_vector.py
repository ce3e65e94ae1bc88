"""The vector kernels give the bytes of their scalar twins, in both directions."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kvzip
from kvzip.coder import vector

FIXTURES = Path(__file__).parents[2] / "fixtures" / "real"
DUMPS = ("excerpt_bf16", "excerpt_fp8", "chat_fp8", "prose_fp32_t512")
LEVELS = (1, 3)

SCRIPT = """
import hashlib, json, sys
import kvzip
from kvzip.coder import vector
assert not vector.VECTORS
out = {}
for path in sys.argv[2:]:
    data = open(path, "rb").read()
    for level in (1, 3):
        out[f"{path} {level}"] = hashlib.sha256(kvzip.compress(data, level=level)).hexdigest()
assert kvzip.decompress(sys.argv[1] + "/there.kvz") == open(sys.argv[2], "rb").read()
print(json.dumps(out))
"""


@pytest.mark.skipif(not vector.VECTORS, reason="this CPU has no vectors to compare with")
def test_scalar_and_vector_kernels_write_and_read_the_same_bytes(tmp_path):
    paths = [str(FIXTURES / f"{name}.safetensors") for name in DUMPS]
    (tmp_path / "there.kvz").write_bytes(kvzip.compress(paths[0]))
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), *paths],
        env={**os.environ, "KVZIP_VECTORS": "0"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    scalar = json.loads(done.stdout)
    for path in paths:
        for level in LEVELS:
            packed = kvzip.compress(path, level=level)
            assert hashlib.sha256(packed).hexdigest() == scalar[f"{path} {level}"], (path, level)
