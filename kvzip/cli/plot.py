"""``stats --plot``: where a picture goes, found out before anything is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kvzip.cli.voice import Voice
from kvzip.errors import TargetError
from kvzip.files import file_target
from kvzip.files.faults import shown
from kvzip.pictures.formats import drawn, format_of
from kvzip.pipeline.stats import Stats


class Plot:
    """A picture in the making.

    Raises OptionError for a suffix that is no format's, UnsupportedError without matplotlib, and TargetError where
    the picture could not be written: at once, not after an hour of measuring.
    """

    def __init__(self, path: str, inputs: Sequence[str], force: bool) -> None:
        self._path = path
        self._form = format_of(path, len(inputs))
        self._files: list[Stats] = []
        self._force, self._inputs = force, [name for name in inputs if name != "-"]
        with self._opened():
            pass  # it opens, and is gone again, lest a folder that holds it be measured with it

    def add(self, found: Stats) -> None:
        """Another file of the picture."""
        self._files.append(found)

    def write(self, voice: Voice) -> None:
        """Draw what was added, if anything was."""
        if not self._files:
            return
        data = drawn(self._files, self._form)
        with self._opened() as target:
            target.file.write(data)
            target.commit()
        voice.say(f"{shown(self._path)}: {len(data):,} bytes written", only_terminal=True)

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        try:
            with file_target(self._path, force=self._force, inputs=self._inputs) as target:
                yield target
        except TargetError as error:
            raise TargetError(str(error).replace(" with -o", " with --plot")) from error
