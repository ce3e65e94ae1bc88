"""The digest of every container of some small dumps: the same on every machine, with whatever is around it.

    python tests/same/digests.py [few]      a line for each dump and level; with "few" the smallest only

It restores what it compresses, and those containers among the fixtures that must be restored forever.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import kvzip

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
FEW = {"synthetic/related-small": None}
MANY = {
    "synthetic/related-small": None,
    "synthetic/related-layers": "synthetic/related-draft",
    "synthetic/float-types": None,
    "synthetic/special-bf16": None,
    "synthetic/odd-sizes": None,
    "synthetic/static-cache": None,
    "synthetic/f32-upcast": None,
    "real/excerpt_bf16": None,
    "real/excerpt_fp8": None,
}
"""Dumps, and what is their draft if they are coded with one too."""


def digests(few: bool, threads: int = 1) -> list[str]:
    """Lines of name, level, whether with a draft, and SHA-256."""
    out = []
    for name, draft in (FEW if few else MANY).items():
        data = (FIXTURES / f"{name}.safetensors").read_bytes()
        given = None if draft is None else (FIXTURES / f"{draft}.safetensors").read_bytes()
        for level in (1, 3, 6, 9) if few else range(1, 10):
            for how, with_draft in (("alone", None), ("drafted", given)):
                if how == "drafted" and given is None:
                    continue
                packed = kvzip.compress(data, level=level, threads=threads, draft=with_draft)
                assert kvzip.decompress(packed, threads=threads, draft=with_draft) == data, (name, level)
                out.append(f"{name} {level} {how} {hashlib.sha256(packed).hexdigest()}")
    return out


def restore_fixtures() -> int:
    """Restore every good container; how many there are."""
    count = 0
    for row in json.loads((FIXTURES / "manifest.json").read_text("utf-8")):
        if row["outcome"] == "good" and set(row["decoded"]) == {""}:
            draft = FIXTURES / row["draft"] if "draft" in row else None
            data = kvzip.decompress((FIXTURES / row["file"]).read_bytes(), draft=draft)
            assert hashlib.sha256(data).hexdigest() == row["decoded"][""], row["file"]
            count += 1
    return count


if __name__ == "__main__":
    short = sys.argv[1:] == ["few"]
    print("\n".join(digests(short)))
    if not short:
        print(f"{restore_fixtures()} fixtures restored")
