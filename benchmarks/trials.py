"""Time codecs on one dump: units take turns, every result is compared with the dump bit for bit.

A unit is one codec at one number of threads. A round runs every unit once in memory and at once file to file
(A B C A B C), so noise of the machine hits all alike, and both ways of one unit most alike. Before the rounds each
unit runs once unmeasured: Numba compiles there. Slow codecs are warmed up on a small dump instead, and run in the
first rounds only: their calls are long enough to even out noise.
"""

from __future__ import annotations

import filecmp
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from checkout import environment
from children import account_apart, succeeded
from dumps import Dump, warm_up_dump
from transcode import command, transcode

from kvzip.bench.measure import WAYS, Spread, copy_seconds, once
from kvzip.bench.peers import Codec
from kvzip.errors import KvzipError

Say = Callable[[str], None]


@dataclass
class Unit:
    """One codec at one number of threads, and what was measured so far, in seconds and bytes."""

    codec: Codec
    threads: int
    packed: bytes = b""
    seconds: dict[str, list[float]] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)
    bits: dict[str, float] = field(default_factory=dict)

    def shares(self) -> dict[str, float]:
        """Return the rate from file to file over the one in memory, median of the rounds, by way."""
        pairs = {
            way: zip(self.seconds.get(way, ()), self.seconds.get(f"file {way}", ()), strict=True) for way in WAYS
        }
        found = {way: [memory / file for memory, file in each] for way, each in pairs.items()}
        return {way: statistics.median(each) for way, each in found.items() if each}

    def add(self, what: str, seconds: float) -> None:
        """Keep one measured time under its name."""
        self.seconds.setdefault(what, []).append(seconds)


def units_of(codecs: Sequence[Codec], threads: Sequence[int]) -> list[Unit]:
    """Return the units to run: codecs without threads appear once, at 1; slow levels of kvzip once, at the most."""
    return [Unit(codec, n) for codec in codecs for n in _threads_of(codec, threads)]


def _threads_of(codec: Codec, threads: Sequence[int]) -> Sequence[int]:
    if not codec.threaded:
        return [1]
    return [max(threads)] if codec.slow and codec.level is not None else threads


def run_rounds(
    dump: Dump, units: list[Unit], repeat: int, slow_repeat: int, folder: Path, say: Say
) -> dict[str, list[float]]:
    """Warm up and time all units on a dump; return the times of plain copies in the same rounds."""
    for unit in units:
        say(f"{dump.name}: warm-up {unit.codec.name}, {unit.threads} threads")
        _warm_up(dump, unit, folder)
    copies: dict[str, list[float]] = {}
    target = bytearray(dump.data)
    for number in range(1, max(repeat, slow_repeat) + 1):
        say(f"{dump.name}: round {number} of {max(repeat, slow_repeat)}")
        for what, seconds in _copies(dump, target, folder).items():
            copies.setdefault(what, []).append(seconds)
        for unit in units:
            if number > (slow_repeat if unit.codec.slow else repeat):
                continue
            for what, seconds in zip(WAYS, in_memory(dump, unit), strict=True):
                unit.add(what, seconds)
            for what, seconds in _file_to_file(dump, unit, folder).items():
                unit.add(what, seconds)
    return copies


def _warm_up(dump: Dump, unit: Unit, folder: Path) -> None:
    if unit.codec.slow:
        in_memory(warm_up_dump(dump), unit)
        return
    in_memory(dump, unit)
    _file_to_file(dump, unit, folder)


def _copies(dump: Dump, target: bytearray, folder: Path) -> dict[str, float]:
    """Time the same bytes copied in memory, and from file to file."""
    copied = copy_seconds(dump.data, target)
    path = folder / "copy"
    path.unlink(missing_ok=True)
    with timed_flushes() as flushes:
        begun = time.perf_counter()
        with path.open("wb") as file:
            file.write(dump.path.read_bytes())
            file.flush()
            os.fsync(file.fileno())
        flushed = time.perf_counter() - begun
    return {"memory": copied, "file": flushed - sum(flushes), "flushed": flushed}


def in_memory(dump: Dump, unit: Unit) -> tuple[float, float]:
    """Time one unit in memory, both directions, and compare."""
    try:
        trial = once(unit.codec, dump.data, unit.threads, str(dump.path))
    except KvzipError as error:
        raise SystemExit(str(error)) from None
    unit.packed = trial.packed
    return trial.seconds


@contextmanager
def timed_flushes() -> Iterator[list[float]]:
    """Time every ``os.fsync`` of this process: how long the disk took, which tells nothing of a codec."""
    taken: list[float] = []
    real = os.fsync

    def timed(descriptor: int) -> None:
        begun = time.perf_counter()
        real(descriptor)
        taken.append(time.perf_counter() - begun)

    os.fsync = timed
    try:
        yield taken
    finally:
        os.fsync = real


def _file_to_file(dump: Dump, unit: Unit, folder: Path) -> dict[str, float]:
    """Time one unit from file to file, the source in the system's cache: without and with flushing to the disk."""
    packed, restored = folder / "packed", folder / "restored"
    seconds = {}
    for way, verb, source, target in zip(
        WAYS, ("compress", "decompress"), (dump.path, packed), (packed, restored), strict=True
    ):
        target.unlink(missing_ok=True)
        with timed_flushes() as flushes:
            begun = time.perf_counter()
            transcode(unit.codec, verb, source, target, unit.threads)
            flushed = time.perf_counter() - begun
        seconds |= {f"file {way}": flushed - sum(flushes), f"flushed {way}": flushed}
    if not filecmp.cmp(dump.path, restored, shallow=False):
        raise SystemExit(f"not lossless: {unit.codec.name} file to file, {dump.path}; trust no figure of it")
    return seconds


def measure_peaks(dump: Dump, unit: Unit, folder: Path) -> None:
    """Fill in the peak memory of a process that only compresses, and of one that only decompresses."""
    packed, restored = folder / "packed", folder / "restored"
    steps = (("in", "compress", dump.path, packed), ("out", "decompress", packed, restored))
    packed.unlink(missing_ok=True)
    for way, verb, source, target in steps:
        line = command(unit.codec, verb, source, target, unit.threads, dump.dtype)
        unit.peaks[way] = succeeded(account_apart(line, environment()), line).peak


def spread(size: int, seconds: Sequence[float]) -> dict[str, float]:
    """Return median, least and greatest rate in MB/s (10^6 bytes of the raw dump) of some times."""
    rates = Spread.of(size, seconds)
    return {"median": rates.median / 1e6, "min": rates.least / 1e6, "max": rates.most / 1e6}
