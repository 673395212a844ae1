import json

import pytest

from noisegate.errors import OptionError
from noisegate.evaluation import TWELVE_VERSION, twelve

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


def test_every_replacement_is_stated():
    replaced = {name: form["replaced"] for name, form in twelve("images").to_json()["recipes"].items()}
    assert {name for name, why in replaced.items() if why} == {
        "logistic regression",
        "AdaBoost",
        "xgboost",
    }
    assert "SAMME.R" in replaced["AdaBoost"]


@pytest.mark.parametrize("variant", ["images", "tables"])
def test_every_recipe_builds_and_takes_its_seed(variant):
    for recipe in twelve(variant).recipes:
        settings = recipe.build(classes=10, seed=7).get_params()
        assert settings.items() >= dict(recipe.settings).items()
        assert settings.get("random_state") == (7 if recipe.seeded else None)


@pytest.mark.parametrize(("classes", "components"), [(2, 1), (5, 4), (10, 9), (30, 9)])
def test_the_linear_discriminant_has_fewer_components_than_classes(classes, components):
    (recipe,) = [recipe for recipe in twelve("images").recipes if recipe.name == "linear discriminant"]
    assert recipe.build(classes=classes, seed=0).n_components == components


def test_an_unknown_variant_is_refused():
    with pytest.raises(OptionError, match="'sounds'"):
        twelve("sounds")
