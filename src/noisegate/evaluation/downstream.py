"""Train on one table, test on real records: what the synthetic table is worth to a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.choice import COUNTS, Choice, read_choice
from noisegate.evaluation.images import find_pixels
from noisegate.evaluation.matrix import prepare
from noisegate.evaluation.networks_protocol import network_scores
from noisegate.evaluation.networks_report import NetworkList, NetworkOptions
from noisegate.evaluation.protocol import Progress, twelve_scores
from noisegate.evaluation.reading import read_levels
from noisegate.evaluation.scores import Scores, score
from noisegate.evaluation.training import LabelledRows
from noisegate.evaluation.twelve import Twelve
from noisegate.schema import CodedColumn, NumericColumn, Schema
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed


class Classifier(Protocol):
    """The two scikit-learn verbs that are used."""

    def fit(self, features: np.ndarray, labels: np.ndarray) -> object:
        """Learn from rows of features and their class codes."""

    def predict_proba(self, features: np.ndarray) -> np.ndarray:
        """Give a probability per row and class."""


@dataclass(frozen=True, kw_only=True)
class DownstreamReport:
    """Scores on the test table of models trained on another table.

    Attributes:
        label: the column that was predicted.
        averaging: which class or classes the scores are of, in words.
        models: scores per model; of a network, the mean over its fresh starts.
        notes: what was unusual, in words; empty when nothing was.
        protocol: the list of the twelve classifiers or of the networks; None when three were trained.
        spread: the standard deviation over the fresh starts per network; empty for all that is trained once.
    """

    label: str
    averaging: str
    models: Mapping[str, Scores]
    notes: tuple[str, ...] = ()
    protocol: Twelve | NetworkList | None = None
    spread: Mapping[str, Scores] = field(default_factory=dict)

    @property
    def mean(self) -> Scores:
        """The mean over the models."""
        return Scores.mean(list(self.models.values()))

    @property
    def deviation(self) -> Scores | None:
        """The standard deviation over the models; None for one model."""
        return Scores.deviation(list(self.models.values())) if len(self.models) > 1 else None

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the sentence that they are outside the guarantee."""
        return {
            "caveat": CAVEAT,
            "label": self.label,
            "averaging": self.averaging,
            "classifiers": self.protocol.to_json() if self.protocol else {"list": "three"},
            "mean": self.mean.to_json(),
            "standard_deviation": self.deviation.to_json() if self.deviation else None,
            "models": {name: scores.to_json() for name, scores in self.models.items()},
            "standard_deviation_over_starts": {name: scores.to_json() for name, scores in self.spread.items()},
            "notes": list(self.notes),
        }


def unscorable(test: pa.Table, schema: Schema) -> str | None:
    """Say why no model can be scored on a test table.

    Args:
        test: the real test table.
        schema: its columns and its label.

    Returns:
        The reason, or None when :func:`downstream_scores` will work.

    Raises:
        DataError: the table lacks the label column.
    """
    column = schema.label_column
    if column is None:
        return "the schema names no label column"
    if isinstance(column, NumericColumn):
        return f"the label {column.name!r} is {column.kind}; models are scored on labels with levels only"
    labels = read_levels(test, column, schema)
    classes = len(np.unique(labels.codes[labels.known]))
    if classes < 2:
        return f"the label {column.name!r} has {classes} class(es) in the test table; scores need at least 2"
    return None


