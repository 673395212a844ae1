"""Train on one table, test on real records: what the synthetic table is worth to a model.

Tables become matrices: numbers standardised, levels one-hot, everything learnt from the training table only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.evaluation.images import find_pixels
from noisegate.evaluation.reading import read_levels, read_numbers
from noisegate.evaluation.utility.network_settings import NetworkOptions
from noisegate.evaluation.utility.recipe import LabelledRows, Suite
from noisegate.evaluation.utility.runner import Progress, UtilityReport, utility_scores
from noisegate.evaluation.utility.suites import read_suite
from noisegate.schema import CodedColumn, Column, NumericColumn, Schema
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed

# On the unit scale of the bounds. A column that is nearly constant in training must not blow up the test values.
_LEAST_SPREAD = 1e-6


def downstream_scores(
    synthetic: pa.Table,
    test: pa.Table,
    schema: Schema,
    *,
    seed: int = 0,
    classifiers: str | Suite = "three",
    networks: NetworkOptions | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> UtilityReport:
    """Train classifiers on one table and score them on another.

    With two classes the positive one is the last level of the label. Rows whose label is missing or outside its levels
    are left out.

    Args:
        synthetic: the table to train on.
        test: the real table to score on.
        schema: columns and label.
        seed: of the models; the same seed gives the same scores.
        classifiers: "three" (logistic regression, a random forest and gradient boosting), the "twelve" of the papers,
            "networks" for tables of pixels, names of networks separated by commas, as in "convnet,mlp", or a suite.
        networks: for networks: the shape of the images, fresh starts, epochs, device; None for the defaults.
        jobs: for "twelve" and networks: processes; default: the cores that may be used.
        progress: told after each classifier: its name, how many are done, and how many there will be.

    Returns:
        Scores per model. A training table with fewer than two classes has those of a constant predictor, and a note.

    Raises:
        DataError: no model can be scored (no label with levels, fewer than two classes in the test table), a table
            lacks a column, or a pixel is missing.
        OptionError: ``classifiers`` is no such choice, ``jobs`` is below 1, or the columns are no images.
        MissingExtraError: a classifier needs a package that is not installed.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    suite = read_suite(classifiers, networks) if isinstance(classifiers, str) else classifiers
    if reason := unscorable(test, schema):
        raise DataError(f"no downstream scores: {reason}")
    column = schema.label_column
    assert isinstance(column, CodedColumn)  # unscorable() said so
    tables, labels, remarks = {}, {}, []
    for what, table in (("training", synthetic), ("test", test)):
        levels = read_levels(table, column, schema)
        tables[what], labels[what] = table.filter(pa.array(levels.known)), levels.codes[levels.known]
        if gone := int((~levels.known).sum()):
            remarks.append(f"{gone} rows of the {what} table have no known {column.name!r} and were left out")
    if suite.name == "networks":
        pixels = find_pixels(schema, networks.image if networks else None)
        features = {what: pixels.read(table, schema, what) for what, table in tables.items()}
    else:
        preparation = Preparation(tables["training"], schema, column.name)
        features = {what: preparation.matrix(table) for what, table in tables.items()}
    train, held_out = (LabelledRows(features=features[what], labels=labels[what]) for what in tables)
    report = utility_scores(suite, train, held_out, classes=len(column.levels), seed=seed, jobs=jobs, progress=progress)
    return replace(
        report,
        label=column.name,
        averaging=_averaging(column.levels),
        remarks=(*remarks, *(_one_class(train.labels, column) or report.remarks)),
    )


def unscorable(test: pa.Table, schema: Schema) -> str:
    """Say why no model can be scored on a test table; empty when :func:`downstream_scores` will work.

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
    return ""


class Preparation:
    """The features of tables, as the table that models are trained on fixes them; the label is none of them."""

    def __init__(self, train: pa.Table, schema: Schema, label: str) -> None:
        self._blocks = [_block(train, column, schema) for column in schema.columns if column.name != label]

    def matrix(self, table: pa.Table) -> np.ndarray:
        """Build the features of any table with the schema's columns: float32, one row per record.

        A missing number becomes the training median, with an indicator column where training had missing ones. A
        missing level has a column of its own, and a value outside the levels has none, so it never crashes.
        """
        # A leading constant, so that a table whose only column is the label still has a feature.
        constant = np.ones((table.num_rows, 1), dtype=np.float32)
        return np.hstack([constant, *(block(table) for block in self._blocks)])


def _block(train: pa.Table, column: Column, schema: Schema) -> Callable[[pa.Table], np.ndarray]:
    """What makes the features of one column, float32, (rows, features of the column)."""
    if not isinstance(column, NumericColumn):
        levels = len(column.levels)
        # The last column is for missing; what is outside has a row of zeros.
        one_hot = np.eye(levels + 2, levels + 1, dtype=np.float32)
        return lambda table: one_hot[read_levels(table, column, schema).codes]
    unit = read_numbers(train, column, schema).unit
    known = unit[~np.isnan(unit)]
    gaps = len(known) < len(unit)
    # Without a number to learn from: the middle of the bounds, which are public.
    median, centre, spread = (np.median(known), known.mean(), known.std()) if len(known) else (0.5, 0.5, 1.0)
    scale = spread if spread > _LEAST_SPREAD else 1.0

    def scaled(table: pa.Table) -> np.ndarray:
        unit = read_numbers(table, column, schema).unit
        absent = np.isnan(unit)
        filled = (np.where(absent, median, unit) - centre) / scale
        return np.column_stack([filled, absent] if gaps else [filled]).astype(np.float32)

    return scaled


def _one_class(labels: np.ndarray, column: CodedColumn) -> tuple[str, ...]:
    found = np.unique(labels)
    if len(found) > 1:
        return ()
    kind = f"only the class {column.levels[found[0]]!r}" if len(found) else "no class at all"
    return (f"the training table has {kind} of {column.name!r}: every row gets the same score for each class",)


def _averaging(levels: tuple[str | int | bool, ...]) -> str:
    if len(levels) == 2:
        return f"positive class {levels[-1]!r}"
    return f"macro average, one against the rest, over the classes of the test table ({len(levels)} levels)"
