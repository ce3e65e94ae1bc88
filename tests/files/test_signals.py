"""Signals unwind the program: no temporary stays, and shells see 128 + the number."""

# ruff: noqa: PT012 - what happens inside the block of a target is the point

import os
import signal
import subprocess
import sys
import threading

import pytest

from kvzip.files.signals import Interrupted, interruptible

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
PROGRAM = """
import sys, time
from kvzip.files import DirectoryTarget, FileTarget, Interrupted, interruptible
try:
    with (
        interruptible(),
        FileTarget(sys.argv[1] + "/out") as target,
        DirectoryTarget(sys.argv[1] + "/tree") as tree,
        tree.create("a/b") as file,
    ):
        target.file.write(bytes(3_000_000))
        file.write(bytes(3_000_000))
        print("ready", flush=True)
        time.sleep(20)
except Interrupted as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


def start(folder, **options):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    assert process.stdout.readline() == "ready\n"
    return process


@posix
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_leaves_nothing_behind(tmp_path, name):
    signum = getattr(signal, name)
    process = start(tmp_path)
    assert len(os.listdir(tmp_path)) == 2
    process.send_signal(signum)
    process.send_signal(signum)  # as launchers that signal the program and its group
    _, errors = process.communicate(timeout=10)
    assert os.listdir(tmp_path) == []
    assert process.returncode == 128 + signum
    assert errors == f"interrupted by {name}\n"


@posix
def test_what_nohup_ignores_stays_ignored(tmp_path):
    process = start(tmp_path, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    process.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.2)
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 128 + signal.SIGTERM


@posix
def test_an_exception_no_handler_of_errors_holds_up_and_handlers_come_back():
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(Interrupted) as caught, interruptible():
        try:
            signal.raise_signal(signal.SIGTERM)
        except Exception:
            pytest.fail("caught as an error")
    assert caught.value.signum == signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


@posix
def test_a_second_signal_does_not_cut_the_clean_up_short_but_insisting_does(monkeypatch):
    cleaned = []
    with pytest.raises(Interrupted) as caught, interruptible():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
            cleaned.append(True)
    assert cleaned
    assert caught.value.signum == signal.SIGTERM
    monkeypatch.setattr("kvzip.files.signals._GRACE_SECONDS", 0.0)
    with pytest.raises(Interrupted) as caught, interruptible():
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGINT)
    assert caught.value.signum == signal.SIGINT


def test_other_threads_are_left_alone():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with interruptible():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
