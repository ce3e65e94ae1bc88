"""Tiny containers of everything there is: levels, types, drafts, priors, directories, opaque bytes, several chains.

python tests/fuzzing/seeds.py FOLDER        writes them, with those of fixtures/ that are small, for ``run.py``
"""

from __future__ import annotations

import io
import json
import struct
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import numpy as np
import xxhash

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "fixtures", ".")]  # run as a script, it finds the others

import kvzip  # noqa: E402
from fuzzing.judge import Known, Needs  # noqa: E402
from kvzip.dtypes import DTYPES  # noqa: E402
from kvzip.streams.describe import SMALL  # noqa: E402

MOST = 8000  # bytes of a fixture that takes part


@dataclass
class Seeds:
    """Containers by name, and what is known of them."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    known: Known = field(default_factory=dict)
    needs: Needs = field(default_factory=Needs)

    def add(self, name: str, blob: bytes, *originals: bytes) -> None:
        """A container and the files it was made from."""
        self.blobs[name] = blob
        for data in originals:
            self.known[xxhash.xxh3_128_digest(data)] = sha256(data).hexdigest()

    def write_to(self, folder: Path) -> None:
        """One file each; what is known of them beside the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, blob in self.blobs.items():
            (folder / f"{name}.kvz").write_bytes(blob)
        known = {digest.hex(): original for digest, original in self.known.items()}
        folder.with_suffix(".json").write_text(json.dumps(known))
        folder.with_suffix(".draft").write_bytes(self.needs.draft or b"")
        folder.with_suffix(".prior").write_bytes(self.needs.prior or b"")

    @classmethod
    def read_from(cls, folder: Path) -> Seeds:
        """What ``write_to`` wrote."""
        blobs = {path.stem: path.read_bytes() for path in sorted(folder.glob("*.kvz"))}
        known = {bytes.fromhex(k): v for k, v in json.loads(folder.with_suffix(".json").read_text()).items()}
        needs = Needs(folder.with_suffix(".draft").read_bytes(), folder.with_suffix(".prior").read_bytes())
        return cls(blobs, known, needs)


def made(fixtures: bool = True) -> Seeds:
    """All seeds, compressed now."""
    seeds = Seeds()
    for name, data, options in _dumps():
        seeds.add(name, kvzip.compress(data, threads=1, **options), data)
    _add_drafted(seeds)
    _add_trained(seeds)
    _add_directory(seeds)
    if fixtures:
        _add_fixtures(seeds)
    return seeds


def dump(tensors: list[tuple[str, str, tuple[int, ...], bytes]], metadata: dict[str, str] | None = None) -> bytes:
    """A safetensors file."""
    header: dict[str, object] = {} if metadata is None else {"__metadata__": metadata}
    at = 0
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    raw = json.dumps(header).encode()
    return struct.pack("<Q", len(raw)) + raw + b"".join(data for *_, data in tensors)


def cache(dtype: str, layers: int = 2, heads: int = 1, tokens: int = 0, channels: int = 16, seed: int = 0) -> bytes:
    """Keys and values of some layers: drifting, with repeated tokens, of any type; tensors that stand alone."""
    row = DTYPES[dtype]
    tokens = tokens or SMALL // (heads * channels * row.container_bytes)
    source = np.random.default_rng([seed, layers, tokens, channels])
    ids = source.integers(0, 6, tokens)
    tensors = []
    for layer in range(layers):
        for kind in ("key", "value"):
            known = source.normal(size=(heads, 6, channels))[:, ids]
            x = known + (layer > 0) * np.cumsum(source.normal(size=(heads, tokens, channels)), 1) / 8
            bits = np.ascontiguousarray(x, "<f4").view("<u4")
            if row.container_bytes < 4:
                bits = bits >> (32 - 8 * row.container_bytes)
            data = bits.astype(f"<u{row.container_bytes}").tobytes()
            data = data[: x.size * row.bits // 8]
            tensors.append((f"layers.{layer}.{kind}", dtype, (1, *x.shape), data))
    return dump(tensors)


def _dumps() -> Iterator[tuple[str, bytes, dict[str, object]]]:
    plain = cache("BF16")
    for level in range(1, 10):
        yield f"level-{level}", plain, {"level": level}
    for name in DTYPES:
        yield f"type-{name}", cache(name, layers=1), {"level": 3}
    for name in ("F32", "F8_E4M3", "F16"):
        yield f"units-{name}", cache(name, heads=2), {"level": 9}
    yield "rope", cache("BF16"), {"level": 3, "rope": "half:theta=1e4"}
    yield "chains", cache("BF16", layers=1, heads=3, tokens=70, channels=32), {"level": 3, "block_log2": 12}
    yield "windows", cache("BF16", layers=1, heads=3, tokens=70, channels=32), {"level": 1, "block_log2": 12}
    yield "repeats", cache("BF16", layers=3, tokens=40), {"level": 8}
    zeros = dump([("k", "BF16", (1, 2, 40, 16), bytes(2560)), ("e", "F32", (0, 4), b"")], {"a": "b"})
    yield "zeros", zeros, {"level": 3}
    opaque = dump([("ids", "I32", (9,), bytes(36)), ("n", "U8", (300,), bytes(range(150)) * 2)])
    yield "opaque", opaque, {"level": 3}
    yield "nothing", dump([]), {}


def _add_drafted(seeds: Seeds) -> None:
    """A draft that has everything, the end of it a little different."""
    own = cache("BF16", tokens=64)
    near = bytearray(cache("BF16", layers=2, tokens=64))
    near[-1000::9] = bytes(b ^ 3 for b in near[-1000::9])
    seeds.needs.draft = bytes(near)
    for level in (1, 3, 6, 9):
        drafted = kvzip.compress(own, threads=1, level=level, draft=seeds.needs.draft)
        seeds.add(f"draft-{level}", drafted, own)


def _add_trained(seeds: Seeds) -> None:
    own = cache("BF16")
    seeds.needs.prior = kvzip.train_prior([cache("BF16", tokens=64)], threads=1)
    seeds.add("prior", kvzip.compress(own, threads=1, prior=seeds.needs.prior), own)
    seeds.add("prior-inside", kvzip.compress(own, threads=1, prior=seeds.needs.prior, embed_prior=True), own)


def _add_directory(seeds: Seeds) -> None:
    files = {
        "a/0.safetensors": cache("BF16", layers=1),
        "a/1.safetensors": cache("F16", layers=1),
        "b.txt": b"x" * 40,
    }
    for level in (3, 7):
        with tempfile.TemporaryDirectory() as folder:
            for name, data in files.items():
                Path(folder, name).parent.mkdir(exist_ok=True)
                Path(folder, name).write_bytes(data)
            packed = io.BytesIO()
            kvzip.compress(folder, packed, threads=1, level=level)
        seeds.add(f"directory-{level}", packed.getvalue(), *files.values())


def _add_fixtures(seeds: Seeds) -> None:
    """Small containers of fixtures/, by what the manifest says of them."""
    for row in json.loads((ROOT / "fixtures/manifest.json").read_text("utf-8")):
        if row["file"].startswith("containers/") and row["bytes"] <= MOST and "draft" not in row:
            blob = (ROOT / "fixtures" / row["file"]).read_bytes()
            seeds.blobs[Path(row["file"]).stem] = blob
            if set(row.get("decoded", ())) == {""}:
                data = kvzip.decompress(blob, threads=1)
                assert sha256(data).hexdigest() == row["decoded"][""]
                seeds.known[xxhash.xxh3_128_digest(data)] = row["decoded"][""]


if __name__ == "__main__":
    made().write_to(Path(sys.argv[1]))
