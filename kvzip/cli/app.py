"""The whole command line: the root and, in the order of its help, every command."""

from __future__ import annotations

from kvzip.cli.commands import bench, inspect, prior, transform, warmup
from kvzip.cli.root import app

__all__ = ["app", "bench", "inspect", "prior", "transform", "warmup"]
