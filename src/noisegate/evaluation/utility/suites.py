"""The lists of classifiers: three for tables, the twelve of the papers, networks for images.

The papers score images and tables by twelve scikit-learn and XGBoost classifiers trained on synthetic and tested on
real rows ([Harder et al., 2021](https://arxiv.org/abs/2002.11603), DP-MERF, supplement;
[Vinaroz et al., 2022](https://arxiv.org/abs/2106.05042), DP-HP, Table 10, which names scikit-learn 0.24.2 and xgboost
0.90). What a table of settings does not list has the default of those versions, so a default that changed since is
written out. What no longer exists is replaced, and :attr:`Estimator.replaced` says so in every report.

A change of any setting is a new version of its list. Figures of two versions are not comparable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

from noisegate.errors import OptionError
from noisegate.evaluation.utility.estimators import Estimator
from noisegate.evaluation.utility.network_settings import NetworkOptions, SelectionRecipe
from noisegate.evaluation.utility.networks import (
    NETWORKS,
    NETWORKS_VERSION,
    SELECTED_NETWORKS,
    SELECTION_VERSION,
    Network,
    SelectedNetwork,
    read_networks,
)
from noisegate.evaluation.utility.recipe import Recipe, Suite

THREE_VERSION = "2026.2"
"""Until 2026.1, which had no name in reports, the third was XGBoost."""
TWELVE_VERSION = "2026.1"

Variant = Literal["images", "tables"]

_SHORT = {"logistic": "logistic regression", "mlp": "multi-layer perceptron"}

# The defaults of xgboost 0.90, which are other ones today; a process works on one classifier, so one thread.
_XGB_THEN: dict[str, object] = {"max_depth": 3, "learning_rate": 0.1, "tree_method": "exact", "n_jobs": 1}

# Name, class, settings for pixels in [0, 1], settings for standardised columns. In linear SVC, dual was the default
# then; today scikit-learn chooses by the shape of the features. XGBoost's objective multi:softprob of the papers is
# what it chooses by itself above two classes.
_TWELVE: tuple[tuple[str, str, dict[str, object], dict[str, object]], ...] = (
    ("logistic regression", "sklearn.linear_model.LogisticRegression", {"max_iter": 5_000}, {"max_iter": 2_000}),
    (
        "random forest",
        "sklearn.ensemble.RandomForestClassifier",
        {"n_estimators": 100, "class_weight": "balanced"},
        {},
    ),
    ("Gaussian naive Bayes", "sklearn.naive_bayes.GaussianNB", {}, {}),
    ("Bernoulli naive Bayes", "sklearn.naive_bayes.BernoulliNB", {"binarize": 0.5}, {"alpha": 0.02}),
    ("linear SVC", "sklearn.svm.LinearSVC", {"loss": "hinge", "max_iter": 10_000, "tol": 1e-8}, {"dual": True}),
    ("decision tree", "sklearn.tree.DecisionTreeClassifier", {"class_weight": "balanced"}, {}),
    (
        "linear discriminant",
        "sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
        {"solver": "eigen", "n_components": 9, "tol": 1e-8, "shrinkage": 0.5},
        {},
    ),
    ("AdaBoost", "sklearn.ensemble.AdaBoostClassifier", {"n_estimators": 100}, {}),
    ("multi-layer perceptron", "sklearn.neural_network.MLPClassifier", {}, {}),
    ("bagging", "sklearn.ensemble.BaggingClassifier", {"max_samples": 0.1, "n_estimators": 20}, {}),
    (
        "gradient boosting",
        "sklearn.ensemble.GradientBoostingClassifier",
        {"subsample": 0.1, "n_estimators": 50},
        {},
    ),
    (
        "xgboost",
        "xgboost.XGBClassifier",
        {"colsample_bytree": 0.1, "n_estimators": 50, **_XGB_THEN},
        {"n_estimators": 100, **_XGB_THEN},
    ),
)
_UNSEEDED = ("Gaussian naive Bayes", "Bernoulli naive Bayes", "linear discriminant")
_REPLACED = {
    "logistic regression": "multi_class is gone from scikit-learn; the multinomial loss, which it meant, in its place",
    "AdaBoost": "algorithm SAMME.R is gone from scikit-learn; SAMME in its place",
    "xgboost": "xgboost 0.90; its defaults (depth 3, learning rate 0.1, exact splits) are written out for a later "
    "version",
}


def three() -> Suite:
    """Give the default list for tables: logistic regression and two ensembles of 100 trees, on every core."""
    forest, boosting = "sklearn.ensemble.RandomForestClassifier", "sklearn.ensemble.HistGradientBoostingClassifier"
    recipes = (
        Estimator(name="logistic regression", maker=_TWELVE[0][1], settings={"max_iter": 5_000}, seeded=False),
        Estimator(name="random forest", maker=forest, settings={"n_estimators": 100, "n_jobs": -1}),
        Estimator(name="gradient boosting", maker=boosting, settings={"max_iter": 100, "early_stopping": False}),
    )
    return Suite(name="three", version=THREE_VERSION, recipes=recipes, details=_listed(recipes), alone=True)


def twelve(variant: Variant) -> Suite:
    """Give the twelve classifiers of the papers, in the order of their tables.

    Args:
        variant: "images" for pixels in [0, 1] (the table of DP-HP, with the 100 AdaBoost estimators of DP-MERF);
            "tables" for standardised columns (DP-MERF's tabular runs, all near the defaults).

    Raises:
        OptionError: there is no such variant.
    """
    if variant not in get_args(Variant):
        raise OptionError(f"variant is {variant!r}; expected one of {', '.join(map(repr, get_args(Variant)))}")
    recipes = tuple(
        Estimator(
            name=name,
            maker=maker,
            settings=settings[get_args(Variant).index(variant)],
            seeded=name not in _UNSEEDED,
            replaced=_REPLACED.get(name),
        )
        for name, maker, *settings in _TWELVE
    )
    return Suite(
        name="twelve", version=TWELVE_VERSION, recipes=recipes, details={"variant": variant, **_listed(recipes)}
    )


def networks(names: Sequence[str] = NETWORKS, options: NetworkOptions | None = None) -> Suite:
    """Give networks of Private Set Generation, each trained from several fresh starts.

    Args:
        names: some of :data:`~noisegate.evaluation.utility.networks.NETWORKS`.
        options: fresh starts and training; None for the paper's.

    Raises:
        OptionError: a name is unknown, or there is none.
    """
    known, options = read_networks(",".join(names)), options or NetworkOptions()
    return Suite(
        name="networks",
        version=NETWORKS_VERSION,
        recipes=tuple(Network(name=name, training=options.training) for name in known),
        repeats=options.repeats,
        details={"networks": list(known), "training": options.training.to_json()},
    )


def selected_networks(
    names: Sequence[str] = ("cnn",), *, repeats: int = 1, selection: SelectionRecipe | None = None
) -> Suite:
    """Give networks that are chosen by held-out images of their own source, never by real ones.

    Args:
        names: some of "cnn", "resnet" and "wrn"; the last two want a GPU for tens of thousands of images.
        repeats: fresh starts of each network, with consecutive seeds; each holds out other images.
        selection: how they are trained and chosen; None for the default.

    Raises:
        OptionError: a name is unknown, there is none, or ``repeats`` is below 1.
    """
    if unknown := [name for name in names if name not in SELECTED_NETWORKS] if names else ["none"]:
        named = repr(unknown[0]) if names else "none"
        raise OptionError(f"networks has {named}; expected some of {', '.join(SELECTED_NETWORKS)}")
    return _images(names, (), repeats, selection)


def read_suite(classifiers: str, options: NetworkOptions | None = None) -> Suite:
    """Read a choice of classifiers for a table.

    Args:
        classifiers: "three", "twelve", "networks" for all six, or names of networks separated by commas.
        options: of networks.

    Raises:
        OptionError: it is none of these.
        MissingExtraError: one of them needs a package that is not installed.
    """
    if classifiers in ("three", "twelve"):
        suite = three() if classifiers == "three" else twelve("tables")
        suite.check_installed()
        return suite
    if classifiers == "networks":
        return networks(NETWORKS, options)
    known = ", ".join(name.lower() for name in NETWORKS)
    if "," not in classifiers and classifiers.strip().lower() not in known.split(", "):
        raise OptionError(
            f"classifiers is {classifiers!r}; expected 'three', 'twelve', 'networks' or, separated by commas, some of "
            f"{known}"
        )
    return networks(classifiers.split(","), options)


def read_classifiers(names: str, *, repeats: int = 1, selection: SelectionRecipe | None = None) -> Suite:
    """Read which classifiers of images are meant.

    Args:
        names: separated by commas: "cnn", "resnet", "wrn"; "logistic" and "mlp" of scikit-learn; "twelve" for all
            twelve of the papers, which include those two.
        repeats: fresh starts of each network; the others are trained once.
        selection: how networks are trained and chosen; None for the default.

    Raises:
        OptionError: a name is unknown, there is none, or ``repeats`` is below 1.
        MissingExtraError: one of them needs a package that is not installed.
    """
    known = (*SELECTED_NETWORKS, *_SHORT, "twelve")
    asked = [name.strip().lower() for name in names.split(",")]
    for name in asked:
        if name not in known:
            raise OptionError(f"classifiers has {name!r}; expected some of {', '.join(known)}, separated by commas")
    full = {_SHORT[name] for name in asked if name in _SHORT}
    others = tuple(one for one in twelve("images").recipes if "twelve" in asked or one.name in full)
    suite = _images([name for name in SELECTED_NETWORKS if name in asked], others, repeats, selection)
    suite.check_installed()
    return suite


def _images(names: Sequence[str], others: Sequence[Recipe], repeats: int, selection: SelectionRecipe | None) -> Suite:
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise OptionError(f"repeats={repeats!r} must be a positive whole number.")
    selection = selection or SelectionRecipe()
    chosen = tuple(SelectedNetwork(name=name, training=selection) for name in names)
    details = {"name": "chosen by synthetic images", "recipe": selection.to_json()}
    return Suite(name="images", version=SELECTION_VERSION, recipes=(*chosen, *others), repeats=repeats, details=details)


def _listed(recipes: Sequence[Estimator]) -> dict[str, object]:
    return {"recipes": {recipe.name: recipe.to_json() for recipe in recipes}}
