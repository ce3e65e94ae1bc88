"""The command line in a forked child, with faults at its k-th system call of a kind.

A server imports everything and warms up once, then forks for the requests that it reads from standard input, in each
line of JSON those of runs at the same time: a run costs milliseconds, so that a fault can be tried at every call. It
answers with the process ids and, at the end, with the statuses. Started by ``harness.Server``.

A fault is (operation, k, "once" or "on", action). Operations are counted from 1: those in ``CALLS`` on files below
the working folder, reads, writes and closes of kvzip's own streams, ``work`` (a block on a pool thread), and ``any``,
all of them together except looks and work. An action is the name of an errno or of a signal, SHORT (half is written),
MEMORY, HANG, or what befalls the file ``victim``: GROW, SHRINK, TOUCH, REWRITE, REPLACE, REMOVE.
"""

from __future__ import annotations

import errno
import importlib
import io
import json
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

CALLS = {
    "open": ("open",),
    "fsync": ("fsync",),
    "rename": ("rename", "replace", "link"),
    "unlink": ("unlink", "remove", "rmdir"),
    "mkdir": ("mkdir",),
    "attributes": ("chmod", "chown", "utime"),
    "look": ("stat", "lstat", "fstat", "scandir", "listdir"),
}
UNCOUNTED_BY_ANY = {"look", "work"}
NOBODY = 65534


class Points:
    """Counts what a run does, and lets faults happen."""

    def __init__(self, faults: list[Any], victim: str | None, log: str) -> None:
        self.faults, self.victim, self.log = faults, victim, log
        self.folder = os.getcwd()
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.busy = threading.local()

    def point(self, operation: str) -> str:
        """Called before each operation; returns "SHORT" where only half may be done."""
        names = (operation,) if operation in UNCOUNTED_BY_ANY else (operation, "any")
        with self.lock:
            self.counts.update(names)
            due = [
                action
                for name, k, how, action in self.faults
                if name in names and (self.counts[name] == k or (how == "on" and self.counts[name] > k))
            ]
        for action in due:
            self.act(action)
        return "SHORT" if "SHORT" in due else ""

    def act(self, action: str) -> None:
        if action.startswith("SIG"):
            if action == "SIGKILL":
                self.save()
            os.kill(os.getpid(), getattr(signal, action))
        elif action == "MEMORY":
            raise MemoryError
        elif action == "HANG":
            time.sleep(600)
        elif hasattr(errno, action):
            code = getattr(errno, action)
            raise OSError(code, os.strerror(code))
        elif action != "SHORT":
            self.busy.on = True  # what is done to the victim is not the run's own doing
            try:
                befall(action, Path(self.victim or ""))
            finally:
                self.busy.on = False

    def inside(self, place: Any, at: int | None) -> bool:
        """Whether a path or descriptor is below the working folder."""
        if isinstance(place, int):
            place = os.readlink(f"/proc/self/fd/{place}")
        elif at is not None:
            place = os.path.join(os.readlink(f"/proc/self/fd/{at}"), os.fspath(place))
        path = os.path.abspath(os.fspath(place))
        return path == self.folder or path.startswith(self.folder + os.sep)

    def wrapped(self, operation: str, call: Any) -> Any:
        def counted(*args: Any, **named: Any) -> Any:
            at = named.get("dir_fd", named.get("src_dir_fd"))
            if args and not getattr(self.busy, "on", False) and self.inside(args[0], at):
                self.point(operation)
            return call(*args, **named)

        for known in (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks):
            if call in known:
                known.add(counted)
        return counted

    def save(self) -> None:
        with open(self.log, "w") as file:
            json.dump(self.counts, file)


