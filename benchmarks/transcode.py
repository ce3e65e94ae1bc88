"""Do one codec's work, file to file, and leave: the process whose peak memory is measured.

``python transcode.py CODEC DTYPE compress|decompress SOURCE TARGET THREADS``
"""

from __future__ import annotations

import sys
from pathlib import Path

import peers


def main() -> None:
    name, dtype, verb, source, target, threads = sys.argv[1:]
    peers.make(name, dtype).transcode(verb, Path(source), Path(target), int(threads))


if __name__ == "__main__":
    main()
