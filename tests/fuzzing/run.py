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
SMALLEST = 1300  # bytes of a seed where kernels are in Python
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
    if chosen.files:
        return
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
    """Fuzz in this process, whose environment has the mode, or judge files."""
    import atheris

    with atheris.instrument_imports(include=["kvzip"], exclude=[] if mode == "plain" else _modules(KERNELS)):
        for name in ("kvzip.cli.check", "kvzip.cli.listing", *_modules((*KERNELS, *READING))):
            importlib.import_module(name)
    if mode == "trusting":
        _pass_over_checks()
    court = _Court(mode, chosen.folder, bool(chosen.files))
    if chosen.files:
        for path in chosen.files:
            print(f"{path}: {court.verdict(path.read_bytes()) or 'nothing found'}")
        return
    court.prepare()
    corpus = chosen.folder / f"corpus-{mode}"
    corpus.mkdir(exist_ok=True)
    for blob in court.seeds:
        (corpus / sha256(blob).hexdigest()).write_bytes(blob)
    flags = {
        "max_total_time": chosen.seconds, "seed": chosen.seed, "max_len": court.most, "timeout": 300,
        "report_slow_units": 300, "len_control": 0, "rss_limit_mb": 0, "reload": 0, "artifact_prefix": court.prefix,
        "print_final_stats": 1,
    }  # fmt: skip
    arguments = ["fuzz", *(f"-{name}={value}" for name, value in flags.items()), str(corpus)]
    atheris.Setup(arguments, court.judge, custom_mutator=court.mutated)
    atheris.Fuzz()


class _Court:
    """Judges the inputs of one mode. One input of each kind of find is kept, and the search goes on."""

    def __init__(self, mode: str, folder: Path, measured: bool) -> None:
        from fuzzing.mutate import MOST
        from fuzzing.seeds import Seeds

        self.mode, self.measured, self.prefix = mode, measured, folder / f"find-{mode}-"
        self.all = Seeds.read_from(folder / "seeds")
        self.most = SMALLEST if mode == "plain" else MOST
        self.seeds = [blob for blob in self.all.blobs.values() if len(blob) <= self.most]

    def prepare(self) -> None:
        """Compile and load kernels before time is taken, and then limit memory."""
        for blob in self.seeds if self.mode != "plain" else ():
            self.verdict(blob)
        _limit_memory()

    def verdict(self, blob: bytes) -> str:
        """What is wrong with what comes of an input, "" if nothing is."""
        from fuzzing.judge import Verdict, judge

        patience = 200.0 if self.mode == "plain" else 1.0
        right = self.mode != "trusting"
        try:
            judge(blob, self.all.known, self.all.needs, measured=self.measured, right=right, patience=patience)
        except Verdict as verdict:
            return str(verdict)
        return ""

    def judge(self, blob: bytes) -> None:
        """Judge an input; write it down if it is a find, unless one like it is there."""
        if what := self.verdict(blob):
            kind = sha256(re.sub(r"[0-9.]+|'.*'|\".*\"", "", what).encode()).hexdigest()[:10]
            path = Path(f"{self.prefix}{kind}")
            if not path.exists():
                path.write_bytes(blob)
                print(f"FIND {path}: {what}", flush=True)

    def mutated(self, data: bytes, max_size: int, seed: int) -> bytes:
        """Another input; a few are left to libFuzzer, which mixes in what comparisons asked for."""
        import atheris

        from fuzzing.mutate import mutate

        source = Random(seed)
        if source.random() < 0.03:
            return bytes(atheris.Mutate(data, max_size))
        return mutate(data or source.choice(self.seeds), self.seeds, source)[:max_size]


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
