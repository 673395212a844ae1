import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

from noisegate_evaluate import LabelledRows, Suite, utility_scores
from noisegate_evaluate.utility.suites import Estimator, class_scores

SVC = Estimator(
    name="svc", maker="sklearn.svm.LinearSVC", settings={"max_iter": 100_000}
)
TREE = Estimator(name="tree", maker="sklearn.tree.DecisionTreeClassifier")


def train_and_score(recipe, train, test, *, classes, seed):
    suite = Suite(name="one", version="0", recipes=(recipe,))
    report = utility_scores(suite, train, test, classes=classes, seed=seed)
    ((outcome,),) = report.outcomes.values()
    return outcome


def blobs(seed, classes, rows=300, columns=4, gap=1.0):
    generator = np.random.default_rng(seed)
    labels = generator.integers(0, classes, rows)
    return (generator.normal(size=(rows, columns)) + gap * labels[:, None]).astype(
        np.float32
    ), labels


def rows(seed, classes=2):
    features, labels = blobs(seed, classes, rows=200, columns=3, gap=0.7)
    return LabelledRows(features=features, labels=labels)


def test_the_ranking_is_of_scores_and_not_of_hard_predictions():
    train = rows(0)
    test = rows(1)
    outcome = train_and_score(SVC, train, test, classes=2, seed=3)
    fitted = LinearSVC(max_iter=100_000, random_state=3).fit(
        train.features, train.labels
    )
    margins = fitted.decision_function(test.features)
    hard = fitted.predict(test.features)
    assert outcome.scores.roc_auc == roc_auc_score(test.labels, margins)
    assert outcome.scores.average_precision == average_precision_score(
        test.labels, margins
    )
    assert outcome.scores.roc_auc > roc_auc_score(test.labels, hard) + 0.02
    assert (
        outcome.scores.average_precision
        > average_precision_score(test.labels, hard) + 0.02
    )
    assert outcome.scores.accuracy == np.mean(hard == test.labels)
    assert outcome.notes == ()


@pytest.mark.parametrize("only", [0, 2])
def test_one_class_scores_as_its_constant_prediction(only):
    train = rows(0, classes=3)
    test = rows(1, classes=3)
    same = LabelledRows(
        features=train.features, labels=np.full_like(train.labels, only)
    )
    outcome = train_and_score(TREE, same, test, classes=3, seed=0)
    assert outcome.scores.roc_auc == 0.5
    assert outcome.scores.average_precision == pytest.approx(1 / 3)
    assert outcome.scores.accuracy == np.mean(test.labels == only)


def test_a_classifier_that_fails_predicts_the_most_frequent_class():
    train = rows(0)
    test = rows(1)
    shares = np.array([0] * 50 + [1] * 150)
    uneven = LabelledRows(features=train.features, labels=shares)
    broken = Estimator(
        name="broken",
        maker="sklearn.linear_model.LogisticRegression",
        settings={"C": -1.0},
        seeded=False,
    )
    outcome = train_and_score(broken, uneven, test, classes=2, seed=0)
    assert outcome.scores.accuracy == np.mean(test.labels == 1)
    assert outcome.scores.roc_auc == 0.5
    assert "InvalidParameterError" in outcome.notes[0]


def test_too_little_memory_is_no_property_of_the_rows(monkeypatch):
    def full(*_):
        raise MemoryError

    monkeypatch.setattr("sklearn.tree.DecisionTreeClassifier.fit", full)
    with pytest.raises(MemoryError):
        train_and_score(TREE, rows(0), rows(1), classes=2, seed=0)


class Given:
    """A fitted classifier with prepared scores, and hard predictions that must never be asked for."""

    def __init__(self, **answers):
        for name, answer in answers.items():
            setattr(self, name, lambda features, answer=answer: np.array(answer))

    def predict(self, features):
        raise AssertionError("hard predictions have no ranking")


def test_a_class_that_training_never_saw_is_last_and_has_no_order():
    scores = class_scores(
        Given(decision_function=[-5.0, 7.0]), np.zeros((2, 1)), np.array([0, 2]), 4
    )
    assert scores[:, [0, 2]].tolist() == [[5.0, -5.0], [-7.0, 7.0]]
    assert scores[:, [1, 3]].tolist() == [[-8.0, -8.0], [-8.0, -8.0]]


@pytest.mark.parametrize("classes", [2, 4])
def test_the_largest_score_is_what_the_classifier_predicts(classes):
    (x, y), (held_out, _) = blobs(0, classes), blobs(1, classes)
    for classifier in (
        LinearSVC(),
        GaussianNB(),
        RandomForestClassifier(n_estimators=15, random_state=0),
    ):
        scores = class_scores(
            classifier.fit(x, y), held_out, np.arange(classes), classes
        )
        np.testing.assert_array_equal(
            scores.argmax(axis=1), classifier.predict(held_out)
        )


def test_log_odds_order_the_rows_as_the_probabilities_do_and_do_not_round():
    (x, y), (held_out, truth) = blobs(0, 3), blobs(1, 3)
    fitted = GaussianNB().fit(x, y)
    odds = class_scores(fitted, held_out, np.arange(3), 3)
    chances = fitted.predict_proba(held_out)
    np.testing.assert_allclose(1 / (1 + np.exp(-odds)), chances, rtol=1e-4)
    (x, y), (held_out, truth) = (
        blobs(0, 2, columns=1_500, gap=0.1),
        blobs(1, 2, columns=1_500, gap=0.1),
    )
    fitted = GaussianNB().fit(x, y)
    assert (
        len(np.unique(fitted.predict_proba(held_out)[:, 1])) < 290
    )  # this many are tied at 0 or 1
    odds = class_scores(fitted, held_out, np.arange(2), 2)
    assert len(np.unique(odds[:, 1])) == 300
    assert roc_auc_score(truth, odds[:, 1]) > roc_auc_score(
        truth, fitted.predict(held_out)
    )
