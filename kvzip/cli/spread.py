"""``compress`` and ``decompress`` on a fleet: files go to workers, their lines and results come back."""

from __future__ import annotations

from typing import Any

from kvzip.cli.batch import Doing, Done, Settings
from kvzip.cli.voice import Voice
from kvzip.errors import OptionError
from kvzip.files import Job


def spread(
    verb: str, settings: Settings, choices: dict[str, Any], draft: str | None, scheduler: str | None, workers: int
) -> Doing:
    """Jobs on a cluster, that of a scheduler or one of so many processes here."""
    from kvzip.fleet.cluster import Cluster
    from kvzip.fleet.task import Task

    cluster = Cluster(scheduler, workers)
    task = Task(verb, settings, {**choices, "threads": choices["threads"] or 1}, draft)

    def do(jobs: list[Job], voice: Voice) -> list[Done]:
        if any("-" in (job.source, job.target) for job in jobs):
            raise OptionError("a fleet reads and writes files: name them, standard input and output stay here")
        done: list[Done] = []
        told = [0, 0]

        def tell(one: Done, lines: list[str]) -> None:
            done.append(one)
            for text in lines:
                voice.error(text)
            if show:
                told[0] += one.source_bytes
                told[1] += one.target_bytes
                show(*(told if verb == "compress" else told[::-1]))

        with cluster, voice.progress(lambda: f"{len(done)} of {len(jobs)} files", None) as show:
            return [one for one, _ in cluster.run(jobs, task, tell)]

    return do
