import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from noisegate.evaluation.class_scores import class_scores


def blobs(seed, classes, rows=300, columns=4, gap=1.0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, rows)
    return (generator.normal(size=(rows, columns)) + gap * labels[:, None]).astype(np.float32), labels


class Given:
    """A fitted classifier with prepared scores, and hard predictions that must never be asked for."""

    def __init__(self, **answers):
        for name, answer in answers.items():
            setattr(self, name, lambda features, answer=answer: np.array(answer))

    def predict(self, features):
        raise AssertionError("hard predictions have no ranking")


def test_a_margin_becomes_two_columns_whose_order_is_the_prediction():
    scores = class_scores(Given(decision_function=[-2.0, 0.5]), np.zeros((2, 1)), np.array([0, 1]), 2)
    assert scores.tolist() == [[2.0, -2.0], [-0.5, 0.5]]


def test_probabilities_are_preferred_to_margins():
    classifier = Given(predict_proba=[[0.3, 0.7]], decision_function=[9.0])
    assert class_scores(classifier, np.zeros((1, 1)), np.array([0, 1]), 2).tolist() == [[0.3, 0.7]]


def test_a_class_that_training_never_saw_is_last_and_has_no_order():
    scores = class_scores(Given(decision_function=[-5.0, 7.0]), np.zeros((2, 1)), np.array([0, 2]), 4)
    assert scores[:, [0, 2]].tolist() == [[5.0, -5.0], [-7.0, 7.0]]
    assert scores[:, [1, 3]].tolist() == [[-8.0, -8.0], [-8.0, -8.0]]


def test_scores_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        class_scores(Given(predict_proba=[[0.5, np.nan]]), np.zeros((1, 1)), np.array([0, 1]), 2)


@pytest.mark.parametrize("classes", [2, 4])
def test_the_largest_score_is_what_the_classifier_predicts(classes):
    (x, y), (held_out, _) = blobs(0, classes), blobs(1, classes)
    for classifier in (LinearSVC(), GaussianNB(), RandomForestClassifier(n_estimators=15, random_state=0)):
        scores = class_scores(classifier.fit(x, y), held_out, np.arange(classes), classes)
        np.testing.assert_array_equal(scores.argmax(axis=1), classifier.predict(held_out))


def test_log_odds_order_the_rows_as_the_probabilities_do_and_do_not_round():
    (x, y), (held_out, truth) = blobs(0, 3), blobs(1, 3)
    fitted = GaussianNB().fit(x, y)
    odds, chances = class_scores(fitted, held_out, np.arange(3), 3), fitted.predict_proba(held_out)
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), chances, rtol=1e-4)
    (x, y), (held_out, truth) = blobs(0, 2, columns=1_500, gap=0.1), blobs(1, 2, columns=1_500, gap=0.1)
    fitted = GaussianNB().fit(x, y)
    assert len(np.unique(fitted.predict_proba(held_out)[:, 1])) < 290  # this many are tied at 0 or 1
    odds = class_scores(fitted, held_out, np.arange(2), 2)
    assert len(np.unique(odds[:, 1])) == 300
    assert roc_auc_score(truth, odds[:, 1]) > roc_auc_score(truth, fitted.predict(held_out))
