"""All codecs on one dump, in turns, within a budget of time.

1. Each codec goes over a small part of the dump twice: the first time compiles, the second tells what a byte costs.
2. By that it is settled what is measured on what: everything on the whole dump if one round fits the budget. Else
   what is slow goes over a part; and if even one round of the quick codecs takes long, all go over it.
3. Rounds: A B C A B C, so that noise hits all alike, until the time is up; the first one has all of them.
4. The ratio of the whole dump, for what went over a part: by what a quick level says of both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kvzip.api import compress, stats
from kvzip.bench.dump import Dump
from kvzip.bench.measure import NotLosslessError, Spread, Trial, copy_seconds, once
from kvzip.bench.peers import Codec
from kvzip.errors import KvzipError

PROBE = 1 << 20  # bytes that codecs are warmed up on
LEAST = 1 << 22  # bytes of the smallest part that is measured
MOST_ROUNDS = 9
QUICK_SHARE = 1 / 3  # of the budget, at most, for one round of the quick codecs over the whole dump
YARDSTICK = 3  # the level that says how much easier a part is: the quickest that knows tokens that repeat
AGAIN_SHARE = 1 / 4  # of the time left, at most, for measuring a codec again: the quick ones go on for longer

Say = Callable[[str], None]
"""Told what is being measured."""


class CodecError(KvzipError):
    """A codec that is not kvzip cannot take this dump: leave it out."""


@dataclass(eq=False)
class Unit:
    """One codec and what was measured of it: ``dump`` is what it went over."""

    codec: Codec
    threads: int
    dump: Dump
    cost: float = 0.0  # seconds for a byte, both ways, on what it was warmed up on
    packed: int = 0  # bytes
    seconds: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    scale: float | None = None  # from the ratio of ``dump`` to that of the whole, where ``dump`` is a part
    bits: dict[str, float] = field(default_factory=dict)  # of a value of ``dump``, by kind; kvzip's levels

    @property
    def ratio(self) -> float:
        """Bytes of the whole dump for a byte of what is left; an estimate if there is a scale."""
        return (self.scale or 1.0) * len(self.dump.data) / max(1, self.packed)

    def rates(self) -> tuple[Spread, Spread]:
        """In and out."""
        into, out = (Spread.of(len(self.dump.data), each) for each in self.seconds)
        return into, out

    def warm_up(self, probe: Dump) -> None:
        """Go over a small dump twice: to compile, and to see what a byte costs."""
        self.try_on(probe)
        self.cost = sum(self.try_on(probe).seconds) / len(probe.data)

    def run(self) -> None:
        """Measure once; the first time of a level of kvzip, its bits as well."""
        trial = self.try_on(self.dump)
        self.packed = len(trial.packed)
        if self.codec.level is not None and not self.bits:
            kinds = stats(trial.packed, threads=self.threads).kinds
            self.bits = {kind: totals.bits_per_value for kind, totals in kinds.items() if kind}
        for times, each in zip(self.seconds, trial.seconds, strict=True):
            times.append(each)

    def try_on(self, dump: Dump) -> Trial:
        """One trial; CodecError if a codec that is not kvzip fails."""
        try:
            return once(self.codec, dump.data, self.threads, dump.name)
        except (KvzipError, MemoryError, OSError):
            raise
        except Exception as error:  # whatever a foreign library may raise
            if self.codec.level is not None:
                raise
            raise CodecError(" ".join(f"{type(error).__name__}: {error}".split())) from error


@dataclass
class Comparison:
    """What was measured of the ``units`` that went through; ``dump`` is what ratios are of."""

    dump: Dump
    units: list[Unit]
    copies: list[float] = field(default_factory=list)  # seconds of plain copies of ``dump``, in the same rounds
    left_out: dict[str, str] = field(default_factory=dict)  # name -> why

    def each(self, work: Callable[[Unit], None], units: Sequence[Unit] | None = None) -> None:
        """Do something with each of the units; one that fails is left out, unless it is kvzip."""
        for unit in list(self.units if units is None else units):
            try:
                work(unit)
            except (CodecError, NotLosslessError) as error:
                if unit.codec.level is not None:
                    raise
                self.left_out[unit.codec.name] = str(error)
                self.units.remove(unit)


def compare(dump: Dump, codecs: Sequence[Codec], threads: int, budget: float, say: Say) -> Comparison:
    """Measure all codecs on a dump, for about ``budget`` seconds after they are warmed up.

    What another codec does not do right is told in ``left_out``; a KvzipError if a level of kvzip does not.
    """
    found = Comparison(dump, [Unit(codec, threads if codec.threaded else 1, dump) for codec in codecs])
    probe = dump.cut(PROBE)

    def warm_up(unit: Unit) -> None:
        say(f"warming up {unit.codec.name}")
        unit.warm_up(probe)

    found.each(warm_up)
    _share(found, budget)
    _take_turns(found, budget, say)
    _scale(found, threads, say)
    return found


def _share(found: Comparison, budget: float) -> None:
    """Settle what each unit is measured on; kvzip's bits per value take another decompression."""
    size = len(found.dump.data)
    cost = {unit: unit.cost * (1.5 if unit.codec.level else 1) for unit in found.units}
    quick = sum(cost[unit] for unit in found.units if not unit.codec.slow)
    slow = sum(cost[unit] for unit in found.units if unit.codec.slow)
    if size * (quick + slow) <= budget:
        return
    whole = size * quick <= QUICK_SHARE * budget
    room = (budget - size * quick) / slow if whole else budget / (quick + slow)
    part = found.dump.cut(max(LEAST, int(room)))
    for unit in found.units:
        unit.dump = part if unit.codec.slow or not whole else found.dump


def _take_turns(found: Comparison, budget: float, say: Say) -> None:
    def measure(unit: Unit) -> None:
        say(f"round {len(found.copies)}, {unit.codec.name}" + (f", {unit.dump.part}" if unit.dump.part else ""))
        unit.run()

    began = time.perf_counter()
    target = bytearray(found.dump.data)
    turn = found.units
    while len(found.copies) < MOST_ROUNDS and turn:
        found.copies.append(copy_seconds(found.dump.data, target))
        found.each(measure, turn)
        turn = _again(found.units, budget - (time.perf_counter() - began))


def _again(units: Sequence[Unit], left: float) -> list[Unit]:
    """Those that can be measured once more in the seconds that are left."""
    chosen = []
    for unit in units:
        taken = min(a + b for a, b in zip(*unit.seconds, strict=True))
        if taken <= AGAIN_SHARE * left:
            chosen.append(unit)
            left -= taken
    return chosen


def _scale(found: Comparison, threads: int, say: Say) -> None:
    """Estimate the ratios of the whole dump of what went over a part, by what a quick level makes of both."""
    parts = [unit for unit in found.units if unit.dump is not found.dump]
    if not parts:
        return
    say(f"{parts[0].dump.part}, against all")
    packed = {unit.dump: unit.packed for unit in found.units if unit.codec.level == YARDSTICK}
    whole, part = (
        len(dump.data) / (packed.get(dump) or len(compress(dump.data, level=YARDSTICK, threads=threads)))
        for dump in (found.dump, parts[0].dump)
    )
    for unit in parts:
        unit.scale = whole / part
