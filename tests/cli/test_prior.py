"""``kvzip prior`` and the ``--prior`` of the other commands."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from .tool import dump_bytes, kvzip, tree

PROSE = Path(__file__).resolve().parents[2] / "fixtures/real/prose_bf16.safetensors"
GRID = {"types", "trained", "contexts", "classes"}
SHOWN = {"command", "file", "identity", "embedded", "name", "bytes", "grids"}


@pytest.fixture(scope="module")
def prior(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("prior")
    (folder / "dumps").mkdir()
    shutil.copy(PROSE, folder / "dumps/b.safetensors")
    kvzip("prior", "train", "dumps", "-o", "our.kvp", cwd=folder).quiet()
    return (folder / "our.kvp").read_bytes()


@pytest.fixture(autouse=True)
def here(folder, prior, monkeypatch):
    (folder / "our.kvp").write_bytes(prior)
    monkeypatch.chdir(folder)


def test_training_again_gives_the_same_bytes(folder, inside, prior):
    shutil.copy(PROSE, folder / "b.safetensors")
    run = inside("prior", "train", "b.safetensors", "-T1", "--name", "our", "-o", "again", "--json").quiet()
    assert (folder / "again").read_bytes() == prior
    assert set(run.json) == SHOWN | {"seconds"}
    assert run.json["bytes"] == len(prior)
    run = kvzip("prior", "train", "b.safetensors", "--name", "our", "-o", "-", "-v")
    assert run.out == prior
    assert "xxh3:" in run.err


def test_training_overwrites_only_when_told(folder, inside):
    inside("prior", "train", "a.safetensors", "-o", "our.kvp").fails(1, "our.kvp", "-f")
    inside("prior", "train", "a.safetensors", "-o", "a.safetensors", "-f").fails(1, "a.safetensors")
    (folder / "o").write_bytes(dump_bytes(names=["whatever"]))
    inside("prior", "train", "o", "-o", "new").fails(1, "nothing in these dumps")
    inside("prior", "train", "-o", "new").fails(2, "DUMP")
    inside("prior", "train", "missing", "-o", "new").fails(1, "missing")
    assert not (folder / "new").exists()


def test_show(inside):
    text = inside("prior", "show", "our.kvp").quiet().text
    assert all(word in text for word in ("our", "xxh3:", "BF16", "contexts", "61"))
    found = inside("prior", "show", "--json", "our.kvp").quiet().json
    assert set(found) == SHOWN
    assert [grid["trained"] for grid in found["grids"]] == [False, False, True, False]
    assert all(set(grid) == GRID for grid in found["grids"])
    assert found["identity"] in text
    builtin = inside("prior", "show", "--json").quiet().json
    assert (builtin["identity"], builtin["name"], builtin["bytes"]) == ("residuals-1", None, None)
    assert "residuals-1" in inside("prior", "show", "c.safetensors.kvz").text
    inside("prior", "show", "a.safetensors").fails(1, "no prior file", "kvzip prior train")


def test_a_container_that_needs_a_prior(folder, inside, dump):
    inside("compress", "a.safetensors", "--prior", "our.kvp").quiet()
    name = "a.safetensors.kvz"
    found = inside("prior", "show", "--json", name).quiet().json
    identity = found["identity"]
    assert (found["embedded"], found["grids"]) == (False, [])
    assert "not in the container" in inside("prior", "show", name).text
    before = tree(folder)
    inside("decompress", name, "-o", "b").fails(1, identity, "--prior")
    inside("decompress", "-c", name).fails(1, identity, "--prior")
    inside("test", name).fails(1, identity, "--prior")
    inside("stats", name).fails(1, identity, "--prior")
    assert tree(folder) == before
    assert inside("list", "--json", name).quiet().json["files"][0]["prior"] == identity
    assert identity in inside("list", name).text
    inside("decompress", name, "-o", "b", "--prior", "our.kvp").quiet()
    assert (folder / "b").read_bytes() == dump
    inside("test", name, "c.safetensors.kvz", "--prior", "our.kvp").quiet()
    inside("stats", "--json", name, "--prior", "our.kvp").quiet()


def test_wrong_and_damaged_priors(folder, inside, prior):
    inside("compress", "a.safetensors", "--prior", "our.kvp").quiet()
    name = "a.safetensors.kvz"
    inside("prior", "train", str(PROSE), "--name", "other", "-o", "other.kvp").quiet()
    inside("decompress", name, "-o", "b", "--prior", "other.kvp").fails(1, "the one given is")
    (folder / "bad.kvp").write_bytes(prior[:-1] + bytes((prior[-1] ^ 1,)))
    for command in (["decompress", name, "-o", "b"], ["test", name], ["stats", name], ["compress", "a.safetensors"]):
        inside(*command, "--prior", "bad.kvp").fails(1, "bad.kvp", "damaged")
        inside(*command, "--prior", "missing.kvp").fails(1, "missing.kvp")
    assert not (folder / "b").exists()


def test_an_embedded_prior_is_used(folder, inside, dump):
    inside("compress", "a.safetensors", "--prior", "our.kvp", "--embed-prior", "-3").quiet()
    name = "a.safetensors.kvz"
    found = inside("prior", "show", "--json", name).quiet().json
    assert (found["embedded"], found["name"]) == (True, "our")
    assert "in the container" in inside("prior", "show", name).text
    inside("test", name).quiet()
    assert kvzip("decompress", stdin=(folder / name).read_bytes()).out == dump


def test_removal_after_a_check_with_a_prior(folder, inside):
    inside("compress", "--rm", "--verify", "a.safetensors", "--prior", "our.kvp").quiet()
    assert not (folder / "a.safetensors").exists()


def test_options_that_make_no_sense(inside):
    inside("compress", "a.safetensors", "--embed-prior").fails(2, "--embed-prior", "--prior FILE")
    inside("compress", "-1", "a.safetensors", "--prior", "our.kvp").fails(2, "--prior", "level")
