"""The last resort: a tensor of floats whose name hints at a cache.

The last axis is the channels. Of the two before it the longer is the tokens, the other the heads; equal
ones are read as head, token. ``[T, C]`` has no head. All further axes are batch.
"""

from __future__ import annotations

import re

from kvzip.dumps.safetensors import TensorEntry
from kvzip.layouts.axes import Axis, Options, TensorLayout, axes, holds_floats, layer_number, token_labels

_BOTH = re.compile("k(?:eys?)?_?v(?:alues?)?")
_WORD = re.compile("[a-z]+")
_KINDS = {"k": "key", "key": "key", "keys": "key", "v": "value", "value": "value", "values": "value"}
_HINTS = frozenset(_KINDS) | {"kv", "cache", "latent"}


class Generic:
    """Unknown producers."""

    id = "generic"
    options: frozenset[str] = frozenset()

    def match(self, entry: TensorEntry, path: str, options: Options) -> TensorLayout | None:
        """A name with one of the hints as a word of its own; the last such word tells the kind."""
        name = _BOTH.sub(" kv ", entry.name.lower())
        words = [word for word in _WORD.findall(name) if word in _HINTS]
        if not words or not holds_floats(entry):
            return None
        kind = next((_KINDS[word] for word in reversed(words) if word in _KINDS), None)
        return TensorLayout(self.id, _read_shape(entry.shape), layer_number(entry.name, path), kind)


def _read_shape(shape: tuple[int, ...]) -> tuple[Axis, ...]:
    inner = "token" if len(shape) == 2 else token_labels(shape[-3], shape[-2], usual="head token")
    batches = len(shape) - 1 - len(inner.split())
    return axes(f"{'batch ' * batches}{inner} channel", shape)
