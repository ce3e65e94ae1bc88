"""A run of the command line with faults at chosen points, and the one check of what must hold whatever happens.

``Server`` runs commands, ``Case`` says what a command reads and writes, ``Case.check`` judges what is left behind.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kvzip.files.placement import is_temporary
from tests.cli.tool import environment

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 60.0  # seconds, after which a run counts as hanging
BUFFER = 4096  # bytes: many system calls in a small file
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Fault = tuple[str, int, str, str]
Content = bytes | dict[str, bytes] | None


@dataclass(frozen=True)
class Ran:
    """How a run ended: its exit code, minus the number of a signal that killed it."""

    code: int
    out: bytes
    err: str
    counts: dict[str, int]
    seconds: float


@dataclass(frozen=True)
class Case:
    """A command, what it reads, and what may stand under the name of its output before and after."""

    name: str
    args: tuple[str, ...]
    sources: dict[str, bytes]
    target: str
    whole: Content
    old: Content = None
    removes: bool = False
    victim: str = ""
    """The source that is changed while it is read; "" for the first."""

    def prepare(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        put(folder, self.sources)
        if isinstance(self.old, dict):
            put(folder / self.target, self.old)
        elif self.old is not None:
            (folder / self.target).write_bytes(self.old)

    def check(self, folder: Path, ran: Ran, *, changed: bool = False) -> str:
        """What became of the output, "whole", "old" or "none"; AssertionError where something was lost.

        changed: whether the fault changed a source, which then need not be what it was.
        """
        found = content(folder / self.target)
        outcome = "whole" if found == self.whole else "old" if found == self.old else "half"
        assert outcome != "half", f"{self.name}: half a target: {ran}"
        if outcome == "old" and self.old is None:
            outcome = "none"
        for name, data in self.sources.items():
            now = content(folder / name)
            gone = now is None and self.removes and outcome == "whole"
            assert changed or gone or now == data, f"{self.name}: {name} was lost: {ran}"
        self._check_exit(ran, outcome, folder)
        self._check_leftovers(folder, ran)
        return outcome

    def _check_exit(self, ran: Ran, outcome: str, folder: Path) -> None:
        if ran.code == -signal.SIGKILL:
            return
        lines = ran.err.splitlines()
        assert "Traceback" not in ran.err, ran.err
        if ran.code < 0:  # before the handlers of signals were there
            assert -ran.code in ENDING, f"{self.name}: {ran}"
            assert outcome != "whole" or self.old == self.whole, f"{self.name}: {ran}"
            return
        assert ran.code in (0, 1, 129, 130, 141, 143), f"{self.name}: {ran}"
        if ran.code == 0:
            assert outcome == "whole", f"{self.name}: success without an output: {ran}"
            assert not lines, f"{self.name}: {ran}"
            if self.removes:
                assert not any((folder / name).exists() for name in self.sources), f"{self.name}: {ran}"
        elif ran.code != 141:
            assert len(lines) == 1, f"{self.name}: not one line: {ran}"
            assert lines[0].startswith("kvzip: "), f"{self.name}: {ran}"
            assert lines[0].isprintable(), f"{self.name}: {ran}"

    def _check_leftovers(self, folder: Path, ran: Ran) -> None:
        known = {Path(name).parts[0] for name in (*self.sources, self.target)} | {"other"}
        left = set(os.listdir(folder)) - known
        if ran.code == -signal.SIGKILL:
            left = {name for name in left if not is_temporary(name)}
        assert not left, f"{self.name}: left behind {left}: {ran}"


def put(folder: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def content(path: Path) -> Content:
    """The bytes of a file, of all files of a folder by name, or None where there is neither."""
    if path.is_dir():
        return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}
    return path.read_bytes() if path.exists() else None


@dataclass
class Server:
    """Runs commands in forked children of a process that has everything loaded.

    inside: a command line that the server is started with, as ``unshare`` is.
    """

    inside: Sequence[str] = ()
    process: Any = None
    scratch: Any = field(default_factory=lambda: tempfile.TemporaryDirectory(prefix="kvzip-faults-"))

    def __enter__(self) -> Server:
        python = [sys.executable, "-m", "tests.faults.child"]
        self.process = subprocess.Popen(
            [*self.inside, *python] if self.inside else python,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )
        os.chmod(self.scratch.name, 0o755)
        assert self._answer(600) == "ready"
        return self

    def __exit__(self, *error: object) -> None:
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
        self.scratch.cleanup()

    def run(
        self,
        folder: Path,
        args: Sequence[str],
        faults: Sequence[Fault] = (),
        *,
        signals: Sequence[tuple[float, int]] = (),
        **more: Any,
    ) -> Ran:
        """Run a command in ``folder``; ``signals`` are sent after so many seconds.

        more: paths ``stdin`` and ``stdout``, ``victim``, ``memory`` (bytes that may be taken), ``nobody`` (without
        root's rights).
        """
        request = self._request("0", folder, args, faults, **more)
        began = time.monotonic()
        (pid,) = self._begin([request])
        for after, number in signals:
            time.sleep(max(0.0, began + after - time.monotonic()))
            with suppress(ProcessLookupError):  # it has ended before
                os.kill(pid, number)
        return self._end([request], [pid], began)[0]

    def together(self, folder: Path, commands: Sequence[Sequence[str]]) -> list[Ran]:
        """Run commands at the same time."""
        requests = [self._request(str(number), folder, args) for number, args in enumerate(commands)]
        began = time.monotonic()
        return self._end(requests, self._begin(requests), began)

    def _request(
        self,
        number: str,
        folder: Path,
        args: Sequence[str],
        faults: Sequence[Fault] = (),
        *,
        stdin: str = os.devnull,
        stdout: str = "",
        **more: Any,
    ) -> dict[str, Any]:
        log, out, err = (f"{self.scratch.name}/{name}-{number}" for name in ("log", "out", "err"))
        for path in (log, out, err):
            Path(path).write_bytes(b"")
            os.chmod(path, 0o666)
        request = {"folder": str(folder), "args": list(args), "faults": list(faults), "log": log, "out": out}
        return request | {"streams": [stdin, stdout or out, err], "buffer": BUFFER} | more

    def _begin(self, requests: list[dict[str, Any]]) -> list[int]:
        self.process.stdin.write(json.dumps(requests).encode() + b"\n")
        pids: list[int] = self._answer(TIMEOUT)
        return pids

    def _end(self, requests: list[dict[str, Any]], pids: list[int], began: float) -> list[Ran]:
        try:
            codes = self._answer(TIMEOUT)
        except TimeoutError:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._answer(TIMEOUT)
            raise AssertionError(f"hangs: {requests}") from None
        seconds = time.monotonic() - began
        ended = []
        for code, request in zip(codes, requests, strict=True):
            text = Path(request["log"]).read_text()
            out, err = Path(request["out"]).read_bytes(), Path(request["streams"][2]).read_text()
            ended.append(Ran(code, out, err, json.loads(text) if text else {}, seconds))
        return ended

    def _answer(self, seconds: float) -> Any:
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self.process.stdout], [], [], seconds)[0]:
                raise TimeoutError
            byte = os.read(self.process.stdout.fileno(), 1)
            assert byte, "the server has ended"
            line += byte
        return json.loads(line)
