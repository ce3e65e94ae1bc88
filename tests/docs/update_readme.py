"""Write the outputs of README and tutorials anew: ``python -m tests.docs.update_readme`` in the checkout's folder.

Figures that were measured are not its business, see ``benchmarks/publish.py``.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from .readme import README, TUTORIALS, blocks, commands, comparable, prepare, python, shell


def updated(text: str, folder: Path) -> str:
    """A page with real outputs. Where one differs only in what varies, it stays."""
    prepare(folder)
    shell("kvzip compress -q -c fixtures/real/prose_bf16.safetensors | kvzip test", folder)  # compile, if need be
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
    return text


if __name__ == "__main__":
    for page in (README, *TUTORIALS):
        with tempfile.TemporaryDirectory() as temporary:
            page.write_text(updated(page.read_text("utf-8"), Path(temporary)), "utf-8")
