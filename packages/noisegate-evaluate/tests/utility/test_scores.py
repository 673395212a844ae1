import numpy as np
import pytest

from noisegate_evaluate.utility.recipe import Scores, printed_scores, score


def two(positive):
    positive = np.array(positive)
    return np.column_stack([1 - positive, positive])


def test_a_hand_computed_binary_case():
    # Ranking, best first: 1, 0, 1, 0. Three of the four pairs are in order; precision at the hits is 1 and 2/3.
    scores = score(np.array([1, 0, 1, 0]), two([0.9, 0.8, 0.4, 0.1]))
    assert scores.roc_auc == pytest.approx(3 / 4)
    assert scores.average_precision == pytest.approx((1 + 2 / 3) / 2)
    assert scores.f1 == pytest.approx(
        0.5
    )  # predicts two positives, one right, one of two found


def test_the_last_level_is_the_positive_class():
    labels = np.array([0, 0, 0, 1])
    assert score(labels, two([0.1, 0.1, 0.1, 0.9])) == Scores(
        roc_auc=1.0, average_precision=1.0, f1=1.0, accuracy=1.0
    )
    reversed_scores = score(labels, two([0.9, 0.9, 0.9, 0.1]))
    assert reversed_scores.roc_auc == 0.0
    assert reversed_scores.f1 == 0.0


def test_many_classes_are_averaged_over_those_that_occur():
    labels = np.array([0, 0, 2, 2])
    perfect = np.eye(4)[labels]
    assert score(labels, perfect) == Scores(
        roc_auc=1.0, average_precision=1.0, f1=1.0, accuracy=1.0
    )
    half = perfect.copy()
    half[3] = np.eye(4)[0]  # one row of class 2 goes to class 0
    # Class 0: F1 of precision 2/3 and recall 1; class 2: of precision 1 and recall 1/2.
    assert score(labels, half).f1 == pytest.approx((0.8 + 2 / 3) / 2)
    assert score(labels, half).roc_auc == pytest.approx(0.75)


# Scores of hard predictions, as papers print them: against their definitions, written out.

LABELS = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1])
PREDICTED = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 0])


def test_two_classes_have_the_areas_of_one_point_and_f1_by_share():
    sensitivity = 3 / 4
    specificity = 5 / 6
    precision = 3 / 4
    found = printed_scores(LABELS, PREDICTED, classes=2)
    assert found.roc_auc == pytest.approx((sensitivity + specificity) / 2)
    # Two steps of recall: to 3/4 at the precision of the predicted, then to 1 at the share of the class.
    assert found.average_precision == pytest.approx(
        sensitivity * precision + (1 - sensitivity) * 4 / 10
    )
    # F1 of class 0 is 2 * 5 / (6 + 6), of class 1 2 * 3 / (4 + 4); by their shares.
    assert found.weighted_f1 == pytest.approx(0.6 * 10 / 12 + 0.4 * 6 / 8)


def test_more_classes_have_f1_only_and_a_rare_class_hardly_counts():
    labels = np.array([0] * 98 + [1, 2])
    found = printed_scores(labels, np.zeros_like(labels), classes=3)
    assert (found.roc_auc, found.average_precision) == (None, None)
    assert found.weighted_f1 == pytest.approx(
        0.98 * 2 * 98 / (98 + 100)
    )  # the other two are never found: 0
