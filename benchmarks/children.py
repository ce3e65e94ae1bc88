"""Run a command to its end and account for it: wall time, processor time, peak memory.

On Linux a child's ``ru_maxrss`` is never below what its parent held when it was started: exec keeps the high
mark of the memory it replaces. So a large parent must not start the child that it measures. ``account_apart``
puts a small interpreter between them, which is this file run as a script; it must import nothing large.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Usage:
    """What one process took: seconds, and bytes of peak resident memory."""

    code: int
    wall: float
    user: float
    system: float
    peak: int


def finish(process: subprocess.Popen[bytes], begun: float) -> Usage:
    """Wait for a process that started at ``begun`` (perf_counter) and account for it."""
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    return Usage(process.returncode, wall, usage.ru_utime, usage.ru_stime, usage.ru_maxrss * unit)


def account(command: list[str], **options: Any) -> Usage:
    """Run a command from this process, which should be small; ``options`` go to Popen."""
    begun = time.perf_counter()
    with subprocess.Popen(command, **options) as process:
        return finish(process, begun)


def account_apart(command: list[str], env: dict[str, str]) -> Usage:
    """Run a command from a small process of its own, so that this one's size does not count."""
    launcher = [sys.executable, "-S", "-E", __file__, *command]
    done = subprocess.run(launcher, env=env, stdout=subprocess.PIPE, check=True)
    return Usage(**json.loads(done.stdout))


def succeeded(usage: Usage, command: list[str]) -> Usage:
    """Return the usage, or stop the benchmark where the command failed."""
    if usage.code != 0:
        raise SystemExit(f"exit code {usage.code}: {' '.join(command)}; run it by hand")
    return usage


if __name__ == "__main__":
    print(json.dumps(asdict(account(sys.argv[1:], stdout=subprocess.DEVNULL))))
