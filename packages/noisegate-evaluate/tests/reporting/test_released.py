"""What a page shows of a release is what the release says."""

import numpy as np
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.answers.released import Table, best_table
from noisegate.queries.binning import NumericBins
from noisegate.schema import Date, EncodedTable, Schema
from noisegate_evaluate.reporting import released as module
from noisegate_evaluate.reporting.released import (
    Released,
    cell_names,
    error_matrix,
    level_names,
    noisy_marginals,
    numbered,
    pair_errors,
    span_name,
)

SCHEMA = Schema((integer("n", 0, 9), categorical("c", "abc"), boolean("y")))
BINS = (NumericBins((0.5,)),)


def table(columns, counts, noise_std):
    return Table(
        columns=columns, counts=np.asarray(counts, dtype=float), noise_std=noise_std
    )


def test_a_column_is_read_off_the_table_that_says_it_best():
    pair = table(
        (0, 1), [[10, 20, 30], [5, 15, 20]], 1.0
    )  # summed over three cells: noise √3
    alone, worse = table((1,), [16, 34, 50], 1.2), table((0,), [99, 1], 2.0)
    released = Released(
        layout=SCHEMA.layout, bins=BINS, tables=[pair, alone, worse], known=100.0
    )
    drawn = EncodedTable(
        np.array([[0.0], [1.0], [1.0], [1.0]]),
        np.array([[0, 0], [1, 0], [2, 1], [2, 1]], np.int32),
    )
    first, second = noisy_marginals(released, drawn)
    assert first.name == "n"
    assert first.noisy.tolist() == [0.6, 0.4]
    assert first.two_sigma == pytest.approx(2 * np.sqrt(3) / 100)
    assert first.synthetic.tolist() == [0.25, 0.75]
    assert second.noisy.tolist() == [0.16, 0.34, 0.5]
    assert second.two_sigma == pytest.approx(0.024)
    assert second.synthetic.tolist() == [0.25, 0.25, 0.5]
    # One standard deviation of a cell times √(2/π), half of the sum over cells.
    assert second.error == pytest.approx(3 * 1.2 * np.sqrt(2 / np.pi) / 2 / 100)


def test_thousands_of_columns_look_at_each_table_a_few_times(monkeypatch):
    """A page comes after every fit, and was quadratic in the columns: minutes for some thousand of them."""
    seen = []

    def counted(tables, columns):
        tables = list(tables)
        seen.append(len(tables))
        return best_table(tables, columns)

    monkeypatch.setattr(module, "best_table", counted)
    schema = Schema([boolean(f"b{number}") for number in range(300)])
    tables = [table((number,), [60, 40], 1.0) for number in range(300)]
    released = Released(layout=schema.layout, bins=(), tables=tables)
    assert (
        len(
            noisy_marginals(
                released, EncodedTable(np.zeros((5, 0)), np.zeros((5, 300), np.int32))
            )
        )
        == 300
    )
    assert sum(seen) <= 2 * len(tables)


def test_cells_agree_within_noise_and_draw_and_no_farther():
    close = Released(
        layout=SCHEMA.layout,
        bins=BINS,
        tables=[table((2,), [60, 40], 5.0)],
        known=100.0,
    )
    far = Released(
        layout=SCHEMA.layout,
        bins=BINS,
        tables=[table((2,), [60, 40], 0.1)],
        known=100.0,
    )
    codes = np.zeros((4000, 2), np.int32)
    codes[:2000, 1] = 1
    drawn = EncodedTable(np.zeros((4000, 1)), codes)
    assert [noisy_marginals(one, drawn)[0].explained for one in (close, far)] == [2, 0]


def test_the_number_of_records_is_that_with_the_least_noise():
    tables = [
        table((2,), [60, 40], 5.0),
        table((0, 1), [[10, 20, 30], [5, 15, 20]], 1.0),
    ]
    total = Released(layout=SCHEMA.layout, bins=BINS, tables=tables).total
    assert total == (100.0, pytest.approx(2 * np.sqrt(6)))
    assert Released(layout=SCHEMA.layout, bins=BINS, tables=[]).total is None
    # Noise below zero is no number of records.
    assert (
        Released(
            layout=SCHEMA.layout, bins=BINS, tables=[table((2,), [-9, 2], 5.0)]
        ).records
        == 1.0
    )


def test_pairs_have_the_error_of_their_best_table():
    tables = [
        table((0, 1), np.ones((2, 3)), 1.0),
        table((0, 1, 2), np.ones((2, 3, 2)), 0.1),
    ]
    errors = pair_errors(
        Released(layout=SCHEMA.layout, bins=BINS, tables=tables, known=10.0)
    )
    found = {error.columns: error for error in errors}
    assert set(found) == {("n", "c"), ("n", "y"), ("c", "y")}
    assert found["n", "c"].cells == 6
    assert found["n", "c"].error == pytest.approx(
        6 * 0.1 * np.sqrt(2) * np.sqrt(2 / np.pi) / 2 / 10
    )
    matrix = error_matrix(["c", "n", "z"], [found["n", "c"]])
    assert matrix[0, 1] == matrix[1, 0] == found["n", "c"].error
    assert np.isnan(matrix[0, 0]) and np.isnan(matrix[2]).all()


def test_cells_are_named_by_the_values_that_they_hold():
    assert cell_names(integer("n", 0, 9), NumericBins((0.5 / 9, 4.5 / 9))) == [
        "0",
        "1 – 4",
        "5 – 9",
    ]
    assert cell_names(continuous("x", 0.0, 8.0), NumericBins((0.25,), True)) == [
        "0 – 2",
        "2 – 8",
        "(missing)",
    ]
    # The lower bound is a cell of its own.
    assert cell_names(continuous("x", 0.0, 8.0), NumericBins((5e-324, 0.5))) == [
        "0",
        "0 – 4",
        "4 – 8",
    ]
    day = Date(name="d", lower="2024-01-01", upper="2024-01-11")
    assert cell_names(day, NumericBins((0.45,))) == [
        "2024-01-01 – 2024-01-05",
        "2024-01-06 – 2024-01-11",
    ]
    assert level_names(categorical("c", (3, 1), missing=True)) == [
        "3",
        "1",
        "(missing)",
    ]
    assert numbered(["a", "b", "a"]) == ["a", "b", "a (2)"]
    # Of twenty bins of four values, four hold one.
    spans = [
        span_name(integer("n", 0, 3), cell / 20, (cell + 1) / 20) for cell in range(20)
    ]
    assert [span for span in spans if span is not None] == ["0", "1", "2", "3"]
