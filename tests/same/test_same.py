"""Containers are the same whatever is around: threads, when they run, locale, time, hashes, folders, registers."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvzip.pipeline import schedule

from .digests import digests

ROOT = Path(__file__).resolve().parents[2]
AROUND = {
    "hash seed": {"PYTHONHASHSEED": "123"},
    "locale": {"LC_ALL": "tr_TR.UTF-8", "LANG": "tr_TR.UTF-8", "PYTHONUTF8": "0"},
    "no locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "time": {"TZ": "Asia/Kathmandu", "SOURCE_DATE_EPOCH": "1"},
    "threads of others": {"OMP_NUM_THREADS": "7", "NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "3"},
}


@pytest.fixture(scope="module")
def here():
    return digests(few=True)


@pytest.mark.parametrize("what", AROUND)
def test_what_is_around_changes_nothing(what, here, tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "same" / "digests.py", "few"],
        env={**os.environ, "PYTHONPATH": str(ROOT), **AROUND[what]},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == here, done.stderr


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_threads_change_nothing(threads, here):
    assert digests(few=True, threads=threads) == here


def test_the_order_in_which_blocks_are_done_changes_nothing(monkeypatch, here):
    """Threads that dawdle, each at other times."""
    draw = random.Random(1)
    real = schedule.ChainPool._next

    def late(self, enough):
        time.sleep(draw.random() / 500)
        return real(self, enough)

    monkeypatch.setattr(schedule.ChainPool, "_next", late)
    for _ in range(3):
        assert digests(few=True, threads=4) == here


def test_other_byte_orders_are_refused_in_one_line(tmp_path):
    (tmp_path / "x.safetensors").write_bytes((ROOT / "fixtures/synthetic/related-small.safetensors").read_bytes())
    code = (
        "import sys, numpy, numba; sys.byteorder = 'big'\n"
        "from kvzip.cli import main\n"
        "sys.argv = ['kvzip', 'compress', 'x.safetensors']; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("kvzip: this machine is big-endian")
    assert done.stderr.count("\n") == 1
    assert os.listdir(tmp_path) == ["x.safetensors"]
