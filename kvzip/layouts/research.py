"""Research dumps: ``K_layer{i}`` and ``V_layer{i}``, ``[T, H, D]``.

If the second axis is longer than the first, it is the tokens: ``[H, T, D]``. With four axes the names are
those of a Hugging Face cache.
"""

from __future__ import annotations

import re

from kvzip.dumps.safetensors import TensorEntry
from kvzip.layouts.axes import Options, TensorLayout, axes, holds_floats, token_labels

_NAMES = re.compile(r"(?P<kind>[kv])_layer_?(?P<layer>[0-9]{1,9})", re.IGNORECASE)
_KINDS = {"k": "key", "v": "value"}


class Research:
    """Dumps for papers on cache compression."""

    id = "research"
    options: frozenset[str] = frozenset()

    def match(self, entry: TensorEntry, path: str, options: Options) -> TensorLayout | None:
        """The two names, with three axes."""
        found = _NAMES.fullmatch(entry.name)
        if not found or len(entry.shape) != 3 or not holds_floats(entry):
            return None
        labels = token_labels(entry.shape[0], entry.shape[1], usual="token head")
        kind = _KINDS[found["kind"].lower()]
        return TensorLayout(self.id, axes(f"{labels} channel", entry.shape), int(found["layer"]), kind)
