import pytest
from tests.evaluation.linked_tables import SCHEMA, tables

from noisegate.evaluation.aggregates import beside
from noisegate.evaluation.families import bring_together


def test_parents_stand_beside_what_their_children_come_to():
    table, schema = beside(bring_together(tables(), SCHEMA, "test"), SCHEMA)
    assert schema.label == "ill"
    assert table.column_names == list(schema.names)
    assert {name: table[name].to_pylist() for name in table.column_names[2:]} == {
        "visits.number": [3, 0, 1],
        "visits.day.mean": [pytest.approx(7 / 30), None, 0.5],
        "visits.day.last": [0.3, None, 0.5],
        # A pain that is missing is neither in the mean nor the last one.
        "visits.pain.mean": [0.25, None, 1.0],
        "visits.pain.last": [0.5, None, 1.0],
        "finds.number": [3, 0, 1],
        "finds.sure.False": [pytest.approx(2 / 3), None, 0.0],
        "finds.sure.True": [pytest.approx(1 / 3), None, 1.0],
    }
    assert schema.column("finds.number").upper == 12
