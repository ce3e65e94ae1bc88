"""Runs of ``made.py`` on other machines, which take their time, begin with the first test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ELSEWHERE = {"generic": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}, "slow": {"NUMBA_DISABLE_JIT": "1"}}


@pytest.fixture(scope="session", autouse=True)
def elsewhere():
    """Processes that print the digests: compiled for any x86-64 or the like; and in plain Python, never compiled."""
    here = Path(__file__)
    path = os.pathsep.join([str(here.parents[2]), os.environ.get("PYTHONPATH", "")])
    runs = {
        name: subprocess.Popen(
            [sys.executable, "-W", "ignore", here.with_name("made.py")],
            env={**os.environ, "PYTHONPATH": path, **settings},
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, settings in ELSEWHERE.items()
    }
    yield runs
    for run in runs.values():
        run.kill()
        run.communicate()
