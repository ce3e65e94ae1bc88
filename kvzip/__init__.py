"""Lossless compression of dumped KV caches.

    kvzip.compress("prompt.safetensors", "prompt.safetensors.kvz")
    kvzip.decompress("prompt.safetensors.kvz", "copy.safetensors")
    with kvzip.open("prompt.safetensors.kvz") as container:
        for layer in container.layers(): ...
        container.tensor("layers.3.key").bits
    kvzip.stats("prompt.safetensors")
    kvzip.extract("prompt.safetensors.kvz", "first.safetensors", layers=["0-3"])
    kvzip.diff("prompt.safetensors", "copy.safetensors")
    kvzip.pack(["turn1.safetensors", "turn2.safetensors"], "chat.kva")

Everything below loads on first use, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from kvzip.errors import (
    ContainerError,
    DraftError,
    DumpError,
    KvzipError,
    OptionError,
    PriorError,
    TargetError,
    UnsupportedError,
)
from kvzip.version import __version__

if TYPE_CHECKING:
    from kvzip.api import compress, decompress, stats, train_prior
    from kvzip.api import open_container as open
    from kvzip.api_archive import pack, unpack
    from kvzip.api_buffers import bound, compress_into, decompress_into, decompressed_size
    from kvzip.api_parts import diff, extract
    from kvzip.api_salvage import salvage
    from kvzip.pipeline.difference import Difference
    from kvzip.pipeline.losses import Losses
    from kvzip.pipeline.reader import Layer, Reader, Tensor
    from kvzip.pipeline.report import Report
    from kvzip.pipeline.stats import Stats
    from kvzip.tuning.profile import read_profile
    from kvzip.tuning.result import Tuning
    from kvzip.tuning.tune import tune

__all__ = [
    "ContainerError",
    "Difference",
    "DraftError",
    "DumpError",
    "KvzipError",
    "Layer",
    "Losses",
    "OptionError",
    "PriorError",
    "Reader",
    "Report",
    "Stats",
    "TargetError",
    "Tensor",
    "Tuning",
    "UnsupportedError",
    "__version__",
    "bound",
    "compress",
    "compress_into",
    "decompress",
    "decompress_into",
    "decompressed_size",
    "diff",
    "extract",
    "open",
    "pack",
    "read_profile",
    "salvage",
    "stats",
    "train_prior",
    "tune",
    "unpack",
]

_HOMES = {
    "compress": ("kvzip.api", "compress"),
    "decompress": ("kvzip.api", "decompress"),
    "bound": ("kvzip.api_buffers", "bound"),
    "compress_into": ("kvzip.api_buffers", "compress_into"),
    "decompress_into": ("kvzip.api_buffers", "decompress_into"),
    "decompressed_size": ("kvzip.api_buffers", "decompressed_size"),
    "diff": ("kvzip.api_parts", "diff"),
    "extract": ("kvzip.api_parts", "extract"),
    "Difference": ("kvzip.pipeline.difference", "Difference"),
    "salvage": ("kvzip.api_salvage", "salvage"),
    "Losses": ("kvzip.pipeline.losses", "Losses"),
    "pack": ("kvzip.api_archive", "pack"),
    "unpack": ("kvzip.api_archive", "unpack"),
    "open": ("kvzip.api", "open_container"),
    "stats": ("kvzip.api", "stats"),
    "train_prior": ("kvzip.api", "train_prior"),
    "tune": ("kvzip.tuning.tune", "tune"),
    "read_profile": ("kvzip.tuning.profile", "read_profile"),
    "Tuning": ("kvzip.tuning.result", "Tuning"),
    "Stats": ("kvzip.pipeline.stats", "Stats"),
    "Report": ("kvzip.pipeline.compress", "Report"),
    "Layer": ("kvzip.pipeline.reader", "Layer"),
    "Reader": ("kvzip.pipeline.reader", "Reader"),
    "Tensor": ("kvzip.pipeline.reader", "Tensor"),
}


def __getattr__(name: str) -> Any:
    """Load a public name from where it lives (PEP 562)."""
    if name == "fleet":
        return import_module("kvzip.fleet")
    if name not in _HOMES:
        raise AttributeError(f"module 'kvzip' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
