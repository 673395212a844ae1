import json

import pytest

from noisegate.errors import MissingExtraError, OptionError
from noisegate_evaluate import TWELVE_VERSION, read_classifiers, three, twelve
from noisegate_evaluate.utility.suites import read_suite

NAMES = [
    "logistic regression",
    "random forest",
    "Gaussian naive Bayes",
    "Bernoulli naive Bayes",
    "linear SVC",
    "decision tree",
    "linear discriminant",
    "AdaBoost",
    "multi-layer perceptron",
    "bagging",
    "gradient boosting",
    "xgboost",
]
THEN = {"max_depth": 3, "learning_rate": 0.1, "tree_method": "exact", "n_jobs": 1}
# A change here is a new version of the list: figures of two versions are not comparable.
SETTINGS = {
    "images": [
        {"max_iter": 5000},
        {"n_estimators": 100, "class_weight": "balanced"},
        {},
        {"binarize": 0.5},
        {"loss": "hinge", "max_iter": 10000, "tol": 1e-8},
        {"class_weight": "balanced"},
        {"solver": "eigen", "n_components": 9, "tol": 1e-8, "shrinkage": 0.5},
        {"n_estimators": 100},
        {},
        {"max_samples": 0.1, "n_estimators": 20},
        {"subsample": 0.1, "n_estimators": 50},
        {"colsample_bytree": 0.1, "n_estimators": 50, **THEN},
    ],
    "tables": [
        {"max_iter": 2000},
        {},
        {},
        {"alpha": 0.02},
        {"dual": True},
        {},
        {},
        {},
        {},
        {},
        {},
        {"n_estimators": 100, **THEN},
    ],
}


@pytest.mark.parametrize("variant", ["images", "tables"])
def test_the_list_of_this_version(variant):
    assert TWELVE_VERSION == "2026.1"
    form = json.loads(json.dumps(twelve(variant).to_json()))
    assert (form["list"], form["version"], form["variant"]) == ("twelve", "2026.1", variant)
    assert list(form["recipes"]) == NAMES
    assert [recipe["settings"] for recipe in form["recipes"].values()] == SETTINGS[variant]


@pytest.mark.parametrize(("classes", "components"), [(2, 1), (5, 4), (10, 9), (30, 9)])
def test_the_linear_discriminant_has_fewer_components_than_classes(classes, components):
    (recipe,) = [recipe for recipe in twelve("images").recipes if recipe.name == "linear discriminant"]
    assert recipe.build(classes=classes, seed=0).n_components == components


def test_three_are_scikit_learns_and_have_a_version():
    """Until 2026.1 the third was XGBoost: the figures of the lists differ."""
    form = three().to_json()
    assert (form["list"], form["version"]) == ("three", "2026.2")
    assert list(form["recipes"]) == ["logistic regression", "random forest", "gradient boosting"]
    assert all(recipe["class"].startswith("sklearn.") for recipe in form["recipes"].values())
    assert form["recipes"]["gradient boosting"]["settings"] == {"max_iter": 100, "early_stopping": False}


def test_only_the_papers_list_needs_xgboost_and_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("noisegate.errors.find_spec", lambda name: None)
    for read in (read_suite, read_classifiers):
        with pytest.raises(MissingExtraError, match=r"'xgboost' needs xgboost; .* pip install 'noisegate\[papers\]'"):
            read("twelve")
    assert read_suite("three").count == 3
    assert read_classifiers("logistic,mlp,cnn").count == 3


def test_classifiers_of_images_by_name():
    asked = read_classifiers("mlp, CNN,logistic", repeats=3)
    assert [recipe.name for recipe in asked.recipes] == ["cnn", "logistic regression", "multi-layer perceptron"]
    assert asked.count == 5
    assert read_classifiers("twelve").count == 12
    with pytest.raises(
        OptionError, match="classifiers has 'lenet'; expected some of cnn, resnet, resnet9, wrn, logistic, mlp"
    ):
        read_classifiers("cnn,lenet")
    with pytest.raises(OptionError, match="repeats=0 must be"):
        read_classifiers("cnn", repeats=0)
