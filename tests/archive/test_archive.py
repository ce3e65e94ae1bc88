"""Archives of caches that have something in common: smaller than apart, and each comes back to the bit."""

from __future__ import annotations

import os

import pytest

import kvzip
from kvzip.api_archive import place_of
from kvzip.archive.directory import Entry
from kvzip.archive.pack import MOST_STEPS
from kvzip.archive.unpack import Archive

from .conftest import TOKENS, cache


@pytest.mark.parametrize("level", [1, 3, 6])
def test_smaller_than_apart_and_back_to_the_bit(folder, caches, level):
    entries = kvzip.pack([folder / name for name in caches], folder / "all.kva", level=level, threads=2)
    apart = sum(len(kvzip.compress(data, level=level)) for data in caches.values())
    assert (folder / "all.kva").stat().st_size < apart / 1.5
    drafts = {entry.name.rpartition("/")[2]: entry.draft for entry in entries}
    assert drafts["whole.safetensors"] is drafts["stranger.safetensors"] is None
    assert None not in [drafts[name] for name in caches if name.split(".")[0] not in ("whole", "stranger")]
    made = kvzip.unpack(folder / "all.kva", folder / "out", threads=2)
    assert [path.read_bytes() for path in made] == list(caches.values())


def test_one_alone_takes_what_it_needs_and_nothing_else(folder, caches, monkeypatch):
    names = list(caches)
    monkeypatch.chdir(folder)
    entries = kvzip.pack(names, "all.kva")
    read = []
    container = Archive.container
    monkeypatch.setattr(Archive, "container", lambda self, number: read.append(number) or container(self, number))
    for number, name in enumerate(names):
        read.clear()
        (path,) = kvzip.unpack("all.kva", folder / "one", [name], force=True)
        assert path.read_bytes() == caches[name]
        chain = [number]
        while entries[chain[-1]].draft is not None:
            chain.append(entries[chain[-1]].draft)
        assert read == sorted(chain)
        assert sorted(os.listdir(folder / "one")) == [name]
        path.unlink()


def test_a_sibling_is_relative_to_what_they_share(folder, caches):
    entries = kvzip.pack([folder / f"{name}.safetensors" for name in ("whole", "sibling")], folder / "x.kva")
    assert entries[1].draft == 0
    assert abs(entries[1].tokens - TOKENS // 2) <= 2
    alone = len(kvzip.compress(caches["sibling.safetensors"]))
    assert entries[1].length < 0.8 * alone


def test_chains_end(tmp_path, prompts):
    names = [tmp_path / f"{number}.safetensors" for number in range(MOST_STEPS + 4)]
    for number, path in enumerate(names):
        path.write_bytes(cache(prompts[0][: 20 + 8 * number]))
    entries = kvzip.pack(names, tmp_path / "x.kva")
    steps = []
    for entry in entries:
        steps.append(0 if entry.draft is None else steps[entry.draft] + 1)
    assert max(steps) == MOST_STEPS
    made = kvzip.unpack(tmp_path / "x.kva", tmp_path / "out")
    assert [path.read_bytes() for path in made] == [path.read_bytes() for path in names]


def test_dumps_without_a_cache_and_empty_archives(tmp_path):
    from kvzip.dumps.safetensors import dump_bytes

    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_bytes(dump_bytes([("x", "I64", (3,), bytes(24))]))
    kvzip.pack(paths, tmp_path / "x.kva")
    made = kvzip.unpack(tmp_path / "x.kva", tmp_path / "out")
    assert [path.read_bytes() for path in made] == [path.read_bytes() for path in paths]
    kvzip.pack([], tmp_path / "none.kva")
    assert kvzip.unpack(tmp_path / "none.kva", tmp_path / "out") == []


def test_what_is_no_dump_leaves_no_archive(folder):
    (folder / "bad.safetensors").write_bytes(b"x")
    with pytest.raises(kvzip.DumpError):
        kvzip.pack([folder / "whole.safetensors", folder / "bad.safetensors"], folder / "x.kva")
    assert not (folder / "x.kva").exists()
    with pytest.raises(kvzip.DumpError, match="two files"):
        kvzip.pack([folder / "whole.safetensors", f"{folder}/./whole.safetensors"], folder / "x.kva")
    for options in ({"draft": b""}, {"prior": b""}):
        with pytest.raises(kvzip.KvzipError):
            kvzip.pack([folder / "whole.safetensors"], folder / "x.kva", **options)


def test_a_draft_that_changes_meanwhile_is_told(folder, monkeypatch):
    from kvzip.archive import pack

    seen = []

    def later(path):
        seen.append(path)
        return (len(seen), 0, 0)

    monkeypatch.setattr(pack, "_status", later)
    with pytest.raises(kvzip.DumpError, match="changed"):
        kvzip.pack([folder / "whole.safetensors", folder / "served.safetensors"], folder / "x.kva")
    assert not (folder / "x.kva").exists()


def test_damage_is_told_and_leaves_no_file(folder, caches):
    names = ["whole.safetensors", "served.safetensors", "stranger.safetensors"]
    entries = kvzip.pack([folder / name for name in names], folder / "x.kva")
    data = bytearray((folder / "x.kva").read_bytes())
    data[entries[0].offset + entries[0].length // 2] ^= 1
    (folder / "x.kva").write_bytes(data)
    for name in (*names[:2],):
        with pytest.raises(kvzip.ContainerError, match="whole"):
            kvzip.unpack(folder / "x.kva", folder / "out", [f"*{name}"])
    (path,) = kvzip.unpack(folder / "x.kva", folder / "out", [f"*{names[2]}"])
    assert path.read_bytes() == caches[names[2]]
    assert [name for _, _, names in os.walk(folder / "out") for name in names] == [names[2]]


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "", "a//b", "a\0b"])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    with pytest.raises(kvzip.ContainerError, match="unsafe"):
        place_of(Entry(name, 0, 0, 0), tmp_path)


def test_a_container_is_no_archive_nor_the_other_way_round(folder):
    kvzip.compress(folder / "whole.safetensors", folder / "x.kvz")
    kvzip.pack([folder / "whole.safetensors"], folder / "x.kva")
    with pytest.raises(kvzip.ContainerError, match="kvzip pack"):
        kvzip.unpack(folder / "x.kvz", folder / "out")
    with pytest.raises(kvzip.ContainerError, match="kvzip unpack"):
        kvzip.decompress(folder / "x.kva", folder / "y")
