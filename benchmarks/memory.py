"""Send a dump of several gigabytes through kvzip's command; show peak memory and rate. See README.md.

This process stays small: it streams, and a child's peak memory is never below what its parent held.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from checkout import environment
from children import Usage, account, finish, succeeded
from dumps import default_dumps
from enlarge import PIECE, enlarged, read_seed, times_for

Outcome = tuple[Usage, Usage, str]


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=4.0, help="size of the dump (default 4)")
    parser.add_argument("--seed", type=Path, metavar="FILE", help="dump to repeat (default: a default dump)")
    parser.add_argument("--grow", choices=("layers", "tokens"), default="layers", help="what is repeated")
    parser.add_argument("--pipe", action="store_true", help="through pipes; only the container is written")
    parser.add_argument("--level", type=int, default=3, help="kvzip's level (default 3)")
    parser.add_argument("--threads", type=int, default=0, help="kvzip's threads (default 0: all)")
    parser.add_argument("--temp-dir", type=Path, help="where files are written (default: the system's)")
    return parser.parse_args()


class Source:
    """The large dump in small pieces, with the size and digest of what was given out."""

    def __init__(self, options: argparse.Namespace) -> None:
        seed = read_seed(options.seed or default_dumps()[0])
        times = times_for(seed, int(options.gib * 2**30))
        self.wanted = times * seed.size
        self.size = 0
        self.digest = hashlib.sha256()
        self._pieces = enlarged(seed, times, options.grow)

    def write_to(self, file: IO[bytes]) -> None:
        """Write the dump; a reader that went away ends it early, and its own exit code tells why."""
        try:
            with file:
                for piece in self._pieces:
                    self.digest.update(piece)
                    self.size += len(piece)
                    file.write(piece)
        except BrokenPipeError:
            pass


def digest_of(file: IO[bytes]) -> str:
    """Return the SHA-256 of everything left in a file or pipe."""
    digest = hashlib.sha256()
    while piece := file.read(PIECE):
        digest.update(piece)
    return digest.hexdigest()


def through_files(source: Source, command: list[str], options: list[str], folder: Path) -> Outcome:
    """Compress and decompress file to file."""
    dump, container, restored = folder / "dump.safetensors", folder / "dump.kvz", folder / "restored"
    source.write_to(dump.open("wb"))
    packing = [*command, "compress", "-q", *options, "-o", str(container), str(dump)]
    packed = succeeded(account(packing, env=environment()), packing)
    dump.unlink()
    unpacking = [*command, "decompress", "-q", *options[:2], "-o", str(restored), str(container)]
    unpacked = succeeded(account(unpacking, env=environment()), unpacking)
    with restored.open("rb") as file:
        return packed, unpacked, digest_of(file)


def through_pipes(source: Source, command: list[str], options: list[str], folder: Path) -> Outcome:
    """Compress from a pipe to a file, and decompress the file to a pipe."""
    container = folder / "dump.kvz"
    packing = [*command, "compress", "-q", *options, "-o", str(container), "-"]
    begun = time.perf_counter()
    child = subprocess.Popen(packing, stdin=subprocess.PIPE, env=environment())
    assert child.stdin
    writer = threading.Thread(target=source.write_to, args=(child.stdin,))
    writer.start()
    packed = succeeded(finish(child, begun), packing)
    writer.join()
    unpacking = [*command, "decompress", "-q", *options[:2], "-c", str(container)]
    begun = time.perf_counter()
    child = subprocess.Popen(unpacking, stdout=subprocess.PIPE, env=environment())
    assert child.stdout
    digest = digest_of(child.stdout)
    return packed, succeeded(finish(child, begun), unpacking), digest


def tell(verb: str, usage: Usage, size: int) -> None:
    """Print one direction's figures."""
    busy = usage.user + usage.system
    speed = f"{size / usage.wall / 1e6:.0f} MB/s"
    print(f"{verb:<11} peak {usage.peak / 1e6:.0f} MB, {speed}, {usage.wall:.1f} s, {busy:.1f} s busy")


def main() -> None:
    """Make the dump, send it both ways, compare, print."""
    options = arguments()
    source = Source(options)
    with tempfile.TemporaryDirectory(dir=options.temp_dir) as name:
        folder = Path(name)
        needed = source.wanted * (1 if options.pipe else 2)
        if shutil.disk_usage(folder).free < needed + needed // 16:
            room = f"{folder.parent} needs {needed / 1e9:.1f} GB"
            sys.exit(f"too little room: {room}; give --temp-dir or --pipe")
        through = through_pipes if options.pipe else through_files
        settings = ["-T", str(options.threads), "-l", str(options.level)]
        packed, unpacked, digest = through(source, [sys.executable, "-m", "kvzip"], settings, folder)
        size = (folder / "dump.kvz").stat().st_size
    if digest != source.digest.hexdigest():
        sys.exit("not lossless: SHA-256 of the restored dump differs; keep the seed and report it")
    print(f"{source.size:,} bytes, more {options.grow}, ratio {source.size / size:.4f}, digests equal")
    tell("compress", packed, source.size)
    tell("decompress", unpacked, source.size)


if __name__ == "__main__":
    main()
