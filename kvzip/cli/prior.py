"""``prior train`` and ``prior show``."""

from __future__ import annotations

import json as json_module
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvzip.cli.description import builtin, describe, read
from kvzip.cli.sizes import human
from kvzip.cli.voice import Voice
from kvzip.files import target_of
from kvzip.files.faults import shown

BUILTIN = "builtin"


def train(
    inputs: Sequence[str],
    output: str,
    name: str | None,
    choices: dict[str, Any],
    *,
    force: bool,
    quiet: bool,
    verbose: bool,
    json: bool,
) -> None:
    """Train a prior on the inputs and write its file."""
    from kvzip.api import train_prior
    from kvzip.predict.prior import Prior

    voice = Voice(quiet, verbose)
    began = time.perf_counter()
    with target_of(output, force=force, inputs=inputs) as target:
        voice.announce_compilation("compress")
        with voice.progress(shown(output), None) as progress:
            called = Path(output).stem if name is None else name
            data = train_prior(inputs, name=called, progress=progress, **choices)
        target.file.write(data)
        target.commit()
    voice.remember_compilation("compress")
    seconds = time.perf_counter() - began
    item = describe(Prior.from_bytes(data, output), output)
    if json:
        row = {"command": "prior train"} | item.to_json() | {"seconds": round(seconds, 6)}
        print(json_module.dumps(row), file=sys.stderr if output == "-" else sys.stdout)
    line = f"{shown(output)}: {item.identity}, {human(len(data))}, for {item.types} in {seconds:.2f} s"
    voice.say(line, detail=True)
    if not json and not verbose:
        voice.say(line, only_terminal=True)


def show(name: str, *, json: bool) -> None:
    """Show a prior file, or what a container says of its prior."""
    item = builtin(BUILTIN) if name == BUILTIN else read(name)
    if json:
        print(json_module.dumps({"command": "prior show"} | item.to_json()))
        return
    from kvzip.cli.show.prior import show_prior

    show_prior(item)
