"""The twelve classifiers of the papers, as one fixed list with a version.

The papers score images and tables by twelve scikit-learn and XGBoost classifiers trained on synthetic and tested on
real rows (Harder et al. 2021, DP-MERF, supplement; Vinaroz et al. 2022, DP-HP, Table 10, which names scikit-learn
0.24.2 and xgboost 0.90). What a table of settings does not list has the default of those versions, so a default that
changed since is written out. What no longer exists is replaced, and :attr:`Recipe.replaced` says so in every report:

- AdaBoost: ``SAMME.R`` is gone from scikit-learn; ``SAMME`` takes its place. Its accuracy is another one.
- Logistic regression: ``multi_class`` is gone; what remains is what "auto" chose with lbfgs, the multinomial loss.
- XGBoost: ``exact`` split finding was the default at these sizes and is asked for.

A change of any setting is a new :data:`TWELVE_VERSION`. Figures of two versions are not comparable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Literal, get_args

from noisegate.errors import OptionError

TWELVE_VERSION = "2026.1"

Variant = Literal["images", "tables"]

_SAMME = "algorithm SAMME.R is gone from scikit-learn; SAMME in its place"
_MULTI_CLASS = "multi_class is gone from scikit-learn; the multinomial loss, which it meant, in its place"
_XGBOOST = "xgboost 0.90; its defaults (depth 3, learning rate 0.1, exact splits) are written out for a later version"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One classifier of the list.

    Attributes:
        name: as the reports print it.
        maker: module and class, for instance ``sklearn.naive_bayes.GaussianNB``.
        settings: its arguments; the rest are defaults.
        seeded: whether it takes a ``random_state``.
        replaced: what the papers have and this list has not, in words; None when it is as published.
    """

    name: str
    maker: str
    settings: Mapping[str, object] = field(default_factory=dict)
    seeded: bool = True
    replaced: str | None = None

    def build(self, *, classes: int, seed: int) -> Any:
        """Make the classifier, unfitted, to run on one thread.

        Args:
            classes: classes in the training rows; bounds the components of linear discriminant analysis.
            seed: public; the same seed gives the same classifier.

        Returns:
            A scikit-learn estimator.
        """
        module, _, name = self.maker.rpartition(".")
        settings = dict(self.settings)
        if isinstance(components := settings.get("n_components"), int):
            settings["n_components"] = min(components, classes - 1)
        if self.seeded:
            settings["random_state"] = seed
        return getattr(import_module(module), name)(**settings)

    def to_json(self) -> dict[str, object]:
        """The recipe as JSON values."""
        return {"class": self.maker, "settings": dict(self.settings), "replaced": self.replaced}


@dataclass(frozen=True, kw_only=True)
class Twelve:
    """The list for one kind of data.

    Attributes:
        variant: "images" or "tables".
        version: of the list.
        recipes: twelve, in the order of the papers' tables.
    """

    variant: Variant
    version: str
    recipes: tuple[Recipe, ...]

    def to_json(self) -> dict[str, object]:
        """The list as JSON values: every setting, and what was replaced."""
        return {
            "list": "twelve",
            "version": self.version,
            "variant": self.variant,
            "recipes": {recipe.name: recipe.to_json() for recipe in self.recipes},
        }


def twelve(variant: Variant) -> Twelve:
    """Give the list for one kind of data.

    Args:
        variant: "images" for pixels in [0, 1] (the table of DP-HP, with the 100 AdaBoost estimators of DP-MERF);
            "tables" for standardised columns (DP-MERF's tabular runs, all near the defaults).

    Returns:
        The list.

    Raises:
        OptionError: there is no such variant.
    """
    if variant not in get_args(Variant):
        raise OptionError(f"variant is {variant!r}; expected one of {', '.join(map(repr, get_args(Variant)))}")
    return Twelve(variant=variant, version=TWELVE_VERSION, recipes=_IMAGES if variant == "images" else _TABLES)


