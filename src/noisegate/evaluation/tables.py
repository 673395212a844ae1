"""Train on one table, test on real records: what the synthetic table is worth to a model.

Tables become matrices: numbers standardised, levels one-hot, everything learnt from the training table only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.evaluation.images import find_pixels
from noisegate.evaluation.reading import Numbers, read_levels, read_numbers
from noisegate.evaluation.utility.networks import NetworkOptions
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
    named = {"training": synthetic, "test": test}
    kept = {what: _labelled(table, column, schema) for what, table in named.items()}
    if suite.name == "networks":
        pixels = find_pixels(schema, networks.image if networks else None)
        features = {what: pixels.read(rows, schema, what) for what, (rows, _) in kept.items()}
    else:
        preparation = Preparation(kept["training"][0], schema, column.name)
        features = {what: preparation.matrix(rows) for what, (rows, _) in kept.items()}
    train, held_out = (LabelledRows(features=features[what], labels=kept[what][1]) for what in named)
    report = utility_scores(suite, train, held_out, classes=len(column.levels), seed=seed, jobs=jobs, progress=progress)
    remarks = tuple(
        f"{named[what].num_rows - rows.num_rows} rows of the {what} table have no known {column.name!r} and were left "
        "out"
        for what, (rows, _) in kept.items()
        if rows.num_rows < named[what].num_rows
    )
    return replace(
        report,
        label=column.name,
        averaging=_averaging(column.levels),
        remarks=remarks + (_one_class(train.labels, column) or report.remarks),
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


@dataclass(frozen=True, kw_only=True)
class _Scaling:
    """What one numeric column of the training table says: how to fill and scale it."""

    median: float
    centre: float
    spread: float
    flag: bool


class Preparation:
    """The features of tables, as the table that models are trained on fixes them; the label is none of them.

    Args:
        train: that table.
        schema: its columns.
        label: the column to predict.
    """

    def __init__(self, train: pa.Table, schema: Schema, label: str) -> None:
        self._schema = schema
        self._columns: list[tuple[Column, _Scaling | None]] = [
            (column, _scaling(read_numbers(train, column, schema)) if isinstance(column, NumericColumn) else None)
            for column in schema.columns
            if column.name != label
        ]

    def matrix(self, table: pa.Table) -> np.ndarray:
        """Build the features of any table with the schema's columns: float32, one row per record.

        A missing number becomes the training median, with an indicator column where training had missing ones. A
        missing level has a column of its own, and a value outside the levels has none, so it never crashes.
        """
        # A leading constant, so that a table whose only column is the label still has a feature.
        blocks = [np.ones((table.num_rows, 1), dtype=np.float32)]
        for column, scaling in self._columns:
            if isinstance(column, NumericColumn):
                assert scaling is not None
                blocks.append(_scaled(read_numbers(table, column, self._schema), scaling))
            else:
                blocks.append(_one_hot(table, column, self._schema))
        return np.hstack(blocks)


def _scaling(numbers: Numbers) -> _Scaling:
    known = numbers.unit[~np.isnan(numbers.unit)]
    flag = len(known) < len(numbers.unit)
    if len(known) == 0:
        # No number to learn from: the middle of the bounds, which are public.
        return _Scaling(median=0.5, centre=0.5, spread=1.0, flag=flag)
    spread = float(known.std())
    spread = spread if spread > _LEAST_SPREAD else 1.0
    return _Scaling(median=float(np.median(known)), centre=float(known.mean()), spread=spread, flag=flag)


def _scaled(numbers: Numbers, scaling: _Scaling) -> np.ndarray:
    absent = np.isnan(numbers.unit)
    filled = np.where(absent, scaling.median, numbers.unit)
    block = ((filled - scaling.centre) / scaling.spread)[:, None]
    if scaling.flag:
        block = np.hstack([block, absent[:, None]])
    return block.astype(np.float32)


def _one_hot(table: pa.Table, column: CodedColumn, schema: Schema) -> np.ndarray:
    levels = read_levels(table, column, schema)
    width = levels.count + 1  # the last one for missing
    inside = np.flatnonzero(levels.codes < width)
    block = np.zeros((table.num_rows, width), dtype=np.float32)
    block[inside, levels.codes[inside]] = 1.0
    return block


def _labelled(table: pa.Table, column: CodedColumn, schema: Schema) -> tuple[pa.Table, np.ndarray]:
    """The rows with a known label, and their class codes."""
    labels = read_levels(table, column, schema)
    return table.filter(pa.array(labels.known)), labels.codes[labels.known]


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
