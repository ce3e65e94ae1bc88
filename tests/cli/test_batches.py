"""Lists of files, patterns, runs that are taken up again, and files done side by side."""

from __future__ import annotations

import os
import signal
import time

import pytest

from .tool import dump_bytes, kvzip, start, temporaries, terminal, tree


@pytest.fixture(autouse=True)
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)


@pytest.fixture
def dumps(folder):
    """Twelve dumps in two folders."""
    for number in range(12):
        path = folder / "dumps" / str(number % 2) / f"{number}.safetensors"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(dump_bytes(seed=number, layers=1))
    return folder / "dumps"


def names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


# -- which files


@pytest.mark.parametrize("end", ["\n", "\r\n", "\0"])
def test_a_list_mirrors_its_folders(folder, inside, dumps, end):
    listed = [name for name in names(folder) if name.startswith("dumps")]
    (folder / "list").write_bytes((end.join(listed) + end + ("" if end == "\0" else "\n\n")).encode())
    null = ["-0"] if end == "\0" else []
    inside("compress", *null, "--files-from", "list", "--output-dir", "out").ok()
    assert names(folder / "out") == [f"{name}.kvz" for name in listed]
    (folder / "odd").write_bytes(b"" if null else "\ufeffdumps/1/../0/0.safetensors\n".encode())
    inside("compress", "--files-from", "odd", "--output-dir", "odds").ok()
    assert null or names(folder / "odds") == ["dumps/0/0.safetensors.kvz"]
    absolute = str(folder / listed[0])
    (folder / "one").write_bytes(absolute.encode())
    inside("compress", "--files-from", "one", "--output-dir", "again").ok()
    assert names(folder / "again") == [absolute[1:] + ".kvz"]


def test_a_list_on_standard_input_and_names_beside_it(folder, dumps):
    run = kvzip("compress", "a.safetensors", "--files-from", "-", cwd=folder, stdin=b"dumps/0/0.safetensors")
    run.ok()
    assert (folder / "a.safetensors.kvz").exists()
    assert (folder / "dumps/0/0.safetensors.kvz").exists()


def test_a_name_with_a_line_end(folder, inside, dump):
    (folder / "odd\nname").write_bytes(dump)
    (folder / "list").write_bytes(b"odd\nname\0")
    inside("compress", "-0", "--files-from", "list").ok()
    assert (folder / "odd\nname.kvz").exists()


@pytest.mark.parametrize(
    ("content", "args", "code", "words"),
    [
        (b"", [], 0, ["the list is empty"]),
        (b"none\n", [], 1, ["none"]),
        (b"-\n", [], 2, ["standard input"]),
        (b"a.safetensors\0", [], 2, ["-0"]),
        (b"../x\n", ["--output-dir", "out"], 2, ["../x", "--output-dir"]),
    ],
)
def test_lists_that_cannot_be_meant(folder, inside, content, args, code, words):
    (folder / "list").write_bytes(content)
    inside("compress", "--files-from", "list", *args).fails(code, *words)
    assert names(folder) == ["a.safetensors", "c.safetensors.kvz", "list"]


def test_options_of_lists(inside):
    inside("compress", "-0", "a.safetensors").fails(2, "--files-from")
    inside("compress", "--files-from", "-", "-").fails(2, "--files-from")
    inside("compress", "--files-from", "nowhere").fails(1, "nowhere")


def test_patterns_that_the_shell_left_alone(folder, inside, dumps):
    inside("compress", "dumps/0/*.safetensors").ok()
    assert sum(name.endswith(".kvz") for name in names(dumps)) == 6
    inside("test", "dumps/**/*.kvz", "c.*").ok()
    inside("compress", "dumps/1/[13].safetensors", "-q").ok()
    assert sum(name.endswith(".kvz") for name in names(dumps)) == 8
    inside("compress", "*.none").fails(1, "no file matches", "*.none")
    (folder / "[x].safetensors").write_bytes((folder / "a.safetensors").read_bytes())
    inside("compress", "[x].safetensors").quiet()


