"""The whole command line: the root and, in the order of its help, every command."""

from __future__ import annotations

from kvzip.cli.commands import archive, bench, inspect, parts, prior, shell, transform, tune, warmup
from kvzip.cli.root import app

__all__ = ["app", "archive", "bench", "inspect", "parts", "prior", "shell", "transform", "tune", "warmup"]
