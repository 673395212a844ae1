"""What a page shows of a release is what the release says."""

import math

import numpy as np
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.answers.domain import NumberRange, domain_of, number_ranges
from noisegate.answers.measurements import Measurements
from noisegate.answers.noisy_table import NoisyTable
from noisegate.queries.binning import NumericBins
from noisegate.schema import Date, EncodedTable, Schema
from noisegate_evaluate.reporting.released import (
    cell_names,
    divisor,
    error_matrix,
    level_names,
    measured_columns,
    numbered,
    pair_errors,
    range_name,
    released_total,
)

SCHEMA = Schema((integer("n", 0, 9), categorical("c", "abc"), boolean("y")))
LAYOUT = SCHEMA.layout
DOMAIN = domain_of(LAYOUT, (NumericBins((0.5,)),))


def table(names, counts, noise_std):
    counts = np.asarray(counts, dtype=float)
    return NoisyTable.of(DOMAIN.project(names), counts, noise_std=noise_std)


def stated(*tables, known_total=None):
    return Measurements(DOMAIN, tables, known_total=known_total)


def test_a_column_is_read_off_all_tables_that_hold_it():
    # Summed over three cells its noise has variance 3; two estimates of n have 3 and 4.
    pair = table("nc", [[10, 20, 30], [5, 15, 20]], 1.0)
    single = table("c", [16, 34, 50], 1.2)
    other = table("n", [99, 1], 2.0)
    drawn = EncodedTable(
        np.array([[0.0], [1.0], [1.0], [1.0]]),
        np.array([[0, 0], [1, 0], [2, 1], [2, 1]], np.int32),
    )
    first, second = measured_columns(
        stated(pair, single, other, known_total=100.0), LAYOUT, drawn
    )
    assert first.name == "n"
    expected = (np.array([60, 40]) / 3 + np.array([99, 1]) / 4) / (1 / 3 + 1 / 4) / 100
    assert first.measured == pytest.approx(expected)
    assert first.noise_std == pytest.approx(math.sqrt(12 / 7) / 100)
    assert first.synthetic.tolist() == [0.25, 0.75]
    noise_std = math.sqrt(1 / (1 / 2 + 1 / 1.44))
    assert second.noise_std == pytest.approx(noise_std / 100)
    assert second.synthetic.tolist() == [0.25, 0.25, 0.5]
    # One standard deviation of a cell times √(2/π), half of the sum over cells.
    misplaced = 3 * noise_std * math.sqrt(2 / math.pi) / 2 / 100
    assert second.misplaced == pytest.approx(misplaced)


def test_thousands_of_columns_look_at_each_table_a_few_times(monkeypatch):
    """A page comes after every fit, and was quadratic in the columns: minutes for some thousand of them."""
    projected = []
    project = NoisyTable.project

    def counted(table, names):
        projected.append(names)
        return project(table, names)

    monkeypatch.setattr(NoisyTable, "project", counted)
    layout = Schema([boolean(f"b{number}") for number in range(300)]).layout
    domain = domain_of(layout, ())
    tables = tuple(
        NoisyTable.of(
            domain.project([f"b{number}"]), np.array([60.0, 40.0]), noise_std=1.0
        )
        for number in range(300)
    )
    drawn = EncodedTable(np.zeros((5, 0)), np.zeros((5, 300), np.int32))
    columns = measured_columns(Measurements(domain, tables), layout, drawn)
    assert len(columns) == 300
    # Once for its column, and once for the number of records.
    assert len(projected) <= 2 * len(tables) + 2


def test_cells_agree_within_noise_and_draw_and_no_farther():
    codes = np.zeros((4000, 2), np.int32)
    codes[:2000, 1] = 1
    drawn = EncodedTable(np.zeros((4000, 1)), codes)
    explained = []
    for noise_std in (5.0, 0.1):
        release = stated(table("y", [60, 40], noise_std), known_total=100.0)
        (column,) = measured_columns(release, LAYOUT, drawn)
        explained.append(column.explained)
    assert explained == [2, 0]


def test_the_released_total_is_that_of_all_tables():
    coarse = table("y", [60, 40], 5.0)
    fine = table("nc", [[10, 20, 30], [5, 15, 20]], 1.0)
    total = released_total(stated(coarse, fine))
    assert total.value == pytest.approx(100.0)
    assert total.variance == pytest.approx(1 / (1 / 50 + 1 / 6))
    assert released_total(stated()) is None
    # Noise below zero is no number of records.
    assert divisor(stated(table("y", [-9, 2], 5.0))) == 1.0


def test_pairs_have_the_error_of_all_tables_that_hold_them():
    release = stated(
        table("nc", np.ones((2, 3)), 1.0),
        table("ncy", np.ones((2, 3, 2)), 0.1),
        known_total=10.0,
    )
    errors = {error.columns: error for error in pair_errors(release)}
    assert set(errors) == {("n", "c"), ("n", "y"), ("c", "y")}
    assert errors["n", "c"].cells == 6
    noise_std = math.sqrt(1 / (1 + 1 / (2 * 0.01)))
    misplaced = 6 * noise_std * math.sqrt(2 / math.pi) / 2 / 10
    assert errors["n", "c"].misplaced == pytest.approx(misplaced)
    matrix = error_matrix(["c", "n", "z"], [errors["n", "c"]])
    assert matrix[0, 1] == matrix[1, 0] == errors["n", "c"].misplaced
    assert np.isnan(matrix[0, 0])
    assert np.isnan(matrix[2]).all()


def names_of_bins(column, cuts, missing=False):
    return cell_names(column, number_ranges(column, NumericBins(cuts, missing)))


def test_cells_are_named_by_the_values_that_they_hold():
    assert names_of_bins(integer("n", 0, 9), (0.5 / 9, 4.5 / 9)) == [
        "0",
        "1 – 4",
        "5 – 9",
    ]
    assert names_of_bins(continuous("x", 0.0, 8.0), (0.25,), missing=True) == [
        "0 – 2",
        "2 – 8",
        "(missing)",
    ]
    # The lower bound is a cell of its own.
    assert names_of_bins(continuous("x", 0.0, 8.0), (5e-324, 0.5)) == [
        "0",
        "0 – 4",
        "4 – 8",
    ]
    day = Date(name="d", lower="2024-01-01", upper="2024-01-11")
    assert names_of_bins(day, (0.45,)) == [
        "2024-01-01 – 2024-01-05",
        "2024-01-06 – 2024-01-11",
    ]
    assert level_names(categorical("c", (3, 1), missing=True)) == [
        "3",
        "1",
        "(missing)",
    ]
    assert numbered(["a", "b", "a"]) == ["a", "b", "a (2)"]
    assert range_name(continuous("x", 0.0, 0.3), NumberRange(0.1 + 0.2, 0.3)) == "0.3"
