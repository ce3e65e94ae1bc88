"""``compress`` and ``decompress``: their options checked, their inputs given to this machine or to a fleet."""

from __future__ import annotations

from typing import Any

from kvzip.cli.batch import Settings, here, run
from kvzip.cli.work import worker
from kvzip.errors import OptionError
from kvzip.files import Inputs


def compress(
    inputs: Inputs,
    settings: Settings,
    choices: dict[str, Any],
    draft: str | None = None,
    fleet: tuple[str | None, int] | None = None,
) -> None:
    """Compress every input; raises SystemExit(1) at the end if some failed."""
    from kvzip.pipeline.options import Options

    Options.make(**choices)
    _check_layout(choices["layout"])
    _transform("compress", inputs, settings, choices, draft, fleet)


def decompress(
    inputs: Inputs,
    settings: Settings,
    choices: dict[str, Any],
    draft: str | None = None,
    fleet: tuple[str | None, int] | None = None,
) -> None:
    """Restore every input, or what is left of it; raises SystemExit(1) at the end if some failed."""
    from kvzip.pipeline.options import Options

    Options.make(threads=choices["threads"])
    if choices["salvage"] and settings.remove:
        raise OptionError("--salvage and --rm exclude each other: a damaged container may still be of use")
    _transform("decompress", inputs, settings, choices, draft, fleet)


def _transform(
    verb: str,
    inputs: Inputs,
    settings: Settings,
    choices: dict[str, Any],
    draft: str | None,
    fleet: tuple[str | None, int] | None,
) -> None:
    """Do every input on this machine or, if a fleet is named by scheduler or number of workers, there."""
    if fleet is not None:
        from kvzip.cli.spread import spread

        run(inputs, settings, verb, spread(verb, settings, choices, draft, *fleet))
        return
    with worker(verb, settings, choices, draft) as work:
        run(inputs, settings, verb, here(settings, verb, work, choices["threads"], () if draft is None else (draft,)))


def _check_layout(layout: str | None) -> None:
    """Refuse an unknown layout before anything is opened."""
    from kvzip.layouts.registry import recognise

    recognise((), "", layout)
