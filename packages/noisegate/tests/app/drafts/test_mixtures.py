import uuid

import numpy as np
import pandas as pd
import pytest

from noisegate.app.drafts.draft import draft

RECORD_COUNT = 300
RANDOM = np.random.default_rng(4)
ROWS = range(RECORD_COUNT)


def drafted(values):
    return draft(pd.DataFrame({"value": values, "age": [row % 50 for row in ROWS]}))


def mixed(first, second):
    """Writes some records in one way, and others in another."""
    return [first(row) if row % 3 else second(row) for row in ROWS]


MIXTURES = {
    "dates in two orders": (
        mixed(
            lambda row: f"2020-01-{row % 28 + 1:02}",
            lambda row: f"{row % 28 + 1:02}.02.2020",
        ),
        "dates or times in 2 notations, as in '02.02.2020'|dates or times in 2 notations",
    ),
    "day first and month first": (
        mixed(
            lambda row: f"{row % 15 + 13}/01/2020",
            lambda row: f"01/{row % 15 + 13}/2020",
        ),
        "dates or times in 2 notations",
    ),
    "with and without a time zone": (
        mixed(
            lambda row: f"2020-02-{row % 28 + 1:02}T05:00:00",
            lambda row: f"2020-01-{row % 28 + 1:02}T05:00:00Z",
        ),
        "dates or times in 2 notations, .*; write all in one",
    ),
    "units": (
        mixed(lambda row: f"{row % 40 + 1} mg", lambda row: f"{row % 30 + 1} g"),
        "numbers in several units, 'g' and 'mg'; write all in one",
    ),
    "lengths": (
        mixed(lambda row: f"{row % 40 + 140} cm", lambda row: f"1.{row % 40 + 40} m"),
        "numbers in several units, 'cm' and 'm'",
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_text_in_several_notations_is_ignored_with_the_reason(name):
    values, reason = MIXTURES[name]
    assert pd.Series(drafted(values).ignored["value"]).str.contains(reason)[0]


def test_few_doses_in_several_units_are_levels_with_a_comment():
    result = drafted(mixed(lambda row: "5 mg", lambda row: f"{row % 2 + 1} g"))
    assert set(result.schema.column("value").levels) == {"5 mg", "1 g", "2 g"}
    assert "several units, 'g' and 'mg'" in result.entries[0].comments[0]


NO_MIXTURES = {
    "iso days and moments": (
        mixed(
            lambda row: f"2020-01-{row % 28 + 1:02}",
            lambda row: f"2020-02-01T0{row % 9}:30",
        ),
        "datetime",
    ),
    "words": ([f"word {row % 40}" for row in ROWS], "categorical"),
    "a day among words": (
        ["2020-01-01", *[f"word {row % 40}" for row in ROWS]][:300],
        "categorical",
    ),
    "long words": (
        [f"prefer_not_to_say_anything_of_{'abcdefghijkl'[row % 12]}" for row in ROWS],
        "categorical",
    ),
}


@pytest.mark.parametrize("name", NO_MIXTURES)
def test_other_text_is_no_mixture(name):
    values, kind = NO_MIXTURES[name]
    assert drafted(values).schema.column("value").kind == kind


def test_moments_that_are_written_in_several_ways_are_said_to_be():
    values = [
        f"2020-02-{row % 28 + 1:02}{'T' if row % 2 else ' '}05:30:00" for row in ROWS
    ]
    values[7] = "2020-02-03"
    comments = " ".join(drafted(values).entries[0].comments)
    assert "spelling: written in 3 ways, as '2020-02-01 05:30:00'" in comments
    same = [value.replace("T", " ") for value in values[8:] * 2][:RECORD_COUNT]
    assert "spelling" not in " ".join(drafted(same).entries[0].comments)


LONG_CODES = {
    "uuids": [str(uuid.UUID(int=2**100 + row % 40)) for row in ROWS],
    "hashes": [f"{2**90 + 977 * (row % 25):x}" for row in ROWS],
    "accounts": [f"DE{10 + row % 30}50010517{5407324900 + row % 30}" for row in ROWS],
}


@pytest.mark.parametrize("name", LONG_CODES)
def test_long_codes_are_no_levels_however_few(name):
    reason = drafted(LONG_CODES[name]).ignored["value"]
    assert "is a long code, like an identifier, which must not be learnt" in reason
    assert "unit_column='value' and contributions=" in reason
