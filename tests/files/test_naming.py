"""Each input gets its own output, settled before anything is written."""

import os
from pathlib import Path

import pytest

from kvzip.errors import DumpError, OptionError
from kvzip.files.naming import Job, compressed_name, is_container_name, plan_outputs, restored_name


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """The current folder, with files to compress and to restore."""
    for name in (
        "one",
        "two",
        "dumps/a.10",
        "dumps/a.2",
        "dumps/sub/b",
        "dumps/sub/old.kvz",
        "more/a.2",
        "-",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def pairs(plan):
    return [(str(job.source), str(job.target)) for job in plan.jobs]


@pytest.mark.parametrize("name", ["a", "a.b/c.safetensors", "/x/y", "a.kvz"])
def test_names_there_and_back(name):
    assert compressed_name(Path(name)) == Path(name + ".kvz")
    assert restored_name(compressed_name(Path(name))) == Path(name)


def test_container_names():
    assert is_container_name("x/a.kvz")
    assert is_container_name(Path("A.KVZ"))
    assert restored_name(Path("A.KVZ")) == Path("A")
    for name in ("a", ".kvz", "x/.kvz", "a.kvz.tmp", "akvz"):
        assert not is_container_name(name)
        with pytest.raises(OptionError, match="-o"):
            restored_name(Path(name))


def test_dots_stand_for_the_folder_they_name(tree, monkeypatch):
    assert compressed_name(Path("dumps/")) == Path("dumps.kvz")
    monkeypatch.chdir(tree / "dumps")
    assert compressed_name(Path(".")) == Path("../dumps.kvz")
    assert os.path.realpath(compressed_name(Path(".."))) == os.fspath(tree) + ".kvz"
    assert os.path.realpath(compressed_name(Path("sub/.."))) == os.fspath(tree / "dumps.kvz")
    with pytest.raises(OptionError, match="-o"):
        compressed_name(Path("/"))


def test_single_inputs(tree):
    assert pairs(plan_outputs(["one", "two"])) == [("one", "one.kvz"), ("two", "two.kvz")]
    assert pairs(plan_outputs(["one.kvz"], decompress=True)) == [("one.kvz", "one")]
    assert pairs(plan_outputs(["one"], output="new/x")) == [("one", "new/x")]
    assert pairs(plan_outputs(["one"], output="-")) == [("one", "-")]
    assert pairs(plan_outputs(["absent"])) == [("absent", "absent.kvz")]
    assert plan_outputs(["one"], output_dir="out").jobs == [Job(Path("one"), Path("out/one.kvz"), parents=True)]


def test_standard_streams_and_the_file_named_dash(tree):
    assert plan_outputs(["-"]).jobs == [Job("-", "-")]
    assert plan_outputs(["-"], output="x").jobs == [Job("-", Path("x"))]
    assert plan_outputs(["./-"]).jobs == [Job(Path("-"), Path("-.kvz"))]
    assert plan_outputs(["one"], output="./-").jobs == [Job(Path("one"), Path("-"))]
    assert len(plan_outputs(["-", "./-"]).jobs) == 2


def test_a_folder_is_one_container(tree, monkeypatch):
    assert plan_outputs(["dumps/"]).jobs == [Job(Path("dumps"), Path("dumps.kvz"), directory=True)]
    assert pairs(plan_outputs(["dumps"], output_dir="out")) == [("dumps", "out/dumps.kvz")]
    with pytest.raises(OptionError, match="lies in the folder"):
        plan_outputs(["dumps"], output="dumps/all.kvz")
    with pytest.raises(OptionError, match="-r"):
        plan_outputs(["dumps"], decompress=True)
    monkeypatch.chdir("dumps")
    assert pairs(plan_outputs(["."])) == [(".", "../dumps.kvz")]


def test_recursive(tree, monkeypatch):
    plan = plan_outputs(["dumps/"], recursive=True)
    assert pairs(plan) == [(f"dumps/{name}", f"dumps/{name}.kvz") for name in ("a.2", "a.10", "sub/b")]
    assert plan.containers == [Path("dumps/sub/old.kvz")]
    plan = plan_outputs(["dumps", "more", "one"], recursive=True, output_dir="out")
    assert [target for _, target in pairs(plan)] == [
        "out/dumps/a.2.kvz",
        "out/dumps/a.10.kvz",
        "out/dumps/sub/b.kvz",
        "out/more/a.2.kvz",
        "out/one.kvz",
    ]
    plan = plan_outputs(["dumps"], recursive=True, decompress=True)
    assert pairs(plan) == [("dumps/sub/old.kvz", "dumps/sub/old")]
    monkeypatch.chdir("dumps")
    plan = plan_outputs(["."], recursive=True, output_dir="../out", decompress=True)
    assert pairs(plan) == [("sub/old.kvz", "../out/dumps/sub/old")]


def test_given_twice_counts_once(tree):
    (tree / "link").symlink_to("one")
    plan = plan_outputs(["one", "./one", str(tree / "one"), "link", "dumps/a.2", "dumps"], recursive=True)
    assert [source for source, _ in pairs(plan)] == ["one", "dumps/a.2", "dumps/a.10", "dumps/sub/b"]
    assert pairs(plan_outputs(["one", "one"], output="x")) == [("one", "x")]


@pytest.mark.parametrize(
    ("inputs", "options", "match"),
    [
        (["one", "two"], {"output": "x"}, "2 inputs"),
        (["one", "two"], {"output": "-"}, "2 inputs"),
        (["one"], {"output": "dumps"}, "--output-dir"),
        (["one"], {"output": "absent/"}, "--output-dir"),
        (["one"], {"output": "x", "output_dir": "out"}, "exclude"),
        (["one"], {"output_dir": "two"}, "no folder"),
        (["-"], {"output_dir": "out"}, "standard input"),
        (["dumps"], {"output": "x", "recursive": True}, "--output-dir"),
        (["dumps/a.2", "more/a.2"], {"output_dir": "out"}, "two inputs for one output"),
        (["one.kvz", "one.KVZ"], {"decompress": True}, "two inputs for one output"),
        (["one"], {"decompress": True}, "-o"),
    ],
)
def test_usage_errors(tree, inputs, options, match):
    with pytest.raises(OptionError, match=match) as caught:
        plan_outputs(inputs, **options)
    assert caught.value.exit_code == 2
    assert not (tree / "out").exists()


def test_a_missing_container_is_missing_rather_than_wrongly_named(tree):
    with pytest.raises(DumpError, match="no such file"):
        plan_outputs(["absent"], decompress=True)
