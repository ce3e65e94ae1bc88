"""Time codecs on one dump: units take turns, every result is compared with the dump bit for bit.

A unit is one codec at one number of threads. A round runs every unit once in memory and once file to file
(A B C A B C), so noise of the machine hits all alike. Before the rounds each unit runs once unmeasured: what
that takes beyond a later call is kept as ``first`` (Numba compiles there). Levels of kvzip that take seconds are
warmed up on a small dump instead, and run in the first rounds only: their calls are long enough to even out noise.
"""

from __future__ import annotations

import filecmp
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy
import peers
from children import account_apart, succeeded
from dumps import Dump, warm_up_dump
from peers import Codec

Say = Callable[[str], None]
SLOW = 4  # the first of kvzip's levels that takes seconds


@dataclass
class Unit:
    """One codec at one number of threads, and what was measured so far, in seconds and bytes."""

    codec: Codec
    threads: int
    packed: bytes = b""
    first: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    bits: dict[str, float] = field(default_factory=dict)

    @property
    def slow(self) -> bool:
        """Whether a call takes seconds."""
        return self.codec.level is not None and self.codec.level >= SLOW

    def add(self, what: str, seconds: float) -> None:
        """Keep one measured time under its name."""
        self.seconds.setdefault(what, []).append(seconds)


def units_of(codecs: Sequence[Codec], threads: Sequence[int]) -> list[Unit]:
    """Return the units to run: codecs without threads appear once, at 1."""
    return [Unit(codec, n) for codec in codecs for n in (threads if codec.threaded else [1])]


def run_rounds(dump: Dump, units: list[Unit], repeat: int, slow_repeat: int, folder: Path, say: Say) -> list[float]:
    """Warm up and time all units on a dump; return the times of a plain copy in the same rounds."""
    for unit in units:
        say(f"{dump.name}: warm-up {unit.codec.name}, {unit.threads} threads")
        _warm_up(dump, unit, folder)
    copies: list[float] = []
    target = bytearray(dump.data)
    for number in range(1, max(repeat, slow_repeat) + 1):
        say(f"{dump.name}: round {number} of {max(repeat, slow_repeat)}")
        copies.append(_copy(dump.data, target))
        taking_part = [unit for unit in units if number <= (slow_repeat if unit.slow else repeat)]
        for unit in taking_part:
            for what, seconds in zip(("in", "out"), _in_memory(dump, unit), strict=True):
                unit.add(what, seconds)
        for unit in taking_part:
            for what, seconds in zip(("file in", "file out"), _file_to_file(dump, unit, folder), strict=True):
                unit.add(what, seconds)
    return copies


def _warm_up(dump: Dump, unit: Unit, folder: Path) -> None:
    if unit.slow:
        _in_memory(warm_up_dump(dump), unit)
        return
    unit.first["in"], unit.first["out"] = _in_memory(dump, unit)
    _file_to_file(dump, unit, folder)


def _copy(data: bytes, target: bytearray) -> float:
    source, sink = numpy.frombuffer(data, numpy.uint8), numpy.frombuffer(target, numpy.uint8)
    begun = time.perf_counter()
    numpy.copyto(sink, source)
    return time.perf_counter() - begun


def _in_memory(dump: Dump, unit: Unit) -> tuple[float, float]:
    private = bytes(memoryview(dump.data))  # some codecs scribble on their input
    begun = time.perf_counter()
    packed = unit.codec.compress(private, unit.threads)
    middle = time.perf_counter()
    unit.packed = bytes(packed)
    resumed = time.perf_counter()
    restored = unit.codec.decompress(packed, unit.threads)
    ended = time.perf_counter()
    if restored != dump.data:
        where = f"{unit.codec.name}, {unit.threads} threads, {dump.path}"
        raise SystemExit(f"not lossless: {where}; trust no figure of it")
    return middle - begun, ended - resumed


def _file_to_file(dump: Dump, unit: Unit, folder: Path) -> tuple[float, float]:
    packed, restored = folder / "packed", folder / "restored"
    for path in (packed, restored):
        path.unlink(missing_ok=True)
    if unit.codec.level is not None:
        taken = measure_peaks(dump, unit, folder)
    else:
        begun = time.perf_counter()
        unit.codec.transcode("compress", dump.path, packed, unit.threads)
        middle = time.perf_counter()
        unit.codec.transcode("decompress", packed, restored, unit.threads)
        taken = middle - begun, time.perf_counter() - middle
    if not filecmp.cmp(dump.path, restored, shallow=False):
        raise SystemExit(f"not lossless: {unit.codec.name} file to file, {dump.path}; trust no figure of it")
    return taken


def measure_peaks(dump: Dump, unit: Unit, folder: Path) -> tuple[float, float]:
    """Fill in the peak memory of a process that only compresses, and of one that only decompresses; return their
    seconds, the start of the interpreter included."""
    packed, restored = folder / "packed", folder / "restored"
    steps = (("in", "compress", dump.path, packed), ("out", "decompress", packed, restored))
    packed.unlink(missing_ok=True)
    taken = []
    for what, verb, source, target in steps:
        command = unit.codec.command(verb, source, target, unit.threads, dump.dtype)
        usage = succeeded(account_apart(command, peers.environment()), command)
        unit.peaks[what] = max(unit.peaks.get(what, 0), usage.peak)
        taken.append(usage.wall)
    return taken[0], taken[1]


def spread(size: int, seconds: Sequence[float]) -> dict[str, float]:
    """Return median, least and greatest rate in MB/s (10^6 bytes of the raw dump) of some times."""
    rates = [size / each / 1e6 for each in seconds]
    return {"median": statistics.median(rates), "min": min(rates), "max": max(rates)}
