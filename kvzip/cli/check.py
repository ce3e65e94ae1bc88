"""``test``: containers decoded to nowhere."""

from __future__ import annotations

import json as json_module
import time
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

from kvzip.cli.salvage import damage_of
from kvzip.cli.sizes import human
from kvzip.cli.voice import Voice
from kvzip.container.records import starts_archive
from kvzip.errors import ContainerError, DumpError, KvzipError, UnsupportedError
from kvzip.files import FileSource
from kvzip.files.faults import shown
from kvzip.files.source import kept


def test(
    inputs: Sequence[str],
    threads: int,
    prior: str | None,
    draft: str | None,
    *,
    quiet: bool,
    verbose: bool,
    json: bool,
) -> None:
    """Decode every container to nowhere; exit 1 if one is damaged."""
    from kvzip.api import opened_draft
    from kvzip.pipeline.options import Options
    from kvzip.pipeline.prior_file import read_prior

    Options.make(threads=threads)
    known = None if prior is None else read_prior(prior)
    with opened_draft(draft, threads, known) as drafts:
        _test(inputs, threads, (known, drafts), Voice(quiet, verbose), json)


def _test(inputs: Sequence[str], threads: int, needs: tuple[Any, Any], voice: Voice, json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for name in inputs:
        began = time.perf_counter()
        try:
            container, source = check_container(name, threads, needs, voice)
            rows.append(_row(name, container, source, None, []))
            rate = human(source / max(1e-9, time.perf_counter() - began))
            voice.say(f"{shown(name)}: ok, {human(container)} hold {human(source)}, {rate}/s", detail=True)
        except KvzipError as error:
            if error.exit_code == 2:
                raise
            voice.error(str(error))
            known = isinstance(error, ContainerError | UnsupportedError)
            rows.append(_row(name, None, None, str(error), damage_of(name, threads, needs, voice) if known else []))
    if json:
        print(json_module.dumps({"command": "test", "files": rows}))
    elif all(row["ok"] for row in rows):
        voice.say(f"{len(rows)} ok", only_terminal=True)
    if not all(row["ok"] for row in rows):
        raise SystemExit(1)


def _row(name: str, container: int | None, source: int | None, error: str | None, lost: list[Any]) -> dict[str, Any]:
    return {
        "file": name,
        "ok": error is None,
        "container_bytes": container,
        "source_bytes": source,
        "error": error,
        "lost": [damage.to_json() for damage in lost],
    }


def _check_archive(source: FileSource, threads: int, voice: Voice | None) -> tuple[int, int]:
    """Restore everything in an archive to nowhere."""
    from kvzip.archive.unpack import Archive

    with ExitStack() as opened:
        file = source.file if source.file.seekable() else kept(source.file, opened)
        archive = Archive(file, source.name)
        total = sum(entry.size for entry in archive.entries)
        with voice.progress(source.name, total) if voice else nullcontext(None) as progress:
            archive.restore(archive.numbers(()), lambda entry: nullcontext(), threads, progress)
        return file.seek(0, 2), total


def check_container(
    name: str | Path, threads: int, needs: tuple[Any, Any] = (None, None), voice: Voice | None = None
) -> tuple[int, int]:
    """Decode a container to nowhere, by the prior and the draft that it ``needs``; return its bytes and those of what
    it holds."""
    from kvzip.api import into
    from kvzip.pipeline.decompress import Opening, decompress_members

    if name != "-" and Path(name).is_dir():
        raise DumpError(f"it is a folder: {shown(name)}; name the containers in it")
    with FileSource(name) as source:
        if starts_archive(source.file):
            return _check_archive(source, threads, voice)
        opening = Opening.of(source.file, source.name, *needs)
        if voice:
            voice.announce_compilation("decompress")
        with voice.progress(source.name, None, source.size) if voice else nullcontext(None) as progress:
            report = decompress_members(opening, into(None), threads, progress=progress)
    if voice:
        voice.remember_compilation("decompress")
    return report.container_bytes, report.source_bytes
