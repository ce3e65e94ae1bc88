"""oMLX's and vllm-mlx's block files: ``layer_{i}_keys``, ``layer_{i}_values``, ``layer_{i}_state_{0,1}``.

All are ``[B, H, T, D]``, T being 256 in oMLX. States beyond 1 are counters and masks, and stay opaque.
"""

from __future__ import annotations

import re

from kvzip.dumps.safetensors import TensorEntry
from kvzip.layouts.axes import Options, TensorLayout, axes, holds_floats

_NAMES = re.compile(r"layer_(?P<layer>[0-9]{1,9})_(?P<kind>keys|values|state_0|state_1)")
_KINDS = {"keys": "key", "state_0": "key", "values": "value", "state_1": "value"}


class Omlx:
    """The block stores of oMLX and vllm-mlx."""

    id = "omlx"
    options: frozenset[str] = frozenset()

    def match(self, entry: TensorEntry, path: str, options: Options) -> TensorLayout | None:
        """The producers' names, with four axes."""
        found = _NAMES.fullmatch(entry.name)
        if not found or len(entry.shape) != 4 or not holds_floats(entry):
            return None
        shape = axes("batch head token channel", entry.shape)
        return TensorLayout(self.id, shape, int(found["layer"]), _KINDS[found["kind"]])
