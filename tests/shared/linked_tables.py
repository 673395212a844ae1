"""Small linked tables: people, their visits, and what was found at these."""

import pyarrow as pa

from noisegate.linked.schema import LinkedSchema, LinkedTable
from noisegate.schema import Boolean, Integer, Schema

SCHEMA = LinkedSchema(
    [
        LinkedTable(
            name="people",
            key="id",
            schema=Schema([Integer(name="age", lower=0, upper=100), Boolean(name="ill")], label="ill"),
        ),
        LinkedTable(
            name="visits",
            key="visit",
            parent="people",
            order="day",
            most=4,
            schema=Schema(
                [Integer(name="day", lower=0, upper=10), Integer(name="pain", lower=0, upper=4, missing=True)]
            ),
        ),
        LinkedTable(name="finds", parent="visits", most=3, schema=Schema([Boolean(name="sure")])),
    ]
)


def tables():
    """Three people: one with visits on days 1, 3 and 3, one without, one with a visit; an orphan is among them."""
    return {
        "people": pa.table({"id": [7, 8, 9], "age": [30, 40, 50], "ill": [True, False, False]}),
        "visits": pa.table(
            {
                "visit": ["a", "b", "c", "d", "e"],
                "id": ["9", "7", "7", "6", "7"],
                "day": [5, 3, 1, 2, 3],
                "pain": [4, 2, 0, 4, None],
            }
        ),
        "finds": pa.table({"visit": ["b", "e", "b", "a", "d"], "sure": [True, False, False, True, True]}),
    }
