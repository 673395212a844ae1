"""What one model reaches in each group of a column: trained on all records, scored on each group's test records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from noisegate.schema import Schema
from noisegate_evaluate.metrics.groups import (
    MIN_GROUP_RECORDS,
    GroupScore,
    GroupScores,
    group_column,
)
from noisegate_evaluate.reading import read_levels
from noisegate_evaluate.tables import LabelledTables, regressors, unscorable
from noisegate_evaluate.utility.recipe import score
from noisegate_evaluate.utility.suites import three

# Of the lists for tables: it needs a second.
_MODEL = "gradient boosting"


def group_scores(
    synthetic: pa.Table,
    test: pa.Table,
    train: pa.Table,
    schema: Schema,
    name: str,
    *,
    seed: int = 0,
) -> GroupScores | None:
    """Scores one model in each group of a column, after training on synthetic and on real records.

    The model is gradient boosting, which needs a second, and sees the column of the groups.

    Args:
        synthetic: Synthetic records.
        test: Real records that neither model learns from.
        train: Real records from which the synthetic ones were made.
        schema: Their schema, with the label that is predicted.
        name: Name of a column of levels.
        seed: Of the model.

    Returns:
        ROC-AUC of a label with levels, R² of a numeric one, of groups with enough test
        records and more than one value of the label; None where no model can be scored.

    Raises:
        OptionError: if the schema has no such column of levels.
    """
    column = group_column(schema, name)
    label = schema.label_column
    if label is None or unscorable(test, schema, regress=label.numeric):
        return None
    answers = []
    for table in (synthetic, train):
        rows = LabelledTables.of(table, test, schema, seed=seed)
        if len(np.unique(rows.labels["training"])) < 2:
            return None
        # The test records are the same both times.
        answers.append(_answers(rows, seed=seed))
    labels = rows.labels["test"]
    codes = read_levels(rows.tables["test"], column, schema).codes
    by_level = {}
    for code in range(len(column.levels)):
        is_member = codes == code
        if is_member.sum() < MIN_GROUP_RECORDS or len(np.unique(labels[is_member])) < 2:
            continue
        of_synthetic, of_real = (
            _score(labels[is_member], answer[is_member], is_numeric=label.numeric)
            for answer in answers
        )
        by_level[code] = GroupScore(synthetic=of_synthetic, real=of_real)
    return GroupScores(score="R²" if label.numeric else "ROC-AUC", by_level=by_level)


def _answers(rows: LabelledTables, *, seed: int) -> np.ndarray:
    """Trains a model and returns its answers to the test rows: numbers, or scores, (rows, classes)."""
    features = rows.features()
    if rows.column.numeric:
        regressor = regressors(seed)[_MODEL]
        regressor.fit(features["training"], rows.labels["training"])
        return np.asarray(regressor.predict(features["test"]))
    train, test = rows.with_features(features)
    (classifier,) = (recipe for recipe in three().recipes if recipe.name == _MODEL)
    classes = len(rows.column.levels)
    return classifier.answer(
        train, test, classes=classes, seed=seed, progress=None
    ).scores


def _score(labels: np.ndarray, answers: np.ndarray, *, is_numeric: bool) -> float:
    """Computes R² of numbers, or ROC-AUC of scores; at least two values occur among the labels."""
    from sklearn.metrics import r2_score

    if is_numeric:
        return float(r2_score(labels, answers))
    return score(labels, answers).roc_auc
