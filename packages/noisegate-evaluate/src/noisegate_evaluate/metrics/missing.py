"""Whether values of two columns are missing in the same records, as they are in the real ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from noisegate.schema import Column, Schema
from noisegate_evaluate.metrics.analyses import (
    MOST_COLUMNS,
    STRONG,
    Pair,
    compared_pairs,
    kept_text,
    strong_pairs,
)
from noisegate_evaluate.metrics.result import MetricResult, metric
from noisegate_evaluate.reading import read_levels, read_numbers

# A correlation of fewer records that lack a value, or that have one, is mostly chance.
_MIN_RECORDS = 20


@metric("missing", "tables")
@dataclass(frozen=True, kw_only=True)
class MissingTogether(MetricResult):
    """How missing values of pairs of columns go together: correlations of being missing, from -1 to 1.

    ``pairs`` is how many pairs there are, ``error`` the mean absolute difference, and ``largest`` the largest one.
    ``strong`` are those of real records from .3 on, the strongest first, each ("first × second", real, synthetic), and
    ``kept`` the mean part of these that is kept: none with the wrong sign; None where there are none.
    """

    PRINTED: ClassVar = {
        "values missing together, error of correlations, mean": "{it.error:.3f}",
        f"values missing together, correlations above {STRONG} kept": "{it.kept_text}",
    }
    pairs: int
    error: float
    largest: float
    strong: Sequence[Pair]
    kept: float | None

    @classmethod
    def measured(
        cls, synthetic: pa.Table, real: pa.Table, *, seed: int, **more: Any
    ) -> MissingTogether | None:
        """Returns the figures; None where values of fewer than two columns are missing in real records.

        In a wide table the first `MOST_COLUMNS` of those columns are compared.
        """
        schema: Schema = more["schema"]
        layout = schema.file_layout
        is_missing_of = {
            column.name: _is_missing(real, column, schema)
            for column in (*layout.numeric, *layout.coded)
            if column.missing
        }
        names = [
            name
            for name, is_missing in is_missing_of.items()
            if min(is_missing.sum(), (~is_missing).sum()) >= _MIN_RECORDS
        ][:MOST_COLUMNS]
        if len(names) < 2:
            return None
        columns = {column.name: column for column in (*layout.numeric, *layout.coded)}
        in_real = _correlations([is_missing_of[name] for name in names])
        in_synthetic = _correlations(
            [_is_missing(synthetic, columns[name], schema) for name in names]
        )
        pairs = compared_pairs(names, in_real, in_synthetic)
        errors = [pair.error for pair in pairs]
        strong, kept = strong_pairs(pairs)
        return cls(
            pairs=len(pairs),
            error=float(np.mean(errors)),
            largest=max(errors),
            strong=strong,
            kept=kept,
        )

    @property
    def kept_text(self) -> str:
        """What is kept of strong ones, as it is printed; "" without any."""
        return kept_text(self.kept, self.strong)


def _is_missing(
    table: pa.Table, column: Column, schema: Schema
) -> npt.NDArray[np.bool_]:
    """Returns which records have no value of a column, (records,); one that does not fit is a value."""
    if column.numeric:
        numbers = read_numbers(table, column, schema)
        return np.asarray(np.isnan(numbers.unit) & ~numbers.outside)
    levels = read_levels(table, column, schema)
    return np.asarray(levels.codes == levels.count)


def _correlations(
    is_missing: Sequence[npt.NDArray[np.bool_]],
) -> npt.NDArray[np.float64]:
    """Returns the correlation of every pair of masks, (masks, masks); 0 with one that is constant."""
    values = np.stack(is_missing).astype(np.float64)
    centred = values - values.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(centred, axis=1, keepdims=True)
    scaled = np.divide(centred, norms, out=np.zeros_like(centred), where=norms > 0)
    return np.asarray(scaled @ scaled.T)
