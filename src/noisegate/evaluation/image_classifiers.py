"""Which classifiers an evaluation of images trains, by name, and their scores under one roof."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noisegate.errors import OptionError
from noisegate.evaluation.image_reading import ImageSet
from noisegate.evaluation.protocol import Progress
from noisegate.evaluation.scores import Scores
from noisegate.evaluation.selection_report import SelectionReport
from noisegate.evaluation.selection_training import SELECTED_NETWORKS, SelectionRecipe
from noisegate.evaluation.synthetic_selection import synthetic_selection_scores
from noisegate.evaluation.training import train_and_score
from noisegate.evaluation.twelve import TWELVE_VERSION, Recipe, twelve
from noisegate.schema import ImageForm

_SHORT = {"logistic": "logistic regression", "mlp": "multi-layer perceptron"}


@dataclass(frozen=True, kw_only=True)
class ImageClassifiers:
    """What is trained.

    Attributes:
        networks: some of the networks that are chosen by synthetic images.
        recipes: some of the twelve classifiers of the papers.
        repeats: fresh starts of each network; the others are trained once.
        selection: how the networks are trained and chosen.
    """

    networks: tuple[str, ...]
    recipes: tuple[Recipe, ...]
    repeats: int = 1
    selection: SelectionRecipe = field(default_factory=SelectionRecipe)

    @property
    def count(self) -> int:
        """Trainings on one set of images."""
        return len(self.networks) * self.repeats + len(self.recipes)


@dataclass(frozen=True, kw_only=True)
class ImageScores:
    """What classifiers trained on one set of images are worth on real ones.

    Attributes:
        selection: of the networks; None when none was asked for.
        classifiers: of the others, by name, each trained once and not chosen by anything.
        notes: what was unusual.
    """

    selection: SelectionReport | None
    classifiers: Mapping[str, Scores]
    notes: tuple[str, ...]

    @property
    def models(self) -> Mapping[str, Scores]:
        """Scores by the name of the network or classifier; of a network, the mean over its starts."""
        return {**(self.selection.models if self.selection else {}), **self.classifiers}

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values."""
        return {
            "networks": self.selection.to_json() if self.selection else None,
            "twelve_version": TWELVE_VERSION,
            "classifiers": {name: scores.to_json() for name, scores in self.classifiers.items()},
            "notes": list(self.notes),
        }


def read_classifiers(names: str, *, repeats: int = 1, selection: SelectionRecipe | None = None) -> ImageClassifiers:
    """Read which classifiers are meant.

    Args:
        names: separated by commas: "cnn", "resnet", "wrn"; "logistic" and "mlp" of scikit-learn; "twelve" for all
            twelve of the papers, which include those two.
        repeats: fresh starts of each network.
        selection: how networks are trained; None for the default.

    Raises:
        OptionError: a name is unknown, there is none, or ``repeats`` is below 1.
    """
    known = (*SELECTED_NETWORKS, *_SHORT, "twelve")
    asked = [name.strip().lower() for name in names.split(",")]
    for name in asked:
        if name not in known:
            raise OptionError(f"classifiers has {name!r}; expected some of {', '.join(known)}, separated by commas")
    if repeats < 1:
        raise OptionError(f"repeats is {repeats!r}; expected a whole number, at least 1")
    full = {_SHORT[name] for name in asked if name in _SHORT}
    return ImageClassifiers(
        networks=tuple(name for name in SELECTED_NETWORKS if name in asked),
        recipes=tuple(one for one in twelve("images").recipes if "twelve" in asked or one.name in full),
        repeats=repeats,
        selection=selection or SelectionRecipe(),
    )


def image_scores(
    train: ImageSet,
    test: ImageSet,
    form: ImageForm,
    asked: ImageClassifiers,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> ImageScores:
    """Train classifiers on some labelled images and score them on others.

    Args:
        train: synthetic images, as a rule.
        test: real ones of at least two classes.
        form: what images there may be.
        asked: which classifiers.
        seed: public.
        progress: told after each epoch and each training.

    Raises:
        DataError: the test images have fewer than two classes.
        OptionError: the device of the networks is not there.
    """
    classes, total = len(form.labels), asked.count
    selection = None
    if asked.networks:
        selection = synthetic_selection_scores(
            train.rows(),
            test.rows(),
            shape=form.shape,
            classes=classes,
            networks=asked.networks,
            repeats=asked.repeats,
            recipe=asked.selection,
            seed=seed,
            progress=None if progress is None else lambda name, done, _: progress(name, done, total),
        )
    scored: dict[str, Scores] = {}
    notes = selection.notes if selection else ()
    done = len(asked.networks) * asked.repeats
    rows = [several.rows(scaled=True) for several in (train, test)] if asked.recipes else []
    for recipe in asked.recipes:
        outcome = train_and_score(recipe, rows[0], rows[1], classes=classes, seed=seed)
        scored[recipe.name] = outcome.scores
        notes += tuple(f"{recipe.name}: {note}" for note in outcome.notes)
        done += 1
        if progress is not None:
            progress(recipe.name, done, total)
    return ImageScores(selection=selection, classifiers=scored, notes=notes)
