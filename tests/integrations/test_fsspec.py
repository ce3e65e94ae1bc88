"""``.kvz`` as a compression of fsspec: read by its suffix, written by its name."""

from __future__ import annotations

import pytest

import kvzip
from kvzip.dumps.safetensors import dump_bytes

fsspec = pytest.importorskip("fsspec")

import kvzip.integrations.fsspec  # noqa: E402

DUMP = dump_bytes([("layers.0.key", "BF16", (1, 2, 100, 32), bytes(range(256)) * 50)])


@pytest.mark.parametrize("where", ["memory://folder", "file"])
def test_read_by_suffix_written_by_name(tmp_path, where):
    path = f"{tmp_path if where == 'file' else where}/x.safetensors.kvz"
    with fsspec.open(path, "wb", compression="kvzip") as file:
        file.write(DUMP[:1000])
        file.write(DUMP[1000:])
    with fsspec.open(path, "rb") as file:
        assert file.read() == kvzip.compress(DUMP)
    with fsspec.open(path, "rb", compression="infer") as file:
        assert file.read(8) == DUMP[:8]
        file.seek(0)
        assert file.read() == DUMP


def test_what_is_no_dump_or_damaged(tmp_path):
    with pytest.raises(kvzip.DumpError), fsspec.open(tmp_path / "x.kvz", "wb", compression="kvzip") as file:
        file.write(b"no dump")
    (tmp_path / "y.kvz").write_bytes(kvzip.compress(DUMP)[:-1])
    with pytest.raises(kvzip.ContainerError), fsspec.open(tmp_path / "y.kvz", compression="infer") as file:
        file.read()
