import numpy as np
import pyarrow as pa
import pytest
from tests.evaluation.linked_tables import SCHEMA, tables

from noisegate.errors import DataError
from noisegate.evaluation.families import bring_together


def families(found, name="visits"):
    return bring_together(found, SCHEMA, "test").families[name]


def test_children_come_to_their_parents_in_order_and_orphans_are_left_aside():
    found = families(tables())
    # Of 7 on days 1, 3, 3 (as they are written down), then of 9; the fourth row has no parent.
    assert found.rows.tolist() == [2, 1, 4, 0]
    assert found.parent.tolist() == [0, 0, 0, 2]
    assert found.counts.tolist() == [3, 0, 1]
    assert [found.orphans, found.repeated, found.backwards] == [1, 0, 1]
    assert [steps.tolist() for steps in found.consecutive] == [[0, 1], [1, 2]]


def test_children_that_stand_in_order_do_not_go_back():
    found = tables()
    found["visits"] = found["visits"].take([2, 3, 1, 4, 0])
    assert families(found).backwards == 0


def test_a_missing_key_belongs_to_nobody_and_a_repeated_one_is_counted():
    found = tables()
    found["people"] = found["people"].set_column(0, "id", pa.array(["7", "7", None]))
    found["visits"] = found["visits"].set_column(1, "id", pa.array(["7", None, None, "8", "7"]))
    together = families(found)
    assert together.counts.tolist() == [2, 0, 0]
    assert [together.orphans, together.repeated] == [3, 1]


def test_grandchildren_follow_the_order_of_their_parents():
    together = bring_together(tables(), SCHEMA, "test").families
    found = together["finds"].of_grandparents(together["visits"])
    # Visits of 7 in order: c without a find, b with the rows 0 and 2, e with 1; of 9: a with 3. d has no parent.
    assert found.rows.tolist() == [0, 2, 1, 3]
    assert found.parent.tolist() == [0, 0, 0, 2]
    assert np.array_equal(found.counts, [3, 0, 1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda found: found.pop("finds"), "the test tables lack 'finds'; give a table for each"),
        (lambda found: found.update(people=found["people"].drop_columns(["id"])), "column 'id' .* a key, is not"),
    ],
)
def test_what_is_lacking_is_named(change, message):
    found = tables()
    change(found)
    with pytest.raises(DataError, match=message):
        bring_together(found, SCHEMA, "test")
