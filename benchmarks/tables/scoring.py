"""What a synthetic table is worth: the same code, reading and limits for every method and for real data.

Limits, so that a table of a million records is scored in minutes: models train on at most `TRAIN_ROWS` records and are
scored on at most `TEST_ROWS`, the first ones of each table; 3-way distances use at most 120 marginals, drawn once.
Distances are of whole tables.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisegate import Schema
from noisegate.schema import NumericColumn
from noisegate.sources.frames import read_table
from noisegate_evaluate import downstream_scores, marginal_distances
from noisegate_evaluate.reading import read_numbers

TRAIN_ROWS, TEST_ROWS = 50_000, 20_000
FIGURES = (
    "roc_auc",
    "average_precision",
    "f1",
    "distance_1",
    "distance_2",
    "distance_3",
    "wasserstein",
)


class Judge:
    """Scores synthetic tables against one real table, which is read once."""

    def __init__(self, table: Path) -> None:
        """Takes the folder of a table, with train.csv, test.csv and schema.toml."""
        self._folder = table
        self.schema = Schema.from_toml(table / "schema.toml")

    @cached_property
    def train(self) -> pa.Table:
        """The real records that every method was given."""
        return read_table(self._folder / "train.csv", self.schema)

    @cached_property
    def test(self) -> pa.Table:
        """Real records that no method has seen."""
        return read_table(self._folder / "test.csv", self.schema)

    def score(self, synthetic: Path) -> dict[str, float]:
        """The figures of a synthetic table; distances are to the training table.

        Raises:
            UserError: if the file cannot be read as the schema says.
        """
        # Read leniently: a value that the schema does not know counts against the table and stops nothing.
        table = read_table(synthetic)
        return self._figures(table, self.train)

    def ceiling(self) -> dict[str, float]:
        """The figures of the real training table; its distances are to the test table: what sampling alone does."""
        return self._figures(self.train, self.test)

    def _figures(self, table: pa.Table, reference: pa.Table) -> dict[str, float]:
        models = downstream_scores(
            table.slice(0, TRAIN_ROWS), self.test.slice(0, TEST_ROWS), self.schema
        ).mean
        distances = marginal_distances(table, reference, self.schema)
        figures = {
            "roc_auc": models.roc_auc,
            "average_precision": models.average_precision,
            "f1": models.f1,
            **{f"distance_{order}": distances.order(order).mean for order in (1, 2, 3)},
            "wasserstein": wasserstein(table, reference, self.schema),
        }
        # Without a numeric column there is no Wasserstein distance, and JSON has no nan.
        return {name: value for name, value in figures.items() if not np.isnan(value)}


def wasserstein(left: pa.Table, right: pa.Table, schema: Schema) -> float:
    """The mean over numeric columns of the Wasserstein-1 distance, in units of the range between the column's bounds.

    It is the area between the two distribution functions. Missing values are left aside; nan without a numeric column.
    """
    distances = []
    for column in schema.columns:
        if isinstance(column, NumericColumn):
            values = [
                read_numbers(table, column, schema).unit for table in (left, right)
            ]
            distances.append(
                _area(*(np.sort(part[~np.isnan(part)]) for part in values))
            )
    return float(np.mean(distances)) if distances else float("nan")


def _area(left: np.ndarray, right: np.ndarray) -> float:
    """The area between two distribution functions, from sorted samples in [0, 1]; 1 if just one is empty."""
    if len(left) == 0 or len(right) == 0:
        return float(len(left) != len(right))
    points = np.union1d(left, right)
    heights = [
        np.searchsorted(part, points[:-1], side="right") / len(part)
        for part in (left, right)
    ]
    return float(np.abs(heights[0] - heights[1]) @ np.diff(points))
