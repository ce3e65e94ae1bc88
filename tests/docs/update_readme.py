"""Write the outputs that README shows anew: ``python -m tests.docs.update_readme`` in the checkout's folder."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import kvzip

from .readme import FIXTURE, README, ROOT, blocks, commands, comparable, prepare, python, shell


def updated(text: str, folder: Path) -> str:
    """README with real outputs. Where one differs only in what varies, it stays."""
    prepare(folder)
    shell("kvzip compress -q -c fixtures/real/*.safetensors | kvzip test", folder)  # compile, if need be
    fresh: list[tuple[int, int, str]] = []
    for block in blocks(text, "console"):
        out = ""
        for command, shown in commands(block.body):
            found = "".join(line.rstrip() + "\n" for line in shell(command, folder).splitlines())
            out += f"$ {command}\n{shown if comparable(shown) == comparable(found) else found}"
        fresh.append((block.start, block.end, out))
    for code, shown in zip(blocks(text, "python"), blocks(text, "text"), strict=True):
        fresh.append((shown.start, shown.end, python(code.body, folder)))
    for start, end, body in sorted(fresh, reverse=True):
        text = text[:start] + body + text[end:]
    return with_levels(text)


def with_levels(text: str) -> str:
    """README with the last column of the table of levels filled in."""
    dump = (ROOT / FIXTURE).read_bytes()
    for level in range(1, 5):
        ratio = len(dump) / len(kvzip.compress(dump, level=level))
        text = re.sub(rf"^(\| `-{level}`.*\|)[^|]*\|$", rf"\1 {ratio:.4f}x |", text, flags=re.MULTILINE)
    return text


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        README.write_text(updated(README.read_text("utf-8"), Path(temporary)), "utf-8")
