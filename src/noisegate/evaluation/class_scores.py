"""How likely each class is, said by any classifier: never its hard predictions, which have no ranking."""

from __future__ import annotations

from typing import Any

import numpy as np


def class_scores(classifier: Any, features: np.ndarray, found: np.ndarray, classes: int) -> np.ndarray:
    """Ask a fitted classifier for a score per row and class.

    Probabilities where it gives them, else its decision function. Naive Bayes gives log-odds: they order the rows as
    its probabilities would, but those round to 0 and 1 with hundreds of features, and rows that are tied have no order.

    Args:
        classifier: a scikit-learn classifier, fitted on the codes 0 .. k-1 for the k classes that training saw.
        features: one row per record.
        found: the class codes that training saw, in increasing order, at least two.
        classes: number of classes, those that training never saw included.

    Returns:
        float64, one row per record and one column per class. A class that training never saw has the same score in
        every row, below all others.

    Raises:
        ValueError: a score is not finite.
    """
    if hasattr(classifier, "predict_joint_log_proba"):
        # In float64: sums over hundreds of features are large, and float32 would tie rows again.
        given = log_odds(np.asarray(classifier.predict_joint_log_proba(features.astype(np.float64))))
    elif hasattr(classifier, "predict_proba"):
        given = np.asarray(classifier.predict_proba(features), dtype=np.float64)
    else:
        given = np.asarray(classifier.decision_function(features), dtype=np.float64)
    if given.ndim == 1:
        # Two classes: one figure, positive for the second.
        given = np.column_stack([-given, given])
    if not np.isfinite(given).all():
        raise ValueError("its scores are not finite")
    scores = np.full((len(features), classes), given.min() - 1.0)
    scores[:, found] = given
    return scores


def log_odds(joint: np.ndarray) -> np.ndarray:
    """Give log of p / (1 - p) without forming p, which would round to 0 and 1.

    Args:
        joint: unnormalised log-probabilities, float64, one row per record and one column per class, at least two.

    Returns:
        The same shape.
    """
    columns = range(joint.shape[1])
    rest = [np.logaddexp.reduce(np.delete(joint, column, axis=1), axis=1) for column in columns]
    odds: np.ndarray = joint - np.column_stack(rest)
    return odds
