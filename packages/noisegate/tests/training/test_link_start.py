"""The fit of a link sets out from what is known of its steps."""

from __future__ import annotations

import numpy as np
import pytest

from noisegate.linked.fit import with_start
from noisegate.linked.links import STEPS, LinkColumns
from noisegate.linked.schema import LinkedSchema, LinkedTable
from noisegate.schema import Boolean, Integer, Schema
from noisegate.tables.released import Table
from noisegate.tables.tables import ClassTables, class_tables

PEOPLE = LinkedTable(name="people", key="id", schema=Schema([Boolean(name="ill")]))
PAIN = Schema([Integer(name="pain", lower=0, upper=2, missing=True)])
LINK = LinkedSchema([PEOPLE, LinkedTable(name="visits", schema=PAIN, parent="people", most=3)]).links[0]
COLUMNS = LinkColumns.of(LINK)
SIZES = [4, 4, 4, 2, 3]  # number, pain before and now with missing, ill, step
NUMBERS = np.array([400.0, 200.0, 0.0, 400.0])  # none, one, and three children
NONE, FIRST, NEXT = (STEPS.index(step) for step in ("none", "first", "next"))


def tables(pair: np.ndarray | None = None, noise_std: float = 1.0) -> ClassTables:
    """Tables of 1,000 parents, of pain before and now."""
    now = np.array([200.0, 200.0, 100.0, 500.0])  # of the 500 missing ones 400 are of no child
    before = np.append(800 / 3 * np.array([0.2, 0.2, 0.4]), 1000 - 640 / 3)  # of 800 / 3 next ones 0.2 are missing
    found = [
        Table(columns=(COLUMNS.children[0],), counts=now, noise_std=1.0),
        Table(columns=(COLUMNS.previous[0],), counts=before, noise_std=1.0),
    ]
    if pair is not None:
        found.append(Table(columns=(COLUMNS.previous[0], COLUMNS.children[0]), counts=pair, noise_std=noise_std))
    made = class_tables(found, SIZES, None)
    return with_start(made, COLUMNS, NUMBERS, np.arange(4))


def test_the_steps_come_as_often_as_the_numbers_say() -> None:
    start = tables().start
    assert start is not None
    expected = {NONE: 0.4, FIRST: 0.2 + 0.4 / 3, NEXT: 0.4 * 2 / 3}
    assert start.weights.tolist() == pytest.approx([expected[step] for step in range(3)])
    spans = tables().spans
    number = start.cells[:, spans[COLUMNS.number]]
    assert number[NONE].tolist() == pytest.approx([1, 0, 0, 0], abs=1e-6)
    assert number[FIRST].tolist() == pytest.approx([0, 0.6, 0, 0.4], abs=1e-6)
    assert number[NEXT].tolist() == pytest.approx([0, 0, 0, 1], abs=1e-6)


def test_what_is_not_there_is_missing_and_what_is_there_as_often_as_its_column_says() -> None:
    made = tables()
    assert made.start is not None
    now, before = (made.spans[column] for column in (COLUMNS.children[0], COLUMNS.previous[0]))
    for step, child, previous in ((NONE, 0, 0), (FIRST, 1, 0), (NEXT, 1, 1)):
        of_now, of_before = [1 / 3, 1 / 3, 1 / 6, 1 / 6], [0.2, 0.2, 0.4, 0.2]
        for span, there, present in ((now, of_now, child), (before, of_before, previous)):
            found = made.start.cells[step, span].tolist()
            assert found == pytest.approx(there if present else [0, 0, 0, 1], abs=0.005)


def test_a_pair_that_drowns_is_as_the_start_has_it_and_a_clear_one_as_released() -> None:
    known = tables(np.zeros((4, 4)), noise_std=1e9)
    assert known.start is not None
    expected = known.counts[0] * (known.start.cells.T * known.start.weights) @ known.start.cells
    block = known.spans[COLUMNS.previous[0]], known.spans[COLUMNS.children[0]]
    assert known.pairs[0][block] == pytest.approx(expected[block], rel=1e-3)
    clear = np.diag([100.0, 100.0, 50.0, 500.0])
    assert tables(clear, noise_std=0.01).pairs[0][block] == pytest.approx(clear, abs=0.1)
