"""Make all that the documents show of runs out of their data: ``docs/benchmarks.json`` and ``docs/scaling.json``.

Tables of docs/benchmarks.md and docs/fleets.md, the picture docs/ratio-speed.svg, the table of levels in README.
Nothing is measured.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import scaling_report
import sizing
from checkout import ROOT
from plot import ratio_speed
from report import markdown, summary

DATA = ROOT / "docs" / "benchmarks.json"
SCALING = ROOT / "docs" / "scaling.json"
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


def main() -> None:
    """Write the documents, or say which differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", nargs="?", type=Path, default=DATA, help="what run.py --json wrote")
    parser.add_argument("scaling", nargs="?", type=Path, default=SCALING, help="what scaling.py --json wrote, if any")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a document is not as the data")
    options = parser.parse_args()
    scaling = json.loads(options.scaling.read_text("utf-8")) if options.scaling.exists() else None
    fresh = documents(json.loads(options.data.read_text("utf-8")), scaling)
    stale = [path for path, text in fresh.items() if not path.exists() or path.read_text("utf-8") != text]
    if options.check and stale:
        raise SystemExit(f"not as the data: {', '.join(path.name for path in stale)}; run publish.py")
    for path in stale:
        path.write_text(fresh[path], "utf-8")


def documents(result: dict[str, Any], scaling: dict[str, Any] | None) -> dict[Path, str]:
    """Return each document's whole text."""
    page, readme, fleets = ROOT / "docs" / "benchmarks.md", ROOT / "README.md", ROOT / "docs" / "fleets.md"
    text = between(page.read_text("utf-8"), "benchmarks", lambda _: f"\n{markdown(result)}\n")
    return {
        page: between(text, "scaling", lambda _: f"\n{scaling_report.markdown(scaling)}\n"),
        readme: between(
            readme.read_text("utf-8"),
            "results",
            lambda old: TABLE.sub(lambda found: summary(found[0], result) + "\n", old),
        ),
        fleets: between(fleets.read_text("utf-8"), "sizing", lambda _: f"\n{sizing.markdown(result)}\n"),
        ROOT / "docs" / "ratio-speed.svg": ratio_speed(result["dumps"][0]),
    }


def between(text: str, name: str, renew: Callable[[str], str]) -> str:
    """Return a document with what stands between its markers of a name renewed."""
    begin, end = f"<!-- {name}:begin -->\n", f"<!-- {name}:end -->"
    before, found, rest = text.partition(begin)
    old, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"no place for the tables: add the lines {begin.strip()} and {end} to the document")
    return before + begin + renew(old) + end + after


if __name__ == "__main__":
    main()
