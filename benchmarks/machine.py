"""The machine a run was made on, in one line, and how fast it copies memory."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from pathlib import Path


def cores() -> int:
    """Return the number of cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_model() -> str:
    """Return the processor's name as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine_line() -> str:
    """Return processor, cores, system and the versions that decide speed."""
    versions = ", ".join(f"{name} {_version(name)}" for name in ("numpy", "numba"))
    system = f"{platform.system()} {platform.machine()}"
    return f"{cpu_model()}, {cores()} cores, {system}, Python {platform.python_version()}, {versions}"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
