from datetime import date, datetime

import numpy as np
import pytest
from tests.shared.columns import boolean, continuous, integer

from noisegate.errors import SchemaError
from noisegate.schema import (
    Date,
    Datetime,
    Decimal,
    Schema,
)
from noisegate.schema.layout import positions_of
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate.schema.linked.table_schema import (
    first_column,
    gap_column,
    origin_ticks,
    positions_at,
    ticks_at,
)
from noisegate.schema.schema import read_schema

CLINIC = """
[tables.patients]
key = "id"
[tables.patients.columns.age]
kind = "integer"
lower = 0
upper = 120
[tables.patients.columns.since]
kind = "date"
lower = 2000-01-01
upper = 2020-12-31

[tables.visits]
parent = "patients"
key = "visit"
order = "day"
since = "since"
longest_gap = 365
most = 30
ignore = ["comment"]
[tables.visits.columns.day]
kind = "date"
lower = 2000-01-01
upper = 2022-12-31
[tables.visits.columns.bili]
kind = "continuous"
lower = 0.0
upper = 30.0
[tables.visits.columns.number]
kind = "boolean"
[[tables.visits.constraints]]
impossible = { bili = "20..30", number = true }

[tables.diagnoses]
parent = "visits"
most = 5
orphans = "drop"
[tables.diagnoses.columns.code]
kind = "categorical"
levels = ["A", "B"]

[[constraints]]
rule = "visits.day >= patients.since"
"""


def clinic():
    return LinkedSchema.loads(CLINIC)


def test_toml_and_json_give_the_schema_back(tmp_path):
    schema = clinic()
    assert LinkedSchema.loads(schema.dumps()) == schema
    assert LinkedSchema.from_json(schema.to_json()) == schema
    assert LinkedSchema.from_json(schema.to_json()).digest() == schema.digest()
    schema.to_toml(tmp_path / "clinic.toml")
    assert read_schema(tmp_path / "clinic.toml") == schema
    single = Schema([boolean("ill")])
    single.to_toml(tmp_path / "one.toml")
    assert read_schema(tmp_path / "one.toml") == single


def test_the_table_of_transitions():
    visits, diagnoses = clinic().links
    whose = ["patients.age", "patients.since", "visits.number_", "visits.step"]
    theirs = ["first", "gap", "previous.bili", "previous.number", "bili", "number"]
    assert list(visits.schema.names) == [*whose, *(f"visits.{name}" for name in theirs)]
    theirs = [
        f"diagnoses.{name}" for name in ("number", "step", "previous.code", "code")
    ]
    assert list(diagnoses.schema.names[-5:]) == ["visits.number", *theirs]
    # Numbers of children up to `most`, gaps up to the longest, and only what a row may lack is missing.
    assert visits.schema.column(visits.number).upper == 30
    assert visits.schema.column(visits.gap).upper == 365
    assert [
        column.name for column in visits.schema.columns if not column.missing
    ] == whose
    assert diagnoses.first is None
    assert diagnoses.gap is None


def test_a_child_beside_its_parent_keeps_to_the_rules_of_both():
    records = clinic().links[0].records
    assert records.names[:3] == ("patients.age", "patients.since", "visits.day")
    assert [str(rule) for rule in records.constraints] == [
        "impossible: visits.bili = 20..30, visits.number = True",
        "visits.day >= patients.since",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('parent = "patients"', 'parent = "patient"'), "did you mean patients"),
        (('parent = "patients"', 'parent = "diagnoses"'), "in a circle"),
        (
            ('key = "id"', ""),
            "table 'patients': key is missing; 'visits' is linked to it",
        ),
        (('key = "id"', 'key = "age"'), "'age' is a key and also a column"),
        (('key = "id"', 'key = "id"\nmost = 3'), "most is set, and it has no parent"),
        (
            ('parent = "visits"\nmost = 5\norphans = "drop"', ""),
            "2 of 3 tables are without a parent",
        ),
        (("most = 30", ""), "table 'visits': most is missing"),
        (("most = 30", "most = 0"), "most = 0 must be from 1 to 100,000"),
        (("most = 30", "most = 2.5"), "most = 2.5 must be a whole number"),
        (("most = 30", "mst = 30"), "unknown key 'mst'.*did you mean most"),
        (
            ('order = "day"', 'order = "number"'),
            "'number' is boolean; name a column of numbers",
        ),
        (('order = "day"', 'order = "dya"'), "no column 'dya'"),
        (('order = "day"', ""), "since is set without order"),
        (
            ("longest_gap = 365", "longest_gap = -1"),
            "longest_gap = -1 must be a positive number",
        ),
        (
            ('since = "since"', 'since = "age"'),
            "since = 'age' is integer and order = 'day' is date",
        ),
        (
            ('since = "since"', 'since = "ages"'),
            "since = 'ages' is not a column of 'patients'",
        ),
        (('orphans = "drop"', 'orphans = "keep"'), "orphans = 'keep' must be"),
        (("longest_gap = 365", 'orphans = "drop"'), None),
        (
            ("patients.since", "visits.day"),
            "expected columns of one table and of its parents'",
        ),
        (("patients.since", "patients.sinc"), "expected two columns"),
        (
            ("upper = 120", "upper = -1"),
            "table 'patients': column 'age': lower = 0 is above upper = -1",
        ),
    ],
)
def test_a_schema_that_is_wrong_is_refused_by_name(change, message):
    text = CLINIC.replace(*change, 1)
    if message is None:
        LinkedSchema.loads(text)
    else:
        with pytest.raises(SchemaError, match=message):
            LinkedSchema.loads(text)


