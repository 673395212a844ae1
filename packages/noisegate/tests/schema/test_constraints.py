import json
from datetime import UTC, date, datetime

import numpy as np
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.errors import SchemaError
from noisegate.schema import (
    Comparison,
    Datetime,
    EncodedTable,
    Impossible,
    Schema,
)

COLUMNS = """
[columns.age]
kind = "integer"
lower = 0
upper = 100
missing = true
[columns."years of school"]
kind = "integer"
lower = 0
upper = 20
missing = true
[columns.rate]
kind = "continuous"
lower = 50
upper = 60
[columns."in < out"]
kind = "date"
lower = 2000-01-01
upper = 2010-01-01
[columns.out]
kind = "date"
lower = 2005-01-01
upper = 2020-01-01
[columns.sex]
kind = "categorical"
levels = ["Male", "Female"]
[columns.pregnant]
kind = "boolean"
missing = true
"""
CONSTRAINTS = """
[[constraints]]
rule = "years of school <= age"
[[constraints]]
rule = "in < out < out"
[[constraints]]
impossible = { sex = "Male", pregnant = true }
[[constraints]]
impossible = { age = "60..", pregnant = true, out = 2005-01-01 }
"""


def schema(constraints=CONSTRAINTS):
    return Schema.loads(COLUMNS + constraints)


def test_constraints_read_as_written_and_come_back():
    read = schema()
    assert read.constraints == (
        Comparison(left="years of school", relation="<=", right="age"),
        Comparison(left="in < out", relation="<", right="out"),
        Impossible(values={"sex": "Male", "pregnant": True}),
        Impossible(
            values={"age": (60, None), "pregnant": True, "out": date(2005, 1, 1)}
        ),
    )
    assert Schema.loads(read.dumps()) == read
    reread = Schema.from_json(json.loads(json.dumps(read.to_json())))
    assert reread == read
    assert reread.digest() == read.digest()
    assert hash(reread) == hash(read)


def test_odd_names_and_levels_come_back_too():
    odd = (
        categorical('a "b\\c =', ('x"', "y z", "1..2")),
        integer("<=", 0, 9),
    )
    read = Schema(
        (*odd, integer("n", 0, 9)),
        constraints=(
            Impossible(values={odd[0].name: 'x"', "<=": (np.int64(3), None)}),
            Impossible(values={odd[0].name: "y z"}),
            Comparison(left="<=", relation="<", right="n"),
        ),
    )
    assert Schema.loads(read.dumps()) == read
    assert Schema.from_json(json.loads(json.dumps(read.to_json()))) == read


def test_a_schema_without_constraints_keeps_the_digest_that_it_had_before_there_were_any():
    """Ledgers and certificates hold digests: computed with the version before constraints."""
    plain = Schema((boolean("y"), integer("n", 0, 9)), label="y")
    assert (
        plain.digest()
        == "dc66fddf0213621ea857d42cc84f817a6d3845ab7d3d3100d06af6af0781e75a"
    )
    assert schema("").digest() != schema().digest()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('rule = "age <= height"', "'age <= height': expected two columns"),
        ('rule = "age = rate"', "'age = rate': expected two columns"),
        ("rule = 3", r"write rule = \"start <= end\""),
        ('rule = "age < rate"\nimpossible = { age = 3 }', "write rule"),
        ('impossible = "age"', "write rule"),
        ("allowed = { age = 3 }", "write rule"),
        ("impossible = {}", "name one column or more"),
        ('rule = "age < age"', "'age|age < age: a column is compared with itself"),
        ('rule = "sex < age"', "column 'sex' is categorical; only numbers and dates"),
        ('rule = "age < out"', "numbers cannot be compared with dates"),
        (
            'rule = "years of school >= rate"',
            "years of school >= rate: no values within the bounds",
        ),
        ("impossible = { height = 3 }", "impossible: height = 3: no column 'height'"),
        (
            'impossible = { sex = "male" }',
            "sex = male: column 'sex': 'male' is not one of its values",
        ),
        (
            'impossible = { age = "60..50" }',
            "column 'age': the interval 60 to 50 is empty",
        ),
        ('impossible = { sex = "" }', "column 'sex': a value is never missing"),
    ],
)
def test_a_wrong_constraint_is_refused(text, message):
    with pytest.raises(SchemaError, match=f"^the schema text.*{message}"):
        schema(f"[[constraints]]\n{text}\n")


