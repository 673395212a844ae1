"""What a large enough sample shows: steps, atoms and rules, and nothing where there is an exception or too little."""

from dataclasses import replace
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from noisegate.schema import EncodedTable, Schema, decode
from noisegate.schema.columns import column_form
from noisegate.sources import TableSource

from .conftest import written

ROWS = 2000
RANDOM = np.random.default_rng(5)


def normal(scale, rows=ROWS):
    return np.round(RANDOM.normal(50, 9, rows) / scale) * scale


def mostly(value, others, share=0.3):
    others = np.asarray(others)
    return np.where(np.arange(len(others)) % 10 < 10 * share, value, others)


START = np.datetime64("2020-03-01") + RANDOM.integers(0, 900, ROWS)
DAYS = RANDOM.integers(0, 200, ROWS)
GRIDS = {
    "cents": (
        np.round(RANDOM.gamma(2, 30, ROWS), 2),
        {"kind": "decimal", "step": 0.01},
    ),
    "quarters": (normal(0.25), {"kind": "decimal", "step": 0.25}),
    "fives": (normal(5).astype(int), {"kind": "integer", "step": 5}),
    "whole": (RANDOM.integers(0, 40, ROWS), {"kind": "integer"}),
    "real": (RANDOM.normal(0, 1, ROWS), {"kind": "continuous"}),
    "one exception": (np.r_[normal(5).astype(int)[1:], 51], {"kind": "integer"}),
    "unknown is 999": (
        mostly(999, normal(1).astype(int), 0.1),
        {"kind": "integer", "atoms": [999]},
    ),
    "refused is -9, unknown -1": (
        mostly(-9, mostly(-1, RANDOM.integers(0, 9000, ROWS), 0.2), 0.1),
        {"kind": "integer", "atoms": [-9, -1]},
    ),
    "real and none": (
        mostly(0.0, RANDOM.gamma(2, 3, ROWS)),
        {"kind": "continuous", "atoms": [0.0]},
    ),
    "minutes": (
        np.datetime64("2021-01-01T00:00:00", "us")
        + RANDOM.integers(0, 400_000, ROWS).astype("timedelta64[m]"),
        {"kind": "datetime", "step": 60},
    ),
    "never is 9999": (
        mostly(np.datetime64("9999-12-31"), START, 0.1),
        {"kind": "date", "atoms": [date(9999, 12, 31)]},
    ),
}


@pytest.mark.parametrize("name", GRIDS)
def test_a_draft_finds_the_grid_and_the_atoms_that_were_planted_and_no_others(
    name, tmp_path
):
    values, expected = GRIDS[name]
    draft = written(tmp_path, {name: values})
    form = column_form(draft.schema.columns[0])
    assert {
        key: form[key] for key in ("kind", "step", "atoms") if key in form
    } == expected
    assert bool(draft.entries[0].comments) == (len(expected) > 1)
    reread = Schema.loads(draft.toml())
    assert reread == draft.schema
    source = TableSource(tmp_path / "public.csv", reread)
    back = decode(EncodedTable.concatenate(list(source.batches())), reread)[
        name
    ].to_pylist()
    assert back == (
        pytest.approx(values.tolist())
        if expected["kind"] == "continuous"
        else pa.array(values).to_pylist()
    )


def rules_of(tmp_path, columns):
    draft = written(tmp_path, columns)
    assert Schema.loads(draft.toml()) == draft.schema
    assert len(draft.rules.reasons) == len(draft.schema.constraints)
    rules = (*draft.schema.relations, *draft.schema.constraints)
    return {str(rule) for rule in rules}, " ".join(draft.rules.remarks)


def test_starts_and_ends_parts_and_wholes_are_ordered(tmp_path):
    part, rest = RANDOM.gamma(2, 20, (2, ROWS)).round(2)
    other = RANDOM.gamma(2, 30, ROWS).round(2)
    columns = {
        "start": START,
        "end": START + DAYS,
        "part": part,
        "whole": (part + rest).round(2),
        "other": other,
    }
    constraints, remarks = rules_of(tmp_path, columns)
    assert constraints == {"end >= start", "whole >= part"}
    assert remarks == ""
    columns["end"][7] = START[7] - np.timedelta64(1, "D")
    assert rules_of(tmp_path, {name: columns[name] for name in ("start", "end")}) == (
        set(),
        "",
    )  # one exception


