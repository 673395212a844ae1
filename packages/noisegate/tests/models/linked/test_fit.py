"""The fit of a link sets out from what is known of its steps."""

from __future__ import annotations

import numpy as np
import pytest
from tests.shared.columns import boolean, integer
from tests.shared.noisy_tables import numbered_domain, numbered_table

from noisegate import Schema
from noisegate.models.linked.fit import with_start
from noisegate.models.tables.packed_tables import PackedTables, pack_tables
from noisegate.schema.linked.links import STEPS, LinkColumns
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable

PEOPLE = LinkedTable(name="people", key="id", schema=Schema([boolean("ill")]))
PAIN = Schema([integer("pain", 0, 2, missing=True)])
LINK = LinkedSchema(
    [PEOPLE, LinkedTable(name="visits", schema=PAIN, parent="people", most=3)]
).links[0]
COLUMNS = LinkColumns.of(LINK)
LINK_START_SIZES = [
    4,
    4,
    4,
    2,
    3,
]  # number, pain before and now with missing, ill, step
NUMBERS = np.array([400.0, 200.0, 0.0, 400.0])  # none, one, and three children
NONE, FIRST, NEXT = (STEPS.index(step) for step in ("none", "first", "next"))


def tables(pair: np.ndarray | None = None, noise_std: float = 1.0) -> PackedTables:
    """Tables of 1,000 parents, of pain before and now."""
    now = np.array(
        [200.0, 200.0, 100.0, 500.0]
    )  # of the 500 missing ones 400 are of no child
    before = np.append(
        800 / 3 * np.array([0.2, 0.2, 0.4]), 1000 - 640 / 3
    )  # of 800 / 3 next ones 0.2 are missing
    noisy_tables = [
        numbered_table(columns=(COLUMNS.children[0],), counts=now, noise_std=1.0),
        numbered_table(columns=(COLUMNS.previous[0],), counts=before, noise_std=1.0),
    ]
    if pair is not None:
        noisy_tables.append(
            numbered_table(
                columns=(COLUMNS.previous[0], COLUMNS.children[0]),
                counts=pair,
                noise_std=noise_std,
            )
        )
    packed = pack_tables(noisy_tables, numbered_domain(LINK_START_SIZES), None)
    return with_start(packed, COLUMNS, NUMBERS, np.arange(4))


def test_the_steps_come_as_often_as_the_numbers_say() -> None:
    start = tables().start
    assert start is not None
    expected = {NONE: 0.4, FIRST: 0.2 + 0.4 / 3, NEXT: 0.4 * 2 / 3}
    assert start.weights.tolist() == pytest.approx(
        [expected[step] for step in range(3)]
    )
    spans = tables().column_slices
    number = start.cells[:, spans[COLUMNS.number]]
    assert number[NONE].tolist() == pytest.approx([1, 0, 0, 0], abs=1e-6)
    assert number[FIRST].tolist() == pytest.approx([0, 0.6, 0, 0.4], abs=1e-6)
    assert number[NEXT].tolist() == pytest.approx([0, 0, 0, 1], abs=1e-6)


def test_what_is_not_there_is_missing_and_what_is_there_as_often_as_its_column_says() -> (
    None
):
    packed = tables()
    assert packed.start is not None
    now, before = (
        packed.column_slices[column]
        for column in (COLUMNS.children[0], COLUMNS.previous[0])
    )
    for step, child, previous in ((NONE, 0, 0), (FIRST, 1, 0), (NEXT, 1, 1)):
        of_now = [1 / 3, 1 / 3, 1 / 6, 1 / 6]
        of_before = [0.2, 0.2, 0.4, 0.2]
        for span, there, present in (
            (now, of_now, child),
            (before, of_before, previous),
        ):
            row = packed.start.cells[step, span].tolist()
            assert row == pytest.approx(there if present else [0, 0, 0, 1], abs=0.005)


def test_a_pair_that_drowns_is_as_the_start_has_it_and_a_clear_one_as_released() -> (
    None
):
    drowned = tables(np.zeros((4, 4)), noise_std=1e9)
    assert drowned.start is not None
    expected = (
        drowned.class_counts[0]
        * (drowned.start.cells.T * drowned.start.weights)
        @ drowned.start.cells
    )
    block = (
        drowned.column_slices[COLUMNS.previous[0]],
        drowned.column_slices[COLUMNS.children[0]],
    )
    assert drowned.pair_counts[0][block] == pytest.approx(expected[block], rel=1e-3)
    clear = np.diag([100.0, 100.0, 50.0, 500.0])
    assert tables(clear, noise_std=0.01).pair_counts[0][block] == pytest.approx(
        clear, abs=0.1
    )
