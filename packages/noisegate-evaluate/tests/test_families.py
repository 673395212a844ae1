import numpy as np
import pyarrow as pa
import pytest
from tests.shared.linked_tables import SCHEMA, tables

from noisegate_evaluate.reading import beside, bring_together


def families(found, name="visits"):
    return bring_together(found, SCHEMA, "test").families[name]


def test_children_come_to_their_parents_in_order_and_orphans_are_left_aside():
    found = families(tables())
    # Of 7 on days 1, 3, 3 (these two at random), then of 9; the fourth row has no parent.
    first, *tied, last = found.rows.tolist()
    assert (first, set(tied), last) == (2, {1, 4}, 0)
    assert found.parent.tolist() == [0, 0, 0, 2]
    assert found.counts.tolist() == [3, 0, 1]
    assert [found.orphans, found.repeated, found.backwards] == [1, 0, 1]
    assert [steps.tolist() for steps in found.consecutive] == [[0, 1], [1, 2]]


def test_a_missing_key_belongs_to_nobody_and_a_repeated_one_is_counted():
    found = tables()
    found["people"] = found["people"].set_column(0, "id", pa.array(["7", "7", None]))
    found["visits"] = found["visits"].set_column(
        1, "id", pa.array(["7", None, None, "8", "7"])
    )
    together = families(found)
    assert together.counts.tolist() == [2, 0, 0]
    assert [together.orphans, together.repeated] == [3, 1]


def test_grandchildren_follow_the_order_of_their_parents():
    together = bring_together(tables(), SCHEMA, "test").families
    found = together["finds"].of_grandparents(together["visits"])
    # Visits of 7: c without a find; then, on one day, b with the rows 0 and 2 and e with 1, which of them first is at
    # random, as is the order of the finds of b. Of 9: a with 3. d has no parent.
    *of_seven, of_nine = found.rows.tolist()
    assert (sorted(of_seven), of_nine) == ([0, 1, 2], 3)
    assert of_seven[1] != 1
    assert found.parent.tolist() == [0, 0, 0, 2]
    assert np.array_equal(found.counts, [3, 0, 1])


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
