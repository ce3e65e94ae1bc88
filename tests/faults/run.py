"""The long run, by hand: every fault at every point of every case, and signals at many moments.

    python -m tests.faults.run                      # all of it, half an hour or so
    python -m tests.faults.run --clock 20 compress  # cases whose names begin so

It prints what became of the outputs for each kind of fault, and leaves with 1 if something was lost.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from tests.faults.cases import cases
from tests.faults.harness import Case, Server
from tests.faults.trials import Trials

LIMITS = [1 << power for power in range(12, 28)]
"""Bytes of address space that are left to a run."""


def through(trials: Trials, case: Case, clock: int, random: Random) -> list[str]:
    """Everything for one case; what failed."""
    failed = []
    attempts = [lambda trial=trial: trials.attempt(case, trial) for trial in trials.all_of(case)]
    numbers = [signal.SIGKILL] * clock + [signal.SIGTERM, signal.SIGINT, signal.SIGHUP] * (clock // 4)
    attempts += [lambda number=number: trials.signal_by_the_clock(case, number, random) for number in numbers]
    attempts += [lambda limit=limit: trials.memory_limit(case, limit) for limit in LIMITS]
    for attempt in attempts:
        try:
            attempt()
        except AssertionError as error:
            failed.append(str(error))
            print(f"FAILED {str(error)[:1000]}", flush=True)
    return failed


def table(trials: Trials) -> str:
    """Outcomes by kind of fault."""
    rows = [("fault", "runs", "none", "old", "whole")]
    for kind, outcomes in trials.tally.items():
        rows.append((kind, *map(str, (sum(outcomes.values()), *(outcomes[name] for name in rows[0][2:])))))
    totals = [sum(int(row[column]) for row in rows[1:]) for column in range(1, 5)]
    rows.append(("all", *map(str, totals)))
    return "\n".join(f"{row[0]:28}" + "".join(f"{text:>8}" for text in row[1:]) for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="cases whose names begin so; all without")
    parser.add_argument("--clock", type=int, default=16, help="SIGKILLs by the clock for each case (16)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", help="write what was said, by kind, to this file as JSON")
    given = parser.parse_args()
    random, began, failed = Random(given.seed), time.monotonic(), []
    with tempfile.TemporaryDirectory() as scratch, Server() as server:
        trials = Trials(server, Path(scratch, "work"))
        for name, case in cases(Path(scratch, "made")).items():
            if not given.names or any(name.startswith(wanted) for wanted in given.names):
                before = time.monotonic()
                failed += through(trials, case, given.clock, random)
                print(f"{name}: {time.monotonic() - before:.0f} s\n{table(trials)}", flush=True)
    print(f"{len(failed)} failed; {time.monotonic() - began:.0f} s, seed {given.seed}")
    if given.lines:
        lines = {kind: sorted(said) for kind, said in trials.lines.items()}
        Path(given.lines).write_text(json.dumps(lines, indent=1, ensure_ascii=False))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
