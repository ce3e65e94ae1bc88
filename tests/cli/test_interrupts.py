"""A run that is ended half-way leaves the old target or none, and nothing beside it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from .tool import await_temporary, dump_bytes, environment, kvzip, start, temporaries

ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def half_way(folder, data: bytes, *args: str):
    """A run that has begun to write and waits for the rest of its input."""
    process = start(*args, cwd=folder)
    process.stdin.write(data[: len(data) * 2 // 3])
    process.stdin.flush()
    await_temporary(folder)
    return process


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_signal_removes_the_temporary_and_keeps_the_old_target(folder, dump, number):
    (folder / "old").write_bytes(b"old")
    process = half_way(folder, dump, "compress", "-f", "-o", "old")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode in (128 + number, -number)
    assert out == b""
    assert err.decode().strip().splitlines() == [
        f"kvzip: interrupted by {number.name}; nothing half-written was left behind"
    ]
    assert (folder / "old").read_bytes() == b"old"
    assert temporaries(folder) == []


def test_decompression_to_a_file_and_to_a_folder(folder, container):
    (folder / "tree").mkdir()
    for name in ("a", "b"):
        (folder / "tree" / f"{name}.safetensors").write_bytes(dump_bytes())
    kvzip("compress", "tree", cwd=folder).quiet()
    for data in (container, (folder / "tree.kvz").read_bytes()):
        process = half_way(folder, data, "decompress", "-o", "new")
        process.terminate()
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM
        assert not (folder / "new").exists()
        assert temporaries(folder) == []


def test_a_kill_leaves_no_wrong_file_and_does_not_hinder_the_next_run(folder, dump, container):
    process = half_way(folder, dump, "compress", "-o", "new.kvz")
    process.kill()
    process.communicate(timeout=60)
    left = temporaries(folder)
    assert len(left) == 1
    assert not (folder / "new.kvz").exists()
    (folder / "new.safetensors").write_bytes(dump)
    kvzip("compress", "-r", ".", "-o", "-", cwd=folder).fails(2)
    kvzip("compress", "new.safetensors", "-o", "new.kvz", cwd=folder).quiet()
    assert (folder / "new.kvz").read_bytes() == container
    (folder / left[0]).unlink()


def test_signals_while_all_threads_work(folder):
    (folder / "big.safetensors").write_bytes(dump_bytes(layers=32, heads=4, tokens=512, dim=128))
    before = sorted(path.name for path in folder.iterdir())
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start("compress", "--rm", "-T2", "big.safetensors", cwd=folder)
        await_temporary(folder)
        process.send_signal(number)
        process.send_signal(number)  # as launchers do, once to the program and once to its group
        _, err = process.communicate(timeout=60)
        assert process.returncode == 128 + number
        assert len(err.decode().strip().splitlines()) == 1
        assert sorted(path.name for path in folder.iterdir()) == before


def test_a_truncated_pipe_is_no_success(folder, dump, container):
    kvzip("compress", "-o", "new", stdin=dump[:-1], cwd=folder).fails(1)
    kvzip("decompress", "-o", "new", stdin=container[:-1], cwd=folder).fails(1)
    assert not (folder / "new").exists()


EARLY = """
import os, signal, sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder())
from kvzip.cli import main
main()
"""


def test_an_interrupt_at_start_up(folder):
    command = [sys.executable, "-c", EARLY, "compress", "a.safetensors"]
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, timeout=60, check=False)
    assert done.returncode in (130, -signal.SIGINT)
    assert b"Traceback" not in done.stderr
