"""Compare kvzip with other codecs on the same dumps in the same run. See README.md beside this file."""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from dumps import Dump, default_dumps, read_dump
from report import plain, record
from trials import Unit, measure_peaks, run_rounds, spread, units_of

import kvzip
from kvzip.bench import peers
from kvzip.bench.machine import machine_line
from kvzip.bench.makers import UnsuitedError
from kvzip.pipeline.schedule import available_threads


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dumps", nargs="+", type=Path, metavar="FILE", help="safetensors files")
    parser.add_argument("--levels", default="1-9", metavar="N-N,N", help="kvzip's levels (default 1-9)")
    parser.add_argument("--codecs", nargs="*", metavar="NAME", help=f"others, of {', '.join(peers.others())}")
    parser.add_argument("--threads", default="1,2", metavar="N,N", help="numbers of threads (default 1,2)")
    parser.add_argument("--repeat", type=int, default=5, metavar="N", help="measured rounds (default 5)")
    slow = f"rounds of bigsmall and of levels from {peers.SLOW} on (default 1)"
    parser.add_argument("--slow-repeat", type=int, default=1, metavar="N", help=slow)
    parser.add_argument("--no-peaks", action="store_true", help="leave out the children that measure peak memory")
    parser.add_argument("--temp-dir", type=Path, help="where files are written (default: the system's)")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything measured; publish.py reads it")
    parsed = parser.parse_args()
    parsed.codecs = peers.others() if parsed.codecs is None else parsed.codecs
    for name in set(parsed.codecs) - set(peers.others()):
        parser.error(f"unknown codec: {name}; choose from {', '.join(peers.others())}")
    if min(parsed.repeat, parsed.slow_repeat) < 1:
        parser.error("--repeat and --slow-repeat: at least 1")
    try:
        parsed.codecs = parsed.codecs + [f"kvzip-{level}" for level in numbers(parsed.levels)]
        parsed.threads = numbers(parsed.threads)
    except ValueError:
        parser.error("--levels and --threads: lists of numbers; write 1-6,9 or 1,2")
    for name in set(parsed.codecs) - set(peers.REGISTRY):
        parser.error(f"no such level: {name}")
    return parsed


def numbers(text: str) -> list[int]:
    """Return the numbers of a list such as 1-6,9."""
    spans = [part.partition("-") for part in text.split(",") if part]
    return [n for first, _, last in spans for n in range(int(first), int(last or first) + 1)]


def main() -> None:
    """Measure, print, write."""
    options = arguments()
    result: dict[str, Any] = {
        "machine": machine_line(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "dumps": [],
    }
    if max(options.threads) > available_threads():
        say(f"note: {max(options.threads)} threads on {available_threads()} cores")
    for path in options.dumps or default_dumps():
        result["dumps"].append(measure(read_dump(path), options))
    print(plain(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


def measure(dump: Dump, options: argparse.Namespace) -> dict[str, Any]:
    """Run all codecs on one dump and return its record."""
    size = len(dump.data)
    units = units_of(installed(options.codecs, dump.dtype), options.threads)
    with tempfile.TemporaryDirectory(dir=options.temp_dir) as name:
        folder = Path(name)
        copies = run_rounds(dump, units, options.repeat, options.slow_repeat, folder, say)
        for unit in units:
            after_rounds(dump, unit, folder, peaks=not options.no_peaks)
    return {
        "name": dump.name,
        "bytes": size,
        "dtype": dump.dtype,
        "copies": {what: spread(size, seconds) for what, seconds in copies.items()},
        "results": [record(dump, unit) for unit in units],
    }


def installed(names: list[str], dtype: str) -> list[peers.Codec]:
    """Make the named codecs; those not installed, or not made for the dtype, are named and left out."""
    codecs = []
    for name in names:
        try:
            codecs.append(peers.make(name, dtype))
        except (ImportError, UnsuitedError) as error:
            say(f"left out: {name}: {error}")
    if not codecs:
        raise SystemExit("no codec left to run; pip install 'kvzip[bench]'")
    return codecs


def after_rounds(dump: Dump, unit: Unit, folder: Path, *, peaks: bool) -> None:
    """Fill in what needs no clock: peak memory, and for kvzip the bits of keys and values."""
    if peaks:
        say(f"{dump.name}: peak memory {unit.codec.name}, {unit.threads} threads")
        measure_peaks(dump, unit, folder)
    if unit.codec.level is not None:
        unit.bits = {kind: totals.bits_per_value for kind, totals in kvzip.stats(unit.packed).kinds.items()}


def say(line: str) -> None:
    """Tell what is going on, beside the results."""
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
