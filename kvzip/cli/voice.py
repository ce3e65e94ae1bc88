"""What the command line says on stderr, and when: errors always, the rest unless quiet."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress

Progress = Callable[[int, int], None]
OUT_OF_MEMORY = "out of memory; use fewer threads with -T, a lower level, or a smaller --block-size"


class Voice:
    """Lines on stderr. ``quiet`` leaves only errors, ``verbose`` adds details."""

    def __init__(self, quiet: bool, verbose: bool) -> None:
        self.quiet, self.verbose = quiet, verbose
        self._announced: set[str] = set()

    def error(self, text: str) -> None:
        """Something failed."""
        self._line(text)

    def warn(self, text: str) -> None:
        """Something was left out."""
        if not self.quiet:
            self._line(text)

    def say(self, text: str, *, detail: bool = False, only_terminal: bool = False) -> None:
        """Something worth knowing; ``detail`` only when verbose, ``only_terminal`` not into a log or pipe."""
        if self.quiet or (detail and not self.verbose) or (only_terminal and not self._terminal()):
            return
        self._line(text)

    def progress(
        self, name: str | Callable[[], str], total: int | None, packed_total: int | None = None
    ) -> AbstractContextManager[Progress | None]:
        """A progress line in a terminal, nothing elsewhere. Called with (bytes of the dump, bytes packed)."""
        if self.quiet or not self._terminal():
            return nullcontext(None)
        from kvzip.cli.render import progress

        return progress(name, total, packed_total)

    def activity(self) -> AbstractContextManager[Callable[[str], None]]:
        """A line in a terminal that says what is going on and goes at the end, nothing elsewhere."""
        if self.quiet or not self._terminal():
            return nullcontext(lambda text: None)
        from kvzip.cli.render import activity

        return activity()

    def announce_compilation(self, verb: str) -> None:
        """Say, once, why the first run takes long; ``verb`` is compress or decompress."""
        from kvzip.coder.jit import is_cold

        if verb not in self._announced and is_cold(verb):
            self.say(f"compiling the {verb} kernels for this machine, once (about 20 s)")
        self._announced.add(verb)

    def remember_compilation(self, verb: str) -> None:
        """Note that ``verb`` has run."""
        from kvzip.coder.jit import is_cold, remember_warm

        if is_cold(verb):
            remember_warm(verb)

    def _terminal(self) -> bool:
        return bool(sys.stderr and sys.stderr.isatty())

    def _line(self, text: str) -> None:
        with suppress(OSError):  # a log that is full is no reason to stop
            print(f"kvzip: {text}", file=sys.stderr)
