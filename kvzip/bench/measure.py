"""One codec, once, memory to memory: seconds in and out, and whether what came back is what went in."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvzip.bench.peers import Codec
from kvzip.errors import KvzipError

WAYS = ("in", "out")


class NotLosslessError(KvzipError):
    """What a codec gave back differs from what it was given: trust no figure of it."""


@dataclass(frozen=True)
class Trial:
    """What went over the link, and the seconds of each way."""

    packed: bytes
    seconds: tuple[float, float]


def once(codec: Codec, data: bytes, threads: int, where: str) -> Trial:
    """Compress and restore ``data``, timed; NotLosslessError names ``where`` it is from."""
    private = bytes(memoryview(data))  # some codecs scribble on their input
    begun = time.perf_counter()
    packed = codec.compress(private, threads)
    middle = time.perf_counter()
    kept = bytes(packed)
    resumed = time.perf_counter()
    restored = codec.decompress(packed, threads)
    ended = time.perf_counter()
    if restored != data:
        raise NotLosslessError(f"not lossless: {codec.name}, {threads} threads, {where}; trust no figure of it")
    return Trial(kept, (middle - begun, ended - resumed))


def copy_seconds(data: bytes, target: bytearray) -> float:
    """The seconds that a plain copy takes to a place of the same size, which should have been written to before."""
    source, sink = np.frombuffer(data, np.uint8), np.frombuffer(target, np.uint8)
    begun = time.perf_counter()
    np.copyto(sink, source)
    return time.perf_counter() - begun


@dataclass(frozen=True)
class Spread:
    """Rates of several rounds, in bytes of the dump a second."""

    median: float
    least: float
    most: float
    rounds: int

    @classmethod
    def of(cls, size: int, seconds: Sequence[float]) -> Spread:
        """The rates at which ``size`` bytes took these times."""
        rates = [size / max(each, 1e-9) for each in seconds]
        return cls(statistics.median(rates), min(rates), max(rates), len(rates))
