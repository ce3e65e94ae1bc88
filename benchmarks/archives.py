"""What an archive is worth: `python benchmarks/archives.py NAME=DUMP,DUMP... [--write]`, a row for each set of dumps.

Every archive is restored and compared. With --write the table goes into docs/archives.md.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from publish import between

import kvzip

PAGE = Path(__file__).resolve().parents[1] / "docs" / "archives.md"
LEVELS = (3, 6)


def measure(paths: Sequence[Path], level: int, threads: int) -> tuple[int, int]:
    """Bytes of the containers apart and of the archive."""
    with tempfile.TemporaryDirectory() as folder:
        apart = [kvzip.compress(path, Path(folder, f"{n}.kvz"), level=level) for n, path in enumerate(paths)]
        archive = Path(folder, "all.kva")
        kvzip.pack(paths, archive, level=level, threads=threads)
        restored = kvzip.unpack(archive, Path(folder, "out"), threads=threads)
        for path, again in zip(paths, restored, strict=True):
            assert path.read_bytes() == again.read_bytes(), path
        size = sum(report.container_bytes for report in apart)
        return size, archive.stat().st_size


def table(sets: dict[str, list[Path]], threads: int) -> str:
    """A row for each set and level."""
    lines = [
        "| dumps | MB | level | apart | archive | smaller by |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, paths in sets.items():
        total = sum(path.stat().st_size for path in paths)
        for level in LEVELS:
            apart, archive = measure(paths, level, threads)
            ratios = f"{total / apart:.3f}x | {total / archive:.3f}x | {apart / archive:.2f}x"
            lines.append(f"| {name} | {total / 1e6:.1f} | {level} | {ratios} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", metavar="NAME=DUMP,DUMP,...")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    sets = {}
    for given in options.sets:
        name, _, files = given.partition("=")
        sets[name] = [Path(file) for file in files.split(",")]
    text = table(sets, options.threads)
    print(text)
    if options.write:
        PAGE.write_text(between(PAGE.read_text("utf-8"), "archives", lambda _: f"\n{text}\n"), "utf-8")


if __name__ == "__main__":
    main()
