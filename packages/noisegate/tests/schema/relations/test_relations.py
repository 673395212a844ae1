"""Relations: they hold in every decoded record, and what is measured follows from one record alone."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from noisegate import Schema
from noisegate.errors import SchemaError
from noisegate.schema import (
    Boolean,
    Categorical,
    Continuous,
    Date,
    Datetime,
    Decimal,
    Duration,
    Integer,
    OneOf,
    OnlyIf,
    Ordered,
    Parts,
    Together,
    decode,
)
from noisegate.schema.encode import encode
from noisegate.schema.relations.forms import parse_rule
from noisegate.testing import made_up

ROWS = 2_000
YEAR = {"lower": "2024-01-01", "upper": "2024-12-31"}
HOURS = {"lower": "2024-01-01T00:00:00", "upper": "2024-03-01T00:00:00"}


def integer(name, upper=100, **fields):
    return Integer(name=name, lower=0, upper=upper, **fields)


def schema_of(columns, *rules, relations=(), **fields):
    by_name = {column.name: column for column in columns}
    parsed = [parse_rule(rule, by_name) for rule in rules]
    return Schema(columns, relations=(*parsed, *relations), **fields)


def draw(schema):
    """Records that a model might draw: any position in any column."""
    records = made_up(schema.layout, rows=ROWS)
    records = records.rows(~schema.broken(records))
    assert len(records) > 100
    return decode(records, schema).to_pydict()


def encode_table(table, schema):
    arrays = {name: pa.array(table[name]) for name in schema.names}
    return encode(arrays, schema)


def date(day):
    return dt.date(2024, 1, 1) + dt.timedelta(days=day)


# --- They hold. ---


@pytest.mark.parametrize(
    "columns",
    [
        [Date(name="a", **YEAR), Date(name="b", **YEAR)],
        [Datetime(name="a", **HOURS), Datetime(name="b", **HOURS)],
        [Datetime(name="a", step=60, **HOURS), Datetime(name="b", step=3600, **HOURS)],
        [
            Duration(name="a", lower="0 days", upper="9 days"),
            Duration(name="b", lower="0 days", upper="9 days", step=60),
        ],
        [integer("a"), integer("b", 200)],
        [integer("a", 100, step=5), integer("b", 120, step=10)],
        [integer("a"), Decimal(name="b", lower=0, upper=200, step=0.01)],
        [
            Decimal(name="a", lower=0.1, upper=9.9, step=0.1),
            Decimal(name="b", lower=0, upper=20, step=0.5),
        ],
        [
            Continuous(name="a", lower=0.0, upper=1.0),
            Continuous(name="b", lower=0.0, upper=2.0),
        ],
        [Continuous(name="a", lower=0.0, upper=9.5), integer("b", 20, step=5)],
        [
            Continuous(name="a", lower=0.0, upper=9.5),
            Decimal(name="b", lower=0, upper=20, step=0.1),
        ],
        [integer("a", missing=True), integer("b", 200, missing=True)],
        [integer("a", atoms=[999], missing=True), integer("b", 200, missing=True)],
        [integer("a"), integer("b", 200, atoms=[-1, 999])],
    ],
    ids=lambda columns: "-".join(column.kind for column in columns),
)
@pytest.mark.parametrize("sign", [">=", ">"])
def test_the_upper_column_is_never_below_the_lower_one(columns, sign):
    if sign == ">" and columns[0].upper == columns[1].upper:
        columns = [columns[0], columns[1].__class__(**wider(columns[1]))]
    schema = schema_of(columns, f"b {sign} a")
    drawn = draw(schema)
    pairs = [
        (a, b)
        for a, b in zip(drawn["a"], drawn["b"], strict=True)
        if a is not None and b is not None and a != 999 and b not in (-1, 999)
    ]
    assert pairs
    assert all(b > a if sign == ">" else b >= a for a, b in pairs)


@pytest.mark.parametrize(
    "upper_column",
    [
        integer("b", 200, step=5),
        integer("b", 200, limits=["<5", "200+"]),
        Decimal(name="b", lower=0, upper=200, step=0.1, atoms=[999]),
    ],
    ids=["steps", "limits", "atoms"],
)
@pytest.mark.parametrize(
    "lower_column", [integer("a"), Continuous(name="a", lower=0.0, upper=99.5)]
)
def test_records_of_computed_columns_can_be_read_again(upper_column, lower_column):
    schema = schema_of([lower_column, upper_column], "b >= a")
    drawn = decode(made_up(schema.layout, rows=300), schema)
    decoded = decode(encode_table(drawn.to_pydict(), schema), schema)
    assert decoded.schema == drawn.schema
    assert decoded["b"].to_pylist() == drawn["b"].to_pylist()


def wider(column):
    """The fields of a column whose upper bound is a little larger."""
    further = {
        "date": dt.timedelta(days=1),
        "datetime": dt.timedelta(days=1),
        "duration": dt.timedelta(days=1),
    }[column.kind]
    return {
        "name": column.name,
        "lower": column.lower,
        "upper": column.upper + further,
        "step": getattr(column, "step", None),
    }


def test_a_chain_holds_from_end_to_end():
    schema = schema_of([integer(name) for name in "abcd"], "b >= a", "d >= c", "c >= b")
    drawn = draw(schema)
    for a, b, c, d in zip(*(drawn[name] for name in "abcd"), strict=True):
        assert a <= b <= c <= d


def test_a_formula_is_rounded_as_its_column():
    columns = [
        Decimal(name="weight", lower=30, upper=150, step=0.1),
        integer("height in cm", 220),
        Decimal(name="bmi", lower=5, upper=90, step=0.1),
    ]
    schema = schema_of(columns, "bmi = weight / (`height in cm` / 100) ** 2")
    drawn = draw(schema)
    assert schema.layout.numeric_places.keys() == {"weight", "height in cm"}
    for weight, height, bmi in zip(*drawn.values(), strict=True):
        assert bmi == pytest.approx(weight / (height / 100) ** 2, abs=0.0500001)
        assert bmi == round(bmi, 1)


def test_a_sum_of_decimals_is_exact_to_the_last_digit():
    parts = [Decimal(name=name, lower=0, upper=50, step=0.01) for name in "ab"]
    total = Decimal(name="total", lower=0, upper=100, step=0.01)
    drawn = draw(schema_of([*parts, total], "total = a + b"))
    for a, b, whole in zip(*drawn.values(), strict=True):
        assert round(a * 100) + round(b * 100) == round(whole * 100)


def test_days_between_dates_are_a_formula():
    columns = [Date(name="a", **YEAR), Date(name="b", **YEAR), integer("days", 400)]
    drawn = draw(schema_of(columns, "b >= a", "days = b - a"))
    for a, b, days in zip(*drawn.values(), strict=True):
        assert (b - a).days == days


def test_hours_between_points_in_time_are_a_formula():
    times = [Datetime(name=name, step=3600, **HOURS) for name in "ab"]
    columns = [*times, integer("hours", 2000)]
    drawn = draw(schema_of(columns, "b >= a", "hours = (b - a) / 3600"))
    for a, b, hours in zip(*drawn.values(), strict=True):
        assert (b - a) == dt.timedelta(hours=hours)


@pytest.mark.parametrize(
    "part", [integer, lambda name: Decimal(name=name, lower=0, upper=100, step=0.25)]
)
def test_parts_add_up_to_the_whole_and_are_never_negative(part):
    drawn = draw(schema_of([part(name) for name in "abcd"], "100 = a + b + c + d"))
    for parts in zip(*drawn.values(), strict=True):
        assert sum(parts) == 100
        assert min(parts) >= 0


def test_equal_columns_are_equal():
    towns = [Categorical(name=name, levels=("Rome", "Paris")) for name in ("a", "b")]
    drawn = draw(schema_of([*towns, integer("x"), integer("y")], "b = a", "y = x"))
    assert drawn["a"] == drawn["b"]
    assert drawn["x"] == drawn["y"]


def test_a_country_follows_from_its_city():
    form = {
        "columns": {
            "city": {"kind": "categorical", "levels": ["Rome", "Paris", "Nice"]},
            "country": {"kind": "categorical", "levels": ["Italy", "France"]},
        },
        "relations": [
            {
                "column": "country",
                "of": "city",
                "levels": {"Rome": "Italy", "Paris": "France", "Nice": "France"},
            }
        ],
    }
    drawn = draw(Schema.from_form(form))
    assert set(zip(drawn["city"], drawn["country"], strict=True)) == {
        ("Rome", "Italy"),
        ("Paris", "France"),
        ("Nice", "France"),
    }


def test_one_of_several_truth_values_is_true():
    columns = [Boolean(name=name) for name in ("bus", "car", "bike")]
    relation = OneOf(columns=("bus", "car", "bike"))
    drawn = draw(schema_of(columns, relations=[relation]))
    assert {sum(record) for record in zip(*drawn.values(), strict=True)} == {1}


def test_a_value_stands_only_where_its_condition_holds():
    job = Categorical(name="job", levels=("none", "paid"))
    wage = integer("wage", missing=True)
    only = OnlyIf(column="wage", condition={"job": "paid"})
    drawn = draw(schema_of([job, wage], relations=[only]))
    jobs_with_wage = {
        job
        for job, wage in zip(drawn["job"], drawn["wage"], strict=True)
        if wage is not None
    }
    assert jobs_with_wage == {"paid"}


def test_a_value_stands_exactly_where_its_condition_holds():
    job = Categorical(name="job", levels=("none", "paid"))
    wage = integer("wage", missing=True)
    exactly = OnlyIf(column="wage", condition={"job": "paid"}, always=True)
    drawn = draw(schema_of([job, wage], relations=[exactly]))
    for job, wage in zip(drawn["job"], drawn["wage"], strict=True):
        assert (job == "paid") == (wage is not None)


def test_columns_are_missing_together():
    columns = [integer(name, missing=True) for name in "abc"]
    together = Together(columns=("a", "b", "c"))
    drawn = draw(schema_of(columns, relations=[together]))
    for record in zip(*drawn.values(), strict=True):
        assert len({value is None for value in record}) == 1
    missing = np.mean([value is None for value in drawn["a"]])
    assert 0 < missing < 1


# --- What is measured. ---


def stay_schema(**fields):
    columns = [Date(name="admission", **YEAR), Date(name="discharge", **YEAR)]
    rule = {"rule": "discharge >= admission", **fields}
    return Schema.from_form(
        {
            "columns": {
                column.name: {
                    "kind": "date",
                    "lower": YEAR["lower"],
                    "upper": "2024-12-31",
                }
                for column in columns
            },
            "relations": [rule],
        }
    )


def test_records_that_keep_to_the_relation_come_back_as_they_were():
    table = {
        "admission": [date(0), date(100), date(360)],
        "discharge": [date(0), date(130), date(365)],
    }
    schema = stay_schema()
    records = encode_table(table, schema)
    assert decode(records, schema).to_pydict() == table


def test_a_record_that_breaks_the_relation_counts_with_the_smallest_difference():
    table = {"admission": [date(100)], "discharge": [date(40)]}
    schema = stay_schema()
    decoded = decode(encode_table(table, schema), schema).to_pydict()
    assert decoded == {"admission": [date(100)], "discharge": [date(100)]}


def test_a_difference_beyond_the_largest_counts_as_the_largest():
    table = {"admission": [date(0)], "discharge": [date(300)]}
    schema = stay_schema(largest=60)
    assert schema.layout.column("discharge - admission").upper == 60
    decoded = decode(encode_table(table, schema), schema).to_pydict()
    assert decoded["discharge"] == [date(60)]


def test_an_atom_of_the_upper_column_stays_itself():
    columns = [integer("a"), integer("b", 200, atoms=[999])]
    schema = schema_of(columns, "b >= a")
    table = {"a": [5, 5], "b": [999, 7]}
    assert decode(encode_table(table, schema), schema).to_pydict() == table


def test_without_a_lower_value_the_upper_one_is_missing():
    columns = [integer("a", missing=True), integer("b", missing=True)]
    schema = schema_of(columns, "b >= a")
    table = {"a": [None, 3], "b": [4, None]}
    decoded = decode(encode_table(table, schema), schema).to_pydict()
    assert decoded == {"a": [None, 3], "b": [None, None]}


@pytest.mark.parametrize("removed", range(4))
def test_what_is_measured_of_a_record_depends_on_no_other(removed):
    """Neighbouring tables differ by one row of the encoded ones, as sensitivities assume (G-06)."""
    columns = [
        Date(name="a", **YEAR),
        Date(name="b", **YEAR),
        *(integer(name) for name in "pqr"),
        Continuous(name="x", lower=0.0, upper=1.0),
        Continuous(name="y", lower=0.0, upper=2.0),
        *(Boolean(name=name) for name in ("bus", "car")),
    ]
    schema = schema_of(
        columns,
        "b >= a",
        "100 = p + q + r",
        "y >= x",
        relations=[OneOf(columns=("bus", "car"))],
    )
    table = {
        "a": [date(3), date(50), date(1), date(200)],
        "b": [date(9), date(2), date(365), date(230)],
        "p": [10, 100, 0, 33],
        "q": [20, 0, 60, 33],
        "r": [70, 0, 45, 33],
        "x": [0.1, 0.30000000000000004, 1.0, 0.0],
        "y": [0.3, 0.1, 1.7, 0.0],
        "bus": [True, True, False, False],
        "car": [False, True, False, True],
    }
    neighbour = {
        name: [value for row, value in enumerate(values) if row != removed]
        for name, values in table.items()
    }
    records = encode_table(table, schema)
    others = encode_table(neighbour, schema)
    kept_rows = [row for row in range(4) if row != removed]
    assert records.numeric[kept_rows].tobytes() == others.numeric.tobytes()
    assert records.codes[kept_rows].tobytes() == others.codes.tobytes()
    in_unit = (records.numeric >= 0) & (records.numeric <= 1)
    assert in_unit.all()


def test_formulas_never_see_a_record_of_the_file(monkeypatch):
    """Powers and logarithms may round by place, which must change no vector (G-06)."""
    columns = [integer("a"), Continuous(name="b", lower=0, upper=5), integer("c", 9)]
    schema = schema_of(columns, "b = log(a + 1)", "c >= b")

    def refuse(*_):
        raise AssertionError("a formula was computed from a record")

    monkeypatch.setattr(
        "noisegate.schema.relations.expression.Expression.value", refuse
    )
    records = encode_table({"a": [3, 5], "b": [1.4, 1.8], "c": [4, 1]}, schema)
    assert len(records) == 2


# --- Conditions, rules, forms. ---


def test_a_condition_on_a_computed_column_is_met():
    schema = stay_schema()
    region = schema.region(
        {"discharge": (date(10), date(20)), "admission": (date(8), None)}
    )
    records = made_up(schema.layout, rows=50_000)
    inside = decode(records.rows(region.contains(records)), schema).to_pydict()
    assert inside["discharge"]
    assert all(date(10) <= day <= date(20) for day in inside["discharge"])
    assert all(day >= date(8) for day in inside["admission"])


def test_a_condition_on_the_difference_is_met():
    schema = stay_schema()
    region = schema.region({"discharge - admission": (0, 3)})
    records = made_up(schema.layout, rows=5_000)
    inside = decode(records.rows(region.contains(records)), schema).to_pydict()
    assert inside["admission"]
    for admission, discharge in zip(*inside.values(), strict=True):
        assert 0 <= (discharge - admission).days <= 3


def test_records_whose_formula_leaves_the_bounds_are_drawn_again():
    schema = schema_of(
        [integer("a"), integer("b"), integer("total", 120)], "total = a + b"
    )
    records = made_up(schema.layout, rows=500)
    ((rule, is_broken),) = schema.broken_rules(records)
    assert rule == "total = a + b"
    assert 0 < is_broken.mean() < 1
    assert max(draw(schema)["total"]) <= 120


def test_constraints_see_computed_columns():
    columns = [integer("a"), integer("b"), integer("total", 200), integer("limit", 200)]
    by_name = {column.name: column for column in columns}
    schema = Schema.from_form(
        {
            "columns": {
                name: {"kind": "integer", "lower": 0, "upper": column.upper}
                for name, column in by_name.items()
            },
            "relations": [{"rule": "total = a + b"}],
            "constraints": [{"rule": "total <= limit"}],
        }
    )
    drawn = draw(schema)
    assert all(
        total <= limit
        for total, limit in zip(drawn["total"], drawn["limit"], strict=True)
    )


FORMS = [
    {"rule": "b >= a"},
    {"rule": "b > a", "largest": 40},
    {"rule": "c = (a + 2 * b) / 3"},
    {"rule": "c = max(a, b) - floor(abs(a))"},
    {"rule": "100 = a + b + c"},
    {"rule": "d = a"},
    {"column": "wage", "only_if": {"job": "paid", "a": "3..9"}},
    {"column": "wage", "exactly_if": {"job": "paid"}},
    {"column": "copy", "of": "job", "levels": {"paid": "yes", "none": "no"}},
    {"rule": "twin = job"},
    {"one_of": ["bus", "car"]},
    {"together": ["wage", "rent"]},
]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_stored_schema_has_the_same_relations(form):
    columns = [
        *(integer(name) for name in "a"),
        *(integer(name, 200) for name in "bcd"),
        integer("wage", missing=True),
        integer("rent", missing=True),
        Categorical(name="job", levels=("none", "paid")),
        Categorical(name="twin", levels=("none", "paid")),
        Categorical(name="copy", levels=("no", "yes")),
        Boolean(name="bus"),
        Boolean(name="car"),
    ]
    schema = Schema.from_form({**Schema(columns).form(), "relations": [form]})
    assert schema.form()["relations"] == [form]
    assert Schema.loads(schema.dumps()) == schema
    assert Schema.from_json(schema.to_json()) == schema


def test_a_schema_without_relations_is_stored_as_before():
    assert "relations" not in Schema([integer("a")]).form()


REFUSED = {
    "b >= z": "no column 'z'",
    "b >= job": "expected numbers, dates",
    "b >= day": "cannot be compared",
    "b >= a + 1": "is no column",
    "a >= b": "the upper bound of 'a'",
    "c = a +": "is no formula",
    "c = a if a else b": "cannot stand in a formula",
    "c = __import__('os')": "cannot stand in a formula",
    "c = a.real.imag": "cannot stand in a formula",
    "c = a.real": "no column 'a.real'",
    "c = 3": "names no column",
    "c = c + a": "computed from itself",
    "c = log(a, b)": "cannot stand in a formula",
    "c = a + gone": "is missing where",
    "100 = a + day": "must hold numbers from 0 on",
    "100 = a + 2 * b": "sum of columns alone",
    "a and b": "expected >=",
}


@pytest.mark.parametrize(("rule", "message"), REFUSED.items())
def test_a_relation_that_cannot_be_is_refused(rule, message):
    columns = [
        integer("a"),
        integer("b", 200),
        integer("c", 300),
        integer("gone", missing=True),
        Date(name="day", **YEAR),
        Categorical(name="job", levels=("none", "paid")),
    ]
    with pytest.raises(SchemaError, match=message):
        schema_of(columns, rule)


def test_columns_computed_from_each_other_are_refused():
    columns = [integer(name) for name in "abc"]
    with pytest.raises(SchemaError, match="circle"):
        schema_of(columns, "a = b + c", "b = a - c")


def test_two_relations_that_compute_one_column_are_refused():
    columns = [integer(name) for name in "abc"]
    with pytest.raises(SchemaError, match="both compute 'c'"):
        schema_of(columns, "c >= a", "c = a + b")


def test_a_label_is_measured():
    columns = [Categorical(name=name, levels=("x", "y")) for name in "ab"]
    with pytest.raises(SchemaError, match="methods measure the label"):
        schema_of(columns, "b = a", label="b")
    assert schema_of(columns, "b = a", label="a").layout.label == 0


def test_a_whole_that_parts_never_reach_is_refused():
    with pytest.raises(SchemaError, match="never add up"):
        Schema(
            [integer("a"), integer("b")],
            relations=(Parts(whole=0.5, parts=("a", "b")),),
        )


def test_a_largest_difference_below_the_smallest_is_refused():
    relation = Ordered(upper_name="b", lower_name="a", largest=0)
    with pytest.raises(SchemaError, match="largest = 0"):
        Schema([integer("a"), integer("b")], relations=(relation,))
