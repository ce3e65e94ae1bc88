"""A dump and its container, made once; every test gets copies in a folder of its own."""

from __future__ import annotations

import pytest

from .tool import dump_bytes, kvzip, temporaries


@pytest.fixture(scope="session", autouse=True)
def warm(tmp_path_factory):
    """Kernels compiled and cached, so that no test waits for it nor sees the line that announces it."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "a.safetensors").write_bytes(dump_bytes())
    kvzip("compress", "-q", "a.safetensors", cwd=folder).ok()
    kvzip("decompress", "-q", "a.safetensors.kvz", "-o", "b", cwd=folder).ok()
    return folder


@pytest.fixture(scope="session")
def dump(warm) -> bytes:
    return (warm / "a.safetensors").read_bytes()


@pytest.fixture(scope="session")
def container(warm) -> bytes:
    return (warm / "a.safetensors.kvz").read_bytes()


@pytest.fixture
def folder(tmp_path, dump, container):
    """A folder with ``a.safetensors`` and ``c.safetensors.kvz``; no temporary may be left in it."""
    (tmp_path / "a.safetensors").write_bytes(dump)
    (tmp_path / "c.safetensors.kvz").write_bytes(container)
    yield tmp_path
    assert temporaries(tmp_path) == []


@pytest.fixture
def inside(capfd):
    """Run the command line in this process: for options that are refused before anything is read."""
    from kvzip.cli import main

    from .tool import Ran

    def run(*args: str) -> Ran:
        with pytest.raises(SystemExit) as leaving:
            main(list(args))
        out, err = capfd.readouterr()
        return Ran(leaving.value.code, out.encode(), err)

    return run
