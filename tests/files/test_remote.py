"""Files at URLs, in memory and on a real S3 server: there whole or not at all, and no more read than is asked."""

from __future__ import annotations

import http.server
import io
import os
import subprocess
import sys
import threading
from functools import partial

import numpy as np
import pytest

import kvzip
from kvzip.dumps.safetensors import dump_bytes
from kvzip.files import Url, is_url, place
from kvzip.files.remote import LARGEST, RangedReader

fsspec = pytest.importorskip("fsspec")

BUCKET = "caches"


def dump(layers=2, tokens=64, seed=0):
    source = np.random.default_rng(seed)
    tensors = []
    for layer in range(layers):
        for kind in ("key", "value"):
            x = source.normal(size=(1, 2, tokens, 32)).astype("<f4").view("<u4") >> 16
            tensors.append((f"layers.{layer}.{kind}", "BF16", x.shape, x.astype("<u2").tobytes()))
    return dump_bytes(tensors)


@pytest.fixture(scope="module")
def server():
    """A real S3 server: its endpoint."""
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    running = moto.ThreadedMotoServer(port=0)
    running.start()
    host, port = running.get_host_and_port()
    yield f"http://{host}:{port}"
    running.stop()


@pytest.fixture
def s3(server, monkeypatch):
    """An empty bucket's URL."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "y", "AWS_ENDPOINT_URL": server, "AWS_REGION": "us-east-1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    system = fsspec.filesystem("s3", skip_instance_cache=True)
    if system.exists(BUCKET):
        system.rm(BUCKET, recursive=True)
    system.mkdir(BUCKET)
    monkeypatch.setattr(fsspec.get_filesystem_class("s3"), "cachable", False)
    return f"s3://{BUCKET}"


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield "memory://folder"
    system.store.clear()


@pytest.fixture(params=["memory", "s3"])
def where(request):
    return request.getfixturevalue(request.param)


def put(url, data):
    with fsspec.open(url, "wb") as file:
        file.write(data)


def get(url):
    with fsspec.open(url, "rb") as file:
        return file.read()


def names(url):
    return sorted(name for name, _ in Url(url).below())


def run(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "kvzip", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,
    )


class TestUrl:
    def test_what_is_one(self):
        for name in ("s3://b/x", "memory://x", "https://h/x?y=1", "simplecache::s3://b/x", "HF://datasets/x"):
            assert is_url(name)
        for name in ("x", "/x", "./s3://b/x", "C://x", "C:\\x", "s3:/b", "-"):
            assert not is_url(name)

    def test_as_a_path(self):
        url = place("s3://bucket/a/b.kvz")
        assert url.name == "b.kvz"
        assert url.with_name("c") == place("s3://bucket/a/c")
        assert place("https://h/a/b.kvz?sig=1/2").name == "b.kvz"
        assert str(place("https://h/a/b.kvz?sig=1").with_name("c")) == "https://h/a/c?sig=1"
        assert url.with_name("x") / "y" == place("s3://bucket/a/x/y")
        assert url.parts == ["bucket", "a", "b.kvz"]
        assert os.fspath(url) == "s3://bucket/a/b.kvz"
        assert place(url) is url

    def test_no_password_in_messages(self):
        assert str(place("ftp://me:secret@host/x")) == "ftp://host/x"


@pytest.mark.parametrize("level", [1, 6])
def test_there_and_back(where, level):
    data = dump()
    put(f"{where}/a.safetensors", data)
    report = kvzip.compress(f"{where}/a.safetensors", f"{where}/a.kvz", level=level)
    assert report.source_bytes == len(data)
    assert get(f"{where}/a.kvz") == kvzip.compress(data, level=level)
    kvzip.decompress(f"{where}/a.kvz", f"{where}/b.safetensors")
    assert get(f"{where}/b.safetensors") == data
    assert kvzip.stats(f"{where}/a.kvz").source_bytes == len(data)
    with kvzip.open(f"{where}/a.kvz") as container:
        assert len(container.names()) == 4
    assert not kvzip.diff(f"{where}/a.safetensors", f"{where}/a.kvz")
    with pytest.raises(kvzip.TargetError, match="it exists"):
        kvzip.compress(f"{where}/a.safetensors", f"{where}/a.kvz")
    with pytest.raises(kvzip.TargetError, match="same file"):
        kvzip.compress(f"{where}/a.safetensors", f"{where}/a.safetensors", force=True)


def test_a_folder_as_a_whole(where, tmp_path):
    files = {"a.safetensors": dump(), "sub/b.safetensors": dump(seed=1), "notes": b"text"}
    for name, data in files.items():
        put(f"{where}/d/{name}", data)
    kvzip.compress(f"{where}/d", f"{where}/d.kvz")
    kvzip.decompress(f"{where}/d.kvz", tmp_path / "out")
    assert {path.relative_to(tmp_path / "out").as_posix(): path.read_bytes()
            for path in (tmp_path / "out").rglob("*") if path.is_file()} == files  # fmt: skip


def test_a_draft_and_an_archive(where):
    one, two = dump(tokens=64), dump(tokens=64)
    put(f"{where}/one.safetensors", one)
    put(f"{where}/two.safetensors", two)
    kvzip.compress(f"{where}/two.safetensors", f"{where}/two.kvz", draft=f"{where}/one.safetensors")
    kvzip.decompress(f"{where}/two.kvz", f"{where}/again", draft=f"{where}/one.safetensors")
    assert get(f"{where}/again") == two
    kvzip.pack([f"{where}/one.safetensors", f"{where}/two.safetensors"], f"{where}/x.kva")
    kvzip.unpack(f"{where}/x.kva", f"{where}/out")
    assert [get(f"{where}/out/{name}") for name in names(f"{where}/out")] == [one, two]


def test_an_upload_that_fails_leaves_nothing(s3, monkeypatch):
    """Half-way, when parts are there already: no object, and no upload that would be paid for."""
    import s3fs

    monkeypatch.setattr("kvzip.files.remote.PART", 5 << 20)
    noise = dump_bytes([("x", "I32", (4 << 20,), np.random.default_rng(1).bytes(16 << 20))])
    put(f"{s3}/cut.safetensors", noise[:-1])
    with pytest.raises(kvzip.DumpError):
        kvzip.compress(f"{s3}/cut.safetensors", f"{s3}/x.kvz")
    put(f"{s3}/whole.safetensors", noise)
    upload = s3fs.core.S3File._upload_chunk

    def failing(self, final=False):
        if self.parts:
            raise OSError("the network is gone")
        return upload(self, final)

    with monkeypatch.context() as patch:
        patch.setattr(s3fs.core.S3File, "_upload_chunk", failing)
        with pytest.raises(kvzip.TargetError, match="the network is gone") as caught:
            kvzip.compress(f"{s3}/whole.safetensors", f"{s3}/x.kvz")
        assert "\n" not in str(caught.value)
    assert names(s3) == ["cut.safetensors", "whole.safetensors"]
    system = fsspec.filesystem("s3", skip_instance_cache=True)
    assert not system.call_s3("list_multipart_uploads", Bucket=BUCKET).get("Uploads")
    kvzip.compress(f"{s3}/whole.safetensors", f"{s3}/x.kvz")
    assert kvzip.decompress(f"{s3}/x.kvz") == noise


def test_a_source_that_changes_is_told(where, monkeypatch):
    put(f"{where}/a.safetensors", dump(layers=8, tokens=512))
    fetch, count = RangedReader._fetch, []

    def meddling(self, start, stop):
        count.append(start)
        if len(count) == 3:
            put(f"{where}/a.safetensors", dump(layers=8, tokens=512, seed=5))
        return fetch(self, start, stop)

    monkeypatch.setattr(RangedReader, "_fetch", meddling)
    with pytest.raises(kvzip.KvzipError):
        kvzip.compress(f"{where}/a.safetensors", f"{where}/x.kvz")
    assert names(where) == ["a.safetensors"]


class TestReading:
    @pytest.fixture
    def counted(self, memory, monkeypatch):
        """A file of 50 MB, and what was fetched of it: (start, size) of each piece."""
        data = np.random.default_rng(1).bytes(50_000_000)
        put(f"{memory}/x", data)
        pieces = []
        fetch = RangedReader._fetch

        def noted(self, start, stop):
            found = fetch(self, start, stop)
            pieces.append((start, len(found)))
            return found

        monkeypatch.setattr(RangedReader, "_fetch", noted)
        return data, Url(f"{memory}/x"), pieces

    def test_from_front_to_back_every_byte_comes_once_in_few_pieces(self, counted):
        data, url, pieces = counted
        with io.BufferedReader(RangedReader(url, len(data)), 1 << 16) as file:
            assert file.read() == data
        assert sum(size for _, size in pieces) == len(data)
        assert len(pieces) < 20
        assert max(size for _, size in pieces) == LARGEST

    def test_in_leaps_little_more_comes_than_is_asked_for(self, counted):
        data, url, pieces = counted
        with io.BufferedReader(RangedReader(url, len(data)), 1 << 14) as file:
            for at in (49_000_000, 7, 20_000_000, 100, 49_999_990):
                file.seek(at)
                assert file.read(10) == data[at : at + 10]
        assert sum(size for _, size in pieces) < 5 * (1 << 18)

    def test_past_the_end(self, counted):
        data, url, _ = counted
        with RangedReader(url, len(data)) as file:
            file.seek(10, 2)
            assert file.read(5) == b""


@pytest.mark.parametrize("command", ["list", "cat"])
def test_only_what_is_needed_is_fetched(where, monkeypatch, command, capsys):
    """Of a container of 60 layers the list takes its ends, and one layer its own blocks."""
    data = dump(layers=60, tokens=2048)
    put(f"{where}/x.kvz", kvzip.compress(data, level=1))
    size = len(get(f"{where}/x.kvz"))
    fetched = []
    fetch = RangedReader._fetch
    monkeypatch.setattr(RangedReader, "_fetch", lambda *given: fetched.append(fetch(*given)) or fetched[-1])
    if command == "list":
        from kvzip.cli.listing import listings

        (listing,) = listings(f"{where}/x.kvz")
        assert len(listing.tensors) == 120
        assert sum(map(len, fetched)) < size / 20
    else:
        kvzip.extract(f"{where}/x.kvz", f"{where}/part.safetensors", layers=[30])
        assert sum(map(len, fetched)) < size / 10
        assert len(get(f"{where}/part.safetensors")) > len(data) // 61


class TestCommands:
    def test_a_prefix_file_by_file(self, s3):
        for name in ("a.safetensors", "sub/b.safetensors"):
            put(f"{s3}/in/{name}", dump())
        done = run("compress", "-r", f"{s3}/in", "--output-dir", f"{s3}/kvz")
        assert (done.returncode, done.stderr) == (0, "")
        assert names(f"{s3}/kvz") == ["in/a.safetensors.kvz", "in/sub/b.safetensors.kvz"]
        done = run("compress", "-r", f"{s3}/in", "--output-dir", f"{s3}/kvz", "--skip-existing", "-v")
        assert done.stderr.count("there already") == 2
        done = run("decompress", "-r", "--rm", f"{s3}/kvz", "--output-dir", f"{s3}/out")
        assert (done.returncode, done.stderr) == (0, "")
        assert names(s3) == [
            "in/a.safetensors", "in/sub/b.safetensors", "out/kvz/in/a.safetensors", "out/kvz/in/sub/b.safetensors",
        ]  # fmt: skip
        assert get(f"{s3}/out/kvz/in/a.safetensors") == dump()

    def test_pipes_patterns_and_lists(self, s3, tmp_path):
        put(f"{s3}/a.safetensors", dump())
        done = run("compress", f"{s3}/*.safetensors", "-o", f"{s3}/a.kvz")
        assert (done.returncode, done.stderr) == (0, "")
        done = subprocess.run(
            [sys.executable, "-m", "kvzip", "decompress", "-c", f"{s3}/a.kvz"], capture_output=True, check=True
        )
        assert done.stdout == dump()
        (tmp_path / "list").write_text(f"{s3}/a.safetensors\n")
        done = run("compress", "--files-from", str(tmp_path / "list"), "--output-dir", str(tmp_path / "out"))
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "out" / BUCKET / "a.safetensors.kvz").exists()

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (("decompress", "s3://caches/none.kvz", "-o", "x"), "no such file: s3://caches/none.kvz"),
            (("list", "nothing-of-that-sort://x/y.kvz"), "cannot reach"),
            (("compress", "s3://no-such-bucket-here/x.safetensors", "-o", "y"), "no such file"),
        ],
    )
    def test_what_cannot_be_reached_is_one_line(self, s3, arguments, words, tmp_path):
        done = run(*arguments, cwd=tmp_path)
        assert done.returncode == 1
        assert words in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr
        assert list(tmp_path.iterdir()) == []

    def test_a_server_that_is_not_there(self, s3, tmp_path, monkeypatch):
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
        put_at = tmp_path / "a.safetensors"
        put_at.write_bytes(dump())
        done = run("compress", str(put_at), "-o", f"{s3}/a.kvz")
        assert done.returncode == 1
        assert "cannot reach" in done.stderr
        assert done.stderr.count("\n") == 1, done.stderr


class Ranged(http.server.SimpleHTTPRequestHandler):
    """Files by http; ``Range`` is obeyed if the class says so."""

    ranges = True

    def do_GET(self):
        span = self.headers.get("Range")
        if not (self.ranges and span):
            return super().do_GET()
        with open(self.translate_path(self.path), "rb") as file:
            data = file.read()
        start, _, stop = span.removeprefix("bytes=").partition("-")
        part = data[int(start) : int(stop or len(data)) + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{int(start) + len(part) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        return self.wfile.write(part)

    def end_headers(self):
        if self.ranges:
            self.send_header("Accept-Ranges", "bytes")
        super().end_headers()

    def log_message(self, *arguments):
        pass


@pytest.mark.parametrize("ranges", [True, False])
def test_by_http(tmp_path, ranges):
    pytest.importorskip("aiohttp")
    data = dump()
    (tmp_path / "a.kvz").write_bytes(kvzip.compress(data))
    handler = type("Handler", (Ranged,), {"ranges": ranges})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/a.kvz"
        assert kvzip.decompress(url) == data
        if ranges:
            with kvzip.open(url) as container:
                assert len(container.names()) == 4
        with pytest.raises(kvzip.TargetError, match="no uploads"):
            kvzip.decompress(url, url.replace("a.kvz", "b"))
        with pytest.raises(kvzip.DumpError, match="no such file"):
            kvzip.decompress(url.replace("a.kvz", "none.kvz"))
    finally:
        server.shutdown()


def test_without_fsspec_there_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(kvzip.DumpError, match=r"pip install 'kvzip\[remote\]'"):
        kvzip.compress("s3://x/y.safetensors")
