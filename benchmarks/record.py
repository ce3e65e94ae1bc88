"""Record what commands print in a terminal, as a picture: ``python benchmarks/record.py OUT.svg COMMAND...``.

The commands are run by a shell in the present folder, in a terminal with colours; nothing is made up or left out but
progress lines, which erase themselves.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 80
_PROGRESS = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h(?:\r\x1b\[1A\x1b\[2K)?", re.DOTALL)
_FONT = re.compile(r"@font-face \{.*?\}\n?", re.DOTALL)  # would be fetched from elsewhere


def run(command: str) -> str:
    """What a command prints into a terminal."""
    leader, follower = pty.openpty()
    env = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    with subprocess.Popen(
        ["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=follower, stderr=follower, env=env
    ):
        os.close(follower)
        seen = b""
        while True:
            try:
                data = os.read(leader, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not data:
                break
            seen += data
    os.close(leader)
    return _PROGRESS.sub("", seen.decode()).replace("\r\n", "\n")


def main() -> None:
    """Record and write."""
    target, *commands = sys.argv[1:]
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    for command in commands:
        console.print(Text(f"$ {command}", "bold"))
        console.print(Text.from_ansi(run(command)), end="")
        console.print()
    Path(target).write_text(_FONT.sub("", console.export_svg(title="kvzip")) + "\n", "utf-8")


if __name__ == "__main__":
    main()
