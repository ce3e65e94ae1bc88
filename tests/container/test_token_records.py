"""What records of tokens say is worked out when it is wanted, and not kept without end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from kvzip.container import shared
from kvzip.container.shared import Met, Shared, TokenRecords, tokens_payload
from kvzip.errors import ContainerError
from kvzip.predict.tokens import Occurrences, identify

IDS = identify(bytes((n,)) for n in b"to be or not to be")


def counted(ids, calls):
    return lambda: calls.append(len(ids)) or ids


def test_a_record_is_read_when_it_is_asked_for():
    known = Shared()
    known.add(memoryview(tokens_payload(IDS)), "test")
    assert len(known.tokens) == 1
    assert known.tokens.held == {}
    found, expected = known.tokens[0], Occurrences.of(IDS)
    assert found.slots == expected.slots
    np.testing.assert_array_equal(found.times, expected.times)
    assert known.tokens[-1] is found


def test_those_asked_for_last_are_kept(monkeypatch):
    monkeypatch.setattr(shared, "MAX_TOKENS", 2 * len(IDS))
    tokens, calls = TokenRecords(), []
    for _ in range(3):
        tokens.append(counted(IDS, calls))
    for number in (0, 1, 0, 1):
        assert len(tokens[number].slot) == len(IDS)
    assert len(calls) == 2
    assert [len(one.slot) for one in (tokens[2], tokens[1], tokens[0])] == [len(IDS)] * 3
    assert len(calls) == 4
    assert len(tokens.held) == 2


def test_one_that_is_larger_than_all_that_is_kept(monkeypatch):
    monkeypatch.setattr(shared, "MAX_TOKENS", 1)
    tokens, calls = TokenRecords(), []
    tokens.append(counted(IDS, calls))
    assert tokens[0] is tokens[0]
    assert len(calls) == 1


def test_threads_ask_at_once():
    tokens, calls = TokenRecords(), []
    for _ in range(4):
        tokens.append(counted(IDS, calls))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: tokens[n % 4], range(400)))
    assert len({id(one) for one in found}) == len(calls) == 4


def test_numbers_beyond_the_end_are_none():
    tokens = TokenRecords()
    with pytest.raises(IndexError):
        tokens[0]


@pytest.mark.parametrize("payload", [b"\2\5\0\4" + bytes(4), b"\2\1\2\1\0", b"\2\1\0", b"\2"])
def test_a_record_whose_numbers_cannot_be_is_refused_at_once(payload):
    with pytest.raises(ContainerError):
        Shared().add(memoryview(payload), "test")


@pytest.mark.parametrize("payload", [b"\2\2\0\2\0\5", b"\2\1\0\2\0\0", b"\2\1\1\2\0\0"])
def test_one_whose_ids_cannot_be_is_refused_when_it_is_used(payload):
    known = Shared()
    known.add(memoryview(payload), "test")
    with pytest.raises(ContainerError):
        known.tokens[0]


def test_what_was_met_does_not_grow():
    whole = [1, 2]
    met = Met(whole)
    whole.append(3)
    assert list(met) == [1, 2] == met[:]
    assert met[-1] == 2
    with pytest.raises(IndexError):
        met[2]
