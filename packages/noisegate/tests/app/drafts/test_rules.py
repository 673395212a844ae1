import re

import numpy as np
import pandas as pd
import pytest

from noisegate.app.drafts.draft import draft

RECORD_COUNT = 3000
RANDOM = np.random.default_rng(7)
AGES = RANDOM.integers(18, 90, RECORD_COUNT)


def drafted_rules(**columns):
    """Drafts a table; returns its relations and constraints, and its remarks as one."""
    drafted = draft(pd.DataFrame({**columns, "age": AGES}))
    stated = {*drafted.schema.relations, *drafted.schema.constraints}
    return {str(rule) for rule in stated}, " ".join(drafted.rules.remarks)


def in_some_records(fraction, values):
    """Returns values that are missing in the other records."""
    is_there = RANDOM.random(RECORD_COUNT) < fraction
    return np.where(is_there, values, np.nan)


LINES = RANDOM.negative_binomial(4, 0.26, RECORD_COUNT)
LATE_FEES = np.where(
    RANDOM.random(RECORD_COUNT) < 0.02, RANDOM.uniform(10, 50, RECORD_COUNT), 0
).round(2)


def test_nearly_equal_columns_are_remarked_once_and_are_no_sum():
    is_less = (RANDOM.random(RECORD_COUNT) < 0.02) & (LINES > 0)
    _, remarks = drafted_rules(
        open_lines=LINES, satisfactory=LINES - is_less, late_fees=LATE_FEES
    )
    assert re.search(
        r"satisfactory equals open_lines in 9[78]\.\d% of the records", remarks
    )
    assert remarks.count("satisfactory") == 1
    assert "add it up" not in remarks
    assert "nearly follows" not in remarks
    assert "derive" not in remarks


def test_equal_columns_are_a_relation_and_not_remarked():
    rules, remarks = drafted_rules(
        open_lines=LINES, satisfactory=LINES, late_fees=LATE_FEES
    )
    assert rules == {"satisfactory = open_lines"}
    assert "satisfactory" not in remarks


@pytest.mark.parametrize(
    "values",
    [
        np.datetime64("2020-01-01") + RANDOM.integers(0, 600, RECORD_COUNT),
        RANDOM.choice(["red", "green", "blue"], RECORD_COUNT),
    ],
)
def test_dates_and_levels_that_are_equal_are_called_so_once(values):
    other = np.where(RANDOM.random(RECORD_COUNT) < 0.01, values[::-1], values)
    _, remarks = drafted_rules(first=values, second=other)
    assert remarks.startswith(
        ("second equals first in 98.", "second equals first in 99.")
    )
    assert remarks.count("second") == 1


def test_a_rare_part_that_makes_the_sum_right_is_part_of_it():
    # total = price in 98 % of the records, and price + late_fees in all.
    price = RANDOM.gamma(2, 30, RECORD_COUNT).round(2)
    rules, _ = drafted_rules(
        price=price, late_fees=LATE_FEES, total=(price + LATE_FEES).round(2)
    )
    assert rules == {"total = price + late_fees"}


def test_a_part_too_small_to_matter_makes_no_sum():
    tiny = RANDOM.uniform(1, 2, RECORD_COUNT) * 1e-12
    price = RANDOM.gamma(2, 30, RECORD_COUNT).round(2)
    rules, _ = drafted_rules(price=price, tiny=tiny, total=price)
    assert rules == {"total = price"}


def test_a_constant_that_may_be_missing_follows_from_nothing():
    is_out = RANDOM.random(RECORD_COUNT) < 0.2
    aids = np.where(is_out, np.nan, 0)
    count = np.where(is_out, np.nan, RANDOM.integers(0, 4, RECORD_COUNT))
    rules, remarks = drafted_rules(aids=aids, count=count)
    assert rules == {"aids, count missing together"}
    assert "derive" not in remarks


def test_columns_of_mostly_one_value_are_not_equal():
    flags = {f"fee{index}": np.roll(LATE_FEES, 500 * index) for index in range(3)}
    _, remarks = drafted_rules(**flags)
    assert "equals" not in remarks


@pytest.mark.parametrize("said_count", [0, 5])
@pytest.mark.parametrize(
    "words", [("no", "yes"), (0.0, 2.5), (False, True)], ids=["text", "number", "bool"]
)
def test_columns_that_hardly_ever_say_anything_else_are_not_called_equal(
    words, said_count
):
    flags = np.repeat(words, [RECORD_COUNT - said_count, said_count])
    rules, _ = drafted_rules(first=flags, second=flags)
    assert rules == set()


