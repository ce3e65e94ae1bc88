"""Fleets of real worker processes: the same outputs as here, whatever becomes of a worker; a bad file fails alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import kvzip
from kvzip.errors import OptionError

distributed = pytest.importorskip("distributed")

from kvzip import fleet  # noqa: E402
from tests.cli.tool import dump_bytes  # noqa: E402

FILES = 12


@pytest.fixture(scope="module")
def cluster():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def dumps(tmp_path):
    folder = tmp_path / "dumps"
    (folder / "sub").mkdir(parents=True)
    for number in range(FILES):
        name = f"sub/{number}.safetensors" if number % 2 else f"{number}.safetensors"
        (folder / name).write_bytes(dump_bytes(layers=1 + number % 3, tokens=64))
    return folder


def wanted(folder):
    """The containers as they are made here, by name."""
    return {
        path.relative_to(folder).as_posix() + ".kvz": kvzip.compress(path.read_bytes())
        for path in folder.rglob("*.safetensors")
    }


def found(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_there_and_back(cluster, dumps, tmp_path):
    done = fleet.compress([dumps], tmp_path / "kvz", scheduler=cluster)
    assert len(done) == FILES
    assert not any(one.error for one in done)
    assert found(tmp_path / "kvz" / "dumps") == wanted(dumps)
    again = fleet.compress([dumps], tmp_path / "kvz", scheduler=cluster, skip_existing=True)
    assert [one.skipped for one in again] == ["there already"] * FILES
    done = fleet.decompress([tmp_path / "kvz"], tmp_path / "out", scheduler=cluster)
    assert sum(one.target_bytes for one in done) == sum(path.stat().st_size for path in dumps.rglob("*.safetensors"))
    assert found(tmp_path / "out" / "kvz" / "dumps") == found(dumps)


def test_a_bad_file_fails_alone(cluster, dumps, tmp_path):
    (dumps / "bad.safetensors").write_bytes(b"no dump")
    done = fleet.compress([dumps], tmp_path / "kvz", scheduler=cluster)
    errors = [one for one in done if one.error]
    assert [os.path.basename(one.job.source) for one in errors] == ["bad.safetensors"]
    assert "\n" not in errors[0].error
    (dumps / "bad.safetensors").unlink()
    assert found(tmp_path / "kvz" / "dumps") == wanted(dumps)


def test_a_worker_killed_half_way_costs_nothing(tmp_path):
    """SIGKILL in the middle of a file, again and again: every output is there, as it would be here."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    for number in range(8):
        (folder / f"{number}.safetensors").write_bytes(dump_bytes(layers=6, heads=2, tokens=256, dim=64))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as made,
        distributed.Client(made, set_as_default=False) as client,
    ):
        stop, killed = threading.Event(), []

        def kill():
            while not stop.is_set() and len(killed) < 3:
                busy = [worker for worker, tasks in client.processing().items() if tasks]
                pids = client.run(os.getpid) if busy else {}
                for worker in busy[:1]:
                    if worker in pids and list((tmp_path / "kvz").rglob(".*.kvzip-tmp")):
                        os.kill(pids[worker], signal.SIGKILL)
                        killed.append(worker)
                        time.sleep(1)
                time.sleep(0.01)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            done = fleet.compress([folder], tmp_path / "kvz", scheduler=client, level=6)
        finally:
            stop.set()
            killer.join()
    assert killed
    assert [one.error for one in done] == [""] * 8
    one = kvzip.compress((folder / "0.safetensors").read_bytes(), level=6)
    whole = {name: data for name, data in found(tmp_path / "kvz" / "dumps").items() if not name.startswith(".")}
    assert whole == {f"{number}.safetensors.kvz": one for number in range(8)}


def run(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "kvzip", *arguments], capture_output=True, text=True, check=False, timeout=120, cwd=cwd
    )


def test_the_command(cluster, dumps, tmp_path):
    address = cluster.scheduler.address
    (dumps / "bad.safetensors").write_bytes(b"no dump")
    done = run("compress", "-r", "dumps", "--output-dir", "kvz", "--scheduler", address, "--json", cwd=tmp_path)
    assert done.returncode == 1
    row = json.loads(done.stdout)
    assert (len(row["files"]), row["failed"]) == (FILES + 1, 1)
    assert done.stderr.count("\n") == 1
    assert "bad.safetensors" in done.stderr
    (dumps / "bad.safetensors").unlink()
    assert found(tmp_path / "kvz" / "dumps") == wanted(dumps)
    again = ("compress", "-r", "dumps", "--output-dir", "kvz", "--workers", "1", "--skip-existing", "-v")
    done = run(*again, cwd=tmp_path)
    assert done.returncode == 0
    assert done.stderr.count("there already") == FILES


def test_ctrl_c_ends_it(dumps, tmp_path):
    for number in range(40):
        (dumps / f"more{number}.safetensors").write_bytes(dump_bytes(layers=8, heads=2, tokens=256, dim=64))
    arguments = ("compress", "-9", "-r", "dumps", "--output-dir", "kvz", "--workers", "1")
    process = subprocess.Popen(
        [sys.executable, "-m", "kvzip", *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    for _ in range(600):
        if list((tmp_path / "kvz").rglob("*.kvz")):
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.count("\n") == 1, err
    time.sleep(1)
    names = [path.name for path in (tmp_path / "kvz").rglob("*.kvz")]
    for path in (tmp_path / "kvz").rglob("*.kvz"):
        kvzip.decompress(path)
    assert 0 < len(names) < FILES + 40


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--scheduler", "tcp://127.0.0.1:9"), 1, "no scheduler answers"),
        (("--scheduler", "nonsense"), 1, "no scheduler answers"),
        (("--scheduler", "tcp://127.0.0.1:9", "--workers", "2"), 2, "exclude each other"),
        (("--workers", "-1"), 2, "must be 1 or more"),
        (("--workers", "many"), 2, "whole number"),
    ],
)
def test_what_cannot_be_is_one_line(dumps, tmp_path, arguments, code, words):
    done = run("compress", "-r", "dumps", "--output-dir", "kvz", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (code, 1), done
    assert words in done.stderr
    assert not (tmp_path / "kvz").exists()


def test_standard_output_stays_here(dumps, tmp_path):
    done = run("compress", "-c", str(dumps / "0.safetensors"), "--workers", "1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "a fleet reads and writes files" in done.stderr


def test_without_dask_there_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(OptionError, match=r"kvzip\[dask\]"):
        fleet.Cluster(None, 1).__enter__()
