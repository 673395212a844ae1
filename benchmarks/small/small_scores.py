"""How far synthetic records are from real ones, and what a model that learns from them knows of others."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from noisegate import Schema
from noisegate.schema import EncodedTable
from noisegate.sources.tables.tables import TableSource
from noisegate_evaluate import marginal_distances


def score(
    synthetic: pa.Table, train: pa.Table, test: pa.Table, schema: Schema
) -> dict[str, float]:
    """Returns mean total variations of one and two columns to the private records, and the ROC-AUC on others."""
    distances = marginal_distances(synthetic, train, schema, orders=(1, 2), bins=20)
    found = {f"distance_{order}": distances.order(order).mean for order in (1, 2)}
    return {**found, "roc_auc": roc_auc(synthetic, test, schema)}


def roc_auc(synthetic: pa.Table, test: pa.Table, schema: Schema) -> float:
    """Returns that of a logistic regression; one half where synthetic records have a single class."""
    read = [
        EncodedTable.concatenate(list(TableSource(one, schema).batches()))
        for one in (synthetic, test)
    ]
    label = schema.layout.label
    (known, classes), (others, truth) = (
        (_inputs(one, schema), one.codes[:, label]) for one in read
    )
    if len(np.unique(classes)) < 2:
        return 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(max_iter=200).fit(known, classes)
    return float(roc_auc_score(truth, model.predict_proba(others)[:, 1]))


def _inputs(records: EncodedTable, schema: Schema) -> npt.NDArray[np.float64]:
    layout = schema.layout
    numbers = [np.nan_to_num(records.numeric, nan=0.5), np.isnan(records.numeric)]
    coded = enumerate(layout.coded)
    codes = [
        np.eye(column.size)[records.codes[:, place]]
        for place, column in coded
        if place != layout.label
    ]
    return np.concatenate([*numbers, *codes], axis=1)
