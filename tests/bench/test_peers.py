"""Every codec that is installed brings real dumps of every type back, or says that it is not made for one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kvzip.bench import peers
from kvzip.bench.dump import read_dump
from kvzip.bench.makers import UnsuitedError
from kvzip.bench.measure import once

ROOT = Path(__file__).resolve().parents[2]
REAL = ROOT / "fixtures" / "real"


@pytest.mark.parametrize("name", peers.REGISTRY)
@pytest.mark.parametrize("dump", ["excerpt_bf16", "excerpt_fp8", "prose_fp32_t512", "code_fp16_mlx"])
def test_there_and_back(name, dump):
    read, _ = read_dump(str(REAL / f"{dump}.safetensors"), 1)
    try:
        codec = peers.make(name, read.dtype)
    except ImportError as error:
        pytest.skip(str(error))
    except UnsuitedError:
        return
    for threads in (1, 2):
        assert len(once(codec, read.data, threads, dump).packed) < len(read.data) * 1.01


def test_the_extra_brings_every_package():
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    extra = text[text.index("\nbench = [") :].split("\n]")[0]
    for name in peers.others():
        assert f'"{peers.REGISTRY[name].package}>=' in extra, name


def test_no_codec_is_imported_before_it_is_made():
    code = (
        "import sys\nfrom kvzip.bench import peers\n"
        "print(sorted({'zstandard', 'lz4', 'blosc2', 'pcodec', 'zipnn', 'torch', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"
