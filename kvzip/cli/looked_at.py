"""Which inputs ``test``, ``list`` and ``stats`` look at."""

from __future__ import annotations

from collections.abc import Sequence

from kvzip.cli.voice import Voice
from kvzip.errors import DumpError
from kvzip.files import files_below, inputs_of
from kvzip.files.faults import shown

SUFFIXES = (".safetensors", ".kvz", ".kva")


def looked_at(
    arguments: Sequence[str] | None,
    files_from: str | None,
    null: bool,
    recursive: bool,
    suffixes: tuple[str, ...] = SUFFIXES,
) -> list[str]:
    """The inputs that are named; with ``recursive``, below each directory those with one of the ``suffixes``."""
    inputs = inputs_of(arguments, files_from, null)
    if not recursive:
        return inputs.all
    found: list[str] = []
    for name in inputs.all:
        below, links = files_below([name])
        voice = Voice(False, False)
        for link in links:
            voice.warn(f"a link to a folder, not followed: {shown(link)}")
        wanted = below if below == [name] else [path for path in below if path.lower().endswith(suffixes)]
        if not wanted:
            raise DumpError(f"no {' or '.join(suffixes)} below: {shown(name)}; name another folder, or the files")
        found += wanted
    return found
