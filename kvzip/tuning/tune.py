"""dumps -> samples -> levels -> parameters -> a check on everything -> settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kvzip.api import Source
from kvzip.errors import OptionError
from kvzip.pipeline.schedule import available_threads
from kvzip.tuning.data import Data, opened
from kvzip.tuning.measure import Bench, Clock, Pace, Settings
from kvzip.tuning.result import Best, Event, LevelFigures, Tuning, Watch
from kvzip.tuning.sample import Sample, Wanted, sampled
from kvzip.tuning.search import LINEAR, Samples, Search
from kvzip.windows.parameters import DEFAULT_LEVEL, LEVELS

SECONDS = 60.0
QUICK_BYTES, BROAD_BYTES = 6 << 20, 24 << 20  # of a sample
QUICK_LAYERS, BROAD_LAYERS = 3, 4
MOST_DUMPS = 4  # that are sampled, evenly spread over those given
EQUAL = 5e-4  # share of the size within which a lower level is preferred
CHECK_BYTES = 256 << 20  # the check takes so much at least
CHECK_SECONDS = 30.0  # and more if it takes no longer
MOST_CHECKED = 2 << 30


def tune(
    sources: Source | Iterable[Source],
    *,
    levels: Sequence[int] | None = None,
    min_speed: float | None = None,
    seconds: float = SECONDS,
    threads: int = 0,
    layout: str | None = None,
    watch: Watch | None = None,
) -> Tuning:
    """Find the level and the settings that suit some dumps.

    sources: a dump as ``compress`` takes it, or several. levels: those to choose from, all by default.
    min_speed: bytes a second that compression and decompression must both reach here. Without it every level is fast
    enough, and settings must not make theirs slower by more than a quarter. seconds: for the search; a check at the
    end, of everything or a good part, comes on top. watch: is told what happens.

    Settings that do not beat the defaults of their level in the check are dropped. Raises DumpError for bad input,
    OptionError for bad options and if no level is fast enough.
    """
    chosen = tuple(sorted(set(LEVELS if levels is None else levels)))
    if not chosen or not set(chosen) <= set(LEVELS):
        raise OptionError(f"levels {list(chosen)}: must be some of 1 to 9")
    if not seconds > 0 or (min_speed or 0) < 0:
        raise OptionError("seconds must be above 0 and min_speed not below")
    bench = Bench(threads, layout)
    bench.options(chosen[0], {})
    single = isinstance(sources, str | bytes | bytearray | memoryview) or not isinstance(sources, Iterable)
    given: Iterable[Source] = [sources] if single or hasattr(sources, "read") else sources  # type: ignore[list-item, assignment]
    with opened(given) as data:
        run = _Run(data, bench, chosen, min_speed, Clock(seconds), watch or (lambda event: None))
        return run.tuning(free=levels is None)


class _Run:
    """A search from beginning to end."""

    def __init__(
        self,
        data: list[Data],
        bench: Bench,
        levels: tuple[int, ...],
        floor: float | None,
        clock: Clock,
        watch: Callable[[Event], None],
    ) -> None:
        self.data, self.bench, self.levels, self.floor = data, bench, levels, floor
        self.clock, self.watch = clock, watch
        self.samples = Samples(self._sampled(QUICK_BYTES, QUICK_LAYERS), self._sampled(BROAD_BYTES, self._broad()))
        self.broad = [sample.data for sample in self.samples.broad]
        self.figures: list[LevelFigures] = []
        self.complete = True

    def tuning(self, free: bool) -> Tuning:
        """Levels, then parameters, then the check. ``free``: all levels were to choose from."""
        level = self._level()
        search = Search(self.bench, self.samples, level, self.clock, self.watch, self.floor)
        with self.clock.paused():
            self.bench.warm_up([sample.data for sample in self.samples.quick], level)
        search.run()
        settings, pace = self._fast(search, level)
        found = Tuning(level, settings, self.figures, search.findings, trials=search.trials)
        found.complete = self.complete and search.complete
        found.sample_gain = search.gain_of(settings)
        found.seconds = self.clock.spent
        found.names = [one.where for one in self.data]
        self._check(found, free)
        self._tell_speeds(found, pace)
        found.levels = self.figures
        return found

    def _sampled(self, nbytes: int, layers: int, count: int = MOST_DUMPS) -> list[Sample]:
        """Samples of some of the data that together have about ``nbytes``."""
        count = min(count, len(self.data))
        some = [self.data[at * len(self.data) // count] for at in range(count)]
        return [sampled(one, Wanted(nbytes // count, layers), self.bench.layout) for one in some]

    def _broad(self) -> int:
        """Layers of the larger sample: enough for every thread, since layers go side by side from level 4 on."""
        return max(BROAD_LAYERS, (self.bench.threads or available_threads()) + 2)

    # -- the level

    def _level(self) -> int:
        """The level of the smallest size among those that are fast enough; all are measured, while there is time."""
        sizes: dict[int, int] = {}
        for level in self.levels:
            if sizes and self.clock.left <= 0:
                self.complete = False
                break
            figures = self._measure(level, sizes)
            if level >= LINEAR and not figures.fast_enough:
                break  # those above are slower still
        fast = [one.level for one in self.figures if one.fast_enough]
        if not fast:
            raise OptionError(self._too_slow())
        least = min(sizes[level] for level in fast)
        level = next(level for level in fast if sizes[level] <= least * (1 + EQUAL))
        self.watch(Best(level, {}))
        return level

    def _measure(self, level: int, sizes: dict[int, int]) -> LevelFigures:
        with self.clock.paused():
            self.bench.warm_up([sample.data for sample in self.samples.quick], level)
        sizes[level], forth, back = self.bench.measured(self.broad, level)
        total = sum(one.nbytes for one in self.broad)
        fast = min(forth, back) >= (self.floor or 0)
        figures = LevelFigures(level, total / max(1, sizes[level]), forth, back, fast)
        self.figures.append(figures)
        self.watch(figures)
        return figures

    def _too_slow(self) -> str:
        best = max(self.figures, key=lambda one: min(one.compress_speed, one.decompress_speed))
        speeds = f"{best.compress_speed / 1e6:.3g} MB/s in, {best.decompress_speed / 1e6:.3g} MB/s out"
        many = "no level reaches" if len(self.levels) > 1 else f"level {best.level} does not reach"
        fastest = f"; the fastest is level {best.level}" if len(self.levels) > 1 else ""
        floor = f"{(self.floor or 0) / 1e6:.4g} MB/s both ways here"
        return f"{many} {floor}{fastest}, {speeds}; ask for less, or give more threads"

    def _fast(self, search: Search, level: int) -> tuple[Settings, Pace | None]:
        """From the best back to the defaults, the first settings that are fast enough when measured once more."""
        for settings in (search.best, *reversed(search.path)):
            if not settings:
                break
            pace = self.bench.compared(self.broad, level, settings)
            if pace.enough(self.floor, search.gain_of(settings)):
                return settings, pace
        return {}, None

    def _tell_speeds(self, found: Tuning, pace: Pace | None) -> None:
        """The speeds of what was chosen, and of its level's defaults."""
        if found.settings and pace is not None:
            found.compress_speed, found.decompress_speed = pace.compress, pace.decompress
            found.usual_compress_speed, found.usual_decompress_speed = pace.usual_compress, pace.usual_decompress
            return
        figures = next(one for one in self.figures if one.level == found.level)
        found.compress_speed = found.usual_compress_speed = figures.compress_speed
        found.decompress_speed = found.usual_decompress_speed = figures.decompress_speed

    # -- the check

    def _check(self, found: Tuning, free: bool) -> None:
        """Settings against defaults on everything, or on a good part of it; what does not win is dropped."""
        speed = next(one.compress_speed for one in self.figures if one.level == found.level)
        limit = int(min(MOST_CHECKED, max(CHECK_BYTES, CHECK_SECONDS * speed)))
        found.total_bytes = sum(one.nbytes for one in self.data)
        part = self._sampled(limit, self._broad(), len(self.data))
        checked = [sample.data for sample in part]
        found.checked_bytes = sum(one.nbytes for one in checked)
        found.checked_values = sum(sample.values for sample in part)
        found.default_bytes = found.tuned_bytes = self.bench.size(checked, found.level, {})
        if found.settings:
            found.tuned_bytes = self.bench.size(checked, found.level, found.settings)
            if found.tuned_bytes >= found.default_bytes:
                found.settings, found.tuned_bytes = {}, found.default_bytes
        usual = [one for one in self.figures if one.level == DEFAULT_LEVEL and one.fast_enough]
        if free and usual:
            self._against_default(found, checked)
        if found.whole:
            found.digests = {one.where: one.digest() for one in self.data}

    def _against_default(self, found: Tuning, checked: list[Data]) -> None:
        """Where the level was free, the default level must be beaten as well."""
        found.plain_bytes = found.default_bytes
        if found.level != DEFAULT_LEVEL:
            found.plain_bytes = self.bench.size(checked, DEFAULT_LEVEL, {})
        if found.plain_bytes < found.tuned_bytes:
            found.level, found.settings, found.findings = DEFAULT_LEVEL, {}, []
            found.default_bytes = found.tuned_bytes = found.plain_bytes
