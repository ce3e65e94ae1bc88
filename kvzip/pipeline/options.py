"""What a caller may choose, and what a run reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kvzip.container.structures import BLOCK_BYTES_LOG2
from kvzip.errors import OptionError
from kvzip.linear.settings import LEVELS, Settings
from kvzip.pipeline.prior_file import PriorSource, read_prior
from kvzip.pipeline.schedule import available_threads
from kvzip.predict.prior import Prior
from kvzip.predict.rope import MAX_CHANNELS, from_spec
from kvzip.windows.parameters import DEFAULT_LEVEL, Parameters, parameters_for

if TYPE_CHECKING:
    from kvzip.pipeline.draft import Draft

PREDICTING = 2  # the first level at which values are predicted
Progress = Callable[[int, int], None]
"""Called with (bytes of the source done, bytes of the container) now and then."""


@dataclass(frozen=True)
class Options:
    """Options of a compression. Build them with ``make``."""

    level: int = DEFAULT_LEVEL
    threads: int = 0
    parameters: Parameters = field(default_factory=lambda: parameters_for(DEFAULT_LEVEL))
    layout: str | None = None
    block_log2: int = BLOCK_BYTES_LOG2
    verify: bool = False
    rope: str | None = None
    prior: Prior | None = None  # of predictions' residuals, None is the shipped one
    embed_prior: bool = False
    draft: Draft | None = None

    @property
    def predicts(self) -> bool:
        """Whether values are coded relative to predictions."""
        return self.level >= PREDICTING or self.draft is not None

    @property
    def recalls(self) -> bool:
        """Whether repeated tokens are made use of."""
        return self.level >= 3

    @property
    def unites(self) -> Settings | None:
        """How layers are coded together, None if they are not."""
        return LEVELS.get(self.level)

    @property
    def budget(self) -> int:
        """Bytes of values that may be in flight."""
        return in_flight_budget(self.threads, self.block_log2)

    @classmethod
    def make(
        cls,
        level: int = DEFAULT_LEVEL,
        threads: int = 0,
        *,
        preset: str | None = None,
        layout: str | None = None,
        block_log2: int = BLOCK_BYTES_LOG2,
        verify: bool = False,
        rope: str | None = None,
        prior: PriorSource | None = None,
        embed_prior: bool = False,
        draft: Draft | None = None,
        **settings: float | None,
    ) -> Options:
        """Check everything a user may give; OptionError names the option and its range.

        ``settings`` are those of ``windows.parameters.SETTINGS`` by name (alpha, beta, theta_low...). ``prior`` is
        "builtin", "none" or a prior file, as a path or its bytes; ``draft`` is one that is open.
        """
        if not 0 <= threads <= 1024:
            raise OptionError(f"--threads {threads}: must be from 0 (all cores) to 1024")
        if not 12 <= block_log2 <= 26:
            raise OptionError(f"--block-size 2^{block_log2}: must be from 2^12 to 2^26 bytes")
        if prior == "none":
            if settings.get("prior_weight"):
                raise OptionError("--prior none and --prior-weight exclude each other; give one of them")
            settings["prior_weight"] = 0
        trained = None if prior in (None, "builtin", "none") else read_prior(prior)
        if embed_prior and trained is None:
            raise OptionError("--embed-prior: there is nothing to embed; give a trained prior with --prior FILE")
        if trained and level < PREDICTING:
            raise OptionError(f"--prior FILE: level {level} predicts nothing; give --level {PREDICTING} or more")
        parameters = parameters_for(level, preset, **settings)
        if rope == "auto":
            rope = None
        if rope is not None:
            from_spec(rope, MAX_CHANNELS)  # OptionError on a rope that makes no sense
        return cls(level, threads, parameters, layout, block_log2, verify, rope, trained, embed_prior, draft)


def in_flight_budget(threads: int, block_log2: int) -> int:
    """Enough blocks in flight to keep every thread busy while the next slabs are read."""
    return (2 * (threads or available_threads()) + 2) << block_log2
