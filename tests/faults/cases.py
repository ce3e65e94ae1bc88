"""What is put to the test: both directions, files and folders, new and old outputs, ``--rm`` and ``--verify``."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import kvzip
from tests.cli.tool import dump_bytes
from tests.faults.harness import Case, put

NAMES = (
    "compress", "compress -f", "compress --rm", "compress --rm --verify -f", "compress -6", "compress folder",
    "compress folder --rm", "decompress", "decompress -f", "decompress --rm", "decompress -6", "decompress folder",
    "decompress folder -f --rm",
)  # fmt: skip
OLD = b"an older output"
OLD_FOLDER = {"old.safetensors": b"old", "sub/older": b"older"}


@cache
def dump(seed: int = 0) -> bytes:
    """64 KiB of keys and values."""
    return dump_bytes(layers=4, heads=2, tokens=64, dim=32, seed=seed)


@cache
def packed(level: int = 1) -> bytes:
    return kvzip.compress(dump(), level=level)


@cache
def folder_files() -> dict[str, bytes]:
    return {"x.safetensors": dump(1), "sub/y.safetensors": dump(2), "sub/notes.txt": b"notes\n" * 500, "empty": b""}


@cache
def packed_folder(scratch: Path) -> bytes:
    put(scratch / "d", folder_files())
    kvzip.compress(scratch / "d", scratch / "d.kvz", level=1)
    return (scratch / "d.kvz").read_bytes()


def cases(scratch: Path) -> dict[str, Case]:
    """All of them by name; ``scratch`` is a folder to work in."""
    source = {"a.safetensors": dump()}
    container = {"a.kvz": packed()}
    tree = {f"d/{name}": data for name, data in folder_files().items()}
    boxed = {"d.kvz": packed_folder(scratch)}
    to, back = ("-o", "out.kvz"), ("-o", "out")
    all_cases = [
        Case("compress", ("compress", "-1", "a.safetensors", *to), source, "out.kvz", packed()),
        Case("compress -f", ("compress", "-1", "-f", "a.safetensors", *to), source, "out.kvz", packed(), OLD),
        Case("compress --rm", ("compress", "-1", "--rm", "a.safetensors", *to), source, "out.kvz", packed(),
             removes=True),
        Case("compress --rm --verify -f", ("compress", "-1", "--rm", "--verify", "-f", "a.safetensors", *to),
             source, "out.kvz", packed(), OLD, removes=True),
        Case("compress -6", ("compress", "-6", "-T2", "a.safetensors", *to), source, "out.kvz", packed(6)),
        Case("compress folder", ("compress", "-1", "d", *to), tree, "out.kvz", boxed["d.kvz"]),
        Case("compress folder --rm", ("compress", "-1", "--rm", "-f", "d", *to), tree, "out.kvz", boxed["d.kvz"],
             OLD, removes=True, victim="d/sub/y.safetensors"),
        Case("decompress", ("decompress", "a.kvz", *back), container, "out", dump()),
        Case("decompress -f", ("decompress", "-f", "a.kvz", *back), container, "out", dump(), OLD),
        Case("decompress --rm", ("decompress", "--rm", "a.kvz", *back), container, "out", dump(), removes=True),
        Case("decompress -6", ("decompress", "-T2", "a.kvz", *back), {"a.kvz": packed(6)}, "out", dump()),
        Case("decompress folder", ("decompress", "d.kvz", *back), boxed, "out", folder_files()),
        Case("decompress folder -f --rm", ("decompress", "-f", "--rm", "d.kvz"), boxed, "d", folder_files(),
             OLD_FOLDER, removes=True),
    ]  # fmt: skip
    assert tuple(case.name for case in all_cases) == NAMES
    return {case.name: case for case in all_cases}
