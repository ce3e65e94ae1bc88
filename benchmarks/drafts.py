"""Compare compression with and without a draft on the same dumps in the same run. See README.md beside this file."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

from checkout import ROOT

import kvzip

SHARED = ROOT.parent / "shared" / "data"
PAIRS = [
    f"{target}:chat_bf16_draft-{draft}" for target in ("chat_bf16", "chat_fp8") for draft in ("int8", "fp8")
]  # of SHARED


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", nargs="+", metavar="TARGET:DRAFT", help="paths, or names in ../shared/data")
    parser.add_argument("--levels", nargs="+", type=int, default=[1, 3, 6, 9], metavar="N")
    parser.add_argument("--threads", type=int, default=2, metavar="N")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="rounds; one from level 7 on")
    parser.add_argument("--json", action="store_true", help="write JSON")
    return parser.parse_args()


def found(name: str) -> Path:
    """A path as it is, or the dump of that name."""
    return Path(name) if Path(name).exists() else SHARED / f"{name}.safetensors"


def measure(target: Path, draft: Path | None, level: int, threads: int, rounds: int) -> dict[str, Any]:
    """Ratio, and medians of MB/s in and out, memory to memory; the draft is read from its file each time."""
    data = target.read_bytes()
    small = kvzip.compress(data, level=level, threads=threads, draft=draft)  # compiles, too
    if kvzip.decompress(small, threads=threads, draft=draft) != data:
        raise SystemExit(f"{target} at level {level} did not come back")
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        began = time.perf_counter()
        kvzip.compress(data, level=level, threads=threads, draft=draft)
        middle = time.perf_counter()
        kvzip.decompress(small, threads=threads, draft=draft)
        seconds[0].append(middle - began)
        seconds[1].append(time.perf_counter() - middle)
    rate_in, rate_out = (len(data) / 1e6 / statistics.median(part) for part in seconds)
    return {"ratio": len(data) / len(small), "in": rate_in, "out": rate_out}


def main() -> None:
    """Measure and print."""
    chosen = arguments()
    rows = []
    for pair in chosen.pairs or PAIRS:
        target, draft = map(found, pair.split(":"))
        for level in chosen.levels:
            rounds = 1 if level > 6 else chosen.repeat
            plain, drafted = (measure(target, d, level, chosen.threads, rounds) for d in (None, draft))
            rows.append(
                {"target": target.stem, "draft": draft.stem, "level": level, "plain": plain, "drafted": drafted}
            )
            if not chosen.json:
                show = "  ".join(f"{r['ratio']:.3f}x {r['in']:.0f} / {r['out']:.0f} MB/s" for r in (plain, drafted))
                print(f"{target.stem} : {draft.stem}  level {level}  {show}", flush=True)
    if chosen.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
