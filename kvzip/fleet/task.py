"""What a worker does: one file, as the command line does it here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kvzip.cli.batch import Done, Settings, attempt
from kvzip.cli.voice import Voice
from kvzip.errors import KvzipError
from kvzip.files import Job


@dataclass(frozen=True)
class Task:
    """Pickled to workers: the verb, what the command was told, and what options are made of."""

    verb: str
    settings: Settings
    choices: dict[str, Any]
    draft: str | None = None

    def __call__(self, job: Job) -> tuple[Done, list[str]]:
        """What became of a file, and the lines to say of it; an error of ours is an outcome, others are raised."""
        from kvzip.cli.work import worker

        voice = _Lines(self.settings)
        try:
            with worker(self.verb, self.settings, self.choices, self.draft) as work:
                return attempt(job, self.settings, self.verb, work, voice, [job.source], 1), voice.lines
        except (KvzipError, OSError) as error:
            return Done(job, error=str(error)), [*voice.lines, str(error)]


class _Lines(Voice):
    """A voice that is heard elsewhere."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings.quiet, settings.verbose)
        self.lines: list[str] = []

    def announce_compilation(self, verb: str) -> None:
        """Nobody waits for it."""

    def _terminal(self) -> bool:
        return False

    def _line(self, text: str) -> None:
        self.lines.append(text)
