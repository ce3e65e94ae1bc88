"""Blocks of README and tutorials: found, executed in a folder of their own, compared but for what varies."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
TUTORIALS = [
    ROOT / "docs" / name for name in ("first-steps.md", "pipelines.md", "fleets.md", "archives.md", "serving.md")
]
FIXTURE = Path("fixtures/real/prose_bf16.safetensors")
OTHERS = ("chat_bf16.safetensors", "chat_bf16_draft-int8.safetensors")

_BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
_VARIES = re.compile(r"\d[\d.]* (?:[kMGT]?B/)?s\b")  # times and rates


@dataclass(frozen=True)
class Block:
    """A fenced block; ``start`` and ``end`` bound its body in the text."""

    kind: str
    body: str
    start: int
    end: int


def blocks(text: str, kind: str) -> list[Block]:
    return [
        Block(kind, found["body"], *found.span("body")) for found in _BLOCK.finditer(text) if found["kind"] == kind
    ]


def commands(console: str) -> Iterator[tuple[str, str]]:
    """Each command after ``$ `` with the output shown below it."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output


def comparable(output: str) -> str:
    """Output without times, rates, blanks at line ends, and the note of a first run."""
    lines = (line.rstrip() for line in output.splitlines() if not line.startswith("kvzip: compiling"))
    return _VARIES.sub("N s", "\n".join(lines))


def prepare(folder: Path) -> None:
    """Put what the commands need into ``folder``."""
    (folder / FIXTURE.parent).mkdir(parents=True)
    for path in (FIXTURE, *(FIXTURE.with_name(name) for name in OTHERS)):
        shutil.copy(ROOT / path, folder / path)


def run(arguments: list[str], folder: Path) -> str:
    """Run to success; return both outputs."""
    quiet = {name: value for name, value in os.environ.items() if not name.startswith("KVZIP_")}
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    done = subprocess.run(
        arguments,
        cwd=folder,
        env=quiet | {"PATH": path, "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, f"{arguments[-1]}\n{done.stdout}"
    return done.stdout


def shell(command: str, folder: Path) -> str:
    return run(["bash", "-o", "pipefail", "-c", command], folder)


def python(code: str, folder: Path) -> str:
    return run([sys.executable, "-c", code], folder)
