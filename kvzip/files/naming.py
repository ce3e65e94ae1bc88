"""Which output each input gets, settled for all inputs before anything is written.

compress    dump.safetensors -> dump.safetensors.kvz      dumps/ -> dumps.kvz
decompress  dump.safetensors.kvz -> dump.safetensors
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from kvzip.errors import OptionError
from kvzip.files.faults import shown
from kvzip.files.members import members
from kvzip.files.source import missing

SUFFIX = ".kvz"
STANDARD: Literal["-"] = "-"
Place = Path | Literal["-"]
"""A path, or "-" for standard input or output; ``Path("-")`` is a file of that name, ./- to the user."""


@dataclass(frozen=True)
class Job:
    """One input and where its output goes."""

    source: Place
    target: Place
    directory: bool = False
    """The source is a directory that becomes one container."""
    parents: bool = False
    """The folders above the target are made as needed."""


@dataclass
class Plan:
    """What to do, and what is left out."""

    jobs: list[Job] = field(default_factory=list)
    containers: list[Path] = field(default_factory=list)
    """Files found with -r that are compressed already."""
    links: list[Path] = field(default_factory=list)
    """Links to folders found with -r, which are not followed."""


def is_container_name(name: str | os.PathLike[str]) -> bool:
    """Whether ``name`` ends in .kvz, in either case, and is more than that."""
    last = os.path.basename(os.fspath(name))
    return last.lower().endswith(SUFFIX) and len(last) > len(SUFFIX)


def compressed_name(path: Path) -> Path:
    """``path`` with .kvz; for ``.`` and ``..`` a file beside the directory they stand for."""
    named = _named(path)
    return named.with_name(named.name + SUFFIX)


def restored_name(path: Path) -> Path:
    """``path`` without .kvz, or OptionError."""
    if not is_container_name(path):
        raise OptionError(f"no {SUFFIX} at the end of the name: {shown(path)}; name the output with -o")
    return path.with_name(path.name[: -len(SUFFIX)])


def mark_of(target: Path) -> Path:
    """Where it is said what an output lacks that was restored from a damaged container."""
    return target.with_name(f"{target.name}.lost.json")


def plan_outputs(
    inputs: Sequence[str],
    *,
    recursive: bool = False,
    output: str | None = None,
    output_dir: str | os.PathLike[str] | None = None,
    decompress: bool = False,
    listed: Sequence[str] = (),
) -> Plan:
    """One job for each input, in the order given; an input given twice counts once.

    inputs: paths as the user wrote them, "-" for standard input.
    recursive: each file below a directory is an input; with ``output_dir`` the directory is mirrored there
        under its own name. Otherwise a directory becomes one container.
    output: the only output, "-" for standard output.
    listed: more paths, from a list; with ``output_dir`` each keeps its folders below it, as it is written, an
        absolute one without its root.
    OptionError for whatever would leave it open which bytes end up in which file.
    """
    folder = None if output_dir is None else Path(output_dir)
    if "" in inputs or output == "":
        raise OptionError("a file name is empty; perhaps a variable of a script is not set")
    unique = _without_repeats([*inputs, *listed])
    _check_options(unique, recursive, output, folder)
    plan = Plan()
    mirrored = set(listed) - set(inputs)
    for text in unique:
        path = Path(text)
        below = _mirrored(path, folder) if folder is not None and text in mirrored else folder
        if text == STANDARD:
            plan.jobs.append(Job(STANDARD, _given(output) or STANDARD))
        elif recursive and path.is_dir():
            plan.jobs.extend(_jobs_below(path, below, decompress, plan))
        else:
            plan.jobs.append(_single_job(path, output, below, decompress))
    _refuse_collisions(plan.jobs)
    return plan


def _mirrored(path: Path, folder: Path) -> Path:
    """The folder below ``folder`` for what a list calls ``path``."""
    parts = Path(os.path.normpath(path)).parent.parts
    parts = parts[1:] if path.is_absolute() else parts
    if ".." in parts:
        raise OptionError(f"it would leave --output-dir: {shown(path)}; list it without ..")
    return folder.joinpath(*parts)


def _single_job(path: Path, output: str | None, folder: Path | None, decompress: bool) -> Job:
    is_directory = path.is_dir()
    if decompress and is_directory:
        raise OptionError(f"it is a folder: {shown(path)}; add -r to decompress the containers below it")
    if output is not None:
        target = _given(output)
        if target is not None and output.endswith(("/", os.sep)):
            raise OptionError(f"it names a folder: {shown(target)}; use --output-dir instead of -o")
    else:
        if decompress and not is_container_name(path) and not os.path.lexists(path):
            raise missing(path)
        target = restored_name(path) if decompress else compressed_name(path)
        if folder is not None:
            target = folder / target.name
    if is_directory and target is not None and _is_within(target, path):
        raise OptionError(f"the output lies in the folder to compress: {shown(target)}; choose another with -o")
    return Job(path, target or STANDARD, directory=is_directory, parents=folder is not None)


def _jobs_below(top: Path, folder: Path | None, decompress: bool, plan: Plan) -> Iterator[Job]:
    tree = members(top, is_container_name if decompress else None)
    plan.links.extend(top / name for name in tree.links)
    for name, path in tree.files:
        if not decompress and is_container_name(name):
            plan.containers.append(path)
            continue
        target = restored_name(path) if decompress else compressed_name(path)
        if folder is not None:
            target = (folder / _named(top).name / name).with_name(target.name)
        yield Job(path, target, parents=folder is not None)


def _check_options(inputs: Sequence[str], recursive: bool, output: str | None, folder: Path | None) -> None:
    if folder is not None:
        if STANDARD in inputs:
            raise OptionError("standard input has no name to use in --output-dir; name the output with -o")
        if folder.exists() and not folder.is_dir():
            raise OptionError(f"--output-dir is no folder: {shown(folder)}; choose another")
    if output is None:
        return
    if folder is not None:
        raise OptionError("-o/-c and --output-dir exclude each other; give one of them")
    if len(inputs) > 1:
        raise OptionError(f"one output for {len(inputs)} inputs; use --output-dir, or one command for each")
    if recursive and any(text != STANDARD and os.path.isdir(text) for text in inputs):
        raise OptionError("-r gives each file its own output; use --output-dir instead of -o/-c, or leave out -r")
    if output != STANDARD and os.path.isdir(output):
        raise OptionError(f"it is a folder: {shown(output)}; use --output-dir instead of -o")


def _without_repeats(inputs: Sequence[str]) -> list[str]:
    unique: dict[str, str] = {}
    for text in inputs:
        unique.setdefault(STANDARD if text == STANDARD else os.path.realpath(text), text)
    return list(unique.values())


def _refuse_collisions(jobs: list[Job]) -> None:
    """Drop files reached twice, through a directory and by name; refuse two that would share an output."""
    writers: dict[str, Place] = {}
    kept = []
    for job in jobs:
        if job.target == STANDARD or job.source == STANDARD:
            kept.append(job)
            continue
        place = os.path.realpath(job.target)
        first = writers.setdefault(place, job.source)
        if first is job.source:
            kept.append(job)
        elif not _same_name(first, job.source):
            raise OptionError(
                f"two inputs for one output: {shown(first)} and {shown(job.source)} for {shown(job.target)}; "
                "name each output with -o, one command for each"
            )
    jobs[:] = kept


def _same_name(first: Place, second: Place) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)


def _given(output: str | None) -> Path | None:
    """The path in -o; None where there is none or it is standard output."""
    return None if output is None or output == STANDARD else Path(output)


def _named(path: Path) -> Path:
    """``path`` with a real name at its end, still relative if it was: ``.`` is ``../name``."""
    if path.name not in ("", ".."):
        return path
    name = path.resolve().name
    if not name:
        raise OptionError(f"no name to derive the output's from: {shown(path)}; name it with -o")
    return path / ".." / name


def _is_within(path: Path, folder: Path) -> bool:
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))
