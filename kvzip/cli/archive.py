"""``pack`` and ``unpack``: many dumps into one archive, and out of it."""

from __future__ import annotations

import json as json_module
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kvzip.cli.sizes import human
from kvzip.cli.voice import Voice
from kvzip.errors import OptionError
from kvzip.files import FileSource, FileTarget, StreamTarget, target_of
from kvzip.files.faults import shown
from kvzip.files.source import kept


@dataclass(frozen=True)
class Settings:
    """How to write and what to say."""

    force: bool
    quiet: bool
    verbose: bool
    json: bool


def pack(
    names: Sequence[str], output: str, settings: Settings, level: int, threads: int, choices: dict[str, Any]
) -> None:
    """Pack every dump, in order."""
    from kvzip.api_archive import archive_options
    from kvzip.archive.pack import Packer, names_of

    if "-" in names:
        raise OptionError("a dump in an archive is read more than once: give files, not standard input")
    options, voice = archive_options(level, threads, choices), Voice(settings.quiet, settings.verbose)
    paths = [Path(name) for name in names]
    called = names_of(paths)
    began = time.perf_counter()
    voice.announce_compilation("compress")
    total = sum(os.stat(path).st_size for path in paths if path.is_file())
    with (
        target_of(output, force=settings.force, inputs=paths) as target,
        voice.progress(shown(output), total) as progress,
    ):
        told = [0]
        packer = Packer(
            target.file, options, progress and (lambda done, made: progress(told[0] + done, packer.at + made))
        )
        for path, name in zip(paths, called, strict=True):
            entry = packer.add(path, name)
            told[0] += entry.size
            _say(voice, entry, packer.entries)
        size = packer.close()
        target.commit()
    voice.remember_compilation("compress")
    whole = sum(entry.size for entry in packer.entries)
    if settings.json:
        rows = [row_of(entry, packer.entries) for entry in packer.entries]
        row = {"command": "pack", "archive": output, "source_bytes": whole, "archive_bytes": size, "files": rows}
        print(json_module.dumps(row), file=sys.stderr if output == "-" else sys.stdout)
        return
    seconds = time.perf_counter() - began
    text = f"{len(paths)} files, {human(whole)} -> {human(size)} ({whole / max(1, size):.4f}x) in {seconds:.2f} s"
    voice.say(text, only_terminal=True)


def _say(voice: Voice, entry: Any, entries: list[Any]) -> None:
    row = row_of(entry, entries)
    how = "" if row["draft"] is None else f", relative to {shown(row['draft'])}"
    how += f", its first {entry.tokens} tokens" if entry.tokens else ""
    ratio = entry.size / max(1, entry.length)
    voice.say(f"{shown(entry.name)}: {human(entry.size)} -> {human(entry.length)} ({ratio:.4f}x){how}", detail=True)


def row_of(entry: Any, entries: Sequence[Any]) -> dict[str, Any]:
    """An entry for pipelines, its draft by name."""
    row = asdict(entry)
    return {
        "name": row["name"],
        "source_bytes": row["size"],
        "container_bytes": row["length"],
        "draft": None if entry.draft is None else entries[entry.draft].name,
        "draft_tokens": row["tokens"] or None,
    }


def unpack(
    name: str, wanted: Sequence[str], output_dir: str | None, stdout: bool, settings: Settings, threads: int
) -> None:
    """Restore what is wanted, into a folder or, one dump, to standard output."""
    from kvzip.api_archive import place_of
    from kvzip.archive.unpack import Archive
    from kvzip.pipeline.options import Options

    Options.make(threads=threads)
    if stdout and output_dir is not None:
        raise OptionError("-c and --output-dir exclude each other; give one of them")
    voice, folder = Voice(settings.quiet, settings.verbose), Path(output_dir or ".")
    with ExitStack() as opened:
        source = opened.enter_context(FileSource(name))
        archive = Archive(source.file if source.file.seekable() else kept(source.file, opened), source.name)
        numbers = archive.numbers(wanted)
        if stdout and len(numbers) != 1:
            raise OptionError(f"-c writes one dump, {len(numbers)} are meant; name one of {source.name}")
        inputs = [source.stat] if source.stat is not None else []
        rows: list[dict[str, Any]] = []

        def create(entry: Any) -> Any:
            if stdout:
                return StreamTarget(force=settings.force, inputs=inputs)
            return FileTarget(place_of(entry, folder), force=settings.force, inputs=inputs, parents=True)

        def done(entry: Any) -> None:
            target = "-" if stdout else str(place_of(entry, folder))
            rows.append({"name": entry.name, "target": target, "target_bytes": entry.size})
            voice.say(f"{shown(entry.name)}: {human(entry.size)}", detail=True)

        voice.announce_compilation("decompress")
        with voice.progress(source.name, sum(archive.entries[number].size for number in numbers)) as progress:
            archive.restore(numbers, create, threads, progress, done)
        source.check_unchanged()
        voice.remember_compilation("decompress")
    if settings.json:
        row = {"command": "unpack", "archive": name, "files": rows}
        print(json_module.dumps(row), file=sys.stderr if stdout else sys.stdout)
