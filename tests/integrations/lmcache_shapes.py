"""The shape of ``lmcache.v1.distributed.serde`` of LMCache 0.5, for machines without it: names and signatures only.

Its memory objects are stood in for by ``Chunk`` either way: what a serde may ask of one.
"""

from __future__ import annotations

import abc
import sys
import types
from dataclasses import dataclass
from math import prod
from typing import Any

WIDTHS = {"bfloat16": 2, "float16": 2, "float32": 4, "uint8": 1, "float8_e4m3fn": 1}


@dataclass
class Chunk:
    """Shapes, types by torch's name, and bytes."""

    shapes: list[tuple[int, ...]]
    dtypes: list[str]
    byte_array: Any

    @classmethod
    def empty(cls, shapes, dtypes):
        return cls(
            shapes,
            [f"torch.{name}" for name in dtypes],
            bytearray(sum(prod(shape) * WIDTHS[name] for shape, name in zip(shapes, dtypes, strict=True))),
        )

    def get_shapes(self):
        return self.shapes

    def get_dtypes(self):
        return self.dtypes


class Serializer(abc.ABC):
    @abc.abstractmethod
    def serialize(self, src, dst, key): ...

    @abc.abstractmethod
    def estimate_serialized_size(self, layout_desc): ...


class Deserializer(abc.ABC):
    @abc.abstractmethod
    def deserialize(self, src, dst, key): ...


class AsyncSerdeProcessor:
    def __init__(self, serializer, deserializer, max_workers=1):
        self.serializer, self.deserializer, self.max_workers = serializer, deserializer, max_workers


REGISTRY: dict[str, Any] = {}


def register_serde_factory(name, factory):
    if name in REGISTRY:
        raise ValueError(name)
    REGISTRY[name] = factory


def install() -> None:
    """Put it where ``import lmcache...`` finds it."""
    for name in ("lmcache", "lmcache.v1", "lmcache.v1.distributed"):
        sys.modules.setdefault(name, types.ModuleType(name))
    serde = types.ModuleType("lmcache.v1.distributed.serde")
    for thing in (Serializer, Deserializer, AsyncSerdeProcessor, register_serde_factory):
        setattr(serde, thing.__name__, thing)
    sys.modules[serde.__name__] = serde
