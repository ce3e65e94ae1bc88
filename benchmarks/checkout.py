"""This checkout first on the path, so that what is measured is not an installed kvzip: import it before kvzip."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if str(ROOT) not in sys.path[:1]:
    sys.path.insert(0, str(ROOT))


def environment(**changes: str) -> dict[str, str]:
    """Return the environment for children that import this checkout's kvzip."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), **changes}


def kvzip_command(verb: str, source: Path, target: Path, threads: int, level: int) -> list[str]:
    """Return the command line of kvzip that turns ``source`` into ``target``, quiet and overwriting."""
    options = ["-q", "-f", "-T", str(threads), "-o", str(target)]
    if verb == "compress":
        options += ["-l", str(level)]
    return [sys.executable, "-m", "kvzip", verb, *options, str(source)]
