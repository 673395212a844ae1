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
from noisegate_evaluate.metrics.result import CAVEAT
from noisegate_evaluate.utility import recipe as recipes
from noisegate_evaluate.utility.recipe import (
    LabelledRows,
    NetworkChoice,
    PrintedScores,
    Recipe,
    Scores,
    Suite,
)

Progress = Callable[
    [str, int, int], None
]  # told which classifier is done, how many are, and how many there will be
_SLOW = (
    *("ResNet18", "VGG11", "AlexNet", "ConvNet"),
    *(
        "linear SVC",
        "gradient boosting",
        "AdaBoost",
        "logistic regression",
        "multi-layer perceptron",
        "xgboost",
    ),
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
    """Scores on real rows of the classifiers of a suite, trained on other rows."""

    suite: Suite
    """The list of classifiers."""
    seed: int
    """Of the classifiers; fresh starts of networks have those from it on."""
    outcomes: Mapping[str, tuple[Outcome, ...]]
    """Per classifier, that of each fresh start in the order of the seeds; one where it is not restarted."""
    image: tuple[int, ...] = ()
    """Height, width and channels, where the rows are images."""
    device: str = ""
    """Where networks ran; empty without networks."""
    label: str = ""
    """The column of a table that was predicted."""
    averaging: str = ""
    """Which class or classes of a table the scores are of, in words."""
    remarks: tuple[str, ...] = ()
    """What was unusual about the rows, in words."""

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds of the fresh starts."""
        return tuple(range(self.seed, self.seed + self.suite.repeats))

    @property
    def runs(self) -> Mapping[str, tuple[Scores, ...]]:
        """Scores per classifier and fresh start."""
        return {
            name: tuple(one.scores for one in each)
            for name, each in self.outcomes.items()
        }

    @property
    def models(self) -> Mapping[str, Scores]:
        """Scores per classifier; of several fresh starts the mean, which is the figure that papers print."""
        return {
            name: Scores.mean(runs) if len(runs) > 1 else runs[0]
            for name, runs in self.runs.items()
        }

    @property
    def spread(self) -> Mapping[str, Scores]:
        """The standard deviation over the fresh starts; only for what has several."""
        return {
            name: Scores.deviation(runs)
            for name, runs in self.runs.items()
            if len(runs) > 1
        }

    @property
    def choices(self) -> Mapping[str, tuple[NetworkChoice | None, ...]]:
        """Per classifier and fresh start, what it was chosen by; None where nothing was chosen."""
        return {
            name: tuple(one.choice for one in each)
            for name, each in self.outcomes.items()
        }

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall-clock time of all starts per classifier."""
        return {
            name: sum(one.seconds for one in each)
            for name, each in self.outcomes.items()
        }

    @property
    def mean(self) -> Scores:
        """The mean over the classifiers: the figure that papers print."""
        return Scores.mean(list(self.models.values()))

    @property
    def deviation(self) -> Scores | None:
        """The standard deviation over the classifiers; None for one."""
        return (
            Scores.deviation(list(self.models.values()))
            if len(self.models) > 1
            else None
        )

    @property
    def printed(self) -> Mapping[str, PrintedScores]:
        """Scores of hard predictions per classifier, as the papers print them; empty but for the twelve of tables."""
        every = {
            name: [one.printed for one in each if one.printed]
            for name, each in self.outcomes.items()
        }
        return {name: PrintedScores.mean(each) for name, each in every.items() if each}

    @property
    def printed_mean(self) -> PrintedScores | None:
        """Their mean over the classifiers; None where there are none."""
        return PrintedScores.mean(list(self.printed.values())) if self.printed else None

    @property
    def notes(self) -> tuple[str, ...]:
        """What was unusual, in words: about the rows, then about classifiers, each starting with its name."""
        every = [
            (recipe, enumerate(self.outcomes[recipe.name], self.seed))
            for recipe in self.suite.recipes
        ]
        starts = [
            (_said(recipe, seed), one)
            for recipe, outcomes in every
            for seed, one in outcomes
        ]
        return self.remarks + tuple(
            f"{said}: {note}" for said, one in starts for note in one.notes
        )

    def to_json(self) -> dict[str, object]:
        """Returns the figures as JSON values, with the list, its settings, and the sentence about the guarantee."""
        printed = {name: one.to_json() for name, one in self.printed.items()}
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
            "standard_deviation": self.deviation.to_json() if self.deviation else None,
            "models": {name: scores.to_json() for name, scores in self.models.items()},
            **(
                {"as_printed": {"mean": self.printed_mean.to_json(), "models": printed}}
                if self.printed_mean
                else {}
            ),
            "standard_deviation_over_starts": {
                name: scores.to_json() for name, scores in self.spread.items()
            },
            "runs": {
                name: [one.to_json() for one in self.runs[name]] for name in self.spread
            },
            "notes": list(self.notes),
        }

    def to_image_json(self) -> dict[str, object]:
        """Returns the figures of a suite of images as JSON values: of networks with their choices, and of others."""
        restarted = [recipe.name for recipe in self.suite.recipes if recipe.restarted]
        models: dict[str, Any] = {
            name: {"mean": self.models[name].to_json()} for name in restarted
        }
        for name, told in models.items():
            told["standard_deviation"] = (
                self.spread[name].to_json() if name in self.spread else None
            )
            told["runs"] = [run.to_json() for run in self.runs[name]]
            told["choices"] = [
                one.to_json() if one else None for one in self.choices[name]
            ]
        protocol = {"version": self.suite.version, **self.suite.details, **self._ran}
        networks: dict[str, Any] = {
            "caveat": CAVEAT,
            "protocol": protocol,
            "models": models,
        }
        networks["seconds"] = {name: self.seconds[name] for name in restarted}
        networks["notes"] = [
            note for note in self.notes if note.partition(",")[0] in restarted
        ]
        others = {
            name: one.to_json()
            for name, one in self.models.items()
            if name not in restarted
        }
        return {
            "networks": networks if restarted else None,
            "classifiers": others,
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
    """Returns the scores of a suite of classifiers, trained on some rows and asked about others.

    They run side by side in processes of their own, each on one thread, so that the scores do not depend on ``jobs``;
    the three of tables, and what runs on a GPU, one after the other in this process.

    The rows of ``test`` are real ones of at least two classes. With two ``classes``, class 1 is the positive one.
    ``jobs`` are processes, by default the cores that may be used, and 1 stays in this process. ``progress`` is told
    after each training, and within this process after each epoch of a network. A classifier that cannot be trained has
    the scores of a constant predictor, and a note.

    Raises:
        OptionError: ``classes`` below 2, ``jobs`` below 1, or the device is not there.
        MissingExtraError: a classifier needs a package that is not installed.
        DataError: rows that no classifier can be asked about, or fewer than two classes among the test labels.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    suite.check_installed()
    rows = suite.recipes[0].rows
    _check(rows, train, test, classes, jobs)
    device = next((recipe.device for recipe in suite.recipes if recipe.restarted), "")
    starts = range(seed, seed + suite.repeats)
    tasks = [
        (recipe, start)
        for recipe in suite.recipes
        for start in (starts if recipe.restarted else starts[:1])
    ]
    one_by_one = (
        jobs == 1 or len(tasks) == 1 or device not in ("", "cpu") or suite.alone
    )
    run = partial(
        _outcome, train=train, test=test, classes=classes, printed=suite.printed
    )
    done: dict[tuple[str, int], Outcome] = {}

    def told(what: str, epoch: int = 0, epochs: int = 0) -> None:
        if progress is not None:
            progress(
                f"{what}, epoch {epoch} of {epochs}" if epochs else what,
                len(done),
                len(tasks),
            )

    def here() -> Generator[tuple[Recipe, int, Outcome]]:
        for recipe, start in tasks:
            yield run(recipe, start, progress=partial(told, _said(recipe, start)))

    with closing(
        here() if one_by_one else _side_by_side(tasks, run, jobs or usable_cores())
    ) as outcomes:
        for recipe, start, outcome in outcomes:
            done[recipe.name, start] = outcome
            told(_said(recipe, start))
    ordered: dict[str, tuple[Outcome, ...]] = {}
    for recipe, start in tasks:
        ordered[recipe.name] = (*ordered.get(recipe.name, ()), done[recipe.name, start])
    found = len(np.unique(train.labels))
    remark = f"the training {rows} have {found} class(es): every classifier is scored as a constant predictor"
    remarks = (remark,) if found < 2 else ()
    return UtilityReport(
        suite=suite,
        seed=seed,
        outcomes=ordered,
        image=train.image,
        device=device,
        remarks=remarks,
    )


def _check(
    rows: str, train: LabelledRows, test: LabelledRows, classes: int, jobs: int | None
) -> None:
    if classes < 2:
        raise OptionError(f"classes is {classes}; expected at least 2")
    if jobs is not None and jobs < 1:
        raise OptionError(f"jobs is {jobs}; expected at least 1")
    train.check("training", classes)
    test.check("test", classes)
    if train.features.shape[1:] != test.features.shape[1:]:
        ours, theirs = (
            train.features.shape[1:],
            f"{test.features.shape[1:]}; expected the same",
        )
        raise DataError(
            f"the training {rows} are of shape {ours}, the test {rows} of shape {theirs}"
        )
    if rows == "images" and not train.image:
        shape = f"{train.features.shape}; expected (rows, height, width, channels)"
        raise DataError(f"the training images have the shape {shape}")
    if (found := len(np.unique(test.labels))) < 2:
        raise DataError(
            f"the test {rows} have {found} class(es); scores need at least 2"
        )


def _said(recipe: Recipe, seed: int) -> str:
    return f"{recipe.name}, seed {seed}" if recipe.restarted else recipe.name


def _side_by_side(
    tasks: list[tuple[Recipe, int]], run: Callable[..., Any], jobs: int
) -> Any:
    # scikit-learn's Parallel is joblib's, which maps large arrays into the processes instead of copying them.
    from sklearn.utils.parallel import Parallel, delayed

    # The slow ones first, so that no core waits for one that was started last.
    order = sorted(
        tasks,
        key=lambda task: (
            _SLOW.index(task[0].name) if task[0].name in _SLOW else len(_SLOW)
        ),
    )
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
    **told: Any,
) -> tuple[Recipe, int, Outcome]:
    """Returns a trained recipe with its scores; what cannot be trained is scored as a constant predictor."""
    from threadpoolctl import threadpool_limits

    start = time.perf_counter()
    answer = recipes.Answer(
        scores=recipes.constant_scores(train.labels, len(test.labels), classes)
    )
    if len(np.unique(train.labels)) > 1:
        try:
            with threadpool_limits(1):
                answer = recipe.answer(
                    train,
                    test,
                    classes=classes,
                    seed=seed,
                    progress=told.get("progress"),
                )
        except recipes.UntrainableError as error:
            note = (
                f"could not be trained and is scored as a constant predictor ({error})"
            )
            answer = replace(answer, notes=(note,))
    scores, seconds = (
        recipes.score(test.labels, answer.scores),
        time.perf_counter() - start,
    )
    hard = (
        recipes.printed_scores(
            test.labels, answer.scores.argmax(axis=1), classes=classes
        )
        if printed
        else None
    )
    outcome = Outcome(
        scores=scores,
        notes=answer.notes,
        choice=answer.choice,
        seconds=seconds,
        printed=hard,
    )
    return recipe, seed, outcome
