"""The machine a run was made on, in one line."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path

from kvzip.pipeline.schedule import available_threads


def cpu_model() -> str:
    """The processor's name as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine_line() -> str:
    """Processor, cores, system and the versions that decide speed."""
    versions = ", ".join(f"{name} {_version(name)}" for name in ("numpy", "numba"))
    system = f"{platform.system()} {platform.machine()}"
    python = platform.python_version()
    return f"{cpu_model()}, {available_threads()} cores, {system}, Python {python}, {versions}"


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"
