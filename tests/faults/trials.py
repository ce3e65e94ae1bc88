"""Which faults are tried at which points of a run, and what each of them asks for beyond ``Case.check``.

By hand all of them are tried (``run.py``), in CI a seeded sample of each kind.
"""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.faults.harness import ENDING, Case, Fault, Ran, Server, content

FAILING = {  # operation: what it may fail with, whether it goes on failing, what the line on stderr must say
    "write": [("ENOSPC", "on", "disk full"), ("EIO", "once", "the device failed"), ("ESTALE", "on", "lost it")],
    "fsync": [("ENOSPC", "once", "disk full"), ("EIO", "once", "the device failed")],
    "close": [("EIO", "once", "the device failed"), ("EDQUOT", "once", "disk full")],
    "rename": [("EACCES", "on", ""), ("EIO", "once", "the device failed"), ("ENOSPC", "on", "disk full")],
    "open": [("EACCES", "once", "permission denied"), ("EMFILE", "once", ""), ("ENOSPC", "once", "")],
    "mkdir": [("ENOSPC", "once", "disk full"), ("EROFS", "once", "read-only")],
    "unlink": [("EACCES", "once", ""), ("EIO", "once", "")],
    "read": [("EIO", "on", "the device failed"), ("ESTALE", "on", "lost it"), ("ETIMEDOUT", "once", "not answer")],
    "look": [("ESTALE", "once", ""), ("EACCES", "once", "")],
}
FATAL = {"write", "fsync", "mkdir"}  # a run may do without any other call
HARMLESS = {"attributes": ["EPERM", "ENOSPC", "ENOTSUP"], "write": ["SHORT"]}
CHANGES = ("GROW", "SHRINK", "TOUCH", "REWRITE", "REPLACE", "REMOVE")


@dataclass(frozen=True)
class Trial:
    """A run with faults.

    codes: the exit codes allowed. words: what stderr must say if it says anything. outcome: the only one allowed.
    """

    kind: str
    faults: tuple[Fault, ...]
    codes: frozenset[int] = frozenset((0, 1))
    words: str = ""
    outcome: str = ""
    changes: bool = False
    again: bool = False


def failing_calls(counts: Mapping[str, int]) -> Iterator[Trial]:
    """Each call of an operation fails."""
    for operation, ways in FAILING.items():
        codes = frozenset((1,)) if operation in FATAL else frozenset((0, 1))
        for code, how, words in ways:
            for k in range(1, counts.get(operation, 0) + 1):
                yield Trial(f"{operation} fails", ((operation, k, how, code),), codes, words)


def harmless_calls(counts: Mapping[str, int]) -> Iterator[Trial]:
    """Calls that may fail, or do half, without harm."""
    for operation, actions in HARMLESS.items():
        for action in actions:
            for k in range(1, counts.get(operation, 0) + 1):
                faults = ((operation, k, "on", action),)
                yield Trial(f"{operation} does not matter", faults, frozenset((0,)), outcome="whole")


def signals(counts: Mapping[str, int]) -> Iterator[Trial]:
    """A signal before each call, while a thread works on each block, and while another fault is cleaned up."""
    for number in ENDING:
        for operation in ("any", "work"):
            for k in range(1, counts.get(operation, 0) + 1):
                faults = ((operation, k, "once", number.name),)
                yield Trial(number.name, faults, frozenset((128 + number,)), number.name)
    for k in range(1, counts["write"] + 1):
        for operation, count in (("unlink", 1), ("unlink", 2), ("close", 1), ("close", 2)):
            cut = (("write", k, "on", "ENOSPC"), (operation, count, "once", "SIGTERM"))
            yield Trial("SIGTERM in the clean-up", cut, frozenset((1, 143)))


def kills(counts: Mapping[str, int]) -> Iterator[Trial]:
    """SIGKILL before each call; the next run finds its way."""
    for k in range(1, counts["any"] + 1):
        yield Trial("SIGKILL", (("any", k, "once", "SIGKILL"),), frozenset((-signal.SIGKILL,)), again=True)


