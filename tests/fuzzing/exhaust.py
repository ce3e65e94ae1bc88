"""Every prefix of every container among the fixtures, and every one of its bits flipped: refused, each of them.

    nice python tests/fuzzing/exhaust.py [--whole BYTES] [--sample N] [--processes N] [NAME...]

Two passes over each container:

    records    all prefixes and all flips: the record that is cut or changed is read by ``RecordReader``, which every
               reader of containers takes its records from, one after the other from the first on. It must refuse it.
               Magic and trailer are read whole.
    whole      ``decompress`` of the cut or changed container, all of them if it has at most BYTES, else N of them,
               drawn with a fixed seed. It must raise a KvzipError; what it accepts is named, and is no fault if it is
               a fixture's own content (one flip turns a bad fixture into the good one that it was made from)

It takes about a minute for the first pass, and hours for the second one of all: hence the sample.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "fixtures", ".")]

import xxhash  # noqa: E402

import kvzip  # noqa: E402
from kvzip.api import into  # noqa: E402
from kvzip.container import records  # noqa: E402
from kvzip.container.records import MAGIC, TRAILER, RecordReader  # noqa: E402
from kvzip.pipeline.decompress import Opening, decompress_members  # noqa: E402

CONTAINERS = ROOT / "fixtures/containers"
Span = tuple[int, int, int]
"""Where a record begins, where it ends, and its type; magic and trailer have type 0."""


def spans(blob: bytes) -> list[Span]:
    """The parts of a container, up to the first that is refused as it is."""
    found: list[Span] = []
    with suppress(kvzip.KvzipError):
        reader = RecordReader(io.BytesIO(blob), "fixture")
        found.append((0, len(MAGIC), 0))
        while True:
            record = reader.next()
            found.append((record.offset, reader.offset, record.type))
            if record.type == records.INDEX:
                reader.finish(record.offset)
                found.append((len(blob) - TRAILER, len(blob), 0))
                break
    return found


def accepts(blob: bytes, span: Span, index: int) -> bool:
    """Whether a part of a container is read without complaint."""
    start, stop, kind = span
    file = io.BytesIO(blob[: stop + 64] if kind else blob)
    try:
        if kind:
            RecordReader.at(file, "fixture", start).next()
        elif start == 0:
            RecordReader(file, "fixture")
        else:
            RecordReader.at(file, "fixture", start).finish(index)
    except kvzip.KvzipError:
        return False
    return True


def records_pass(blob: bytes) -> tuple[int, list[str]]:
    """How many prefixes and flips were tried, and those whose record was accepted."""
    found, tried = [], 0
    parts = spans(blob)
    index = next((start for start, _, kind in parts if kind == records.INDEX), 0)
    changed = bytearray(blob)
    for span in parts:
        start, stop, _ = span
        for at in range(start, stop):
            tried += 1
            if accepts(blob[:at], span, index):
                found.append(f"prefix of {at}")
            for bit in range(8):
                tried += 1
                changed[at] ^= 1 << bit
                if accepts(changed[: stop + 64] if span[2] else bytes(changed), span, index):
                    found.append(f"byte {at} bit {bit}")
                changed[at] ^= 1 << bit
    return tried, found


def whole_pass(blob: bytes, draft: Path | None, sample: int, seed: str) -> tuple[Counter[str], list[str]]:
    """What came of whole containers, all of them or so many; those that were accepted."""
    cases: Iterator[int] | list[int] = iter(range(9 * len(blob)))
    if 0 < sample < 9 * len(blob):
        cases = Random(seed).sample(range(9 * len(blob)), sample)
    seen: Counter[str] = Counter()
    accepted = []
    for case in cases:
        at, what = divmod(case, 9)
        broken = bytearray(blob[:at] if what == 8 else blob)
        if what < 8:
            broken[at] ^= 1 << what
        name = f"prefix of {at}" if what == 8 else f"byte {at} bit {what}"
        try:
            digests = _decoded(bytes(broken), draft)
            accepted.append(f"{name}: {digests}")
        except kvzip.KvzipError as error:
            seen[type(error).__name__ if str(error).isprintable() else "of no line"] += 1
    return seen, accepted


def _decoded(blob: bytes, draft: Path | None) -> str:
    """Decode a container to nowhere; what its files' digests are, in brief."""
    with kvzip.api.opened_draft(draft, 1) as drafts:
        opening = Opening.of(io.BytesIO(blob), "fixture", None, drafts)
        decompress_members(opening, into(None), 1)
    return xxhash.xxh3_64_hexdigest(blob)


def check(row: dict[str, str], whole: int, sample: int) -> tuple[str, int, list[str], Counter[str], list[str]]:
    """Both passes over one fixture."""
    blob = (ROOT / "fixtures" / row["file"]).read_bytes()
    draft = ROOT / "fixtures" / row["draft"] if "draft" in row else None
    tried, found = records_pass(blob)
    seen, accepted = whole_pass(blob, draft, 0 if len(blob) <= whole else sample, row["file"])
    return row["file"], tried, found, seen, accepted


def main() -> None:
    """Go through the fixtures; exit 1 if something is accepted that is no fixture itself."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", help="fixtures, all by default")
    parser.add_argument("--whole", type=int, default=512, help="bytes up to which the second pass takes all")
    parser.add_argument("--sample", type=int, default=2000, help="cases of the second pass for longer ones")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args()
    rows = json.loads((ROOT / "fixtures/manifest.json").read_text("utf-8"))
    rows = [row for row in rows if row["file"].startswith("containers/")]
    rows = [row for row in rows if not chosen.names or Path(row["file"]).stem in chosen.names]
    own = {xxhash.xxh3_64_hexdigest(path.read_bytes()) for path in CONTAINERS.glob("*.kvz")}
    began, faults, tried = time.time(), 0, 0
    totals: Counter[str] = Counter()
    with ProcessPoolExecutor(chosen.processes) as pool:
        jobs = [pool.submit(check, row, chosen.whole, chosen.sample) for row in rows]
        for job in jobs:
            name, count, found, seen, accepted = job.result()
            tried, totals = tried + count, totals + seen
            totals["accepted, a fixture itself"] += sum(case.split(": ")[1] in own for case in accepted)
            bad = [*found, *(case for case in accepted if case.split(": ")[1] not in own)]
            faults += len(bad)
            print(f"{name}: {count} by record, {seen.total()} whole{''.join(f'; ACCEPTED {case}' for case in bad)}")
    print(f"{len(rows)} containers, {tried} prefixes and flips by record, whole: {dict(totals)}; {faults} faults;"
          f" {time.time() - began:.0f} s")  # fmt: skip
    raise SystemExit(bool(faults))


if __name__ == "__main__":
    main()
