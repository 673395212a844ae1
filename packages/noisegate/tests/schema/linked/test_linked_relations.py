"""Relations between a table and that of its parents: what is measured of a child, and what is refused."""

from datetime import date

import numpy as np
import pytest

from noisegate.errors import SchemaError
from noisegate.records import Rows
from noisegate.schema import Schema
from noisegate.schema.layout import positions_of
from noisegate.schema.linked.schema import LinkedSchema
from noisegate.schema.schema import read_schema

CLINIC = """
[tables.patients]
key = "id"
[tables.patients.columns.entered]
kind = "integer"
lower = 0
upper = 100
[tables.patients.columns.sex]
kind = "categorical"
levels = ["f", "m"]
[tables.visits]
parent = "patients"
most = 8
[tables.visits.columns.day]
kind = "integer"
lower = 0
upper = 200
[tables.visits.columns.waited]
kind = "integer"
lower = 0
upper = 200
[tables.visits.columns.pregnant]
kind = "boolean"
missing = true
"""
LATER = """
[[relations]]
rule = "visits.day >= patients.entered"
"""
PREGNANT = """
[[relations]]
column = "visits.pregnant"
only_if = { "patients.sex" = "f" }
"""
ORDERED = CLINIC.replace("most = 8", 'most = 8\norder = "day"')


def rule(text):
    return f'\n[[relations]]\nrule = "{text}"\n'


def link_of(text):
    return LinkedSchema.loads(text).links[0]


def rows_of(layout, numbers, codes):
    """Encodes records, given as a list of numbers and one of codes for each column."""
    columns = [
        positions_of(column, np.array(values))
        for column, values in zip(layout.numeric, numbers, strict=True)
    ]
    return Rows(np.column_stack(columns), np.array(codes, np.int32).T)


@pytest.mark.parametrize("text", [LATER, PREGNANT, LATER + PREGNANT])
def test_relations_between_tables_are_written_and_read_again(text, tmp_path):
    schema = LinkedSchema.loads(CLINIC + text)
    path = tmp_path / "clinic.toml"
    path.write_text(schema.dumps())
    assert read_schema(path) == schema
    assert LinkedSchema.from_json(schema.to_json()) == schema


def test_the_difference_is_measured_in_place_of_the_child_s_column():
    link = link_of(CLINIC + LATER)
    assert [column.name for column in link.described] == [
        "visits.day - patients.entered",
        "visits.waited",
        "visits.pregnant",
    ]


def test_a_child_is_measured_beside_its_own_parent_and_restored():
    link = link_of(CLINIC + LATER)
    parents = rows_of(link.parent.schema.layout, [[10, 90]], [[0, 1]])
    children = rows_of(link.own_layout, [[13, 90], [5, 6]], [[2, 1]])
    measured = link.measure(parents, children)
    differences = rows_of(link.measured_layout, [[3, 0], [5, 6]], [[2, 1]])
    np.testing.assert_array_equal(measured.numeric, differences.numeric)
    restored, is_outside = link.restore(parents, measured)
    np.testing.assert_array_equal(restored.numeric, children.numeric)
    np.testing.assert_array_equal(restored.codes, children.codes)
    assert not is_outside.any()


def test_a_child_that_breaks_a_relation_counts_as_the_nearest_that_keeps_to_it():
    link = link_of(CLINIC + LATER)
    parents = rows_of(link.parent.schema.layout, [[90]], [[0]])
    too_early = rows_of(link.own_layout, [[13], [5]], [[2]])
    restored, _ = link.restore(parents, link.measure(parents, too_early))
    on_the_day = rows_of(link.own_layout, [[90], [5]], [[2]])
    np.testing.assert_array_equal(restored.numeric, on_the_day.numeric)


def test_what_is_measured_of_a_child_is_the_same_whatever_stands_beside_it():
    link = link_of(CLINIC + LATER + PREGNANT)
    random = np.random.default_rng(0)
    count = 1000
    parents = rows_of(
        link.parent.schema.layout,
        [random.integers(0, 101, count)],
        [random.integers(0, 2, count)],
    )
    children = rows_of(
        link.own_layout,
        [random.integers(0, 201, count), random.integers(0, 201, count)],
        [random.integers(0, 3, count)],
    )
    together = link.measure(parents, children)
    for row in range(0, count, 37):
        alone = link.measure(parents.rows([row]), children.rows([row]))
        assert alone.numeric.tobytes() == together.numeric[[row]].tobytes()
        assert alone.codes.tobytes() == together.codes[[row]].tobytes()


