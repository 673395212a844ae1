"""Scores of hard predictions, as papers print them: against their definitions, written out."""

import numpy as np
import pytest

from noisegate_evaluate.utility.scores import PrintedScores, printed_scores

LABELS = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
PREDICTED = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 0])


def test_two_classes_have_the_areas_of_one_point_and_f1_by_share():
    sensitivity, specificity, precision = 3 / 4, 5 / 6, 3 / 4
    found = printed_scores(LABELS, PREDICTED, classes=2)
    assert found.roc_auc == pytest.approx((sensitivity + specificity) / 2)
    # Two steps of recall: to 3/4 at the precision of the predicted, then to 1 at the share of the class.
    assert found.average_precision == pytest.approx(sensitivity * precision + (1 - sensitivity) * 4 / 10)
    # F1 of class 0 is 2 * 5 / (6 + 6), of class 1 2 * 3 / (4 + 4); by their shares.
    assert found.weighted_f1 == pytest.approx(0.6 * 10 / 12 + 0.4 * 6 / 8)


def test_more_classes_have_f1_only_and_a_rare_class_hardly_counts():
    labels = np.array([0] * 98 + [1, 2])
    found = printed_scores(labels, np.zeros_like(labels), classes=3)
    assert (found.roc_auc, found.average_precision) == (None, None)
    assert found.weighted_f1 == pytest.approx(0.98 * 2 * 98 / (98 + 100))  # the other two are never found: 0


def test_the_mean_is_of_each_score_and_of_none_where_one_is_missing():
    two = [PrintedScores(roc_auc=v, average_precision=v / 2, weighted_f1=v / 4) for v in (0.4, 0.8)]
    assert PrintedScores.mean(two).to_json() == pytest.approx(
        {"roc_auc": 0.6, "average_precision": 0.3, "weighted_f1": 0.15}
    )
    without = PrintedScores(roc_auc=None, average_precision=None, weighted_f1=0.2)
    assert PrintedScores.mean([two[0], without]).roc_auc is None
