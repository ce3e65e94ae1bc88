"""``bench``: kvzip's levels and other codecs measured on dumps."""

from __future__ import annotations

import json as json_module
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kvzip.bench import breakeven, peers
from kvzip.bench.breakeven import DIRECTIONS, Band, Choice
from kvzip.bench.dump import read_dump
from kvzip.bench.machine import machine_line
from kvzip.bench.makers import UnsuitedError
from kvzip.bench.measure import Spread
from kvzip.bench.peers import Codec
from kvzip.bench.rounds import Comparison, Unit, compare
from kvzip.cli.options import levels_of
from kvzip.cli.verbatim import real
from kvzip.cli.voice import Voice
from kvzip.errors import KvzipError, OptionError, meant
from kvzip.files.faults import shown
from kvzip.pipeline.options import Options
from kvzip.pipeline.schedule import available_threads

MODES = {"overlap": True, "in_turn": False}
"""How the stages of a transfer go, in JSON, and whether they overlap."""
ROUNDS = 3  # that say something about how rates vary


@dataclass(frozen=True)
class Chosen:
    """What is measured: names of codecs, kvzip's levels first; threads; seconds for each dump."""

    names: tuple[str, ...]
    threads: int
    seconds: float

    @classmethod
    def of(cls, level: str | None, others: str, threads: int, seconds: str) -> Chosen:
        """From the text of the options; OptionError names the one that makes no sense."""
        Options.make(threads=threads)
        budget = real("--seconds", seconds)
        if not 0 < budget < math.inf:
            raise OptionError(f"--seconds {seconds}: must be above 0")
        levels = [f"kvzip-{number}" for number in levels_of(level) or range(1, 10)]
        return cls((*levels, *_named(others)), threads or available_threads(), budget)


def _named(text: str) -> list[str]:
    """The codecs that ``--peers`` names: all, none, or a list of names or of what they begin with."""
    every = peers.others()
    if text in ("all", "none"):
        return every if text == "all" else []
    found: list[str] = []
    for part in text.split(","):
        names = [name for name in every if part in (name, name.partition("-")[0])]
        if not names:
            hint = meant(part, every, f"choose from {', '.join(every)}, all, none")
            raise OptionError(f"--peers {text}: no codec {part!a} is known; {hint}")
        found += names
    return list(dict.fromkeys(found))


@dataclass
class Result:
    """One file: its name and size, and what was measured of it."""

    name: str
    source_bytes: int
    comparison: Comparison

    @property
    def choices(self) -> list[Choice]:
        """The codecs as what they do to a transfer, by their medians."""
        found = []
        for unit in self.comparison.units:
            into, out = unit.rates()
            found.append(Choice(unit.codec.name, unit.ratio, into.median, out.median))
        return found

    @property
    def copies(self) -> Spread:
        """Rates of plain copies in memory."""
        return Spread.of(len(self.comparison.dump.data), self.comparison.copies)

    @property
    def unrest(self) -> float:
        """How much faster a codec was in its best round than in the median, at most, of those with enough rounds."""
        rates = [rate for unit in self.comparison.units for rate in unit.rates() if rate.rounds >= ROUNDS]
        return max((rate.most / rate.median for rate in rates), default=1.0)

    def fastest(self, direction: str, overlap: bool) -> list[Band]:
        """Which codec is the fastest at which bandwidth."""
        return breakeven.fastest(self.choices, direction, overlap)

    def to_json(self) -> dict[str, Any]:
        """Stable keys; sizes in bytes, rates and bandwidths in bytes a second, null for no bound."""
        dump = self.comparison.dump
        return {
            "name": self.name,
            "source_bytes": self.source_bytes,
            "dtype": dump.dtype,
            "measured_bytes": len(dump.data),
            "part": dump.part or None,
            "copy_bytes_per_second": asdict(self.copies),
            "codecs": [_row(unit, choice) for unit, choice in zip(self.comparison.units, self.choices, strict=True)],
            "best_over_median": self.unrest,
            "fastest": {
                mode: {way: [_bounds(band) for band in self.fastest(way, overlap)] for way in DIRECTIONS}
                for mode, overlap in MODES.items()
            },
            "left_out": self.comparison.left_out,
        }


def _row(unit: Unit, choice: Choice) -> dict[str, Any]:
    into, out = unit.rates()
    return {
        "codec": unit.codec.name,
        "version": unit.codec.version,
        "level": unit.codec.level,
        "threads": unit.threads,
        "ratio": unit.ratio,
        "estimated": unit.scale is not None,
        "measured_bytes": len(unit.dump.data),
        "container_bytes": unit.packed,
        "part": unit.dump.part or None,
        "in_bytes_per_second": asdict(into),
        "out_bytes_per_second": asdict(out),
        "bits_per_value": unit.bits,
        "pays_below": {
            mode: {way: breakeven.pays_below(choice, way, overlap) for way in DIRECTIONS}
            for mode, overlap in MODES.items()
        },
    }


def _bounds(band: Band) -> dict[str, Any]:
    return {"codec": band.name, "above": band.low, "below": None if math.isinf(band.high) else band.high}


def bench(inputs: Sequence[str] | None, chosen: Chosen, *, quiet: bool, verbose: bool, json: bool) -> None:
    """Measure every input and show it."""
    voice = Voice(quiet, verbose)
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    failed = False
    for name in inputs or ["-"]:
        try:
            result = _measured(name, chosen, missing, voice)
        except KvzipError as error:
            if error.exit_code == 2:
                raise
            failed = True
            voice.error(str(error))
            continue
        rows.append(result.to_json())
        if not json:
            from kvzip.cli.show.bench import show_bench

            show_bench(result, chosen.threads, every_round=verbose, first=len(rows) == 1)
    if json:
        head = {"command": "bench", "machine": machine_line(), "threads": chosen.threads, "seconds": chosen.seconds}
        print(json_module.dumps(head | {"not_installed": missing, "files": rows}))
    if failed:
        raise SystemExit(1)


def _measured(name: str, chosen: Chosen, missing: list[str], voice: Voice) -> Result:
    """One file; codecs that are not installed are added to ``missing`` and named once."""
    for job in ("compress", "decompress"):
        voice.announce_compilation(job)
    with voice.activity() as say:
        say(f"reading {shown(name)}")
        dump, size = read_dump(name, chosen.threads)
        say("importing the other codecs")
        codecs, absent, unsuited = _made(chosen.names, dump.dtype)
    if fresh := [each for each in absent if each not in missing]:
        missing += fresh
        voice.warn(f"not installed: {', '.join(fresh)}; pip install 'kvzip[bench]' brings them")
    with voice.activity() as say:
        comparison = compare(dump, codecs, chosen.threads, chosen.seconds, say)
    result = Result(dump.name, size, comparison)
    for job in ("compress", "decompress"):
        voice.remember_compilation(job)
    result.comparison.left_out |= unsuited
    for codec, why in result.comparison.left_out.items():
        voice.warn(f"left out: {codec}: {why}")
    return result


def _made(names: Sequence[str], dtype: str) -> tuple[list[Codec], list[str], dict[str, str]]:
    """The codecs, the names of those not installed, and why others do not suit."""
    codecs: list[Codec] = []
    absent: list[str] = []
    unsuited: dict[str, str] = {}
    for name in names:
        try:
            codecs.append(peers.make(name, dtype))
        except ImportError:
            absent.append(name)
        except UnsuitedError as error:
            unsuited[name] = str(error)
    return codecs, absent, unsuited