def befall(action: str, victim: Path) -> None:
    """What other programs do to a file that is being read."""
    if action == "GROW":
        with open(victim, "ab") as file:
            file.write(b"more")
    elif action == "SHRINK":
        os.truncate(victim, victim.stat().st_size * 2 // 3)
    elif action == "TOUCH":
        os.utime(victim)
    elif action == "REWRITE":
        with open(victim, "r+b") as file:
            for part in range(0, victim.stat().st_size, 4096):
                file.seek(part)
                file.write(b"\x55" * 64)
    elif action == "REPLACE":
        other = victim.with_name("other")
        other.write_bytes(victim.read_bytes())
        os.rename(other, victim)
    elif action == "REMOVE":
        os.unlink(victim)
    else:
        raise ValueError(action)


def install(points: Points, buffer: int) -> None:
    """Put ``points`` before all that kvzip does to files, with buffers so small that there is much of it."""
    for operation, names in CALLS.items():
        for name in names:
            setattr(os, name, points.wrapped(operation, getattr(os, name)))

    placement = sys.modules["kvzip.files.placement"]
    placement.exchange = points.wrapped("rename", placement.exchange)  # type: ignore[attr-defined]

    class Counted(io.FileIO):
        def write(self, data: Any) -> int:
            if points.point("write"):
                data = memoryview(data).cast("B")[: max(1, len(data) // 2)]
            return super().write(data)

        def readinto(self, data: Any) -> int:
            points.point("read")
            return super().readinto(data)

        def close(self) -> None:
            if self.closed:
                return
            try:
                points.point("close")
            finally:
                super().close()

    for name in ("target", "directory", "source"):
        sys.modules[f"kvzip.files.{name}"].BUFFER = buffer  # type: ignore[attr-defined]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(Counted(0, "rb", closefd=False)))
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(Counted(1, "wb", closefd=False)))
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    io.FileIO = Counted  # type: ignore[misc]
    schedule = sys.modules["kvzip.pipeline.schedule"]
    submit = schedule.ChainPool.submit

    def counted_work(pool: Any, chain: Any, cost: Any, work: Any, *rest: Any, **named: Any) -> Any:
        def work_with_faults() -> Any:
            points.point("work")
            return work()

        return submit(pool, chain, cost, work_with_faults, *rest, **named)

    schedule.ChainPool.submit = counted_work


def become(request: dict[str, Any]) -> None:
    """Be the run that is asked for; never returns."""
    code = 99
    ending = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)  # what comes while all is prepared is for the run
    try:
        for number in ending:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        for at, (path, flags) in enumerate(
            zip(request["streams"], (os.O_RDONLY, os.O_WRONLY, os.O_WRONLY), strict=True)
        ):
            descriptor = os.open(path, flags | (os.O_CREAT | os.O_TRUNC if flags and not is_fifo(path) else 0), 0o644)
            os.dup2(descriptor, at)
            os.close(descriptor)
        os.chdir(request["folder"])
        if request.get("nobody"):
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            sys.modules["kvzip.coder.jit"].is_cold = lambda job: False  # type: ignore[attr-defined]  # root's cache
        points = Points(request["faults"], request.get("victim"), request["log"])
        install(points, request["buffer"])
        limit(request)
        from kvzip.cli import main

        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
            main(request["args"])
        except SystemExit as leaving:
            code = leaving.code if isinstance(leaving.code, int) else 98
        except KeyboardInterrupt:  # Python's own handler, before there is another
            code = -signal.SIGINT
        points.save()
    except BaseException:
        traceback.print_exc()
    finally:
        if code < 0:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        os._exit(code)


def is_fifo(path: str) -> bool:
    return Path(path).is_fifo() or path == "/dev/full"


def limit(request: dict[str, Any]) -> None:
    """At most so many more bytes of address space, or of any file, than there are."""
    if request.get("memory") is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + request["memory"]
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def warm() -> None:
    """Import all of kvzip and run what requests will need, so that a child loads and compiles nothing."""
    import kvzip
    import kvzip.api
    import kvzip.cli.app
    from kvzip.cli import main

    for module in pkgutil.walk_packages(kvzip.__path__, "kvzip."):
        own = not module.name.startswith("kvzip.integrations.")  # those need packages that may not be there
        if own and module.name not in ("kvzip.__main__", "kvzip.pictures.mpl"):
            importlib.import_module(module.name)
    from tests.cli.tool import dump_bytes

    with tempfile.TemporaryDirectory() as folder:
        dump = Path(folder, "a.safetensors")
        dump.write_bytes(dump_bytes())
        for level in "136":
            packed = f"{folder}/{level}.kvz"
            for args in (["compress", "-q", f"-{level}", "-o", packed, str(dump)], ["test", "-q", packed]):
                try:
                    main(args)
                except SystemExit as leaving:
                    if leaving.code:
                        raise


def serve() -> None:
    warm()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        pids = []
        for request in json.loads(line):
            pids.append(os.fork())
            if not pids[-1]:
                become(request)
        print(json.dumps(pids), flush=True)
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]), flush=True)


if __name__ == "__main__":
    serve()
