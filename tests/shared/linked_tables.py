"""Small linked tables: people, their visits, and what was found at these."""

import pyarrow as pa
from tests.shared.columns import boolean, integer

from noisegate.schema import Schema
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable

SCHEMA = LinkedSchema(
    [
        LinkedTable(
            name="people",
            key="id",
            schema=Schema([integer("age", 0, 100), boolean("ill")], label="ill"),
        ),
        LinkedTable(
            name="visits",
            key="visit",
            parent="people",
            order="day",
            most=4,
            schema=Schema([integer("day", 0, 10), integer("pain", 0, 4, missing=True)]),
        ),
        LinkedTable(
            name="finds", parent="visits", most=3, schema=Schema([boolean("sure")])
        ),
    ]
)


def tables():
    """Three people: one with visits on days 1, 3 and 3, one without, one with a visit; an orphan is among them."""
    return {
        "people": pa.table(
            {"id": [7, 8, 9], "age": [30, 40, 50], "ill": [True, False, False]}
        ),
        "visits": pa.table(
            {
                "visit": ["a", "b", "c", "d", "e"],
                "id": ["9", "7", "7", "6", "7"],
                "day": [5, 3, 1, 2, 3],
                "pain": [4, 2, 0, 4, None],
            }
        ),
        "finds": pa.table(
            {
                "visit": ["b", "e", "b", "a", "d"],
                "sure": [True, False, False, True, True],
            }
        ),
    }
