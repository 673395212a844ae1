"""Evaluations of tables with relations: the difference is compared as a column of its own."""

import numpy as np
import pyarrow as pa
import pytest

from noisegate import Schema
from noisegate.schema import (
    Boolean,
    Categorical,
    Expression,
    Formula,
    Integer,
    Lookup,
    Ordered,
)
from noisegate_evaluate.measures import evaluate_tables
from noisegate_evaluate.reading import with_coordinates

RELATIONS = (
    Ordered(upper_name="end", lower_name="start"),
    Formula(name="double", expression=Expression("2 * start")),
)
NUMBERS = (
    Integer(name="start", lower=0, upper=50),
    Integer(name="end", lower=0, upper=100),
    Integer(name="double", lower=0, upper=100),
)


def table(seed, longest, records=400):
    random = np.random.default_rng(seed)
    start = random.integers(0, 51, records)
    return pa.table(
        {
            "start": start,
            "end": start + random.integers(0, longest, records),
            "double": 2 * start,
            "ill": random.random(records) < 0.5,
        }
    )


@pytest.mark.parametrize("others", [(), (Boolean(name="ill"),)])
def test_the_difference_is_compared_beside_the_columns_of_the_file(others):
    schema = Schema((*NUMBERS, *others), relations=RELATIONS)
    report = evaluate_tables(table(0, 5), table(1, 50), schema, table(2, 50))
    singles = report.marginals.order(1)
    assert singles.largest_columns == ("end - start",)
    assert singles.used == len(schema.columns) + 1


def test_a_value_outside_the_schema_has_no_difference():
    schema = Schema(NUMBERS, relations=RELATIONS)
    texts = pa.table(
        {"start": ["3", "?", "x"], "end": ["9", "4", "5"], "double": ["6"] * 3}
    )
    (extended,), described = with_coordinates([texts], schema)
    assert extended["end - start"].to_pylist() == [6, None, None]
    assert described.names == ("start", "end", "double", "end - start")
    assert described.relations == ()


def test_rules_are_found_in_tables_with_a_column_that_follows_from_another():
    towns = [f"T{number:02}" for number in range(20)]
    coasts = {town: str(index < 10) for index, town in enumerate(towns)}
    schema = Schema(
        [
            Categorical(name="coast", levels=("False", "True")),
            Categorical(name="town", levels=towns),
            Boolean(name="ill"),
        ],
        relations=[Lookup(name="coast", source="town", levels=coasts)],
    )
    residents = np.random.default_rng(0).choice(towns, 400)
    records = pa.table(
        {
            "coast": [coasts[town] for town in residents],
            "town": residents,
            "ill": [coasts[town] == "True" for town in residents],
        }
    )
    rules = evaluate_tables(records, records, schema).metrics["rules"]
    assert rules.broken == []
    assert rules.found == 2