_LOGISTIC = "sklearn.linear_model.LogisticRegression"
_FOREST = "sklearn.ensemble.RandomForestClassifier"
_GAUSSIAN = Recipe(name="Gaussian naive Bayes", maker="sklearn.naive_bayes.GaussianNB", seeded=False)
_BERNOULLI = "sklearn.naive_bayes.BernoulliNB"
_SVC = "sklearn.svm.LinearSVC"
_TREE = "sklearn.tree.DecisionTreeClassifier"
_DISCRIMINANT = "sklearn.discriminant_analysis.LinearDiscriminantAnalysis"
_ADABOOST = "sklearn.ensemble.AdaBoostClassifier"
_PERCEPTRON = Recipe(name="multi-layer perceptron", maker="sklearn.neural_network.MLPClassifier")
_BAGGING = "sklearn.ensemble.BaggingClassifier"
_GRADIENT = "sklearn.ensemble.GradientBoostingClassifier"
_XGB = "xgboost.XGBClassifier"
# The defaults of xgboost 0.90, which are other ones today; a process works on one classifier, so one thread.
_XGB_THEN: dict[str, object] = {"max_depth": 3, "learning_rate": 0.1, "tree_method": "exact", "n_jobs": 1}

_IMAGES = (
    Recipe(name="logistic regression", maker=_LOGISTIC, settings={"max_iter": 5_000}, replaced=_MULTI_CLASS),
    Recipe(name="random forest", maker=_FOREST, settings={"n_estimators": 100, "class_weight": "balanced"}),
    _GAUSSIAN,
    Recipe(name="Bernoulli naive Bayes", maker=_BERNOULLI, settings={"binarize": 0.5}, seeded=False),
    Recipe(name="linear SVC", maker=_SVC, settings={"loss": "hinge", "max_iter": 10_000, "tol": 1e-8}),
    Recipe(name="decision tree", maker=_TREE, settings={"class_weight": "balanced"}),
    Recipe(
        name="linear discriminant",
        maker=_DISCRIMINANT,
        settings={"solver": "eigen", "n_components": 9, "tol": 1e-8, "shrinkage": 0.5},
        seeded=False,
    ),
    Recipe(name="AdaBoost", maker=_ADABOOST, settings={"n_estimators": 100}, replaced=_SAMME),
    _PERCEPTRON,
    Recipe(name="bagging", maker=_BAGGING, settings={"max_samples": 0.1, "n_estimators": 20}),
    Recipe(name="gradient boosting", maker=_GRADIENT, settings={"subsample": 0.1, "n_estimators": 50}),
    # The objective multi:softprob of the papers is what XGBoost chooses by itself above two classes.
    Recipe(
        name="xgboost",
        maker=_XGB,
        settings={"colsample_bytree": 0.1, "n_estimators": 50, **_XGB_THEN},
        replaced=_XGBOOST,
    ),
)

_TABLES = (
    Recipe(name="logistic regression", maker=_LOGISTIC, settings={"max_iter": 2_000}, replaced=_MULTI_CLASS),
    Recipe(name="random forest", maker=_FOREST),
    _GAUSSIAN,
    Recipe(name="Bernoulli naive Bayes", maker=_BERNOULLI, settings={"alpha": 0.02}, seeded=False),
    # dual was the default then; today scikit-learn chooses by the shape of the features.
    Recipe(name="linear SVC", maker=_SVC, settings={"dual": True}),
    Recipe(name="decision tree", maker=_TREE),
    Recipe(name="linear discriminant", maker=_DISCRIMINANT, seeded=False),
    Recipe(name="AdaBoost", maker=_ADABOOST, replaced=_SAMME),
    _PERCEPTRON,
    Recipe(name="bagging", maker=_BAGGING),
    Recipe(name="gradient boosting", maker=_GRADIENT),
    Recipe(name="xgboost", maker=_XGB, settings={"n_estimators": 100, **_XGB_THEN}, replaced=_XGBOOST),
)
