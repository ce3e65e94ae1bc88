"""Parameters: ranges, fixed points, what levels and presets set, how they are stored."""

from __future__ import annotations

import re

import pytest

from kvzip.errors import ContainerError, OptionError, UnsupportedError
from kvzip.windows.parameters import LEVELS, PRESETS, SETTINGS, Parameters, parameters_for
from kvzip.wire import Cursor


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: s.name)
class TestEachSetting:
    def test_both_ends_are_allowed(self, setting):
        for value in (setting.low, setting.high):
            stored = getattr(Parameters().of(**{setting.name: value}), setting.name)
            assert stored == round(value * setting.scale)
            assert setting.check(stored)

    def test_beyond_is_refused_with_option_and_range(self, setting):
        step = 1 / setting.scale
        for value in (setting.low - step, setting.high + step, -1, float("nan"), float("inf"), 1e30):
            if setting.zero_is_off and value == 0:
                continue
            with pytest.raises(OptionError) as caught:
                Parameters().of(**{setting.name: value})
            text = str(caught.value)
            assert text.startswith("--" + setting.name.replace("_", "-") + " ")
            assert f"from {setting.low:g} to {setting.high:g}" in text
            assert "\n" not in text

    def test_zero_is_off_only_where_it_says_so(self, setting):
        if setting.zero_is_off:
            assert getattr(Parameters().of(**{setting.name: 0}), setting.name) == 0
        elif setting.low > 0:
            with pytest.raises(OptionError):
                Parameters().of(**{setting.name: 0})

    def test_fractions_of_whole_numbers_are_refused(self, setting):
        value = setting.low + 0.5
        if setting.scale == 1 and setting.low + 1 <= setting.high:
            with pytest.raises(OptionError, match="whole number"):
                Parameters().of(**{setting.name: value})

    def test_stored_out_of_range_is_damage(self, setting):
        for stored in (int(setting.high * setting.scale) + 2, 1 << 40):
            with pytest.raises(ContainerError, match=setting.name):
                read(written(**{setting.name: stored}))


def written(**stored):
    out = bytearray()
    Parameters(**{**{s.name: getattr(Parameters(), s.name) for s in SETTINGS}, **stored}).write_to(out)
    return bytes(out)


def read(data):
    cursor = Cursor(data, "test")
    parameters = Parameters.read_from(cursor)
    cursor.finish()
    return parameters


@pytest.mark.parametrize("classes", [3, 5, 6, 7, 9, 15])
def test_classes_are_a_power_of_two(classes):
    with pytest.raises(OptionError, match=f"--classes {classes}: must be 1, 2, 4, 8 or 16"):
        Parameters().of(classes=classes)
    with pytest.raises(ContainerError, match="classes"):
        read(written(classes=classes))


def test_none_leaves_a_parameter_alone():
    assert Parameters().of(alpha=None, n_update=None) == Parameters()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("preset", [None, *PRESETS])
def test_levels_and_presets_are_in_range_and_survive_storing(level, preset):
    chosen = parameters_for(level, preset)
    assert all(s.check(getattr(chosen, s.name)) for s in SETTINGS)
    out = bytearray()
    chosen.write_to(out)
    assert read(bytes(out)) == chosen
    assert Parameters().of(**chosen.shown()) == chosen


def test_the_users_numbers_win_over_the_presets_over_the_levels():
    level, preset = parameters_for(3), parameters_for(3, "classic")
    assert (preset.alpha, preset.theta_low) != (level.alpha, level.theta_low)
    assert preset.classes == level.classes
    own = parameters_for(3, "classic", alpha=0.5)
    assert own.alpha == 32768
    assert own.beta == preset.beta


@pytest.mark.parametrize("level", [0, 10, -1])
def test_an_unknown_level_is_refused(level):
    with pytest.raises(OptionError, match=re.escape(f"--level {level}: must be from 1 to 9")):
        parameters_for(level)


def test_an_unknown_preset_is_refused():
    with pytest.raises(OptionError, match="--preset modern: must be one of classic"):
        parameters_for(3, "modern")


def test_a_later_versions_parameters_are_unsupported():
    data = written()
    with pytest.raises(UnsupportedError, match="newer kvzip"):
        read(bytes([data[0] + 1]) + data[1:] + b"\0")


def test_the_vector_is_what_the_loop_reads():
    vector = Parameters().of(alpha=0.5, beta=0.5, theta_low=0.25, n_update=9, drift=2, table_bits=13).vector
    assert vector.tolist() == [131072, 32768, 16384, 0, 9, 0, 512, 64, 3, 13]
