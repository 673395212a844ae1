import numpy as np
import pytest

from noisegate.errors import DataError
from noisegate_evaluate import LabelledRows, twelve, utility_scores


def rows(seed, count=120, classes=3):
    generator = np.random.default_rng(seed)
    labels = np.arange(count) % classes
    features = generator.normal(size=(count, 4)) + 1.5 * np.eye(4)[labels]
    return LabelledRows(features=features.astype(np.float32), labels=labels)


@pytest.fixture(scope="module")
def report():
    return utility_scores(twelve("images"), rows(0), rows(1), classes=3, jobs=1)


def test_all_twelve_learn_and_are_in_order(report):
    assert list(report.models) == [recipe.name for recipe in twelve("images").recipes]
    # Twelve rows for each tree of the gradient boosting: the subsample of 0.1 suits large sets.
    weak = {"gradient boosting", "bagging", "Bernoulli naive Bayes", "xgboost"}
    for name, scores in report.models.items():
        assert scores.roc_auc > (0.6 if name in weak else 0.75), name
        assert 0 < scores.accuracy < 1
    assert report.mean.accuracy == pytest.approx(
        np.mean([scores.accuracy for scores in report.models.values()])
    )
    assert not [note for note in report.notes if "constant" in note]


@pytest.mark.slow  # two processes load scikit-learn and XGBoost
def test_the_scores_do_not_depend_on_the_number_of_processes(report):
    assert (
        utility_scores(twelve("images"), rows(0), rows(1), classes=3, jobs=2) == report
    )


def test_a_test_set_of_one_class_is_refused():
    test = rows(1)
    same = LabelledRows(features=test.features, labels=np.zeros_like(test.labels))
    with pytest.raises(DataError, match="1 class"):
        utility_scores(twelve("tables"), rows(0), same, classes=3)
