"""What a signal in the middle of a clean-up leaves is taken back at the end."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from kvzip.files import DirectoryTarget, FileTarget, Interrupted, unfinished


def cut_short(monkeypatch, module, name):
    """A signal before the first call."""
    call, calls = getattr(module, name), []

    def interrupted(*args, **named):
        calls.append(args)
        if len(calls) == 1:
            raise Interrupted(signal.SIGTERM)
        return call(*args, **named)

    monkeypatch.setattr(module, name, interrupted)


@pytest.mark.parametrize(
    ("target", "module", "name"), [(FileTarget, os, "unlink"), (DirectoryTarget, shutil, "rmtree")]
)
def test_a_clean_up_goes_on_where_it_was_cut_short(folder, monkeypatch, target, module, name):
    cut_short(monkeypatch, module, name)
    with pytest.raises(Interrupted), target(folder / "new" / "out", parents=True):
        raise ValueError
    assert len(os.listdir(folder / "new")) == 1
    unfinished.discard_all()
    assert os.listdir(folder) == []
    unfinished.discard_all()


def test_what_was_committed_stays(folder):
    with FileTarget(folder / "out") as target:
        target.file.write(b"x")
        target.commit()
    unfinished.discard_all()
    assert os.listdir(folder) == ["out"]
