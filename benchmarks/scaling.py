"""How kvzip's speed grows with threads, tokens and heads, and what small dumps cost. See README.md beside it."""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cuts
from cuts import as_dump
from dumps import FIXTURES, Dump, default_dumps, read_dump
from run import numbers, say
from scaling_report import plain
from trials import spread

from kvzip.bench import peers
from kvzip.bench.machine import machine_line
from kvzip.bench.measure import copy_seconds, once
from kvzip.errors import KvzipError
from kvzip.pipeline.schedule import available_threads

CHUNK_TOKENS, CHUNK_LAYERS = 256, 5  # 1 MB of the default dump
TOKENS = (256, 1024, 4096, 16384, 65536)
HEADS = (1, 4, 16, 64)
LEAST_LAYERS = 4  # that a level which looks at two layers before has some with both
LEAST_STREAMS = 120 * 256  # tokens of one head over all layers: dumps of a few tokens get more layers, 8 MB at least


@dataclass
class Case:
    """What is timed as one: dumps coded one after the other by one codec, and the seconds they took."""

    kind: str
    shape: dict[str, int]
    dumps: list[bytes]
    codec: peers.Codec
    threads: int
    packed: int = 0
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"in": [], "out": []})

    def run(self) -> None:
        """Code all dumps both ways, compare, keep the time."""
        times = [0.0, 0.0]
        self.packed = 0
        for data in self.dumps:
            try:
                trial = once(self.codec, data, self.threads, f"{self.kind} {self.shape}")
            except KvzipError as error:
                raise SystemExit(str(error)) from None
            self.packed += len(trial.packed)
            times = [total + each for total, each in zip(times, trial.seconds, strict=True)]
        for way, seconds in zip(self.seconds, times, strict=True):
            self.seconds[way].append(seconds)

    def record(self) -> dict[str, Any]:
        """Return all that is known about it."""
        size = sum(map(len, self.dumps))
        return {
            "kind": self.kind,
            **self.shape,
            "codec": self.codec.name,
            "level": self.codec.level,
            "threads": self.threads,
            "dumps": len(self.dumps),
            "bytes": size,
            "ratio": size / self.packed,
            "rates": {way: spread(size, seconds) for way, seconds in self.seconds.items()},
        }


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dump", type=Path, metavar="FILE", help="a bfloat16 dump (default: the first default dump)")
    parser.add_argument("--levels", default="1,3,6,9", type=numbers, metavar="N,N", help="default 1,3,6,9")
    parser.add_argument("--threads", type=numbers, metavar="N,N", help="default: 1, 2, 4, ... up to the cores")
    parser.add_argument("--most-tokens", type=int, default=TOKENS[-1], metavar="N", help=f"default {TOKENS[-1]}")
    parser.add_argument("--most-heads", type=int, default=HEADS[-1], metavar="N", help=f"default {HEADS[-1]}")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="measured rounds (default 3)")
    slow = f"rounds of levels from {peers.SLOW} on (default 1)"
    parser.add_argument("--slow-repeat", type=int, default=1, metavar="N", help=slow)
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything measured; publish.py reads it")
    parsed = parser.parse_args()
    parsed.threads = parsed.threads or [1 << n for n in range(available_threads().bit_length())]
    return parsed


def growth_cases(cache: cuts.Cache, codecs: list[peers.Codec], threads: list[int]) -> Iterator[Case]:
    """A quarter, half and all of the layers, and all of them in chunks, at each number of threads."""
    layers, _, heads, tokens, _ = cache.shape
    parts = sorted({max(1, layers // 4), max(1, layers // 2), layers})
    dumps = {part: as_dump(cache[:part]) for part in parts}
    pieces = [as_dump(piece) for piece in cuts.chunks(cache, CHUNK_TOKENS, CHUNK_LAYERS)]
    for codec in codecs:
        for count in threads if codec.threaded else [1]:
            for part in parts:
                shape = {"layers": part, "heads": heads, "tokens": tokens}
                yield Case("growth", shape, [dumps[part]], codec, count)
            shape = {"layers": min(CHUNK_LAYERS, layers), "heads": heads, "tokens": min(CHUNK_TOKENS, tokens)}
            yield Case("chunks", shape, pieces, codec, count)


def shape_cases(cache: cuts.Cache, codecs: list[peers.Codec], most_tokens: int, most_heads: int) -> Iterator[Case]:
    """More and more tokens of one head, more and more heads of 1024 tokens, one thread."""
    shapes = [("tokens", 1, tokens) for tokens in TOKENS if tokens <= most_tokens]
    shapes += [("heads", heads, 1024) for heads in HEADS if heads <= most_heads]
    for kind, heads, tokens in shapes:
        layers = max(LEAST_LAYERS, LEAST_STREAMS // (heads * tokens))
        dump = as_dump(cuts.grown(cache, layers, heads, tokens))
        for codec in codecs:
            yield Case(kind, {"layers": layers, "heads": heads, "tokens": tokens}, [dump], codec, 1)


def run_rounds(cases: list[Case], repeat: int, slow_repeat: int, small: bytes) -> None:
    """Warm up and time all cases in turns; slow codecs are warmed up on a small dump and part in the first rounds."""
    for case in cases:
        warm = Case(case.kind, case.shape, [small] if case.codec.slow else case.dumps, case.codec, case.threads)
        say(f"warm-up {case.kind} {case.shape}, {case.codec.name}, {case.threads} threads")
        warm.run()
    for number in range(1, max(repeat, slow_repeat) + 1):
        say(f"round {number} of {max(repeat, slow_repeat)}")
        for case in cases:
            if number <= (slow_repeat if case.codec.slow else repeat):
                case.run()


def copy_rate(data: bytes, repeat: int) -> dict[str, float]:
    """Return the rate of plain copies."""
    target = bytearray(data)
    seconds = [copy_seconds(data, target) for _ in range(repeat + 1)]
    return spread(len(data), seconds[1:])


def main() -> None:
    """Measure, print, write."""
    options = arguments()
    dump: Dump = read_dump(options.dump or default_dumps()[0])
    cache = cuts.read_cache(dump)
    levels = [peers.make(f"kvzip-{level}", "BF16") for level in options.levels]
    try:
        others = [peers.make("zipnn", "BF16")]
    except ImportError as error:
        others = []
        say(f"left out: zipnn: {error}")
    small = (FIXTURES / "real" / "chat_bf16.safetensors").read_bytes()
    cases = [*growth_cases(cache, levels + others, options.threads)]
    cases += shape_cases(cache, levels, options.most_tokens, options.most_heads)
    run_rounds(cases, options.repeat, options.slow_repeat, small)
    result = {
        "machine": machine_line(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "dump": dump.name,
        "copy": copy_rate(dump.data, options.repeat),
        "cases": [case.record() for case in cases],
    }
    print(plain(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