@pytest.mark.parametrize(
    ("relation", "broken"),
    [("<=", [0, 0, 1]), ("<", [0, 1, 1]), (">=", [1, 0, 0]), (">", [1, 1, 0])],
)
def test_a_rule_is_broken_exactly_where_decoded_values_say_so(relation, broken):
    read = schema(f'[[constraints]]\nrule = "years of school {relation} age"\n')
    # Decoded: school 4, 5, 6 against age 5, off by less than half a step; then one of them missing.
    school = [4 / 20, 5.4 / 20, 5.6 / 20, np.nan, 20 / 20]
    age = [5 / 100, 4.6 / 100, 5.4 / 100, 0.0, np.nan]
    numeric = np.zeros((5, len(read.layout.numeric)))
    numeric[:, 0] = age
    numeric[:, 1] = school
    records = EncodedTable(numeric, np.zeros((5, 2), np.int32))
    assert read.broken(records).astype(int).tolist() == [*broken, 0, 0]


def test_columns_of_other_bounds_and_kinds_are_compared_by_value():
    read = schema('[[constraints]]\nrule = "age <= rate"\n')
    numeric = np.zeros((4, 5))
    numeric[:, 0], numeric[:, 2] = (
        [0.50, 0.55, 0.56, 1.0],
        [0.0, 0.5, 0.5, 1.0],
    )  # 50 55 56 100 against 50 55 55 60
    assert read.broken(EncodedTable(numeric, np.zeros((4, 2), np.int32))).tolist() == [
        False,
        False,
        True,
        True,
    ]
    dates = schema('[[constraints]]\nrule = "in < out <= out"\n')
    numeric[:, 3] = (date(2005, 1, 2) - date(2000, 1, 1)).days / (
        date(2010, 1, 1) - date(2000, 1, 1)
    ).days
    numeric[:, 4] = np.array([0, 1, 2, 3]) / (date(2020, 1, 1) - date(2005, 1, 1)).days
    assert dates.broken(EncodedTable(numeric, np.zeros((4, 2), np.int32))).tolist() == [
        True,
        False,
        False,
        False,
    ]


def test_a_combination_is_broken_only_by_the_whole_of_it():
    read = schema(
        '[[constraints]]\nimpossible = { sex = "Male", pregnant = true, age = "18..30" }\n'
    )
    numeric = np.zeros((6, 5))
    numeric[:, 0] = [0.2, 0.2, 0.2, 0.17, np.nan, 0.3]
    codes = np.array([[0, 1], [1, 1], [0, 2], [0, 1], [0, 1], [0, 1]], dtype=np.int32)
    assert read.broken(EncodedTable(numeric, codes)).tolist() == [
        True,
        False,
        False,
        False,
        False,
        True,
    ]


def test_a_missing_value_can_be_part_of_a_combination():
    read = schema('[[constraints]]\nimpossible = { sex = "Male", pregnant = "" }\n')
    codes = np.array([[0, 2], [1, 2], [0, 1]], dtype=np.int32)
    assert read.broken(EncodedTable(np.zeros((3, 5)), codes)).tolist() == [
        True,
        False,
        False,
    ]


def test_moments_are_compared_with_their_like():
    ends = {"lower": datetime(2020, 1, 1), "upper": datetime(2021, 1, 1)}
    naive, other = (Datetime(name=name, **ends) for name in "ab")
    aware = Datetime(
        name="c", **{key: end.replace(tzinfo=UTC) for key, end in ends.items()}
    )
    rule = Comparison(left="a", relation="<=", right="b")
    assert Schema((naive, other), constraints=(rule,)).constraints == (rule,)
    with pytest.raises(
        SchemaError,
        match="moments without a time zone cannot be compared with moments with",
    ):
        Schema(
            (naive, aware),
            constraints=(Comparison(left="a", relation="<=", right="c"),),
        )


def test_a_rule_that_can_be_read_in_two_ways_is_refused():
    numbers = tuple(integer(name, 0, 9) for name in ("a", "b < c", "a < b", "c"))
    for left, right in (("a", "b < c"), ("a < b", "c")):
        with pytest.raises(SchemaError, match="'a < b < c' can be read in 2 ways"):
            Schema(
                numbers, constraints=(Comparison(left=left, relation="<", right=right),)
            )


def test_a_rule_that_the_bounds_just_allow_is_taken():
    touching = (continuous("a", 1, 2), categorical("k", "x"))
    touching += (integer("b", 0, 1),)
    Schema(touching, constraints=(Comparison(left="a", relation="<=", right="b"),))
    with pytest.raises(SchemaError, match="no values within the bounds"):
        Schema(touching, constraints=(Comparison(left="a", relation="<", right="b"),))
