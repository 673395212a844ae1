import json
from hashlib import sha256

import pytest

from noisegate.errors import MissingExtraError, OptionError
from noisegate_evaluate import read_classifiers, three, twelve
from noisegate_evaluate.utility.suites import read_suite

# A change here is a new version of the list: figures of two versions are not comparable.
LISTS = {
    "images": ("2026.1", "0150148d4a78"),
    "tables": ("2026.1", "ec55e5c07e16"),
    "three": ("2026.2", "da9644ed3f0d"),
}


@pytest.mark.parametrize("name", LISTS)
def test_the_classifiers_of_a_version_and_their_settings_are_what_they_were(name):
    form = (three() if name == "three" else twelve(name)).to_json()
    recipes = [
        [recipe, of["class"], of["settings"]] for recipe, of in form["recipes"].items()
    ]
    assert (
        form["version"],
        sha256(json.dumps(recipes).encode()).hexdigest()[:12],
    ) == LISTS[name]


@pytest.mark.parametrize(("classes", "components"), [(2, 1), (5, 4), (10, 9), (30, 9)])
def test_the_linear_discriminant_has_fewer_components_than_classes(classes, components):
    (recipe,) = [
        recipe
        for recipe in twelve("images").recipes
        if recipe.name == "linear discriminant"
    ]
    assert recipe.build(classes=classes, seed=0).n_components == components


def test_only_the_papers_list_needs_xgboost_and_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr("noisegate.errors.find_spec", lambda name: None)
    for read in (read_suite, read_classifiers):
        with pytest.raises(
            MissingExtraError,
            match=r"'xgboost' needs xgboost; .* pip install 'noisegate\[papers\]'",
        ):
            read("twelve")
    assert read_suite("three").count == 3
    assert read_classifiers("logistic,mlp,cnn").count == 3


def test_classifiers_of_images_by_name():
    asked = read_classifiers("mlp, CNN,logistic", repeats=3)
    assert [recipe.name for recipe in asked.recipes] == [
        "cnn",
        "logistic regression",
        "multi-layer perceptron",
    ]
    assert asked.count == 5
    assert read_classifiers("twelve").count == 12
    with pytest.raises(
        OptionError,
        match="classifiers has 'lenet'; expected some of cnn, resnet, resnet9, wrn, logistic, mlp",
    ):
        read_classifiers("cnn,lenet")
    with pytest.raises(OptionError, match="repeats=0 must be"):
        read_classifiers("cnn", repeats=0)
