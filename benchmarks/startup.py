"""Time what a user waits for before any work: kvzip's start, its first run, a small dump. See README.md."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from checkout import environment, kvzip_command
from children import Usage, account, succeeded
from dumps import small_dump


@dataclass(frozen=True)
class Case:
    """One command, timed; ``cold`` runs it with empty caches of compiled code."""

    label: str
    command: list[str]
    cold: bool = False


def cases(dump: Path, folder: Path, level: int) -> list[Case]:
    """Return what is timed, yardsticks first."""
    container, restored, kvzip = folder / "small.kvz", folder / "restored", [sys.executable, "-m", "kvzip"]
    packing = kvzip_command("compress", dump, container, 1, level)
    unpacking = kvzip_command("decompress", container, restored, 1, level)
    return [
        Case("python (yardstick)", [sys.executable, "-c", "pass"]),
        Case("import numba (yardstick)", [sys.executable, "-c", "import numba"]),
        Case("kvzip --version", [*kvzip, "--version"]),
        Case("kvzip --help", [*kvzip, "--help"]),
        Case("kvzip list FILE.kvz", [*kvzip, "list", str(container)]),
        Case(f"kvzip compress -l {level}", packing),
        Case("kvzip decompress", unpacking),
        Case(f"kvzip compress -l {level}, first run", packing, cold=True),
        Case("kvzip decompress, first run", unpacking, cold=True),
    ]


def run_once(case: Case, folder: Path) -> Usage:
    """Run a case; a cold one gets new, empty cache folders."""
    with tempfile.TemporaryDirectory(dir=folder) as fresh:
        caches = {"NUMBA_CACHE_DIR": f"{fresh}/numba", "XDG_CACHE_HOME": f"{fresh}/xdg"} if case.cold else {}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        return succeeded(account(case.command, env=environment(**caches), **quiet), case.command)


def rounds(all_cases: list[Case], folder: Path, counts: Callable[[Case], int]) -> dict[str, list[Usage]]:
    """Run all cases in turns, each as often as ``counts`` says."""
    taken: dict[str, list[Usage]] = {case.label: [] for case in all_cases}
    for number in range(max(counts(case) for case in all_cases)):
        for case in all_cases:
            if number < counts(case):
                taken[case.label].append(run_once(case, folder))
    return taken


def main() -> None:
    """Measure and print medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dump", type=Path, help="a small dump (default: a fixture)")
    parser.add_argument("--level", type=int, default=3, help="level of the compress cases (default 3)")
    parser.add_argument("--repeat", type=int, default=7, help="runs of each warm case (default 7)")
    parser.add_argument("--cold-repeat", type=int, default=2, help="runs of each cold case (default 2)")
    options = parser.parse_args()
    dump = options.dump or small_dump()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        every = cases(dump, folder, options.level)
        for case in every[5:7] + every[:5]:  # fills the caches and makes the container that list shows
            run_once(case, folder)
        taken = rounds(every, folder, lambda case: options.cold_repeat if case.cold else options.repeat)
    print(f"{dump.name}, {dump.stat().st_size:,} bytes; seconds: median (least..greatest), peak memory")
    for label, usages in taken.items():
        if usages:
            walls = [usage.wall for usage in usages]
            peak = max(usage.peak for usage in usages) / 1e6
            middle = statistics.median(walls)
            print(f"{label:<34} {middle:7.3f} ({min(walls):.3f}..{max(walls):.3f})  {peak:6.0f} MB")


if __name__ == "__main__":
    main()
