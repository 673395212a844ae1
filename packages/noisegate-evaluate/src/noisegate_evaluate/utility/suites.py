"""The suites of classifiers: three for tables, the twelve of the papers, networks for images."""

from __future__ import annotations

import tomllib
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

import numpy as np

from noisegate.errors import OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_evaluate.utility import networks as offered
from noisegate_evaluate.utility.networks import (
    NETWORKS,
    SELECTED_NETWORKS,
    NetworkOptions,
    SelectionRecipe,
    Training,
)
from noisegate_evaluate.utility.recipe import (
    Answer,
    EpochDone,
    LabelledRows,
    Recipe,
    Suite,
    UntrainableError,
    log_odds,
)

if TYPE_CHECKING:
    from torch import nn

THREE_VERSION = "2026.2"
"""Version of the list of three classifiers. In the list before 2026.2, the third classifier was XGBoost."""
TWELVE_VERSION = "2026.1"
Variant = Literal["images", "tables"]


@dataclass(frozen=True, kw_only=True)
class Estimator(Recipe):
    """A classifier with ``fit`` and scores per class, of scikit-learn or a library with the same verbs."""

    maker: str  # its module and class
    settings: Mapping[str, object] = field(default_factory=dict)  # its arguments
    seeded: bool = True
    replaced: str | None = None  # what the papers have and this list has not

    @property
    def device(self) -> str:
        """The CPU, whatever there is."""
        return "cpu"

    @property
    def package(self) -> str:
        """XGBoost; scikit-learn is always there."""
        return "" if self.maker.startswith("sklearn.") else self.maker.partition(".")[0]

    def build(self, *, classes: int, seed: int) -> Any:
        """Returns the classifier, unfitted; the classes bound the components of linear discriminant analysis."""
        module, _, name = self.maker.rpartition(".")
        settings = dict(self.settings)
        if isinstance(components := settings.get("n_components"), int):
            settings["n_components"] = min(components, classes - 1)
        if self.seeded:
            settings["random_state"] = seed
        return getattr(import_module(module), name)(**settings)

    def to_json(self) -> dict[str, object]:
        """Returns the recipe as JSON values."""
        return {
            "class": self.maker,
            "settings": dict(self.settings),
            "replaced": self.replaced,
        }

    def answer(
        self,
        train: LabelledRows,
        test: LabelledRows,
        *,
        classes: int,
        seed: int,
        progress: EpochDone | None = None,
    ) -> Answer:
        """Returns the answer after a fit on the training rows; warnings are counted, one note for each kind."""
        seen_classes, labels = np.unique(train.labels, return_inverse=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                classifier = self.build(classes=len(seen_classes), seed=seed)
                classifier.fit(_flat(train), labels)
                scores = class_scores(classifier, _flat(test), seen_classes, classes)
            except MemoryError:
                # No property of the rows: on a larger machine the score would be another one.
                raise
            except Exception as error:
                # Libraries raise many kinds for rows that they cannot learn from.
                reason = (str(error).strip() or "no reason given").splitlines()[0][:120]
                raise UntrainableError(f"{type(error).__name__}: {reason}") from error
        kinds = Counter(warning.category.__name__ for warning in caught)
        return Answer(
            scores=scores,
            notes=tuple(f"{count} {kind}" for kind, count in sorted(kinds.items())),
        )


def class_scores(
    classifier: Any, features: np.ndarray, seen_classes: np.ndarray, classes: int
) -> np.ndarray:
    """Returns scores of a fitted classifier: probabilities, else its decision function.

    Args:
        classifier: The classifier.
        features: Of the rows to score, (rows, features).
        seen_classes: The codes that training saw, ascending.
        classes: Number of classes.

    Returns:
        Scores in float64, (rows, classes); of a class that training never saw, one that
        is below all others.

    Raises:
        ValueError: a score is not finite.
    """
    if hasattr(classifier, "predict_joint_log_proba"):
        # Naive Bayes: its probabilities round to 0 and 1 with hundreds of features, and float32 would tie rows again.
        log_chances = classifier.predict_joint_log_proba(features.astype(np.float64))
        seen_scores = log_odds(np.asarray(log_chances))
    else:
        score = (
            getattr(classifier, "predict_proba", None) or classifier.decision_function
        )
        seen_scores = np.asarray(score(features), dtype=np.float64)
    if seen_scores.ndim == 1:
        # Of two classes: one score, positive for the second.
        seen_scores = np.column_stack([-seen_scores, seen_scores])
    if not np.isfinite(seen_scores).all():
        raise ValueError("its scores are not finite")
    scores = np.full((len(features), classes), seen_scores.min() - 1.0)
    scores[:, seen_classes] = seen_scores
    return scores


def _flat(rows: LabelledRows) -> np.ndarray:
    flat = rows.features.reshape(len(rows.features), -1)
    return flat.astype(np.float32) / np.float32(255) if flat.dtype == np.uint8 else flat


@dataclass(frozen=True, kw_only=True)
class Network(Recipe):
    """A network, trained from several fresh starts; on a CPU with one thread, where a seed gives the same scores.

    One of `NETWORKS` with `Training`, one of `SELECTED_NETWORKS` with `SelectionRecipe`.
    """

    restarted: ClassVar[bool] = True
    rows: ClassVar[str] = "images"

    training: Training | SelectionRecipe

    @property
    def device(self) -> str:
        """Where it runs; an OptionError where there is no such device."""
        from noisegate.devices import choose_device

        return choose_device(self.training.device).type

    @property
    def package(self) -> str:
        """None that is checked beforehand."""
        return ""

    def answer(
        self,
        train: LabelledRows,
        test: LabelledRows,
        *,
        classes: int,
        seed: int,
        progress: EpochDone | None = None,
    ) -> Answer:
        """Returns its answer; ``seed`` decides weights, held-out images, their order and changes."""
        from noisegate_evaluate.utility import training

        shape = ImageShape(
            height=train.image[0], width=train.image[1], channels=train.image[2]
        )

        def fresh() -> nn.Module:
            return offered.build_network(self.name, shape, classes, seed=seed).to(
                self.device
            )

        if isinstance(self.training, Training):
            return training.last_answer(
                fresh(), train, test, self.training, seed, progress
            )
        if len(train.labels) < 4:
            raise UntrainableError(
                f"there are {len(train.labels)} training images, of which some must be held out"
            )
        return training.selected_answer(
            fresh, train, test, self.training, seed, progress
        )


_LISTS: Mapping[str, Any] = tomllib.loads(
    (files("noisegate_evaluate.utility") / "classifiers.toml").read_text("utf-8")
)
_FULL_NAMES = {"logistic": "logistic regression", "mlp": "multi-layer perceptron"}


def _estimators(name: str, variant: Variant) -> tuple[Estimator, ...]:
    """Returns the classifiers of a list.

    Args:
        name: Name of the list in `classifiers.toml`.
        variant: Whose settings: those for pixels of images, or for columns of tables.
    """
    return tuple(
        Estimator(
            name=classifier,
            maker=entry["class"],
            settings=entry.get(variant, {}),
            seeded=entry.get("seeded", True),
            replaced=entry.get("replaced"),
        )
        for classifier, entry in _LISTS[name].items()
    )


def _details(recipes: Sequence[Estimator]) -> dict[str, object]:
    """Returns the recipes of a list as JSON values, by name."""
    return {"recipes": {recipe.name: recipe.to_json() for recipe in recipes}}


def three() -> Suite:
    """Returns the default classifiers for tables: logistic regression and two ensembles of 100 trees, on all cores."""
    recipes = _estimators("three", "tables")
    return Suite(
        name="three",
        version=THREE_VERSION,
        recipes=recipes,
        details=_details(recipes),
        alone=True,
    )


def twelve(variant: Variant) -> Suite:
    """Returns the twelve classifiers of the papers DP-MERF and DP-HP, in the order of their tables.

    Args:
        variant: "images" for pixels in [0, 1], or "tables" for standardised columns.

    Raises:
        OptionError: there is no such variant.
    """
    variants = get_args(Variant)
    if variant not in variants:
        raise OptionError(
            f"variant is {variant!r}; expected one of {', '.join(map(repr, variants))}"
        )
    recipes = _estimators("twelve", variant)
    return Suite(
        name="twelve",
        version=TWELVE_VERSION,
        recipes=recipes,
        details={"variant": variant, **_details(recipes)},
        printed=variant == "tables",
    )


def networks(
    names: Sequence[str] = NETWORKS, options: NetworkOptions | None = None
) -> Suite:
    """Returns networks of Private Set Generation, each trained several times from new initial weights.

    Args:
        names: Names in `networks.NETWORKS`.
        options: Number of trainings and their settings; None for those of the paper.

    Raises:
        OptionError: a name is unknown, or no name is given.
    """
    known = offered.read_networks(",".join(names))
    options = options or NetworkOptions()
    recipes = tuple(Network(name=name, training=options.training) for name in known)
    details = {"networks": list(known), "training": options.training.in_report()}
    version = offered.NETWORKS_VERSION
    return Suite(
        name="networks",
        version=version,
        recipes=recipes,
        repeats=options.repeats,
        details=details,
    )


def read_suite(classifiers: str, options: NetworkOptions | None = None) -> Suite:
    """Returns "three", "twelve", "networks" for all six, or networks by their names, separated by commas."""
    if classifiers in ("three", "twelve"):
        suite = three() if classifiers == "three" else twelve("tables")
        suite.check_installed()
        return suite
    if classifiers == "networks":
        return networks(NETWORKS, options)
    known = [name.lower() for name in NETWORKS]
    if "," not in classifiers and classifiers.strip().lower() not in known:
        raise OptionError(
            f"classifiers is {classifiers!r}; expected 'three', 'twelve', "
            f"'networks' or, separated by commas, some of {', '.join(known)}"
        )
    return networks(classifiers.split(","), options)


def read_classifiers(
    names: str, *, repeats: int = 1, selection: SelectionRecipe | None = None
) -> Suite:
    """Returns the image classifiers with the given names.

    Args:
        names: Names separated by commas. "cnn", "resnet", "resnet9" and "wrn" are networks. Each is selected by
            validation images, taken from its training images, synthetic or real; never by the images that it is scored
            on. "logistic" and "mlp" are classifiers of scikit-learn. "twelve" are the twelve classifiers of the papers
            DP-MERF and DP-HP, "logistic" and "mlp" among them.
        repeats: Number of trainings of each, from new initial weights with consecutive seeds.
        selection: Settings of the training and selection of networks; None for the defaults.

    Raises:
        OptionError: a name is unknown, no name is given, or ``repeats`` is below 1.
        MissingExtraError: a classifier needs a package that is not installed.
    """
    known = (*SELECTED_NETWORKS, *_FULL_NAMES, "twelve")
    requested = [name.strip().lower() for name in names.split(",")]
    for name in requested:
        if name not in known:
            raise OptionError(
                f"classifiers has {name!r}; expected some of {', '.join(known)}, "
                "separated by commas"
            )
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise OptionError(f"repeats={repeats!r} must be a positive whole number.")
    training = selection or SelectionRecipe()
    chosen_networks = [
        Network(name=name, training=training)
        for name in SELECTED_NETWORKS
        if name in requested
    ]
    full_names = [_FULL_NAMES.get(name) for name in requested]
    estimators = [
        recipe
        for recipe in _estimators("twelve", "images")
        if "twelve" in requested or recipe.name in full_names
    ]
    suite = Suite(
        name="images",
        version=offered.SELECTION_VERSION,
        recipes=(*chosen_networks, *estimators),
        repeats=repeats,
        details={"name": "chosen by synthetic images", "recipe": training.in_report()},
    )
    suite.check_installed()
    return suite