def downstream_scores(
    synthetic: pa.Table,
    test: pa.Table,
    schema: Schema,
    *,
    seed: int = 0,
    classifiers: str = "three",
    networks: NetworkOptions | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> DownstreamReport:
    """Train classifiers on one table and score them on another.

    "three" are logistic regression, a random forest and gradient-boosted trees (XGBoost), 100 trees each. "twelve" are
    those of the papers, in the settings for tables of :mod:`~noisegate.evaluation.twelve`. "networks", or some of them
    by name, are the image classifiers of PSG (:mod:`~noisegate.evaluation.networks`), for tables of pixels. With two
    classes the positive one is the last level of the label. Rows whose label is missing or outside its levels are left
    out.

    Args:
        synthetic: the table to train on.
        test: the real table to score on.
        schema: columns and label.
        seed: of the models; the same seed gives the same scores.
        classifiers: "three", "twelve", "networks", or names of networks separated by commas, as in "convnet,mlp".
        networks: for networks: the shape of the images, fresh starts, epochs, device; None for the defaults.
        jobs: for "twelve" and networks: processes; default: the cores that may be used.
        progress: told after each classifier: its name, how many are done, and how many there will be.

    Returns:
        Scores per model. A training table with fewer than two classes gives every row the same score, and a note.

    Raises:
        DataError: no model can be scored (no label with levels, fewer than two classes in the test table), a table
            lacks a column, or a pixel is missing.
        OptionError: ``classifiers`` is no such choice, ``jobs`` is below 1, or the columns are no images.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    choice = read_choice(classifiers)
    if reason := unscorable(test, schema):
        raise DataError(f"no downstream scores: {reason}")
    column = schema.label_column
    assert isinstance(column, CodedColumn)  # unscorable() said so
    train_rows, train_labels = _labelled(synthetic, column, schema)
    test_rows, test_labels = _labelled(test, column, schema)
    notes = _dropped(column, {"training": (synthetic, train_rows), "test": (test, test_rows)})
    scored: _Scored
    if choice.family == "networks":
        options = networks or NetworkOptions()
        both = (train_rows, train_labels), (test_rows, test_labels)
        scored = _networks(both, column, schema, choice, options, seed, jobs, progress)
    else:
        preparation = prepare(train_rows, schema, column.name)
        train, held_out = (
            LabelledRows(features=preparation.matrix(rows), labels=labels)
            for rows, labels in ((train_rows, train_labels), (test_rows, test_labels))
        )
        scored = (
            _twelve(train, held_out, column, seed, jobs, progress)
            if choice.family == "twelve"
            else _three(train, held_out, column, seed, progress)
        )
    return DownstreamReport(
        label=column.name,
        averaging=_averaging(column.levels),
        models=scored.models,
        notes=notes + scored.notes,
        protocol=scored.protocol,
        spread=scored.spread,
    )


@dataclass(frozen=True, kw_only=True)
class _Scored:
    """What a family of classifiers came to."""

    models: Mapping[str, Scores]
    notes: tuple[str, ...]
    protocol: Twelve | NetworkList | None = None
    spread: Mapping[str, Scores] = field(default_factory=dict)


def _networks(
    tables: tuple[tuple[pa.Table, np.ndarray], tuple[pa.Table, np.ndarray]],
    column: CodedColumn,
    schema: Schema,
    choice: Choice,
    options: NetworkOptions,
    seed: int,
    jobs: int | None,
    progress: Progress | None,
) -> _Scored:
    """Scores of networks, trained on the first table with its labels and tested on the second."""
    pixels = find_pixels(schema, options.image)
    train, test = (
        LabelledRows(features=pixels.read(rows, schema, what), labels=labels)
        for what, (rows, labels) in zip(("training", "test"), tables, strict=True)
    )
    report = network_scores(
        train,
        test,
        shape=pixels.shape,
        classes=len(column.levels),
        networks=choice.networks,
        repeats=options.repeats,
        training=options.training,
        seed=seed,
        jobs=jobs,
        progress=progress,
    )
    return _Scored(models=report.models, notes=report.notes, protocol=report.protocol, spread=report.spread)


def _twelve(
    train: LabelledRows, test: LabelledRows, column: CodedColumn, seed: int, jobs: int | None, progress: Progress | None
) -> _Scored:
    classes = len(column.levels)
    report = twelve_scores(train, test, classes=classes, variant="tables", seed=seed, jobs=jobs, progress=progress)
    return _Scored(models=report.models, notes=report.notes, protocol=report.protocol)


def _three(
    train: LabelledRows, test: LabelledRows, column: CodedColumn, seed: int, progress: Progress | None
) -> _Scored:
    """Scores of the three classifiers, and a note where the training rows have fewer than two classes."""
    levels = column.levels
    found = np.unique(train.labels)
    note: tuple[str, ...] = ()
    if len(found) < 2:
        kind = f"only the class {levels[found[0]]!r}" if len(found) else "no class at all"
        note = (f"the training table has {kind} of {column.name!r}: every row gets the same score for each class",)
    flat = np.full((len(test.labels), len(levels)), 1 / len(levels))
    models: dict[str, Scores] = {}
    for name, classifier in _classifiers(seed).items():
        features = train.features, test.features
        given = flat if note else _probabilities(classifier, features, train.labels, len(levels))
        models[name] = score(test.labels, given)
        if progress is not None:
            progress(name, len(models), COUNTS["three"])
    return _Scored(models=models, notes=note)


def _classifiers(seed: int) -> dict[str, Classifier]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from xgboost import XGBClassifier

    return {
        "logistic regression": LogisticRegression(max_iter=5_000),
        "random forest": RandomForestClassifier(n_estimators=100, n_jobs=-1, random_state=seed),
        "xgboost": XGBClassifier(n_estimators=100, n_jobs=-1, random_state=seed),
    }


def _probabilities(
    classifier: Classifier, features: tuple[np.ndarray, np.ndarray], labels: np.ndarray, classes: int
) -> np.ndarray:
    """Probabilities for the test features; a class that training never saw gets probability 0."""
    # XGBoost wants the classes that occur numbered 0, 1, 2, ... without gaps.
    found, compact = np.unique(labels, return_inverse=True)
    classifier.fit(features[0], compact)
    probabilities = np.zeros((len(features[1]), classes))
    probabilities[:, found] = classifier.predict_proba(features[1])
    return probabilities


def _labelled(table: pa.Table, column: CodedColumn, schema: Schema) -> tuple[pa.Table, np.ndarray]:
    """The rows with a known label, and their class codes."""
    labels = read_levels(table, column, schema)
    return table.filter(pa.array(labels.known)), labels.codes[labels.known]


def _dropped(column: CodedColumn, tables: Mapping[str, tuple[pa.Table, pa.Table]]) -> tuple[str, ...]:
    return tuple(
        f"{before.num_rows - after.num_rows} rows of the {what} table have no known {column.name!r} and were left out"
        for what, (before, after) in tables.items()
        if after.num_rows < before.num_rows
    )


def _averaging(levels: tuple[str | int | bool, ...]) -> str:
    if len(levels) == 2:
        return f"positive class {levels[-1]!r}"
    return f"macro average, one against the rest, over the classes of the test table ({len(levels)} levels)"
