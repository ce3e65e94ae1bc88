"""Pipes: readers that leave, writers that die, and faults on standard input and output.

What was written into a pipe cannot be taken back; what counts is that the exit code tells, and that nothing is said
where nobody is to blame.
"""

from __future__ import annotations

import os
import subprocess
import threading

import pytest

from tests.cli.tool import COMMAND, SHELL, dump_bytes, environment
from tests.faults.cases import dump, packed
from tests.faults.harness import Ran

READER_LEFT = 141
BOTH = [(("compress", "-1"), dump, packed), (("decompress",), packed, dump)]
both = pytest.mark.parametrize(("args", "given", "made"), BOTH, ids=["compress", "decompress"])


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def clean(ran: Ran, *codes: int) -> None:
    assert ran.code in codes, ran
    assert len(ran.err.splitlines()) == (ran.code not in (0, READER_LEFT)), ran
    assert "Traceback" not in ran.err


@both
def test_a_reader_that_leaves_ends_the_run_in_silence(server, folder, random, args, given, made):
    (folder / "in").write_bytes(given())
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    size = len(made())
    for count in (0, 1, 8, 4095, 4096, 4097, *(random.randrange(size) for _ in range(3)), size - 1, size):
        got = []

        def read(count=count, got=got):
            with open(fifo, "rb", buffering=0) as file:
                data = b""
                while len(data) < count:
                    data += file.read(count - len(data))
                got.append(data)

        reader = threading.Thread(target=read)
        reader.start()
        ran = server.run(folder, (*args, "-c", "in"), stdout=str(fifo))
        reader.join()
        clean(ran, 0, READER_LEFT)
        assert ran.code == READER_LEFT or count > size - 65536  # the rest fits into the pipe
        assert made().startswith(got[0])


@both
def test_a_writer_that_dies_is_told(server, folder, random, args, given, made):
    """Every prefix of an input is an error, and nothing stands under the name of the output."""
    fifo = folder / "fifo"
    os.mkfifo(fifo)
    size = len(given())
    for count in (0, 1, 7, 8, 9, *(random.randrange(size) for _ in range(3)), size - 1):
        writer = threading.Thread(target=fifo.write_bytes, args=(given()[:count],))
        writer.start()
        ran = server.run(folder, (*args, "-o", "out"), stdin=str(fifo))
        writer.join()
        clean(ran, 1)
        assert os.listdir(folder) == ["fifo"]


@both
@pytest.mark.parametrize("code", ["EIO", "ESTALE", "ETIMEDOUT"])
def test_standard_input_that_fails(server, folder, random, args, given, made, code):
    (folder / "in").write_bytes(given())
    reads = server.run(folder, (*args, "-o", "out"), stdin=str(folder / "in")).counts["read"]
    (folder / "out").unlink()
    for k in {1, reads, random.randint(1, reads)}:
        ran = server.run(folder, (*args, "-o", "out"), [("read", k, "on", code)], stdin=str(folder / "in"))
        clean(ran, 1)
        assert "standard input" in ran.err
        assert os.listdir(folder) == ["in"]


@both
@pytest.mark.parametrize("code", ["ENOSPC", "EIO", "EPIPE"])
def test_standard_output_that_fails(server, folder, random, args, given, made, code):
    (folder / "in").write_bytes(given())
    writes = server.run(folder, (*args, "-c", "in")).counts["write"]
    for k in {1, writes, random.randint(1, writes)}:
        ran = server.run(folder, (*args, "-c", "in"), [("write", k, "on", code)])
        clean(ran, READER_LEFT if code == "EPIPE" else 1)
        assert not ran.err or "standard output" in ran.err
        assert made().startswith(ran.out)
        assert ran.out != made()


@both
def test_standard_output_that_takes_little_at_a_time(server, folder, args, given, made):
    (folder / "in").write_bytes(given())
    ran = server.run(folder, (*args, "-c", "in"), [("write", 1, "on", "SHORT")])
    clean(ran, 0)
    assert ran.out == made()


@both
def test_signals_in_a_pipe(server, folder, random, args, given, made):
    (folder / "in").write_bytes(given())
    points = server.run(folder, args, stdin=str(folder / "in")).counts["any"]
    for k in random.sample(range(1, points + 1), 4):
        ran = server.run(folder, args, [("any", k, "once", "SIGTERM")], stdin=str(folder / "in"))
        clean(ran, 143)
        assert made().startswith(ran.out)


@pytest.mark.parametrize("args", ["compress -c", "list", "stats --json", "cat"])
def test_in_a_real_pipeline(folder, args):
    """As xz and zstd: silent, and 141 in PIPESTATUS. A table that fits into the pipe may get through."""
    (folder / "a.safetensors").write_bytes(dump())
    line = f'{SHELL} {args} a.safetensors | true; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment(), capture_output=True, check=False)
    assert done.stderr == b""
    assert int(done.stdout) in (0, READER_LEFT)


def test_a_fifo_that_is_named_and_no_standard_output(folder):
    (folder / "a.safetensors").write_bytes(dump_bytes(layers=16, tokens=256))  # more than a pipe holds
    line = f"mkfifo f; (head -c 9 f > /dev/null)& {SHELL} compress -1 a.safetensors -o f >&-; echo $? >&2"
    done = subprocess.run(["bash", "-c", line], cwd=folder, env=environment(), capture_output=True, check=False)
    assert done.stderr == b"141\n"


@pytest.mark.parametrize(("args", "code"), [(["-v"], 0), (["-v", "none"], 1), (["--nope"], 2)])
def test_a_log_that_is_full_changes_nothing_else(folder, args, code):
    (folder / "a.safetensors").write_bytes(dump())
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*COMMAND, "compress", "a.safetensors", *args], cwd=folder, env=environment(), stderr=full, check=False
        )
    assert done.returncode == code
    assert (folder / "a.safetensors.kvz").exists() == (code < 2)