@pytest.mark.parametrize("command", ["list", "stats"])
def test_looking_at_a_tree(folder, inside, dumps, command):
    (dumps / "notes.txt").write_text("no dump")
    inside("compress", "dumps/0/0.safetensors").quiet()
    files = inside(command, "-r", "dumps", "--json").ok().json["files"]
    assert len(files) == 13
    inside(command, "-r", "a.safetensors").ok()
    (folder / "empty").mkdir()
    inside(command, "-r", "empty").fails(1, "empty")


def test_checking_a_tree(folder, inside, dumps, container):
    inside("compress", "-r", "dumps", "--output-dir", "out").ok()
    assert len(inside("test", "-r", "out", "--json").ok().json["files"]) == 12
    (folder / "out" / "bad.kvz").write_bytes(container[:-3])
    run = inside("test", "-r", "out", "--json")
    assert (run.code, len(run.json["files"])) == (1, 13)


def test_totals(inside, dumps):
    total = inside("stats", "-r", "dumps", "--json").ok().json["total"]
    assert total["files"] == 12
    assert total["source_bytes"] == sum(len(data) for data in tree(dumps).values())
    assert total["kinds"]["key"]["values"] == 12 * 32 * 32
    shown = inside("stats", "-r", "dumps").text
    assert "12 files" in shown
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "1 files" not in inside("stats", "a.safetensors").text


# -- again


def test_what_is_done_is_skipped(folder, inside, dumps):
    run = inside("compress", "-r", "dumps", "--skip-existing", "--json").ok()
    assert not any(row["skipped"] for row in run.json["files"])
    before = {name: (dumps / name).stat().st_mtime_ns for name in names(dumps) if name.endswith(".kvz")}
    inodes = {name: (dumps / name).stat().st_ino for name in before}
    run = inside("compress", "-r", "dumps", "--skip-existing", "--json").ok()
    assert [row["skipped"] for row in run.json["files"]] == ["there already"] * 12
    assert inodes == {name: (dumps / name).stat().st_ino for name in before}


