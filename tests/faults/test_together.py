"""Many processes at once: on one output, in one new folder, and reading what another replaces."""

from __future__ import annotations

import io
import os
import threading

import pytest

import kvzip
from tests.cli.tool import tree
from tests.faults.cases import dump, packed
from tests.faults.harness import content

MANY = 8


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    yield folder
    assert not [name for name in os.listdir(folder) if name.endswith(".kvzip-tmp")]


@pytest.fixture
def dumps(folder):
    """Different dumps by name, and what each becomes."""
    made = {}
    for number in range(MANY):
        (folder / f"{number}.safetensors").write_bytes(dump(number))
        made[f"{number}.safetensors.kvz"] = kvzip.compress(dump(number), level=1)
    return made


def whole_all_the_time(path, allowed, work):
    """Do ``work`` while ``path`` is read again and again: it must be one of ``allowed`` at every moment."""
    ended, seen = threading.Event(), []

    def watch():
        while not ended.is_set():
            seen.append(content(path) in allowed)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return work()
    finally:
        ended.set()
        watcher.join()
        assert all(seen)
        assert seen


def test_different_dumps_into_one_new_folder(server, folder, dumps):
    for round_ in range(2):
        target = f"new{round_}/er"
        ended = server.together(
            folder, [("compress", "-1", f"{n}.safetensors", "--output-dir", target) for n in range(MANY)]
        )
        assert all((ran.code, ran.err) == (0, "") for ran in ended), ended
        assert tree(folder / target) == dumps


def test_who_fails_does_not_take_the_folder_from_others(server, folder, dumps):
    """Each second run fails, and would remove the folder that it made."""
    (folder / "bad.safetensors").write_bytes(dump()[:-1])
    commands = [
        ("compress", "-1", "bad.safetensors" if n % 2 else f"{n}.safetensors", "--output-dir", "new/er/still")
        for n in range(MANY)
    ]
    for _ in range(3):
        ended = server.together(folder, commands)
        assert [ran.code for ran in ended] == [n % 2 for n in range(MANY)], ended
        assert set(tree(folder / "new/er/still")) == {f"{n}.safetensors.kvz" for n in range(0, MANY, 2)}
        for name in tree(folder / "new/er/still"):
            (folder / "new/er/still" / name).unlink()
        for name in ("new/er/still", "new/er", "new"):
            (folder / name).rmdir()


@pytest.mark.parametrize("args", [("compress", "-1", "a.safetensors"), ("decompress", "a.kvz")], ids=lambda a: a[0])
def test_of_many_with_one_output_one_wins(server, folder, args):
    (folder / "a.safetensors").write_bytes(dump())
    (folder / "a.kvz").write_bytes(packed())
    for round_ in range(2):
        target = f"out{round_}"
        ended = server.together(folder, [(*args, "-o", target)] * MANY)
        assert sorted(ran.code for ran in ended) == [0] + [1] * (MANY - 1), ended
        for ran in ended:
            assert not ran.code or "it exists" in ran.err or "it appeared meanwhile" in ran.err, ran
        assert content(folder / target) == (packed() if args[0] == "compress" else dump())


def test_of_many_folders_with_one_output_one_wins(server, folder):
    made = {"x/a.safetensors": dump(), "b.safetensors": dump(1)}
    for name, data in made.items():
        (folder / "d" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "d" / name).write_bytes(data)
    kvzip.compress(folder / "d", folder / "d.kvz", level=1)
    ended = server.together(folder, [("decompress", "d.kvz", "-o", "out")] * MANY)
    assert [ran.code for ran in ended].count(0) == 1, ended
    assert all(ran.code in (0, 1, 2) for ran in ended), ended  # 2: it was there before the run began
    assert content(folder / "out") == made


def test_by_force_the_output_is_whole_at_every_moment(server, folder, dumps):
    allowed = [*dumps.values(), b"old"]
    (folder / "out").write_bytes(b"old")
    commands = [("compress", "-1", "-f", f"{n}.safetensors", "-o", "out") for n in range(MANY)]
    for _ in range(2):
        ended = whole_all_the_time(folder / "out", allowed, lambda: server.together(folder, commands))
        assert all((ran.code, ran.err) == (0, "") for ran in ended), ended


def test_readers_see_the_old_or_the_new(server, folder, dumps):
    """``list``, ``test``, ``cat`` and kvzip.open, while other runs replace the container."""
    first, second = (folder / f"{n}.safetensors" for n in (0, 1))
    out = folder / "out.kvz"
    out.write_bytes(kvzip.compress(dump(0), level=1))
    args = {"cat": ("cat", "out.kvz"), "list": ("list", "--json", "out.kvz"), "test": ("test", "out.kvz")}
    expected = {}
    for name, command in args.items():
        answers = []
        for source in (first, second):
            server.run(folder, ("compress", "-1", "-f", str(source), "-o", "out.kvz"))
            answers.append(server.run(folder, command).out)
        expected[name] = answers
    replacing = [("compress", "-1", "-f", str(source), "-o", "out.kvz") for source in (first, second) * 2]
    keys = [kvzip.open(io_of(n)).tensor("layers.3.key").bits.tobytes() for n in (0, 1)]
    for _ in range(2):
        names = list(args) * 2
        seen, ended = [], threading.Event()

        def read(seen=seen, ended=ended):
            while not ended.is_set():
                with kvzip.open(out, threads=1) as container:
                    seen.append(container.tensor("layers.3.key").bits.tobytes())

        reader = threading.Thread(target=read)
        reader.start()
        runs = server.together(folder, [*replacing, *(args[name] for name in names)])
        ended.set()
        reader.join()
        assert all((ran.code, ran.err) == (0, "") for ran in runs), runs
        for name, ran in zip(names, runs[len(replacing) :], strict=True):
            assert ran.out in expected[name], name
        assert seen
        assert set(seen) <= set(keys)


def io_of(number: int) -> io.BytesIO:
    return io.BytesIO(kvzip.compress(dump(number), level=1))
