"""``cat``: tensors out of dumps and containers, as a dump of their own or as plain bytes."""

from __future__ import annotations

import json as json_module
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from kvzip.cli.sizes import human
from kvzip.cli.voice import Voice
from kvzip.errors import OptionError
from kvzip.files import target_of
from kvzip.files.faults import shown


@dataclass(frozen=True)
class Settings:
    """Where to and how."""

    output: str | None
    force: bool
    raw: bool
    quiet: bool
    verbose: bool
    json: bool


def cat(
    name: str,
    wanted: tuple[Sequence[str], Sequence[str], Sequence[str]],
    settings: Settings,
    threads: int,
    prior: str | None,
    draft: str | None,
    layout: str | None,
) -> None:
    """Write the tensors that are ``wanted``, by names, layers and kinds, of one input."""
    from kvzip.api import opened_draft
    from kvzip.pipeline.options import Options
    from kvzip.pipeline.parts import Wanted, write_parts
    from kvzip.pipeline.prior_file import read_prior
    from kvzip.pipeline.tensors import open_tensors

    Options.make(threads=threads)
    choice = Wanted.of(*wanted)
    voice = Voice(settings.quiet, settings.verbose)
    where = "-" if settings.output is None else settings.output
    known = None if prior is None else read_prior(prior)
    inputs = [given for given in (name, draft) if given is not None and given != "-"]
    with (
        opened_draft(draft, threads, known) as drafts,
        open_tensors(name, threads, prior=known, draft=drafts, layout=layout) as tensors,
    ):
        found = choice.pick(tensors)
        if settings.raw and len(found) != 1:
            raise OptionError(f"--raw writes one tensor, {len(found)} are named; name it with --tensor")
        with (
            target_of(where, force=settings.force, inputs=inputs) as target,
            voice.progress(shown(name), None) as progress,
        ):
            if settings.raw:
                count = target.file.write(found[0].load())
            else:
                count = write_parts(found, tensors, target.file, progress)
            target.commit()
    if settings.json:
        names = [tensor.full_name for tensor in found]
        row = {"command": "cat", "source": name, "target": where, "target_bytes": count, "tensors": names}
        print(json_module.dumps(row), file=sys.stderr if where == "-" else sys.stdout)
    plural = "" if len(found) == 1 else "s"
    voice.say(f"{shown(name)}: {len(found)} tensor{plural}, {human(count)}", detail=True)
