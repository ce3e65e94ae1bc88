"""The search at one level: every parameter alone, the best of them together, then each once more around these.

Trials are in the same order every time and compare sizes, so that the outcome does not depend on the machine, but for
the speed that may be asked for and for what the time allows. All values of a parameter are tried on a small sample,
those that look best on a larger one, which decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvzip.tuning import grid
from kvzip.tuning.grid import Candidate
from kvzip.tuning.measure import Bench, Clock, Pace, Settings
from kvzip.tuning.result import Best, Event, Finding, Trial
from kvzip.tuning.sample import Sample

NOTHING = 16  # bytes for each dump, by which sizes differ as the numbers of the settings themselves take room
LEAST_GAIN = 1e-4  # share of the size below which a change is not worth a longer command
FLAT = 5e-4  # share of the size within which values count as near the best
IDLE = 2e-3  # share of the size below which even settings far off say that windows hardly matter
FINALISTS = 2  # values of a parameter that go on to the larger sample
ROUNDS = 3  # over all parameters, at most
LINEAR = 4  # the first level that predicts linearly


class OutOfTime(Exception):
    """The seconds given are over."""


@dataclass(frozen=True)
class Samples:
    """The same data small and larger; they may be one."""

    quick: Sequence[Sample]
    broad: Sequence[Sample]

    @property
    def one(self) -> bool:
        """Whether there is nothing larger than the small ones."""
        return all(small.whole for small in self.quick) or list(self.quick) == list(self.broad)


class Search:
    """One level's search. ``floor``: bytes a second that both directions must reach, None for the usual share of
    what they reach with the level's defaults."""

    def __init__(
        self,
        bench: Bench,
        samples: Samples,
        level: int,
        clock: Clock,
        watch: Callable[[Event], None],
        floor: float | None,
    ) -> None:
        self.bench, self.samples, self.level, self.clock = bench, samples, level, clock
        self.watch, self.floor = watch, floor
        self.paces: dict[str, Pace] = {}
        self.sizes: dict[tuple[bool, str], int] = {}
        self.best: Settings = {}
        self.path: list[Settings] = []  # what was best before
        self.findings: list[Finding] = []
        self.trials = 0
        self.complete = True
        self.gains: dict[str, tuple[float, Candidate]] = {}

    def run(self) -> Settings:
        """The best settings found in time; ``findings`` then tell what each parameter is worth."""
        try:
            self._alone()
            self._together()
            self._around()
        except OutOfTime:
            self.complete = False
        return self.best

    def gain_of(self, settings: Settings) -> float:
        """Share of the larger sample's size that settings tried on it save."""
        if not settings:
            return 0.0
        size, base = (self.sizes[self._key(which, True)] for which in (settings, {}))
        return 1 - size / max(1, base)

    # -- measuring

    def _key(self, settings: Settings, broad: bool) -> tuple[bool, str]:
        return broad and not self.samples.one, repr(sorted(settings.items()))

    def _size(self, settings: Settings, broad: bool, what: str = "") -> int:
        """Bytes of a sample with ``settings``, measured once. OutOfTime if it is too late."""
        broad = broad and not self.samples.one
        key = self._key(settings, broad)
        if key not in self.sizes:
            if self.clock.left <= 0:
                raise OutOfTime
            chosen = self.samples.broad if broad else self.samples.quick
            data = [sample.data for sample in chosen]
            self.sizes[key] = self.bench.size(data, self.level, settings)
            self.trials += 1
            if settings:
                base = self._size({}, broad)
                self.watch(Trial(self.level, what, self.sizes[key], base, sum(one.nbytes for one in data)))
        return self.sizes[key]

    def _pace(self, settings: Settings) -> Pace:
        """How fast settings are, measured once."""
        key = repr(sorted(settings.items()))
        if key not in self.paces:
            if self.clock.left <= 0:
                raise OutOfTime
            data = [sample.data for sample in self.samples.broad]
            self.paces[key] = self.bench.compared(data, self.level, settings)
        return self.paces[key]

    def _fast_enough(self, settings: Settings) -> bool:
        return self._pace(settings).enough(self.floor, self.gain_of(settings))

    def _with(self, candidate: Candidate) -> Settings:
        return grid.laid_over(self.level, self.best, candidate.changes)

    # -- every parameter alone

    def _alone(self) -> None:
        ropes = self._ropes()
        for name in self._acting():
            finding = self._judge(name, grid.candidates(self.level, name, {}, ropes))
            self.findings.append(finding)
            self.watch(finding)

    def _acting(self) -> list[str]:
        """The parameters worth trying: with linear prediction those of the windows seldom matter."""
        windows = [grid.PRESET, *grid.LADDERS]
        if self.level >= LINEAR:
            base, other = self._size({}, False), self._size(grid.PROBE, False, "probe of the windows")
            if self._same(base, other) or abs(other - base) < IDLE * base:
                return [grid.ROPE]
        return [grid.ROPE, *windows] if self.level > 1 else windows

    def _ropes(self) -> list[str]:
        """The rotations found in the sample, as a user would write them: told, they hold for every tensor."""
        if self.level == 1:
            return []
        found = self.bench.ropes([sample.data for sample in self.samples.quick], self.level)
        specs = [grid.spec_of(rope) for rope in found]
        return [spec for spec in dict.fromkeys(specs) if spec][:FINALISTS]

    def _judge(self, name: str, candidates: Sequence[Candidate]) -> Finding:
        """What a parameter alone is worth; its best value that is fast enough is put down among the ``gains``."""
        named = f"{name.replace('_', '-')} "
        over = [grid.laid_over(self.level, {}, one.changes) for one in candidates]
        quick = [
            self._size(settings, False, named + one.label) for settings, one in zip(over, candidates, strict=True)
        ]
        least, default = min(quick), grid.default_of(self.level, name)
        near = tuple(one.label for one, size in zip(candidates, quick, strict=True) if size <= least * (1 + FLAT))
        if all(self._same(size, quick[0]) for size in quick):
            return Finding(name, default, default, 0.0, 0.0, near, acts=False)
        base = self._size({}, True)
        order = sorted((size, at) for at, size in enumerate(quick) if over[at])[:FINALISTS]
        last = sorted((self._size(over[at], True, named + candidates[at].label), at) for _, at in order)
        last = [(size, at) for size, at in last if size < base * (1 - LEAST_GAIN)]
        if not last:
            return Finding(name, default, default, 0.0, 0.0, near)
        fast = next(
            ((size, at) for size, at in last if self._pace(over[at]).enough(self.floor, 1 - size / base)), None
        )
        if fast is not None:
            self.gains[name] = 1 - fast[0] / base, candidates[fast[1]]
        size, at = last[0]
        broad = self.samples.quick if self.samples.one else self.samples.broad
        bits = 8 * (base - size) / max(1, sum(sample.values for sample in broad))
        pace = self._pace(over[at])
        return Finding(
            name,
            default,
            candidates[at].label,
            1 - size / base,
            bits,
            near,
            True,
            pace.relative,
            pace.enough(self.floor, 1 - size / base),
        )

    def _same(self, size: int, other: int) -> bool:
        return abs(size - other) <= NOTHING * len(self.samples.quick)

    # -- together

    def _together(self) -> None:
        """Add the best values one after the other, the most valuable first, as long as they help."""
        for name in self._by_gain():
            candidate = self.gains[name][1]
            self._take(self._with(candidate), f"{name.replace('_', '-')} {candidate.label}")

    def _around(self) -> None:
        """Each parameter once more, a step up and down from where it is now, until nothing helps."""
        names = [finding.name for finding in self.findings if finding.acts and finding.name in grid.LADDERS]
        names.sort(key=lambda name: -self.gains.get(name, (0.0, None))[0])
        for _ in range(ROUNDS):
            before = dict(self.best)
            for name in names:
                for candidate in self._steps(name):
                    self._take(self._with(candidate), f"{name.replace('_', '-')} {candidate.label}")
            if self.best == before:
                return

    def _steps(self, name: str) -> list[Candidate]:
        """The values next to the one that holds."""
        candidates = grid.candidates(self.level, name, self.best, ())
        over = [self._with(candidate) for candidate in candidates]
        at = next((n for n, settings in enumerate(over) if settings == self.best), None)
        return [] if at is None else [candidates[n] for n in (at - 1, at + 1) if 0 <= n < len(candidates)]

    def _by_gain(self) -> list[str]:
        return sorted(self.gains, key=lambda name: -self.gains[name][0])

    def _take(self, settings: Settings, what: str) -> None:
        """Go on from ``settings`` if they are smaller and fast enough."""
        if settings == self.best:
            return
        size, base = self._size(settings, True, what), self._size(self.best, True)
        if size < base * (1 - LEAST_GAIN) and self._fast_enough(settings):
            self.path.append(self.best)
            self.best = settings
            self.watch(Best(self.level, settings))
