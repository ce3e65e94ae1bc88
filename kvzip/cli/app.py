"""The whole command line: the root and, in the order of its help, every command."""

from __future__ import annotations

from kvzip.cli.commands import inspect, prior, shell, transform, warmup
from kvzip.cli.root import app

__all__ = ["app", "inspect", "prior", "shell", "transform", "warmup"]
