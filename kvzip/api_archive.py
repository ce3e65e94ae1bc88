"""The Python interface to archives: many dumps in one file, each coded relative to an earlier one like it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvzip.api import trained
from kvzip.archive.directory import Entry
from kvzip.archive.pack import Packer, names_of
from kvzip.archive.unpack import Archive
from kvzip.errors import OptionError
from kvzip.files import FileSource, FileTarget
from kvzip.files.members import member_parts
from kvzip.pipeline.options import Options, Progress

if TYPE_CHECKING:
    from kvzip.api import PathLike


def pack(
    sources: Iterable[PathLike],
    target: PathLike,
    *,
    level: int = 3,
    threads: int = 0,
    force: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> list[Entry]:
    """Put dumps into an archive, in the order given; return what became of each.

    sources: paths of safetensors dumps. Each is coded relative to the earlier one that its first tokens are most
        like, if there is one: of the same prompt, or with the same beginning.
    options: those of ``compress`` but for drafts and priors.

    Raises DumpError for what is no dump, TargetError where writing fails.
    """
    paths = [Path(source) for source in sources]
    chosen = archive_options(level, threads, options)
    names = names_of(paths)
    with FileTarget(target, force=force, inputs=paths) as out:
        packer = Packer(out.file, chosen, progress)
        entries = [packer.add(path, name) for path, name in zip(paths, names, strict=True)]
        packer.close()
        out.commit()
    return entries


def archive_options(level: int, threads: int, options: dict[str, Any]) -> Options:
    """The options of every dump in an archive. OptionError for a prior or a draft, which an archive cannot hold."""
    if trained(options) is not None or options.get("draft") is not None:
        raise OptionError("an archive holds all that its dumps need: it takes no --prior file and no --draft")
    return Options.make(level, threads, **options)


def unpack(
    archive: PathLike,
    target: PathLike,
    names: Sequence[str] = (),
    *,
    threads: int = 0,
    force: bool = False,
    progress: Progress | None = None,
) -> list[Path]:
    """Restore dumps below the folder ``target``, all or those of ``names`` or patterns; return the paths.

    Each file appears whole or not at all. Raises ContainerError if the archive is damaged, TargetError for files that
    are there already unless ``force``.
    """
    made: list[Path] = []
    with FileSource(archive) as source:
        held = Archive(source.file, source.name)

        def create(entry: Entry) -> FileTarget:
            made.append(place_of(entry, Path(target)))
            return FileTarget(made[-1], force=force, inputs=[os.fspath(archive)], parents=True)

        held.restore(held.numbers(names), create, threads, progress)
    return made


def place_of(entry: Entry, folder: Path) -> Path:
    """Where an entry is restored. ContainerError if its name leads out of the folder."""
    return folder.joinpath(*member_parts(entry.name))