def test_below_a_dropped_record_all_is_dropped():
    text = CLINIC.replace("most = 30", 'most = 30\norphans = "drop"').replace(
        'most = 5\norphans = "drop"', "most = 5"
    )
    with pytest.raises(
        SchemaError,
        match="table 'diagnoses': orphans = \"drop\" is needed as in 'visits'",
    ):
        LinkedSchema.loads(text)


def test_an_order_is_never_missing_and_has_no_codes_in_it():
    columns = Schema([integer("day", 0, 9, missing=True), boolean("ill")])
    with pytest.raises(SchemaError, match="may be missing"):
        LinkedTable(
            name="visits", schema=columns, parent="patients", order="day", most=3
        )
    columns = Schema([integer("day", 0, 9, atoms=[99])])
    with pytest.raises(SchemaError, match="atoms outside its bounds"):
        LinkedTable(
            name="visits", schema=columns, parent="patients", order="day", most=3
        )


def test_names_of_tables_are_names_of_files():
    with pytest.raises(SchemaError, match="table 'vi/sits': the name of a table"):
        LinkedTable(name="vi/sits", schema=Schema([boolean("ill")]))
    tables = [LinkedTable(name="people", key="id", schema=Schema([boolean("ill")]))]
    tables.append(
        LinkedTable(
            name="People", parent="people", most=2, schema=Schema([boolean("ill")])
        )
    )
    with pytest.raises(SchemaError, match="described more than once"):
        LinkedSchema(tables)


ORDERS = [
    Date(name="day", lower=date(2000, 1, 3), upper=date(2020, 12, 28), step=7),
    integer("year", 68, 88),
    Decimal(name="age", lower=0, upper=120, step=0.25),
    Datetime(name="at", lower=datetime(2000, 1, 1), upper=datetime(2020, 1, 1)),
    Datetime(
        name="at", lower=datetime(2000, 1, 1), upper=datetime(2000, 1, 2), step=60
    ),
]


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: order.kind)
def test_gaps_put_together_again_are_the_dates(order):
    ranks = np.sort(np.random.default_rng(0).integers(0, order.last_rank + 1, 20))
    positions = ranks / order.last_rank
    ticks = ticks_at(order, positions)
    np.testing.assert_array_equal(
        positions_at(order, ticks[0] + np.cumsum(np.diff(ticks, prepend=ticks[0]))),
        positions,
    )
    assert (
        first_column(order, "first").upper
        == order.last_rank
        == gap_column(order, "gap", None).upper
    )
    assert positions_at(order, np.asarray([order.last_rank + 5]))[0] == 1.0


def test_real_numbers_have_gaps_too():
    order = continuous("time", -1.0, 3.0)
    ticks = ticks_at(order, np.asarray([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(ticks, [0.0, 2.0, 4.0])
    np.testing.assert_allclose(positions_at(order, ticks), [0.0, 0.5, 1.0])
    assert gap_column(order, "gap", 1.5).upper == 1.5
    assert gap_column(order, "gap", 99).upper == 4.0


def test_an_origin_outside_the_bounds_is_moved_to_them():
    order = integer("day", 10, 50)
    since = integer("start", 0, 100)
    positions = positions_of(since, np.asarray([0, 10, 30, 99]))
    assert origin_ticks(order, since, positions).tolist() == [0, 0, 20, 40]
