"""One runner of suites, and its report: trained on some rows, scored on others, whatever happens on the way."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from noisegate.devices import usable_cores
from noisegate.errors import DataError, OptionError
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed
from noisegate_evaluate.metrics.result import CAVEAT, as_json
from noisegate_evaluate.utility import recipe as recipes
from noisegate_evaluate.utility.recipe import (
    LabelledRows,
    NetworkChoice,
    PrintedScores,
    Recipe,
    Scores,
    Suite,
)

# Told which classifier is done, how many are, and how many there will be.
Progress = Callable[[str, int, int], None]
# The classifiers that take longest, those first that take most.
_SLOW = (
    "ResNet18",
    "VGG11",
    "AlexNet",
    "ConvNet",
    "linear SVC",
    "gradient boosting",
    "AdaBoost",
    "logistic regression",
    "multi-layer perceptron",
    "xgboost",
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one classifier came to; how long it took is no part of equality."""

    scores: Scores
    notes: tuple[str, ...] = ()
    choice: NetworkChoice | None = None
    seconds: float = field(default=0.0, compare=False)
    printed: PrintedScores | None = None


@dataclass(frozen=True, kw_only=True)
class UtilityReport:
    """Scores of the classifiers of a suite on real rows, after training on other rows."""

    suite: Suite
    """The list of classifiers."""
    seed: int
    """Seed of the classifiers. Repeated trainings have consecutive seeds from this one on."""
    outcomes: Mapping[str, tuple[Outcome, ...]]
    """For each classifier, the outcome of each training in the order of the seeds; one if it is trained once."""
    image: tuple[int, ...] = ()
    """Height, width and channels, if the rows are images; else empty."""
    device: str = ""
    """Device on which networks were trained; empty without networks."""
    label: str = ""
    """The predicted column of a table."""
    averaging: str = ""
    """Description of the class or classes that the scores of a table refer to."""
    remarks: tuple[str, ...] = ()
    """Messages about unusual records."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the repeated trainings."""
        return tuple(range(self.seed, self.seed + self.suite.repeats))

    @property
    def runs(self) -> Mapping[str, tuple[Scores, ...]]:
        """Scores of each training, by classifier."""
        return {
            name: tuple(outcome.scores for outcome in outcomes)
            for name, outcomes in self.outcomes.items()
        }

    @property
    def models(self) -> Mapping[str, Scores]:
        """Scores of each classifier; the average over several trainings, as in papers."""
        return {
            name: Scores.mean(runs) if len(runs) > 1 else runs[0]
            for name, runs in self.runs.items()
        }

    @property
    def spread(self) -> Mapping[str, Scores]:
        """Standard deviation over the trainings, for classifiers with several."""
        return {
            name: Scores.deviation(runs)
            for name, runs in self.runs.items()
            if len(runs) > 1
        }

    @property
    def choices(self) -> Mapping[str, tuple[NetworkChoice | None, ...]]:
        """For each classifier and training, how the network was selected; None without selection."""
        return {
            name: tuple(outcome.choice for outcome in outcomes)
            for name, outcomes in self.outcomes.items()
        }

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall-clock time of all trainings of each classifier, in seconds."""
        return {
            name: sum(outcome.seconds for outcome in outcomes)
            for name, outcomes in self.outcomes.items()
        }

    @property
    def mean(self) -> Scores:
        """Average scores of the classifiers, the figure that papers print."""
        return Scores.mean(list(self.models.values()))

    @property
    def deviation(self) -> Scores | None:
        """Standard deviation over the classifiers; None for one."""
        scores = list(self.models.values())
        return Scores.deviation(scores) if len(scores) > 1 else None

    @property
    def printed(self) -> Mapping[str, PrintedScores]:
        """Scores of hard predictions of each classifier, as papers print them; only for the twelve of tables."""
        printed = {
            name: [outcome.printed for outcome in outcomes if outcome.printed]
            for name, outcomes in self.outcomes.items()
        }
        return {
            name: PrintedScores.mean(scores)
            for name, scores in printed.items()
            if scores
        }

    @property
    def printed_mean(self) -> PrintedScores | None:
        """Average of `printed` over the classifiers; None if it is empty."""
        return PrintedScores.mean(list(self.printed.values())) if self.printed else None

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages about unusual records, then about classifiers, each with the classifier's name."""
        of_classifiers = tuple(
            f"{_full_name(recipe, seed)}: {note}"
            for recipe in self.suite.recipes
            for seed, outcome in enumerate(self.outcomes[recipe.name], self.seed)
            for note in outcome.notes
        )
        return self.remarks + of_classifiers

    def to_json(self) -> dict[str, object]:
        """Returns the figures, the list and its settings as JSON values, with the caveat about the guarantee."""
        as_printed = {}
        if self.printed_mean is not None:
            printed = {"mean": self.printed_mean, "models": as_json(self.printed)}
            as_printed["as_printed"] = as_json(printed)
        return {
            "caveat": CAVEAT,
            "label": self.label,
            "averaging": self.averaging,
            "classifiers": {
                **self.suite.to_json(),
                **(self._ran if self.device else {}),
            },
            "seed": self.seed,
            "mean": self.mean.to_json(),
            "standard_deviation": as_json(self.deviation),
            "models": as_json(self.models),
            **as_printed,
            "standard_deviation_over_starts": as_json(self.spread),
            "runs": {
                name: [run.to_json() for run in self.runs[name]] for name in self.spread
            },
            "notes": list(self.notes),
        }

    def to_image_json(self) -> dict[str, object]:
        """Returns the figures of a suite for images as JSON values.

        The figures are those of networks, with how each was selected, and of other classifiers.
        """
        restarted = [recipe.name for recipe in self.suite.recipes if recipe.restarted]
        models = self.models
        spread = self.spread
        networks = {
            "caveat": CAVEAT,
            "protocol": {
                "version": self.suite.version,
                **self.suite.details,
                **self._ran,
            },
            "models": {
                name: {
                    "mean": models[name].to_json(),
                    "standard_deviation": as_json(spread.get(name)),
                    "runs": [run.to_json() for run in self.runs[name]],
                    "choices": [as_json(choice) for choice in self.choices[name]],
                }
                for name in restarted
            },
            "seconds": {name: self.seconds[name] for name in restarted},
            "notes": [
                note for note in self.notes if note.partition(",")[0] in restarted
            ],
        }
        others = {name: models[name] for name in models if name not in restarted}
        return {
            "networks": networks if restarted else None,
            "classifiers": as_json(others),
            "notes": list(self.notes),
        }

    @property
    def _ran(self) -> dict[str, object]:
        return {
            "image": list(self.image),
            "device": self.device,
            "seeds": list(self.seeds),
        }