def test_numbers_that_follow_from_each_other_are_related_or_remarked(tmp_path):
    height = RANDOM.normal(170, 9, ROWS).round()
    index = RANDOM.gamma(30, 0.85, ROWS)
    other = RANDOM.random(ROWS)
    weight = (index * (height / 100) ** 2).round(1)
    fat = RANDOM.dirichlet([2, 3, 4], ROWS)[:, :2].round(3)
    body = {
        "height": height,
        "weight": weight,
        "bmi": (weight / (height / 100) ** 2).round(1),
        "other": other,
    }
    shares = {
        "fat": fat[:, 0],
        "carbs": fat[:, 1],
        "rest": (1 - fat.sum(axis=1)).round(3),
        "other": other,
    }
    twins = {"one": other, "more": other, "low": fat[:, 0]}
    for columns, relation in (
        ({"start": START, "end": START + DAYS % 9}, "end >= start"),
        (twins, "more = one"),
        (body, "bmi = 10000 * weight / height ** 2"),
        (shares, "1 = fat + carbs + rest"),
    ):
        assert relation in rules_of(tmp_path, columns)[0]
    for columns, message in (
        (
            {"one": other, "more": other + 0.01 * (fat[:, 1] - 0.3), "low": fat[:, 0]},
            "one, more: each can nearly be computed from the others, as a sum",
        ),
        (
            {"far": 9 * other + 2, "mile": other, "low": fat[:, 0]},
            "far, mile: each can nearly be computed from the others",
        ),
        (
            body
            | {
                "bmi": (
                    weight / (height / 100) ** 2 * RANDOM.uniform(0.997, 1.003, ROWS)
                )
            },
            "height, weight, bmi: each can nearly be computed from the others, as a product or ratio",
        ),
        (
            {"low": other, "high": 1 + RANDOM.random(ROWS), "same": np.full(ROWS, 7.5)},
            "",
        ),
    ):
        remarks = rules_of(tmp_path, columns)[1]
        assert message in remarks
        assert remarks.count("each can nearly") == bool(message)


def test_what_is_never_said_together_is_impossible(tmp_path):
    sex = RANDOM.choice(["F", "M"], ROWS)
    pregnant = np.where((sex == "F") & (RANDOM.random(ROWS) < 0.2), "yes", "no")
    children = np.where(sex == "F", RANDOM.integers(0, 9, ROWS), 0)
    married = RANDOM.choice(["true", "false"], ROWS)
    since = np.where(
        married == "true", RANDOM.integers(1980, 2020, ROWS).astype(str), None
    )
    columns = {
        "sex": sex,
        "pregnant": pregnant,
        "births": children,
        "married": married,
        "since": since,
    }
    constraints, _ = rules_of(tmp_path, columns)
    assert constraints == {
        "impossible: sex = M, pregnant = yes",
        "impossible: sex = M, births = 1..",
        "since exactly if married = True",
    }


@pytest.mark.parametrize(("times", "message"), [(1, set()), (10, {"high >= low"})])
def test_a_comparison_needs_records_that_would_break_it(times, message, tmp_path):
    index = np.arange(300)
    low = index % 100
    high = np.where(
        index < 15, low, low + 100
    )  # independent, 1 in 40 would be the lesser one: 7 of 300
    assert (
        rules_of(tmp_path, {"low": np.tile(low, times), "high": np.tile(high, times)})[
            0
        ]
        == message
    )


def test_names_that_end_lines_stay_in_their_comment(tmp_path):
    draft = written(tmp_path, {"a": START, "b": START + DAYS})
    odd = replace(
        draft,
        entries=(
            replace(draft.entries[0], comments=("one\ntwo = 3\r",)),
            *draft.entries[1:],
        ),
    )
    assert Schema.loads(odd.toml()) == draft.schema
