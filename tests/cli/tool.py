"""Runs the command line as a user does, and makes the dumps that it is run on."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

COMMAND = (sys.executable, "-m", "kvzip")
SHELL = " ".join(COMMAND)
PROGRESS = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h\r\x1b\[1A\x1b\[2K", re.DOTALL)
TIMEOUT = 90  # seconds; a run takes about one, on a busy machine a few


@dataclass(frozen=True)
class Ran:
    """How a run ended."""

    code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.err.splitlines()

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def text(self) -> str:
        return self.out.decode()

    def ok(self) -> Ran:
        assert self.code == 0, self
        return self

    def quiet(self) -> Ran:
        """It worked and said nothing."""
        assert (self.code, self.err) == (0, ""), self
        return self

    def fails(self, code: int, *words: str) -> Ran:
        """It left with ``code`` and one line on stderr that holds all ``words``."""
        assert self.code == code, self
        assert len(self.lines) == 1, self
        assert self.err.startswith("kvzip: "), self
        assert all(word in self.err for word in words), self
        return self


def environment(**changes: str | None) -> dict[str, str]:
    """This process' environment without what would change a run, and with ``changes``; None removes."""
    unwanted = ("KVZIP_LEVEL", "KVZIP_THREADS", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "PYTHONUNBUFFERED")
    env = {name: value for name, value in os.environ.items() if name not in unwanted}
    env |= {name: value for name, value in changes.items() if value is not None}
    return {name: value for name, value in env.items() if changes.get(name, "") is not None}


def kvzip(*args, stdin=b"", env=None, cwd=None, stdout=subprocess.PIPE, **more) -> Ran:
    """Run ``python -m kvzip`` with ``args``; stdin: bytes, a file, or None for an empty one."""
    feed = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
    done = subprocess.run(
        [*COMMAND, *map(os.fspath, args)],
        env=environment(**(env or {})),
        cwd=cwd,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=TIMEOUT,
        check=False,
        **feed,
        **more,
    )
    err = done.stderr.decode()
    assert "Traceback" not in err, err
    return Ran(done.returncode, done.stdout or b"", err)


def at_once(*commands) -> list[Ran]:
    """Run several commands, given as tuples of arguments, two at a time."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda args: kvzip(*args), commands))


def terminal(*args, columns=80, out=True, err=True, stdin=b"", env=None, cwd=None, plain=True) -> Ran:
    """Run with stdout, stderr or both in a terminal; what the terminal got is in ``err``.

    plain: progress lines, which are gone at the end, and the moves of the cursor that erase them are left out.
    """
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(
        [*COMMAND, *map(os.fspath, args)],
        env=environment(TERM="xterm", **(env or {})),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=follower if out else subprocess.DEVNULL,
        stderr=follower if err else subprocess.DEVNULL,
    ) as process:
        os.close(follower)
        process.stdin.write(stdin)
        process.stdin.close()
        seen = read_terminal(leader)
        code = process.wait(TIMEOUT)
    os.close(leader)
    text = seen.decode(errors="replace").replace("\r\n", "\n")
    text = PROGRESS.sub("", text) if plain else text
    assert "Traceback" not in text, text
    return Ran(code, b"", text)


def read_terminal(leader: int) -> bytes:
    """Everything until the last program has closed its end."""
    seen, deadline = b"", time.monotonic() + TIMEOUT
    while time.monotonic() < deadline and select.select([leader], [], [], TIMEOUT)[0]:
        try:
            data = os.read(leader, 65536)
        except OSError as error:
            if error.errno == errno.EIO:  # how Linux says that the other end is closed
                break
            raise
        if not data:
            break
        seen += data
    return seen


def start(*args, cwd=None, **more) -> subprocess.Popen:
    """Start a run with pipes for all its streams."""
    return subprocess.Popen(
        [*COMMAND, *map(os.fspath, args)],
        env=environment(),
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **more,
    )


def await_temporary(folder: Path) -> None:
    """Wait until something with a temporary's name stands in ``folder``."""
    deadline = time.monotonic() + TIMEOUT
    while not temporaries(folder):
        assert time.monotonic() < deadline, "no temporary appeared"
        time.sleep(0.01)


def temporaries(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(".kvzip-tmp")]


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below ``folder`` with its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def dump_bytes(layers=2, heads=1, tokens=32, dim=32, seed=0, names=None, metadata=None) -> bytes:
    """A safetensors dump of BF16 noise as transformers users write it; ``names`` replaces the tensors' names."""
    random = np.random.default_rng(seed)
    names = names or [f"layers.{i}.{kind}" for i in range(layers) for kind in ("key", "value")]
    header: dict = {} if metadata is None else {"__metadata__": metadata}
    parts: list[bytes] = []
    at = 0
    for name in names:
        floats = random.standard_normal((1, heads, tokens, dim), np.float32)
        parts.append((floats.view(np.uint32) >> 16).astype("<u2").tobytes())
        shape = [1, heads, tokens, dim]
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


@contextlib.contextmanager
def umask(value: int):
    old = os.umask(value)
    try:
        yield
    finally:
        os.umask(old)
