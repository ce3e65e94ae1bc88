"""Too little memory is one line, and nothing half-written: limits on the address space, and blocks that find none."""

from __future__ import annotations

import os
import resource
import subprocess
import threading

import pytest

from kvzip.cli import main
from kvzip.pipeline import room
from kvzip.pipeline.schedule import ChainPool
from tests.cli.tool import COMMAND, dump_bytes, environment
from tests.faults.cases import dump, packed

MIB = 1 << 20


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.safetensors").write_bytes(dump())
    (tmp_path / "a.kvz").write_bytes(packed())
    return tmp_path


def limited(folder, *args, mebibytes):
    """A process of its own, from its start."""
    size = mebibytes * MIB
    return subprocess.run(
        [*COMMAND, *args],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (size, size)),
    )


@pytest.mark.parametrize("name", ["compress", "compress -6", "decompress -f", "decompress -6", "decompress folder"])
def test_little_that_is_left(trials, all_cases, random, name):
    for power in range(12, 25, 2):
        trials.memory_limit(all_cases[name], random.randint(1 << power, 2 << power))


@pytest.mark.parametrize("args", [["compress", "-1", "a.safetensors"], ["decompress", "a.kvz"], ["test", "a.kvz"]])
def test_a_limit_from_the_start(folder, args):
    before = sorted(os.listdir(folder))
    for mebibytes in (100, 400):
        ran = limited(folder, *args, mebibytes=mebibytes)
        assert ran.returncode == 1, ran
        assert ran.stderr.startswith("kvzip: out of memory"), ran
        assert "ulimit -v" in ran.stderr
        assert len(ran.stderr.splitlines()) == 1
        assert sorted(os.listdir(folder)) == before
    ran = limited(folder, *args, "-T8", mebibytes=room.START // MIB)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_list_needs_little(folder):
    ran = limited(folder, "list", "a.kvz", mebibytes=100)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.parametrize(
    ("limit", "threads"), [(None, 64), (0, 1), (room.START, 1), (room.START + room.THREAD, 2), (1 << 50, 64)]
)
def test_fewer_threads_where_there_is_little_room(monkeypatch, limit, threads):
    monkeypatch.setattr(room, "address_space", lambda: limit)
    assert room.threads_that_fit(64) == threads


def test_a_pool_does_with_the_threads_that_it_gets(monkeypatch):
    start, started = threading.Thread.start, []

    def fail(thread):
        if len(started) == 2:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail)
    with ChainPool(8, 100) as pool:
        for number in range(50):
            pool.submit(number % 5, 1, lambda number=number: number)
        assert list(pool.results(everything=True)) == list(range(50))
    assert len(started) == 2


def test_no_thread_for_many_files_is_one_line(folder, monkeypatch, capsys):
    for number in range(4):
        (folder / f"{number}.safetensors").write_bytes(dump_bytes(seed=number))

    def fail(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(SystemExit) as leaving:
        main(["compress", "-q", "-T4", *(f"{number}.safetensors" for number in range(4))])
    assert leaving.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "thread" in line


def test_a_file_for_which_there_is_no_memory_fails_alone(folder, monkeypatch, capsys):
    from kvzip.cli import work

    compress_one = work._compress_one

    def fail(job, *rest):
        if "bad" in str(job.source):
            raise MemoryError
        return compress_one(job, *rest)

    (folder / "bad.safetensors").write_bytes(dump())
    monkeypatch.chdir(folder)
    monkeypatch.setattr(work, "_compress_one", fail)
    with pytest.raises(SystemExit) as leaving:
        main(["compress", "-q", "bad.safetensors", "a.safetensors"])
    assert leaving.value.code == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "bad.safetensors: out of memory" in line
    assert (folder / "a.safetensors.kvz").exists()
