"""Faults at points of a run: each kind, for each case, at a few of the points that ``run.py`` tries in full."""

from __future__ import annotations

import signal

import pytest

from tests.faults.cases import NAMES
from tests.faults.harness import ENDING


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_lost(trials, all_cases, random, name):
    one_of_each = list(trials.all_of(all_cases[name], 1, random))
    for trial in random.sample(one_of_each, 14):
        trials.attempt(all_cases[name], trial)


@pytest.mark.parametrize("name", ["compress --rm", "compress folder --rm", "decompress -f", "decompress folder"])
def test_signals_by_the_clock(trials, all_cases, random, name):
    for number in (*ENDING, signal.SIGKILL, signal.SIGKILL):
        trials.signal_by_the_clock(all_cases[name], number, random)


@pytest.mark.parametrize("action", ["read", "write"])
def test_a_call_that_hangs_can_be_interrupted(trials, all_cases, action):
    ran, outcome = trials.run(
        "hang", all_cases["compress -f"], ((action, 3, "once", "HANG"),), signals=[(0.5, signal.SIGINT)]
    )
    assert (ran.code, outcome) == (130, "old")
