import numpy as np
import pytest

from noisegate.errors import OptionError
from noisegate_evaluate.utility.scores import Scores, score


def two(positive):
    positive = np.array(positive)
    return np.column_stack([1 - positive, positive])


def test_a_hand_computed_binary_case():
    # Ranking, best first: 1, 0, 1, 0. Three of the four pairs are in order; precision at the hits is 1 and 2/3.
    scores = score(np.array([1, 0, 1, 0]), two([0.9, 0.8, 0.4, 0.1]))
    assert scores.roc_auc == pytest.approx(3 / 4)
    assert scores.average_precision == pytest.approx((1 + 2 / 3) / 2)
    assert scores.f1 == pytest.approx(0.5)  # predicts two positives, one right, one of two found


def test_the_last_level_is_the_positive_class():
    labels = np.array([0, 0, 0, 1])
    assert score(labels, two([0.1, 0.1, 0.1, 0.9])) == Scores(roc_auc=1.0, average_precision=1.0, f1=1.0, accuracy=1.0)
    reversed_scores = score(labels, two([0.9, 0.9, 0.9, 0.1]))
    assert reversed_scores.roc_auc == 0.0
    assert reversed_scores.f1 == 0.0


def test_many_classes_are_averaged_over_those_that_occur():
    labels = np.array([0, 0, 2, 2])
    perfect = np.eye(4)[labels]
    assert score(labels, perfect) == Scores(roc_auc=1.0, average_precision=1.0, f1=1.0, accuracy=1.0)
    half = perfect.copy()
    half[3] = np.eye(4)[0]  # one row of class 2 goes to class 0
    # Class 0: F1 of precision 2/3 and recall 1; class 2: of precision 1 and recall 1/2.
    assert score(labels, half).f1 == pytest.approx((0.8 + 2 / 3) / 2)
    assert score(labels, half).roc_auc == pytest.approx(0.75)


def test_the_accuracy_is_over_all_rows_and_not_per_class():
    labels = np.array([0, 0, 0, 2])
    scores = score(labels, np.eye(3)[[0, 0, 1, 2]])
    assert scores.accuracy == 0.75
    assert score(np.array([1, 0, 1, 0]), two([0.9, 0.8, 0.4, 0.1])).accuracy == 0.5


def test_the_deviation_is_the_one_of_a_sample():
    several = [Scores(roc_auc=v, average_precision=0.5, f1=v, accuracy=v / 2) for v in (0.4, 0.8)]
    deviation = Scores.deviation(several)
    assert deviation.roc_auc == pytest.approx(np.sqrt(0.08))
    assert deviation.accuracy == pytest.approx(np.sqrt(0.02))
    assert deviation.average_precision == 0.0
    with pytest.raises(OptionError, match="at least 2"):
        Scores.deviation(several[:1])
