"""``tune``: the search as it goes, what it found, and the profile to keep."""

from __future__ import annotations

import json as json_module
import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from kvzip.cli.sizes import human
from kvzip.cli.voice import Voice
from kvzip.errors import OptionError
from kvzip.files.faults import shown
from kvzip.version import __version__

if TYPE_CHECKING:
    from kvzip.tuning.result import Tuning


@dataclass(frozen=True)
class Wishes:
    """What to write and to say."""

    output: str | None
    force: bool
    quiet: bool
    verbose: bool
    json: bool


def tune(inputs: Sequence[str] | None, wanted: dict[str, Any], wishes: Wishes) -> None:
    """Search, show what was found, and write the profile if one is wanted."""
    from kvzip.files import Interrupted
    from kvzip.layouts.registry import recognise
    from kvzip.tuning.tune import tune as search

    recognise((), "", wanted["layout"])
    names = list(inputs or ["-"])
    if names.count("-") > 1:
        raise OptionError("standard input is given twice; give - once")
    voice = Voice(wishes.quiet, wishes.verbose)
    running = _Running(voice, wishes.verbose)
    with _target(wishes, names) as target:
        voice.announce_compilation("compress")
        try:
            found = search(names, watch=running, **wanted)
        except (KeyboardInterrupt, Interrupted):
            running.tell_best(names)
            raise
        for verb in ("compress", "decompress"):
            voice.remember_compilation(verb)
        if target is not None:
            target.file.write(profile_of(found, wanted["layout"]).encode())
            target.commit()
    more = {"layout": wanted["layout"], "threads": wanted["threads"] or None}
    command = command_line(found.options | more, names)
    if wishes.json:
        row = {"command": "tune"} | found.to_json() | {"command_line": command, "profile": wishes.output}
        print(json_module.dumps(row), file=sys.stderr if wishes.output == "-" else sys.stdout)
    elif wishes.output != "-" and not wishes.quiet:
        from kvzip.cli.show.tuning import show_tuning

        show_tuning(found, command, wishes.output, names)
    voice.say(f"{found.trials} trials in {found.seconds:.1f} s", detail=True)


def _target(wishes: Wishes, names: Sequence[str]) -> AbstractContextManager[Any]:
    from kvzip.files import target_of

    if wishes.output is None:
        return nullcontext()
    inputs = [name for name in names if name != "-"]
    harmless = wishes.output == "-"  # text does no harm to a terminal
    return target_of(wishes.output, force=wishes.force or harmless, inputs=inputs)


class _Running:
    """Tells a search as it goes: on a terminal each step, with -v each trial anywhere."""

    def __init__(self, voice: Voice, verbose: bool) -> None:
        self.voice, self.verbose = voice, verbose
        self.best: dict[str, Any] | None = None

    def __call__(self, event: Any) -> None:
        """Say what happened."""
        from kvzip.tuning.result import Best, Finding, LevelFigures, Trial

        if isinstance(event, Best):
            self.best = {"level": event.level} | event.settings
        elif isinstance(event, Trial) and self.verbose:
            self._say(f"level {event.level}, {event.what}: {human(event.nbytes)}, {change(event.gain)}")
        elif isinstance(event, LevelFigures):
            speeds = f"{human(event.compress_speed)}/s in, {human(event.decompress_speed)}/s out"
            slow = "" if event.fast_enough else ", too slow"
            self._say(f"level {event.level}: {event.ratio:.4f}x, {speeds}{slow}")
        elif isinstance(event, Finding):
            self._say(f"{event.name.replace('_', '-')}: {_told(event)}")

    def _say(self, text: str) -> None:
        self.voice.say(text, only_terminal=not self.verbose)

    def tell_best(self, names: Sequence[str]) -> None:
        """What the search had when it was ended."""
        if self.best is not None:
            self.voice.warn(f"the best so far, not checked: {command_line(self.best, names)}")


def _told(finding: Any) -> str:
    if not finding.acts:
        return "changes nothing here"
    if not finding.gain:
        return f"{finding.default} is best"
    slow = "" if finding.fast_enough else ", too slow"
    return (
        f"{finding.best} instead of {finding.default}, {change(finding.gain)}, {finding.speed:.2f}x the speed{slow}"
    )


def change(gain: float) -> str:
    """A share of the size saved, as a change of it."""
    return f"{-100 * gain:+.2f} %" if abs(gain) >= 5e-5 else "the same"


def command_line(options: dict[str, Any], names: Sequence[str]) -> str:
    """What to type for these options; None leaves one out."""
    words = ["kvzip", "compress"]
    for name, value in options.items():
        if value is not None:
            words += ["--" + name.replace("_", "-"), value if isinstance(value, str) else f"{value:.15g}"]
    return shlex.join([*words, *(["--"] if any(n[:1] == "-" and n != "-" for n in names) else []), *names])


def profile_of(found: Tuning, layout: str | None) -> str:
    """The text of a profile."""
    from kvzip.tuning.profile import Value, profile_text

    options = found.options | ({} if layout is None else {"layout": layout})
    measured: dict[str, Value] = {
        "kvzip": __version__,
        "date": date.today().isoformat(),
        "data": list(found.digests) or found.names,
        "digests": list(found.digests.values()),
        "bytes": found.total_bytes,
        "checked-bytes": found.checked_bytes,
        "packed-bytes": found.tuned_bytes,
        "packed-bytes-at-defaults": found.default_bytes,
        "ratio": round(found.ratio, 4),
        "compress-bytes-per-second": round(found.compress_speed),
        "decompress-bytes-per-second": round(found.decompress_speed),
        "gains-in-percent": [
            f"{f.name.replace('_', '-')} {f.best}: {100 * f.gain:.3f}" for f in found.findings if f.gain
        ],
    }
    what = f"{change(found.gain)} against the defaults of level {found.level}"
    what = what if found.settings else f"the defaults of level {found.level}, which nothing beat"
    about = [
        f"Settings for kvzip, found by kvzip {__version__} tune; use them with: kvzip compress --profile FILE",
        f"{what} on {', '.join(map(shown, found.names))}",
    ]
    return profile_text(options, measured, about)