def test_a_computed_value_beyond_its_bounds_is_told():
    link = link_of(CLINIC + rule("visits.waited = visits.day - patients.entered"))
    assert [column.name for column in link.described] == [
        "visits.day",
        "visits.pregnant",
    ]
    parents = rows_of(link.parent.schema.layout, [[10, 90]], [[0, 0]])
    measured = rows_of(link.measured_layout, [[13, 13]], [[0, 0]])
    _, is_outside = link.restore(parents, measured)
    assert is_outside.tolist() == [False, True]


def test_a_column_that_only_some_parents_have_is_missing_for_the_others():
    link = link_of(CLINIC + PREGNANT)
    parents = rows_of(link.parent.schema.layout, [[0, 0]], [[0, 1]])
    measured = rows_of(link.measured_layout, [[1, 1], [2, 2]], [[1, 1]])
    restored, _ = link.restore(parents, measured)
    assert restored.codes[:, 0].tolist() == [1, 2]


def test_relations_of_one_table_and_between_two_are_applied_one_after_the_other():
    own = '[[tables.visits.relations]]\nrule = "waited >= day"\n'
    link = link_of(CLINIC + own + LATER)
    assert [column.name for column in link.described] == [
        "visits.day - patients.entered",
        "visits.waited - day",
        "visits.pregnant",
    ]


def test_the_order_of_children_is_counted_from_the_column_of_a_relation():
    schema = LinkedSchema.loads(ORDERED + LATER)
    assert schema.table("visits").since == "entered"
    [link] = schema.links
    assert [str(rule) for rule in link.records.constraints] == [
        "visits.day >= patients.entered"
    ]
    assert link.relations == ()


def test_an_order_far_from_the_column_of_a_relation_is_not_counted_from_there():
    far = ORDERED.replace(
        "lower = 0\nupper = 200\n[tables.visits.columns.waited]",
        "lower = 90\nupper = 200\n[tables.visits.columns.waited]",
    )
    schema = LinkedSchema.loads(far + LATER)
    assert schema.table("visits").since is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            CLINIC + rule("visits.day <= patients.entered"),
            "parents are drawn before their visits; write it under",
        ),
        (
            CLINIC + rule("visits.waited >= visits.day"),
            "its own .*tables.NAME.relations",
        ),
        (CLINIC + rule("visits.dya >= patients.entered"), "no column 'visits.dya'"),
        (ORDERED + rule("visits.day = patients.entered + 3"), "puts the records of"),
        (ORDERED + LATER + "largest = 30\n", "without largest"),
        (
            CLINIC + '[[tables.visits.relations]]\nrule = "day >= waited"\n' + LATER,
            "computed by a relation of its own table",
        ),
        (
            ORDERED + '[[tables.visits.relations]]\nrule = "day >= waited"\n',
            "order = 'day' is computed by a relation",
        ),
        (CLINIC + LATER + rule("visits.day = patients.entered + 1"), "both compute"),
    ],
)
def test_what_cannot_be_a_relation_between_tables_is_refused(text, message):
    with pytest.raises(SchemaError, match=message):
        LinkedSchema.loads(text)


def test_a_schema_without_relations_measures_children_as_they_are():
    link = link_of(CLINIC)
    children = rows_of(link.own_layout, [[13], [5]], [[2]])
    parents = rows_of(link.parent.schema.layout, [[10]], [[0]])
    assert link.measure(parents, children) is children


def test_dates_far_apart_are_measured_themselves():
    text = """
[columns.birth]
kind = "date"
lower = 1920-01-01
upper = 2024-12-31
[columns.visit]
kind = "date"
lower = 2020-01-01
upper = 2024-12-31
missing = true
[[relations]]
rule = "visit >= birth"
"""
    schema = Schema.loads(text)
    assert schema.coordinates.names == ("birth", "visit")
    births, visits = [
        np.array([(day - date(1970, 1, 1)).days for day in days])
        for days in (
            (date(1950, 1, 1), date(2024, 5, 1), date(2024, 5, 1)),
            (date(2021, 3, 1), date(2022, 1, 1), date(2024, 5, 2)),
        )
    ]
    records = rows_of(schema.layout, [births, visits], np.zeros((0, 3)))
    restored = schema.file_values(records)["visit"].numbers
    assert restored.tolist() == [visits[0], births[1], visits[2]]
