"""One server for all tests here, and the cases."""

from __future__ import annotations

import sys
from random import Random

import pytest

from tests.faults.cases import cases
from tests.faults.harness import Server
from tests.faults.trials import Trials

if not sys.platform.startswith("linux"):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def server():
    with Server() as running:
        yield running


@pytest.fixture(scope="session")
def all_cases(tmp_path_factory):
    return cases(tmp_path_factory.mktemp("cases"))


@pytest.fixture
def trials(server, tmp_path):
    return Trials(server, tmp_path / "work")


@pytest.fixture
def random(request):
    return Random(request.node.nodeid)
