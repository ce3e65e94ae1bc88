"""The harness end to end on the smallest dumps, with what codecs are installed; it compares every result itself."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REAL = ROOT / "fixtures" / "real"


def run(script: str, *arguments: object) -> str:
    command = [sys.executable, str(ROOT / "benchmarks" / script), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_run(tmp_path: Path) -> None:
    out = tmp_path / "run.json"
    dumps = [REAL / f"{name}.safetensors" for name in ("excerpt_bf16", "chat_fp16", "excerpt_fp8")]
    shown = run("run.py", "--dumps", *dumps, "--levels", "1,3", "--repeat", 2, "--no-peaks", "--json", out)
    assert "Memory to memory." in shown
    assert "File to file, 2 threads." in shown
    for dump in json.loads(out.read_text())["dumps"]:
        ours = [each for each in dump["results"] if each["codec"] == "kvzip-1"]
        assert [each["threads"] for each in ours] == [1, 2]
        assert set(ours[0]["rates"]) == {
            f"{what}{way}" for what in ("", "file ", "flushed ") for way in ("in", "out")
        }


def test_scaling(tmp_path: Path) -> None:
    out = tmp_path / "scaling.json"
    short = ["--levels", "1", "--threads", "1,2", "--most-tokens", 1024, "--most-heads", 4, "--repeat", 1]
    shown = run("scaling.py", "--dump", REAL / "prose_bf16.safetensors", *short, "--json", out)
    assert "serial share" in shown
    kinds = {each["kind"] for each in json.loads(out.read_text())["cases"]}
    assert kinds == {"growth", "chunks", "tokens", "heads"}


GROWTH = """
import sys
sys.path.insert(0, "benchmarks")
from growth import fit
points = [(n, t, 0.01 + n * (2e-9 + 8e-9 / t)) for n in (1e6, 2e6, 4e6) for t in (1, 2, 4)]
found = fit(points)
assert abs(found.fixed - 0.01) < 1e-9 and abs(found.serial_share - 0.2) < 1e-6 and found.residual < 1e-9
assert fit([point for point in points if point[1] == 1]).serial == 0
"""


def test_growth_is_found() -> None:
    subprocess.run([sys.executable, "-c", GROWTH], check=True, cwd=ROOT)
