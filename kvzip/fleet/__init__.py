"""Many files on many machines, by dask.distributed: one task a file, on a cluster that there is or on a local one.

    kvzip.fleet.compress(["s3://bucket/dumps"], "s3://bucket/kvz", scheduler="tcp://host:8786", skip_existing=True)
    kvzip.fleet.decompress(["packed"], "restored", workers=8)

Inputs and outputs are paths that all workers see, or URLs. A worker that is lost costs nothing but time: dask gives
its files to others, and an output is there whole or not at all. It needs the extra ``kvzip[dask]``.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from kvzip.cli.batch import Done, Settings
from kvzip.files import plan_outputs
from kvzip.fleet.cluster import Cluster
from kvzip.fleet.task import Task

PathLike = str | os.PathLike[str]

__all__ = ["Cluster", "Done", "compress", "decompress"]


def compress(
    inputs: Iterable[PathLike],
    output_dir: PathLike,
    *,
    scheduler: Any = None,
    workers: int = 0,
    force: bool = False,
    skip_existing: bool = False,
    level: int = 3,
    **options: Any,
) -> list[Done]:
    """Compress every dump below some folders, and files, each into a container below ``output_dir``.

    scheduler: the address of a scheduler, or an open ``distributed.Client``; without it a local cluster of
        ``workers`` processes is made, one for each core if 0.
    skip_existing: leave outputs alone that are whole and newer than their input.
    options: those of ``kvzip.compress``; ``draft`` and ``prior`` as paths that all workers see.

    What became of each file is returned, in order: ``error`` says what failed. Raises OptionError for what is refused
    before anything is done, KvzipError if there is no such scheduler.
    """
    draft, layout = options.pop("draft", None), options.pop("layout", None)
    choices = {"level": level, "threads": 1, "layout": layout, **options}
    return _run("compress", inputs, output_dir, scheduler, workers, force, skip_existing, choices, draft)


def decompress(
    inputs: Iterable[PathLike],
    output_dir: PathLike,
    *,
    scheduler: Any = None,
    workers: int = 0,
    force: bool = False,
    skip_existing: bool = False,
    prior: PathLike | None = None,
    draft: PathLike | None = None,
) -> list[Done]:
    """Restore every container below some folders, and files; see ``compress``."""
    choices = {"threads": 1, "prior": prior}
    return _run("decompress", inputs, output_dir, scheduler, workers, force, skip_existing, choices, draft)


def _run(
    verb: str,
    inputs: Iterable[PathLike],
    output_dir: PathLike,
    scheduler: Any,
    workers: int,
    force: bool,
    skip_existing: bool,
    choices: dict[str, Any],
    draft: PathLike | None,
) -> list[Done]:
    given = [os.fspath(name) for name in inputs]
    folder = os.fspath(output_dir)
    settings = Settings(None, folder, False, True, force, skip_existing, False, True, False, False)
    plan = plan_outputs(given, recursive=True, output_dir=folder, decompress=verb == "decompress")
    task = Task(verb, settings, choices, None if draft is None else os.fspath(draft))
    with Cluster(scheduler, workers) as cluster:
        return [done for done, _ in cluster.run(plan.jobs, task)]
