"""Table to model matrix: numbers standardised, levels one-hot, everything learnt from the training table only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from noisegate.evaluation.reading import Numbers, read_levels, read_numbers
from noisegate.schema import CodedColumn, Column, NumericColumn, Schema

# On the unit scale of the bounds. A column that is nearly constant in training must not blow up the test values.
_LEAST_SPREAD = 1e-6


@dataclass(frozen=True, kw_only=True)
class _Scaling:
    """What one numeric column of the training table says: how to fill and scale it."""

    median: float
    centre: float
    spread: float
    flag: bool


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """The features of a table, as a training table fixes them.

    Attributes:
        schema: the columns.
        features: the columns that are features, in schema order.
        scalings: one per numeric feature.
    """

    schema: Schema
    features: tuple[Column, ...]
    scalings: tuple[_Scaling, ...]

    def matrix(self, table: pa.Table) -> np.ndarray:
        """Build the features of a table.

        A missing number becomes the training median, with an indicator column where training had missing ones. A
        missing level has a column of its own, and a value outside the levels has none, so it never crashes.

        Args:
            table: any table with the schema's columns.

        Returns:
            float32, one row per record.
        """
        scalings = iter(self.scalings)
        blocks = [
            _scaled(read_numbers(table, column, self.schema), next(scalings))
            if isinstance(column, NumericColumn)
            else _one_hot(table, column, self.schema)
            for column in self.features
        ]
        # A leading constant, so that a table whose only column is the label still has a feature.
        return np.hstack([np.ones((table.num_rows, 1), dtype=np.float32), *blocks])


def prepare(train: pa.Table, schema: Schema, label: str) -> Preparation:
    """Fix the features from the training table.

    Args:
        train: the table that models are trained on.
        schema: its columns.
        label: the column to predict, which is no feature.

    Returns:
        The preparation, ready to make matrices of the training and of the test table.
    """
    features = tuple(column for column in schema.columns if column.name != label)
    scalings = tuple(
        _scaling(read_numbers(train, column, schema)) for column in features if isinstance(column, NumericColumn)
    )
    return Preparation(schema=schema, features=features, scalings=scalings)


def _scaling(numbers: Numbers) -> _Scaling:
    known = numbers.unit[~np.isnan(numbers.unit)]
    flag = len(known) < len(numbers.unit)
    if len(known) == 0:
        # No number to learn from: the middle of the bounds, which are public.
        return _Scaling(median=0.5, centre=0.5, spread=1.0, flag=flag)
    spread = float(known.std())
    return _Scaling(
        median=float(np.median(known)),
        centre=float(known.mean()),
        spread=spread if spread > _LEAST_SPREAD else 1.0,
        flag=flag,
    )


def _scaled(numbers: Numbers, scaling: _Scaling) -> np.ndarray:
    absent = np.isnan(numbers.unit)
    filled = np.where(absent, scaling.median, numbers.unit)
    block = ((filled - scaling.centre) / scaling.spread)[:, None]
    if scaling.flag:
        block = np.hstack([block, absent[:, None]])
    return block.astype(np.float32)


def _one_hot(table: pa.Table, column: CodedColumn, schema: Schema) -> np.ndarray:
    levels = read_levels(table, column, schema)
    width = levels.count + 1  # the last one for missing
    inside = np.flatnonzero(levels.codes < width)
    block = np.zeros((table.num_rows, width), dtype=np.float32)
    block[inside, levels.codes[inside]] = 1.0
    return block
