"""Train on one table, test on real records: what the synthetic table is worth to a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError, OptionError
from noisegate.evaluation.caveat import CAVEAT
from noisegate.evaluation.matrix import prepare
from noisegate.evaluation.protocol import Progress, twelve_scores
from noisegate.evaluation.reading import read_levels
from noisegate.evaluation.scores import Scores, score
from noisegate.evaluation.training import LabelledRows
from noisegate.evaluation.twelve import Twelve
from noisegate.schema import CodedColumn, NumericColumn, Schema

Classifiers = Literal["three", "twelve"]
"""Which classifiers: the three that serve tables best, or the twelve of the papers."""

COUNTS: Mapping[Classifiers, int] = {"three": 3, "twelve": 12}
"""How many classifiers each choice trains."""


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
        models: scores per model.
        notes: what was unusual, in words; empty when nothing was.
        protocol: the list of the twelve classifiers; None when three were trained.
    """

    label: str
    averaging: str
    models: Mapping[str, Scores]
    notes: tuple[str, ...] = ()
    protocol: Twelve | None = None

    @property
    def mean(self) -> Scores:
        """The mean over the models."""
        return Scores.mean(list(self.models.values()))

    @property
    def deviation(self) -> Scores:
        """The standard deviation over the models."""
        return Scores.deviation(list(self.models.values()))

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the sentence that they are outside the guarantee."""
        return {
            "caveat": CAVEAT,
            "label": self.label,
            "averaging": self.averaging,
            "classifiers": self.protocol.to_json() if self.protocol else {"list": "three"},
            "mean": self.mean.to_json(),
            "standard_deviation": self.deviation.to_json(),
            "models": {name: scores.to_json() for name, scores in self.models.items()},
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
    classifiers: Classifiers = "three",
    jobs: int | None = None,
    progress: Progress | None = None,
) -> DownstreamReport:
    """Train classifiers on one table and score them on another.

    "three" are logistic regression, a random forest and gradient-boosted trees (XGBoost), 100 trees each. "twelve" are
    those of the papers, in the settings for tables of :mod:`~noisegate.evaluation.twelve`. With two classes the
    positive one is the last level of the label. Rows whose label is missing or outside its levels are left out.

    Args:
        synthetic: the table to train on.
        test: the real table to score on.
        schema: columns and label.
        seed: of the models; the same seed gives the same scores.
        classifiers: "three" or "twelve".
        jobs: for "twelve": processes; default: the cores that may be used.
        progress: told after each classifier: its name, how many are done, and how many there will be.

    Returns:
        Scores per model. A training table with fewer than two classes gives every row the same score, and a note.

    Raises:
        DataError: no model can be scored (no label with levels, fewer than two classes in the test table), or a table
            lacks a column.
        OptionError: ``classifiers`` is neither choice, or ``jobs`` is below 1.
    """
    known_classifiers(classifiers)
    if reason := unscorable(test, schema):
        raise DataError(f"no downstream scores: {reason}")
    column = schema.label_column
    assert isinstance(column, CodedColumn)  # unscorable() said so
    train_rows, train_labels = _labelled(synthetic, column, schema)
    test_rows, test_labels = _labelled(test, column, schema)
    notes = _dropped(column, {"training": (synthetic, train_rows), "test": (test, test_rows)})
    averaging, classes = _averaging(column.levels), len(column.levels)
    preparation = prepare(train_rows, schema, column.name)
    train, held_out = (
        LabelledRows(features=preparation.matrix(rows), labels=labels)
        for rows, labels in ((train_rows, train_labels), (test_rows, test_labels))
    )
    if classifiers == "twelve":
        scored = twelve_scores(
            train, held_out, classes=classes, variant="tables", seed=seed, jobs=jobs, progress=progress
        )
        models, notes, protocol = scored.models, notes + scored.notes, scored.protocol
    else:
        models, note = _three(train, held_out, column, seed, progress)
        notes, protocol = notes + note, None
    return DownstreamReport(label=column.name, averaging=averaging, models=models, notes=notes, protocol=protocol)


def known_classifiers(choice: str) -> Classifiers:
    """Read a choice of classifiers.

    Args:
        choice: "three" or "twelve".

    Returns:
        The same.

    Raises:
        OptionError: it is neither.
    """
    for known in COUNTS:
        if choice == known:
            return known
    raise OptionError(f"classifiers is {choice!r}; expected {' or '.join(map(repr, COUNTS))}")


def _three(
    train: LabelledRows, test: LabelledRows, column: CodedColumn, seed: int, progress: Progress | None
) -> tuple[dict[str, Scores], tuple[str, ...]]:
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
    return models, note


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
