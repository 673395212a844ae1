"""What a copy keeps of associations and of Pearson's correlations.

Of associations (rank correlations, Cramér's V, correlation ratios) and Pearson's correlations above .3 of real records:
the mean part that is kept, none with the wrong sign; and the mean error of all.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from noisegate import Schema
from noisegate_evaluate.metrics.analyses import associations


def kept_figures(copy: pa.Table, real: pa.Table, schema: Schema) -> list[float]:
    """Returns kept and error of associations, then of Pearson's correlations; kept is nan where none is above .3."""
    ranks = [
        associations(one, schema.columns, schema, signed=True) for one in (copy, real)
    ]
    return [
        *_kept_and_error(*ranks),
        *_kept_and_error(_pearson(copy, schema), _pearson(real, schema)),
    ]


def _kept_and_error(ours: np.ndarray, theirs: np.ndarray) -> tuple[float, float]:
    upper = np.triu(np.isfinite(theirs), 1)
    made, truth = np.nan_to_num(ours[upper]), theirs[upper]
    strong = np.abs(truth) >= 0.3
    kept = np.clip(made[strong] / truth[strong], 0, 1)
    return float(kept.mean()) if strong.any() else float("nan"), float(
        np.abs(made - truth).mean()
    )


def _pearson(table: pa.Table, schema: Schema) -> np.ndarray:
    frame = table.select(
        [column.name for column in schema.columns if column.numeric]
    ).to_pandas()
    return np.asarray(frame.apply(lambda one: one.astype(float)).corr().to_numpy())
