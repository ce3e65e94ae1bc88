"""A codec from file to file: here, and as a process that does that and leaves, whose peak memory is measured.

``python transcode.py CODEC DTYPE compress|decompress SOURCE TARGET THREADS``
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from checkout import kvzip_command

from kvzip.bench import peers
from kvzip.bench.peers import Codec


def transcode(codec: Codec, verb: str, source: Path, target: Path, threads: int) -> None:
    """Compress or decompress file to file, as durably as kvzip does: flushed to the disk."""
    if codec.level is not None:
        _transcode_kvzip(verb, source, target, threads, codec.level)
        return
    transform = codec.compress if verb == "compress" else codec.decompress
    data = transform(source.read_bytes(), threads)
    with target.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _transcode_kvzip(verb: str, source: Path, target: Path, threads: int, level: int) -> None:
    from kvzip import compress, decompress

    if verb == "compress":
        compress(source, target, level=level, threads=threads)
    else:
        decompress(source, target, threads=threads)


def command(codec: Codec, verb: str, source: Path, target: Path, threads: int, dtype: str) -> list[str]:
    """Return the command line of a process that does the same and nothing else."""
    if codec.level is not None:
        return kvzip_command(verb, source, target, threads, codec.level)
    return [sys.executable, __file__, codec.name, dtype, verb, str(source), str(target), str(threads)]


def main() -> None:
    name, dtype, verb, source, target, threads = sys.argv[1:]
    transcode(peers.make(name, dtype), verb, Path(source), Path(target), int(threads))


if __name__ == "__main__":
    main()
