"""Sweeps of one fault over the points of a run: every point by hand, a seeded sample in CI.

A sweep checks each run by ``Case.check`` and by what the fault itself asks for, and adds its outcome to the tally.
"""

from __future__ import annotations

import signal
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.faults.harness import ENDING, Case, Fault, Ran, Server, content

FAILING = {  # operation: what it may fail with, whether it goes on failing, what the line on stderr must say
    "write": [("ENOSPC", "on", "disk full"), ("EIO", "once", "the device failed"), ("ESTALE", "on", "")],
    "fsync": [("ENOSPC", "once", "disk full"), ("EIO", "once", "the device failed")],
    "close": [("EIO", "once", "the device failed"), ("EDQUOT", "once", "disk full")],
    "rename": [("EACCES", "on", ""), ("EIO", "once", "the device failed"), ("ENOSPC", "on", "disk full")],
    "open": [("EACCES", "once", "permission denied"), ("EMFILE", "once", ""), ("ENOSPC", "once", "")],
    "mkdir": [("ENOSPC", "once", "disk full"), ("EROFS", "once", "read-only")],
    "unlink": [("EACCES", "once", ""), ("EIO", "once", "")],
    "read": [("EIO", "on", "the device failed"), ("ESTALE", "on", "network file system"), ("ETIMEDOUT", "once", "")],
    "look": [("ESTALE", "once", ""), ("EACCES", "once", "")],
}
HARMLESS = {"attributes": ["EPERM", "ENOSPC", "ENOTSUP"], "write": ["SHORT"]}
CHANGES = ("GROW", "SHRINK", "TOUCH", "REWRITE", "REPLACE", "REMOVE")


@dataclass
class Campaign:
    """Where sweeps run, at how many points of each (``most``, None for all), and what came of them."""

    server: Server
    folder: Path
    most: int | None = None
    random: Random = field(default_factory=lambda: Random(7))
    tally: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    plain: dict[str, Ran] = field(default_factory=dict)

    def undisturbed(self, case: Case) -> Ran:
        """The run without a fault, which says how many points there are."""
        if case.name not in self.plain:
            case.prepare(self.folder)
            ran = self.server.run(self.folder, case.args)
            assert case.check(self.folder, ran) == "whole"
            self.plain[case.name] = ran
        return self.plain[case.name]

    def points(self, case: Case, operation: str) -> Iterable[int]:
        count = self.undisturbed(case).counts.get(operation, 0)
        every = range(1, count + 1)
        few = self.most is not None and count > self.most
        return sorted(self.random.sample(every, self.most or 0)) if few else every

    def run(self, kind: str, case: Case, faults: list[Fault], *, changed: bool = False, **more: object) -> Ran:
        """One run with ``faults``, checked and counted under ``kind``."""
        case.prepare(self.folder)
        victim = str(self.folder / (case.victim or next(iter(case.sources))))
        ran = self.server.run(self.folder, case.args, faults, victim=victim, **more)  # type: ignore[arg-type]
        try:
            self.outcome = case.check(self.folder, ran, changed=changed)
        except AssertionError as error:
            raise AssertionError(f"{kind}, {case.name}, {faults} {more}: {error}") from error
        self.tally[kind][self.outcome] += 1
        return ran

    def failing_calls(self, case: Case, operation: str) -> None:
        """Each call of an operation fails: the line says so, and a run that succeeds all the same has it all."""
        for code, how, words in FAILING[operation]:
            for k in self.points(case, operation):
                ran = self.run(f"{operation} fails", case, [(operation, k, how, code)])
                met = operation in ("write", "fsync", "mkdir")
                assert ran.code == 1 or not met, (case.name, operation, k, code, ran)
                assert words in ran.err or not ran.err, (case.name, operation, k, code, ran)

    def harmless_calls(self, case: Case, operation: str) -> None:
        """Calls that may fail, or do half, without harm: all is there in the end."""
        for action in HARMLESS[operation]:
            for k in self.points(case, operation):
                ran = self.run(f"{operation}: {action}", case, [(operation, k, "on", action)])
                assert (ran.code, self.outcome) == (0, "whole"), (case.name, operation, k, action, ran)

    def ending_signals(self, case: Case, operation: str = "any") -> None:
        """A signal before each call: status and line as documented, nothing left."""
        for number in ENDING:
            for k in self.points(case, operation):
                ran = self.run(number.name, case, [(operation, k, "once", number.name)])
                self._ended_by(ran, number)

    def signals_in_clean_up(self, case: Case) -> None:
        """A signal while what another fault left is taken away."""
        for k in self.points(case, "write"):
            for operation in ("unlink", "close"):
                count = self.random.choice((1, 1, 2))
                faults: list[Fault] = [("write", k, "on", "ENOSPC"), (operation, count, "once", "SIGTERM")]
                ran = self.run("SIGTERM in the clean-up", case, faults)
                assert ran.code in (1, 143), ran

    def random_signals(self, case: Case, number: signal.Signals, count: int) -> None:
        """A signal at moments of the clock."""
        seconds = self.undisturbed(case).seconds
        for _ in range(count):
            moment = self.random.uniform(0.0, 1.05 * seconds)
            ran = self.run(f"{number.name} by the clock", case, [], signals=[(moment, number)])
            if number != signal.SIGKILL and ran.code >= 0:
                assert ran.code == 0 or self._ended_by(ran, number)
            elif number == signal.SIGKILL:
                self._run_again(case)

    def kills(self, case: Case) -> None:
        """SIGKILL before each call; the next run finds its way."""
        for k in self.points(case, "any"):
            ran = self.run("SIGKILL at a call", case, [("any", k, "once", "SIGKILL")])
            assert ran.code == -signal.SIGKILL, ran
            self._run_again(case)

    def changes(self, case: Case) -> None:
        """A source that changes at each read: an error, or an output of what was there before."""
        for action in CHANGES:
            for k in self.points(case, "read"):
                ran = self.run(f"source: {action}", case, [("read", k, "once", action)], changed=True)
                assert ran.code in (0, 1), ran
                if ran.code == 0:
                    assert k == 1 or action in ("REMOVE", "REPLACE", "TOUCH") or self.outcome == "whole", ran

    def memory_errors(self, case: Case) -> None:
        """A block for which a thread finds no memory."""
        for k in self.points(case, "work"):
            ran = self.run("no memory for a block", case, [("work", k, "once", "MEMORY")])
            assert ran.code == 1, ran
            assert "out of memory" in ran.err, ran

    def memory_limits(self, case: Case, limits: Iterable[int]) -> None:
        """So many bytes of address space are left to a run."""
        for limit in limits:
            ran = self.run("memory limit", case, [], memory=limit)
            assert ran.code == 0 or "out of memory" in ran.err, (limit, ran)

    def _ended_by(self, ran: Ran, number: signal.Signals) -> bool:
        assert ran.code == 128 + number, ran
        assert number.name in ran.err, ran
        return True

    def _run_again(self, case: Case) -> None:
        """What a kill left hinders nothing and is not taken for an input."""
        if any(content(self.folder / name) is None for name in case.sources):
            return  # removed, so the output was whole, which was checked
        before = {path.name for path in self.folder.glob(".*")}
        ran = self.server.run(self.folder, (*case.args, "-f"))
        assert ran.code == 0, ran
        assert content(self.folder / case.target) == case.whole, case.name
        assert {path.name for path in self.folder.glob(".*")} == before, case.name