def test_levels_that_may_be_missing_are_called_equal():
    towns = RANDOM.choice(["bonn", "köln"], RECORD_COUNT)
    known_towns = np.where(RANDOM.random(RECORD_COUNT) < 0.2, None, towns)
    rules, _ = drafted_rules(first=known_towns, second=known_towns)
    assert "second = first" in rules


@pytest.mark.parametrize("level_count", [3, 4, 6])
def test_a_number_that_one_level_decides_is_related_to_it(level_count):
    levels = np.array(["employed", *"abcdefgh"[: level_count - 1]])
    job = RANDOM.choice(levels, RECORD_COUNT)
    wage = np.where(job == "employed", RANDOM.integers(900, 6000, RECORD_COUNT), np.nan)
    rules, _ = drafted_rules(employment=job, wage=wage)
    assert rules == {"wage exactly if employment = employed"}


@pytest.mark.parametrize("level_count", [4, 6])
def test_a_number_that_is_positive_for_one_level_alone_is_constrained(level_count):
    levels = np.array(["employed", *"abcdefgh"[: level_count - 1]])
    job = RANDOM.choice(levels, RECORD_COUNT)
    wage = np.where(job == "employed", RANDOM.integers(900, 6000, RECORD_COUNT), 0)
    constraints, _ = drafted_rules(employment=job, wage=wage)
    assert constraints == {
        "impossible: employment = employed, wage = 0",
        *(f"impossible: employment = {level}, wage = 1.." for level in levels[1:]),
    }


def test_text_that_is_stated_for_one_level_alone_is_related_to_it():
    job = RANDOM.choice(["employed", "none", "retired", "unemployed"], RECORD_COUNT)
    trade = RANDOM.choice(["bank", "farm", "shop", "school"], RECORD_COUNT)
    rules, _ = drafted_rules(
        employment=job, trade=np.where(job == "employed", trade, None)
    )
    assert rules == {"trade exactly if employment = employed"}


def test_of_many_levels_that_decide_a_remark_says_which():
    levels = np.array(list("abcdefghijkl"))
    job = RANDOM.choice(levels, RECORD_COUNT)
    wage = np.where(job < "c", RANDOM.integers(900, 6000, RECORD_COUNT), np.nan)
    constraints, remarks = drafted_rules(employment=job, wage=wage)
    assert not constraints
    assert "Not proposed: wage is stated only where employment is a, b." in remarks


def test_what_is_missing_together_is_a_relation_and_never_constrained():
    is_out = RANDOM.random(RECORD_COUNT) < 0.25
    words = np.where(is_out, None, RANDOM.choice(["no", "yes"], RECORD_COUNT))
    more_words = np.where(is_out, None, RANDOM.choice(["a", "b", "c"], RECORD_COUNT))
    numbers = np.where(is_out, np.nan, RANDOM.lognormal(4, 0.5, RECORD_COUNT).round())
    zeros = np.where(is_out, np.nan, RANDOM.integers(0, 4, RECORD_COUNT))
    rules, remarks = drafted_rules(
        ascites=words, arm=more_words, copper=numbers, stage=zeros
    )
    assert rules == {"ascites, arm, copper, stage missing together"}
    assert "missing together" not in remarks


def test_what_is_missing_within_another_is_remarked_and_not_constrained():
    is_out = RANDOM.random(RECORD_COUNT) < 0.25
    first = np.where(is_out, np.nan, RANDOM.integers(50, 99, RECORD_COUNT))
    second = np.where(np.isnan(first), np.nan, in_some_records(0.7, first + 3))
    constraints, remarks = drafted_rules(first=first, second=second)
    assert not any("impossible" in constraint for constraint in constraints)
    assert "Not proposed: where first is missing, second is too." in remarks
    assert "missing together" not in remarks


def test_what_is_missing_by_chance_is_not_remarked():
    columns = {
        "left": in_some_records(0.7, AGES),
        "right": in_some_records(0.7, AGES[::-1]),
    }
    for name in ("few", "rare"):
        columns[name] = np.where(np.arange(RECORD_COUNT) == 7, np.nan, AGES)
    assert "missing" not in drafted_rules(**columns)[1]


def test_a_column_named_like_a_keyword_of_python_may_stand_in_a_formula():
    width, length = RANDOM.uniform(1, 9, (2, RECORD_COUNT)).round(2)
    columns = {"yield": length, "width": width, "area": length * width}
    rules, _ = drafted_rules(**columns)
    assert rules == {"area = `yield` * width"}


def test_a_number_far_above_another_is_drafted_without_a_largest_difference():
    """Most of the lower column's range lies below the upper one: both are measured."""
    log_size = RANDOM.uniform(-3, 1.4, RECORD_COUNT).round(3)
    stated, _ = drafted_rules(size=(10**log_size).round(4), log_size=log_size)
    assert "size >= log_size" in stated
