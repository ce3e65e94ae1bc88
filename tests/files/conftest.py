"""What the tests of targets share."""

import os

import pytest

from kvzip.files.placement import is_temporary


@pytest.fixture
def folder(tmp_path):
    """A folder that must be free of temporaries at the end of the test."""
    yield tmp_path
    assert not any(is_temporary(name) for name in os.listdir(tmp_path))
