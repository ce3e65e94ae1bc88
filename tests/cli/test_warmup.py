"""``kvzip warmup``: nothing is left to compile after it, what it says, and what it does where nothing can be kept."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from .tool import environment, kvzip

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
LEFT = """
import gc, json, sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
import kvzip
from kvzip.cli.warmup import KINDRED, LEVELS, compile_levels

def compiled():
    found = [o for o in gc.get_objects() if isinstance(o, Dispatcher)]
    return {(f.py_func.__module__, f.py_func.__name__, str(s)) for f in found for s in f.signatures}

compile_levels(LEVELS, lambda what, seconds: None)
before = compiled()
paths = [Path(path) for path in json.loads(sys.stdin.read())]
target, draft = (path.read_bytes() for path in paths[:2])
for levels in KINDRED:
    for level in levels:
        packed = kvzip.compress(target, level=level, draft=draft)
        assert kvzip.decompress(packed, draft=draft) == target
for path in paths:
    for levels in KINDRED:
        packed = kvzip.compress(path.read_bytes(), level=levels[0])
        assert kvzip.decompress(packed) == path.read_bytes()
    kvzip.stats(packed)
print(json.dumps(sorted(compiled() - before)))
"""


def test_no_kernel_is_left():
    """Dumps of all types, at levels that were not warmed up themselves, need nothing that is not there."""
    paths = [FIXTURES / "real" / f"{name}.safetensors" for name in ("chat_bf16", "chat_bf16_draft-int8", "chat_fp8")]
    paths += [FIXTURES / "real" / "chat_fp16.safetensors"]
    paths += sorted((FIXTURES / "synthetic").glob("*f32*.safetensors"))
    done = subprocess.run(
        [sys.executable, "-c", LEFT],
        input=json.dumps([str(path) for path in paths]),
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_what_it_says(tmp_path):
    ran = kvzip("warmup", "--level", "1", "-v", "--json").ok()
    assert {"command", "levels", "seconds", "compiled", "kernels", "bytes", "folder"} == set(ran.json)
    assert ran.json["levels"] == [1]
    assert Path(ran.json["folder"]).is_dir()
    assert [line.split(": ")[1] for line in ran.lines] == [f"level 1, {kind}" for kind in KINDS]
    assert "kernels" in kvzip("warmup", "-l", "1").ok().err
    kvzip("warmup", "-l", "1", "-q").quiet()


KINDS = ("BF16", "F16", "F8_E5M2", "F32")


@pytest.mark.parametrize("levels", ["0", "10", "3-1", "a", "1,", "-", "1-12"])
def test_levels_that_there_are_not(inside, levels):
    inside("warmup", f"--level={levels}").fails(2, f"--level {levels}", "1-3,9")


def test_a_folder_that_cannot_be_written(tmp_path):
    """Kernels would be gone with the process."""
    (tmp_path / "file").write_text("")
    env = {"NUMBA_CACHE_DIR": str(tmp_path / "file")}
    kvzip("warmup", "-l", "1", env=env).fails(1, "cannot be written", "NUMBA_CACHE_DIR")
