"""Coverage-guided fuzzing by hand, with atheris: ``make fuzz SECONDS=3600``, or

    python tests/fuzzing/run.py --seconds 3600 --mode checked
    python tests/fuzzing/run.py FILE...             judge these again, in every mode that is not slow

Modes, of which each is a process of its own:

    checked    kernels compiled with bounds checks (NUMBA_BOUNDSCHECK=1): an index out of bounds is an IndexError
    trusting   the same, and blocks' and files' checks are passed over, so that decoding goes on with garbage, block
               after block; what comes out is not judged
    plain      kernels in pure Python (NUMBA_DISABLE_JIT=1), where coverage reaches into them. Slow; an index below
               zero counts from the end there, as in Python, and numbers of NumPy may warn where compiled ones wrap:
               this mode does not see these

Coverage is that of kvzip's Python modules (those without kernels in the first two modes). A find is written to
``FOLDER/find-*`` and named. The corpus is kept and taken up again. Seeds are compressed in a process of its own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "fixtures"), str(ROOT)]
MODES = {
    "checked": {"NUMBA_BOUNDSCHECK": "1"},
    "trusting": {"NUMBA_BOUNDSCHECK": "1"},
    "plain": {"NUMBA_DISABLE_JIT": "1"},
}
KERNELS = ("coder", "windows", "planes", "predict", "linear")
READING = ("container", "streams", "dumps", "layouts", "files", "blocks", "pipeline")
"""Packages that read containers, beside the kernels."""
ROOM = 3 << 30  # bytes of address space beyond what the process has when it begins


def main() -> None:
    """Start each mode's process, or judge files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("files", nargs="*", type=Path, help="inputs to judge once more")
    parser.add_argument("--seconds", type=int, default=3600, help="in all, shared out among the modes")
    parser.add_argument("--mode", choices=MODES, action="append", help="one or more; all by default")
    parser.add_argument("--folder", type=Path, default=ROOT / ".fuzz", help="of seeds, corpus and finds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worker", choices=MODES, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        _work(chosen.worker, chosen)
        return
    seeds = chosen.folder / "seeds"
    if not seeds.is_dir():
        subprocess.run([sys.executable, str(ROOT / "tests/fuzzing/seeds.py"), str(seeds)], check=True)
    modes = chosen.mode or (["checked"] if chosen.files else list(MODES))
    for mode in modes:
        _run(mode, chosen, chosen.seconds // len(modes))
    finds = sorted(chosen.folder.glob("find-*"))
    print(f"{len(finds)} finds: {' '.join(map(str, finds))}" if finds else "no finds")
    raise SystemExit(bool(finds))


def _run(mode: str, chosen: Any, seconds: int) -> None:
    """A process of a mode, and another one if it dies before its time."""
    end, seed = time.time() + seconds, chosen.seed
    while (left := int(end - time.time())) > 0:
        command = [sys.executable, __file__, "--worker", mode, "--folder", str(chosen.folder)]
        command += ["--seconds", str(left), "--seed", str(seed), *map(str, chosen.files)]
        code = subprocess.run(command, env=os.environ | MODES[mode], check=False).returncode
        seed += 1
        if code == 0 or chosen.files:
            return
        if code == 1:  # an exception, which is this program's own fault
            raise SystemExit(1)
        print(f"{mode}: ended with {code}, goes on for {left} s", flush=True)


def _work(mode: str, chosen: Any) -> None:
    """Fuzz in this process, whose environment has the mode."""
    import atheris

    with atheris.instrument_imports(include=["kvzip"], exclude=[] if mode == "plain" else _modules(KERNELS)):
        for name in ("kvzip.cli.check", "kvzip.cli.listing", *_modules((*KERNELS, *READING))):
            importlib.import_module(name)
    from fuzzing.judge import Verdict, judge
    from fuzzing.mutate import mutate
    from fuzzing.seeds import Seeds

    seeds = Seeds.read_from(chosen.folder / "seeds")
    others = list(seeds.blobs.values())
    if mode == "trusting":
        _pass_over_checks()
    for blob in others:  # kernels are compiled and loaded before time is taken and memory limited
        with suppress(Verdict):
            judge(blob, seeds.known, seeds.needs, measured=False, right=mode != "trusting")
    _limit_memory()
    finds = _Finds(chosen.folder, mode)

    def judged(blob: bytes) -> None:
        try:
            judge(blob, seeds.known, seeds.needs, measured=bool(chosen.files), right=mode != "trusting")
        except Verdict as verdict:
            finds.keep(blob, str(verdict))

    if chosen.files:
        for path in chosen.files:
            judged(path.read_bytes())
            print(f"{path}: {finds.last or 'nothing found'}")
            finds.last = ""
        return

    def custom(data: bytes, max_size: int, seed: int) -> bytes:
        source = Random(seed)
        if source.random() < 0.03:
            return bytes(atheris.Mutate(data, max_size))
        return mutate(data or source.choice(others), others, source)[:max_size]

    corpus = chosen.folder / f"corpus-{mode}"
    corpus.mkdir(exist_ok=True)
    flags = [
        f"-max_total_time={chosen.seconds}", f"-seed={chosen.seed}", "-max_len=131072", "-timeout=120",
        "-len_control=0", "-rss_limit_mb=0", "-reload=0", f"-artifact_prefix={finds.prefix}", "-print_final_stats=1",
    ]  # fmt: skip
    began = time.time()
    atheris.Setup(["fuzz", *flags, str(corpus), str(chosen.folder / "seeds")], judged, custom_mutator=custom)
    print(f"{mode}: {time.time() - began:.0f} s to begin with {len(others)} seeds", flush=True)
    atheris.Fuzz()


class _Finds:
    """Inputs that must not do what they do: one of each kind is kept, and the search goes on."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.prefix = folder / f"find-{mode}-"
        self.last = ""

    def keep(self, blob: bytes, what: str) -> None:
        """Write an input down, unless one like it is there."""
        self.last = what
        kind = sha256(re.sub(r"[0-9.]+|'.*'|b?\".*\"", "", what).encode()).hexdigest()[:10]
        path = Path(f"{self.prefix}{kind}")
        if not path.exists():
            path.write_bytes(blob)
            print(f"FIND {path}: {what}", flush=True)


def _modules(packages: Sequence[str]) -> list[str]:
    """The full names of all modules of some packages."""
    paths = (path for package in packages for path in sorted((ROOT / "kvzip" / package).glob("*.py")))
    return [".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in paths]


def _pass_over_checks() -> None:
    from kvzip.pipeline import decode_extent, decode_unit

    for module in (decode_extent, decode_unit):
        module.require_check = lambda values, head, where: None


def _limit_memory() -> None:
    import resource

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, size + ROOM))


if __name__ == "__main__":
    main()