def changes(counts: Mapping[str, int]) -> Iterator[Trial]:
    """A source that changes at each read."""
    for action in CHANGES:
        for k in range(1, counts["read"] + 1):
            yield Trial(f"source: {action.lower()}", (("read", k, "once", action),), changes=True)


def memory(counts: Mapping[str, int]) -> Iterator[Trial]:
    """A block for which a thread finds no memory."""
    for k in range(1, counts["work"] + 1):
        yield Trial("no memory", (("work", k, "once", "MEMORY"),), frozenset((1,)), "out of memory")


FAMILIES = (failing_calls, harmless_calls, signals, kills, changes, memory)


@dataclass
class Trials:
    """Where they are run, and what came of them: outcomes by kind, and what was said."""

    server: Server
    folder: Path
    tally: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    lines: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    plain: dict[str, Ran] = field(default_factory=dict)

    def undisturbed(self, case: Case) -> Ran:
        """The run without a fault, which says how many points there are."""
        if case.name not in self.plain:
            case.prepare(self.folder)
            ran = self.server.run(self.folder, case.args)
            assert case.check(self.folder, ran) == "whole"
            self.plain[case.name] = ran
        return self.plain[case.name]

    def all_of(self, case: Case, each: int | None = None, random: Random | None = None) -> Iterator[Trial]:
        """Every trial of a case, or ``each`` of every kind chosen at random."""
        kinds: dict[str, list[Trial]] = defaultdict(list)
        for family in FAMILIES:
            for trial in family(self.undisturbed(case).counts):
                kinds[trial.kind].append(trial)
        for trials in kinds.values():
            yield from trials if each is None or random is None else random.sample(trials, min(each, len(trials)))

    def attempt(self, case: Case, trial: Trial) -> None:
        """Run a trial; AssertionError where something does not hold."""
        ran, outcome = self.run(trial.kind, case, trial.faults, changed=trial.changes)
        about = f"{case.name}: {trial}: {ran}"
        assert ran.code in trial.codes, about
        assert trial.words in ran.err or not ran.err, about
        assert trial.outcome in ("", outcome), about
        if trial.again:
            self.run_again(case)

    def run(
        self, kind: str, case: Case, faults: tuple[Fault, ...] = (), *, changed: bool = False, **more: object
    ) -> tuple[Ran, str]:
        """One run with ``faults``, checked and counted under ``kind``."""
        case.prepare(self.folder)
        victim = str(self.folder / (case.victim or next(iter(case.sources))))
        ran = self.server.run(self.folder, case.args, faults, victim=victim, **more)  # type: ignore[arg-type]
        try:
            outcome = case.check(self.folder, ran, changed=changed)
        except AssertionError as error:
            raise AssertionError(f"{kind}: {faults} {more}: {error}") from error
        self.tally[kind][outcome] += 1
        self.lines[kind].add(ran.err.strip())
        return ran, outcome

    def signal_by_the_clock(self, case: Case, number: signal.Signals, random: Random) -> None:
        """A signal at a moment of a run."""
        moment = random.uniform(0.0, 1.05 * self.undisturbed(case).seconds)
        ran, _ = self.run(f"{number.name} by the clock", case, signals=[(moment, number)])
        assert ran.code in (0, -number, 128 + number), ran
        if number == signal.SIGKILL:
            self.run_again(case)

    def memory_limit(self, case: Case, limit: int) -> None:
        """So many bytes of address space are left to a run."""
        ran, _ = self.run("memory limit", case, memory=limit)
        assert ran.code == 0 or (ran.code, "out of memory" in ran.err) == (1, True), (limit, ran)

    def run_again(self, case: Case) -> None:
        """What a kill left hinders nothing and is not taken for an input."""
        if any(content(self.folder / name) is None for name in case.sources):
            return  # removed, so the output was whole, which was checked
        if (self.folder / case.target).is_dir() and "-o" in case.args:
            return  # whole as well, and -o takes no folder that is there
        before = {path.name for path in self.folder.glob(".*")}
        ran = self.server.run(self.folder, (*case.args, "-f"))
        assert ran.code == 0, ran
        assert content(self.folder / case.target) == case.whole, case.name
        assert {path.name for path in self.folder.glob(".*")} == before, case.name
