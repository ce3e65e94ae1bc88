"""Latent caches of multi-head latent attention (DeepSeek): one row per token, no heads, no separate value.

- ``[T, 576]``: 512 latent channels, then 64 that carry the rotation; a float type, or U8 for fp8.
- ``[T, 656]`` U8, vLLM's fp8_ds_mla record: 512 bytes of e4m3, 4 float32 scales, 64 bfloat16.

Axes of size 1 may stand anywhere before the last, as in ``[1, T, 576]``.
"""

from __future__ import annotations

from kvzip.dumps.safetensors import TensorEntry
from kvzip.layouts.axes import Axis, Options, TensorLayout, holds_floats, layer_number

LATENT_CHANNELS = 576
RECORD_BYTES = 656

_NAMES = ("kv_cache", "kv_c", "latent", "ckv", "mla", "compressed_kv")


class Mla:
    """Multi-head latent attention under any producer's name."""

    id = "mla"
    options: frozenset[str] = frozenset()

    def match(self, entry: TensorEntry, path: str, options: Options) -> TensorLayout | None:
        """A cache-like name, and rows of one of the two widths."""
        *outer, width = entry.shape
        record = width == RECORD_BYTES and entry.dtype == "U8"
        if not record and not (width == LATENT_CHANNELS and holds_floats(entry)):
            return None
        if not entry.name.lower().endswith(_NAMES) or sum(size > 1 for size in outer) > 1:
            return None
        token = outer.index(max(outer))
        labels = ["batch" if at < token else "token" if at == token else "head" for at in range(len(outer))]
        axes = (*map(Axis, labels, outer), Axis("channel", width))
        return TensorLayout(self.id, axes, layer_number(entry.name, path), "latent")