def utility_scores(
    suite: Suite,
    train: LabelledRows,
    test: LabelledRows,
    *,
    classes: int,
    seed: int = 0,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> UtilityReport:
    """Scores a suite of classifiers on real rows, after training them on other rows.

    The classifiers run in parallel in processes of one thread each, so that the scores do not depend on ``jobs``. The
    three classifiers for tables, and classifiers on a GPU, run one after the other in this process. A classifier that
    cannot be trained has the scores of a constant predictor, and a note.

    Args:
        suite: The classifiers.
        train: The records to train on.
        test: The real records to score on, of at least two classes.
        classes: Number of classes. Of two classes, class 1 is the positive one.
        seed: Seed of the classifiers.
        jobs: Number of processes; None for the number of usable cores; 1 uses this process only.
        progress: Called with a name, the number of trainings done and the total number: after each training, and,
            within this process, after each epoch of a network.

    Raises:
        OptionError: ``classes`` is below 2, ``jobs`` is below 1, or the device does not exist.
        MissingExtraError: a classifier needs a package that is not installed.
        DataError: rows that no classifier can score, or fewer than two classes among the test labels.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    suite.check_installed()
    rows = suite.recipes[0].rows
    _check(rows, train, test, classes, jobs)
    device = next((recipe.device for recipe in suite.recipes if recipe.restarted), "")
    tasks = [
        (recipe, seed + start)
        for recipe in suite.recipes
        for start in range(suite.repeats if recipe.restarted else 1)
    ]
    runs_in_turn = (
        jobs == 1 or len(tasks) == 1 or device not in ("", "cpu") or suite.alone
    )
    run = partial(
        _outcome, train=train, test=test, classes=classes, printed=suite.printed
    )
    done: dict[tuple[str, int], Outcome] = {}

    def report(name: str, epoch: int = 0, epochs: int = 0) -> None:
        if progress is not None:
            of_epochs = f", epoch {epoch} of {epochs}" if epochs else ""
            progress(f"{name}{of_epochs}", len(done), len(tasks))

    def in_turn() -> Generator[tuple[Recipe, int, Outcome]]:
        for recipe, start in tasks:
            epoch_done = partial(report, _full_name(recipe, start))
            yield run(recipe, start, progress=epoch_done)

    if runs_in_turn:
        running = in_turn()
    else:
        running = _side_by_side(tasks, run, jobs or usable_cores())
    with closing(running) as outcomes:
        for recipe, start, outcome in outcomes:
            done[recipe.name, start] = outcome
            report(_full_name(recipe, start))
    outcomes_of: dict[str, tuple[Outcome, ...]] = {}
    for recipe, start in tasks:
        earlier = outcomes_of.get(recipe.name, ())
        outcomes_of[recipe.name] = (*earlier, done[recipe.name, start])
    remarks: tuple[str, ...] = ()
    class_count = len(np.unique(train.labels))
    if class_count < 2:
        remarks = (
            f"the training {rows} have {class_count} class(es): every classifier is "
            "scored as a constant predictor",
        )
    return UtilityReport(
        suite=suite,
        seed=seed,
        outcomes=outcomes_of,
        image=train.image,
        device=device,
        remarks=remarks,
    )


def _check(
    rows: str, train: LabelledRows, test: LabelledRows, classes: int, jobs: int | None
) -> None:
    """Refuses rows and options with which nothing can be trained or scored.

    Args:
        rows: What messages call the rows.
        train: Rows to train on.
        test: Rows to test on.
        classes: Number of classes.
        jobs: Number of processes; None for the cores that may be used.
    """
    if classes < 2:
        raise OptionError(f"classes is {classes}; expected at least 2")
    if jobs is not None and jobs < 1:
        raise OptionError(f"jobs is {jobs}; expected at least 1")
    train.check("training", classes)
    test.check("test", classes)
    train_shape = train.features.shape[1:]
    test_shape = test.features.shape[1:]
    if train_shape != test_shape:
        raise DataError(
            f"the training {rows} are of shape {train_shape}, the test {rows} of shape "
            f"{test_shape}; expected the same"
        )
    if rows == "images" and not train.image:
        raise DataError(
            f"the training images have the shape {train.features.shape}; expected "
            "(rows, height, width, channels)"
        )
    class_count = len(np.unique(test.labels))
    if class_count < 2:
        raise DataError(
            f"the test {rows} have {class_count} class(es); scores need at least 2"
        )


def _full_name(recipe: Recipe, seed: int) -> str:
    """Returns the name of a classifier, with the seed of its start if it has several."""
    return f"{recipe.name}, seed {seed}" if recipe.restarted else recipe.name


def _side_by_side(
    tasks: list[tuple[Recipe, int]], run: Callable[..., Any], jobs: int
) -> Any:
    # scikit-learn's Parallel is joblib's, which maps large arrays into the processes instead of copying them.
    from sklearn.utils.parallel import Parallel, delayed

    # The slow ones first, so that no core waits for one that was started last.
    names = [*_SLOW, *(recipe.name for recipe, _ in tasks)]
    order = sorted(tasks, key=lambda task: names.index(task[0].name))
    parallel = Parallel(
        n_jobs=min(jobs, len(tasks)),
        return_as="generator_unordered",
        pre_dispatch="all",
    )
    return parallel(delayed(run)(*task) for task in order)


def _outcome(
    recipe: Recipe,
    seed: int,
    *,
    train: LabelledRows,
    test: LabelledRows,
    classes: int,
    printed: bool,
    progress: recipes.EpochDone | None = None,
) -> tuple[Recipe, int, Outcome]:
    """Trains a recipe and scores it; what cannot be trained is scored as a constant predictor.

    Args:
        recipe: The classifier.
        seed: Seed of its start.
        train: Rows to train on.
        test: Rows to test on.
        classes: Number of classes.
        printed: Whether hard predictions are scored too, as papers print them.
        progress: Called after each epoch.

    Returns:
        The classifier, its seed and the outcome: in other processes they end in any
        order.
    """
    from threadpoolctl import threadpool_limits

    start = time.perf_counter()
    constant = recipes.constant_scores(train.labels, len(test.labels), classes)
    answer = recipes.Answer(scores=constant)
    if len(np.unique(train.labels)) > 1:
        try:
            with threadpool_limits(1):
                answer = recipe.answer(
                    train, test, classes=classes, seed=seed, progress=progress
                )
        except recipes.UntrainableError as error:
            note = (
                f"could not be trained and is scored as a constant predictor ({error})"
            )
            answer = replace(answer, notes=(note,))
    scores = recipes.score(test.labels, answer.scores)
    seconds = time.perf_counter() - start
    printed_scores = None
    if printed:
        predicted = answer.scores.argmax(axis=1)
        printed_scores = recipes.printed_scores(test.labels, predicted, classes=classes)
    outcome = Outcome(
        scores=scores,
        notes=answer.notes,
        choice=answer.choice,
        seconds=seconds,
        printed=printed_scores,
    )
    return recipe, seed, outcome
