"""A cache of Hugging Face transformers, saved as a container and loaded again, bit for bit.

out = model(ids, use_cache=True)
save_cache(out.past_key_values, "prompt.kvz")
model(next_ids, past_key_values=load_cache("prompt.kvz"))
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache

from kvzip.api import compress, open_container
from kvzip.dumps.safetensors import dump_bytes
from kvzip.errors import ContainerError, DumpError

PathLike = str | os.PathLike[str]
TYPES = {
    torch.bfloat16: ("BF16", torch.int16),
    torch.float16: ("F16", torch.int16),
    torch.float32: ("F32", torch.int32),
    torch.float64: ("F64", torch.int64),
    torch.float8_e4m3fn: ("F8_E4M3", torch.uint8),
    torch.float8_e5m2: ("F8_E5M2", torch.uint8),
}
"""What kvzip calls an element type, and the whole numbers that have its bits."""


def save_cache(cache: DynamicCache, path: PathLike, *, force: bool = False, **options: Any) -> int:
    """Save the keys and values of every layer, (batch, heads, tokens, channels), to ``path``; return its bytes.

    options: those of ``kvzip.compress``. DumpError for a cache with other layers than plain ones, as of sliding
    windows or states, or for element types that are no floats; TargetError where writing fails.
    """
    tensors = []
    for number, layer in enumerate(cache.layers):
        keys, values = getattr(layer, "keys", None), getattr(layer, "values", None)
        if type(layer).__name__ != "DynamicLayer" or keys is None or values is None:
            raise DumpError(f"layer {number} of the cache is a {type(layer).__name__}; save_cache takes DynamicCache")
        for kind, tensor in (("key", keys), ("value", values)):
            if tensor.dtype not in TYPES:
                raise DumpError(f"layer {number} of the cache has {tensor.dtype}; save_cache takes floats")
            dtype, whole = TYPES[tensor.dtype]
            bits = tensor.detach().to("cpu").contiguous().view(whole).numpy()
            tensors.append((f"layers.{number}.{kind}", dtype, bits.shape, bits.tobytes()))
    return compress(dump_bytes(tensors), path, force=force, **options).container_bytes


def load_cache(path: PathLike, *, device: Any = "cpu", threads: int = 0, **needed: Any) -> DynamicCache:
    """The cache that ``save_cache`` saved, on a ``device``.

    needed: ``prior`` or ``draft``, if it was saved with one. ContainerError if the container is damaged or holds
    anything but keys and values of layers from 0 on.
    """
    cache = DynamicCache()
    with open_container(path, threads=threads, **needed) as container:
        for number, layer in enumerate(container.layers()):
            names = [f"layers.{number}.{kind}" for kind in ("key", "value")]
            if sorted(layer.tensors) != names:
                raise ContainerError(f"{path}: holds no cache that save_cache saved; see `kvzip list`")
            keys, values = (_tensor(layer.tensors[name], device) for name in names)
            cache.update(keys, values, number)
    return cache


def _tensor(held: Any, device: Any) -> torch.Tensor:
    for dtype, (name, whole) in TYPES.items():
        if name == held.dtype:
            bits = torch.from_numpy(held.bits.view(np.dtype(str(whole).removeprefix("torch."))))
            return bits.view(dtype).to(device)
    raise ContainerError(f"{held.name}: has elements of {held.dtype}; load_cache takes floats")