def test_what_is_old_cut_or_of_something_else_is_made_again(folder, inside, dump, container):
    target = folder / "a.safetensors.kvz"
    newer = time.time() + 100
    other = folder / "other.kvz"
    (folder / "b").write_bytes(dump_bytes(tokens=48))
    inside("compress", "b", "-o", "other.kvz").quiet()
    for content in (container[:-1], container[: len(container) // 2], container[:5], b"", other.read_bytes()):
        target.write_bytes(content)
        os.utime(target, (newer, newer))
        inside("compress", "--skip-existing", "a.safetensors").quiet()
        assert target.read_bytes() == container
    target.write_bytes(b"something else")
    inside("compress", "--skip-existing", "a.safetensors").fails(1, "exists", "-f")
    assert target.read_bytes() == b"something else"
    inside("compress", "-f", "--skip-existing", "a.safetensors").quiet()
    os.utime(folder / "a.safetensors", (newer, newer))
    inode = target.stat().st_ino
    inside("compress", "--skip-existing", "a.safetensors").quiet()
    assert target.stat().st_ino != inode
    assert inside("compress", "-v", "--skip-existing", "a.safetensors").ok().err.count("there already") == 1


def test_what_was_restored_is_skipped_too(folder, inside, dump, dumps):
    inside("decompress", "--skip-existing", "c.safetensors.kvz").quiet()
    inode = (folder / "c.safetensors").stat().st_ino
    inside("decompress", "--skip-existing", "c.safetensors.kvz").quiet()
    assert (folder / "c.safetensors").stat().st_ino == inode
    (folder / "c.safetensors").write_bytes(dump[:-1])
    inside("decompress", "--skip-existing", "c.safetensors.kvz").fails(1, "exists", "-f")
    assert (folder / "c.safetensors").read_bytes() == dump[:-1]
    inside("decompress", "-f", "--skip-existing", "c.safetensors.kvz").quiet()
    assert (folder / "c.safetensors").read_bytes() == dump
    before = tree(dumps)
    inside("compress", "dumps").quiet()
    row = inside("compress", "--skip-existing", "--json", "dumps").ok().json["files"][0]
    assert row["skipped"] == "there already"
    inode = (dumps / "0").stat().st_ino
    inside("decompress", "--skip-existing", "dumps.kvz").quiet()
    assert (dumps / "0").stat().st_ino == inode
    (dumps / "0" / "0.safetensors").unlink()
    inside("decompress", "--skip-existing", "dumps.kvz").fails(1, "exists")
    inside("decompress", "-f", "--skip-existing", "dumps.kvz").quiet()
    assert tree(dumps) == before


def test_a_killed_run_is_taken_up_again(folder, dumps):
    """Whatever the kill hit: afterwards all outputs are right, and what was whole was left alone."""
    for number in range(12, 60):
        (dumps / "0" / f"{number}.safetensors").write_bytes(dump_bytes(seed=number, layers=2, tokens=128, dim=64))
    command = ("compress", "-r", "dumps", "--output-dir", "out", "--skip-existing")
    process = start(*command, cwd=folder)
    deadline = time.monotonic() + 60
    while len(list((folder / "out").rglob("*.kvz"))) < 5 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.communicate(timeout=60)
    whole = {path: path.stat().st_ino for path in (folder / "out").rglob("*.kvz")}
    assert 5 <= len(whole) < 60
    rows = kvzip(*command, "--json", cwd=folder).ok().json["files"]
    assert sum(row["skipped"] is not None for row in rows) == len(whole)
    assert {path: path.stat().st_ino for path in whole} == whole
    kvzip("decompress", "-r", "out", "--output-dir", "back", cwd=folder).ok()
    assert tree(folder / "back" / "out" / "dumps") == tree(dumps)


# -- side by side


def test_outputs_and_order_do_not_depend_on_threads(folder, dumps):
    (dumps / "0" / "2.safetensors").write_bytes(b"no dump")
    found = []
    for threads in ("1", "2", "3"):
        run = kvzip("compress", "-v", "-T", threads, "-r", "dumps", "--output-dir", threads, cwd=folder)
        assert run.code == 1
        found.append((tree(folder / threads), [line.split(":")[1] for line in run.lines[:-1]], run.lines[-1]))
    assert found[0][0] == found[1][0] == found[2][0]
    assert len(found[0][0]) == 11
    assert found[0][1] == found[1][1] == found[2][1]
    assert "1 failed" in found[0][2]


def test_json_has_a_row_for_each_in_order(folder, inside, dumps):
    (dumps / "0" / "2.safetensors").write_bytes(b"no dump")
    run = inside("compress", "--json", "-r", "dumps")
    rows = run.json["files"]
    assert [row["source"] for row in rows] == [
        f"dumps/{n % 2}/{n}.safetensors" for n in [*range(0, 12, 2), *range(1, 12, 2)]
    ]
    assert [row["error"] is None for row in rows].count(False) == 1
    assert "2.safetensors" in rows[1]["error"]
    assert run.json["failed"] == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_all(folder, dumps, number):
    for n in range(12, 80):
        (dumps / "0" / f"{n}.safetensors").write_bytes(dump_bytes(seed=n, layers=4, tokens=128, dim=64))
    process = start("compress", "-r", "dumps", "--output-dir", "out", cwd=folder)
    deadline = time.monotonic() + 60
    while len(list((folder / "out").rglob("*.kvz"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.002)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert err.decode().strip().splitlines()[-1].startswith("kvzip: interrupted")
    assert not [name for name in names(folder / "out") if not name.endswith(".kvz")]
    assert temporaries(folder / "out" / "dumps" / "0") == []
    kvzip("test", "-r", "out", cwd=folder).ok()


def test_drafts_are_not_shared(folder, dumps):
    """Files with a draft go one by one: it is one open file."""
    run = kvzip("compress", "-r", "dumps", "--draft", "a.safetensors", "--output-dir", "out", cwd=folder).ok()
    assert run.code == 0
    kvzip("test", "-r", "out", "--draft", "a.safetensors", cwd=folder).ok()


def test_a_terminal_shows_the_whole_batch(folder, dumps):
    run = terminal("compress", "-r", "dumps", "--output-dir", "out", cwd=folder, plain=False)
    assert run.code == 0
    assert "12 files" in run.err.splitlines()[-1]
