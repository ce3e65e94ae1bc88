"""What settings make of data: the bytes of its containers, and how fast both directions are on this machine."""

from __future__ import annotations

import io
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kvzip.api import into
from kvzip.container.writer import Nowhere
from kvzip.pipeline.compress import Compressor, compress_members
from kvzip.pipeline.decompress import Opening, decompress_members
from kvzip.pipeline.encoded import Encoded
from kvzip.pipeline.options import Options
from kvzip.pipeline.schedule import ChainPool
from kvzip.predict.rope import Rope
from kvzip.tuning.data import Data

RUNS = 5  # of which the median counts
KEPT_SPEED = 0.75  # of the defaults' speed that settings must keep where no other is asked for
PRICE = 0.01  # share of the size that halving the speed must save; the levels ask 0.01 to 0.03
ENOUGH_SECONDS = 2.0  # of runs, after which no more are made

Settings = dict[str, Any]
"""Options of ``compress`` by name, but for the level."""


@dataclass(frozen=True)
class Pace:
    """Bytes a second of some settings, compressed and restored, and the same of the level's defaults."""

    compress: float
    decompress: float
    usual_compress: float
    usual_decompress: float

    @property
    def relative(self) -> float:
        """The speed of that of the defaults, in the direction that suffers more."""
        return min(self.compress / self.usual_compress, self.decompress / self.usual_decompress)

    def enough(self, floor: float | None, gain: float) -> bool:
        """Whether settings that save ``gain`` of the size keep most of the defaults' speed; with a ``floor``, whether
        both directions reach it, and the gain is worth the time, as it is from level to level."""
        if floor is not None and min(self.compress, self.decompress) < floor:
            return False
        return self.relative >= KEPT_SPEED or (floor is not None and gain >= PRICE * math.log2(1 / self.relative))


class Clock:
    """The seconds of a search. Kernels that are compiled on the way do not count."""

    def __init__(self, seconds: float) -> None:
        self.began, self.seconds, self.waited = time.perf_counter(), seconds, 0.0

    @property
    def spent(self) -> float:
        """Seconds since the start, without the pauses."""
        return time.perf_counter() - self.began - self.waited

    @property
    def left(self) -> float:
        """Seconds that remain; negative when it is too late."""
        return self.seconds - self.spent

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens meanwhile takes no time."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.waited += time.perf_counter() - began


class Bench:
    """Measures with a number of threads and a layout, both the caller's."""

    def __init__(self, threads: int, layout: str | None) -> None:
        self.threads, self.layout = threads, layout
        self._warm: set[int] = set()

    def options(self, level: int, settings: Settings) -> Options:
        """The options of a compression. OptionError if they make no sense."""
        return Options.make(level, self.threads, layout=self.layout, **settings)

    def size(self, data: Sequence[Data], level: int, settings: Settings) -> int:
        """Bytes of the containers of all ``data``."""
        options = self.options(level, settings)
        return sum(
            compress_members(one.inputs(), Nowhere(), options, directory=one.directory).container_bytes
            for one in data
        )

    def measured(self, data: Sequence[Data], level: int) -> tuple[int, float, float]:
        """Bytes of the containers at a level's defaults, and bytes of ``data`` a second, compressed and restored.

        Memory to memory, the median of some runs.
        """
        runs: list[tuple[int, float, float]] = []
        while len(runs) < RUNS and sum(forth + back for _, forth, back in runs) < ENOUGH_SECONDS:
            runs.append(self._run(data, level, {}))
        total = sum(one.nbytes for one in data)
        size, forth, back = (statistics.median_low(column) for column in zip(*runs, strict=True))
        return int(size), total / forth, total / back

    def compared(self, data: Sequence[Data], level: int, settings: Settings) -> Pace:
        """The speeds of ``settings`` and of the level's defaults, measured in turns."""
        own: list[tuple[float, float]] = []
        usual: list[tuple[float, float]] = []
        while len(own) < RUNS and sum(map(sum, own + usual)) < ENOUGH_SECONDS:
            usual.append(self._run(data, level, {})[1:])
            own.append(self._run(data, level, settings)[1:])
        total = sum(one.nbytes for one in data)
        return Pace(
            *(total / statistics.median(column) for times in (own, usual) for column in zip(*times, strict=True))
        )

    def _run(self, data: Sequence[Data], level: int, settings: Settings) -> tuple[int, float, float]:
        """Everything compressed and restored once: bytes of the containers, and the seconds of both."""
        options = self.options(level, settings)
        packed = [io.BytesIO() for _ in data]
        began = time.perf_counter()
        for one, out in zip(data, packed, strict=True):
            compress_members(one.inputs(), out, options, directory=one.directory)
        between = time.perf_counter()
        size = sum(out.tell() for out in packed)
        for one, out in zip(data, packed, strict=True):
            out.seek(0)
            decompress_members(Opening.of(out, one.where), into(None), self.threads)
        return size, max(1e-9, between - began), max(1e-9, time.perf_counter() - between)

    def warm_up(self, data: Sequence[Data], level: int) -> None:
        """Compile, or load, what ``level`` needs for ``data``, once."""
        if level not in self._warm:
            self._warm.add(level)
            self._run(data, level, {})

    def ropes(self, data: Sequence[Data], level: int) -> list[Rope]:
        """The rotations that the encoder finds by itself."""
        found: list[Rope] = []
        options = self.options(level, {})
        for one in data:
            compressor = Compressor(Nowhere(), options, directory=one.directory, progress=None)
            with ChainPool[Encoded](options.threads, options.budget) as pool:
                for member in one.inputs():
                    with member as source:
                        compressor.add(source, pool)
            compressor.close()
            found += [rope for rope in compressor.known.ropes if rope not in found]
        return found
