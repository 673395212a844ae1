"""Scores of models that are trained on one table and tested on real records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.schema import CodedColumn, Column, Schema
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed
from noisegate_evaluate.images import find_pixels
from noisegate_evaluate.metrics.result import CAVEAT, as_json
from noisegate_evaluate.reading import (
    known_numbers,
    read_levels,
    read_numbers,
    some_rows,
)
from noisegate_evaluate.utility.networks import NetworkOptions
from noisegate_evaluate.utility.recipe import Averaged, LabelledRows, Suite
from noisegate_evaluate.utility.runner import Progress, UtilityReport, utility_scores
from noisegate_evaluate.utility.suites import read_suite

MAX_SCORED_ROWS = 50_000
"""Largest number of rows that models are trained on, and that they are scored on."""

_Block: TypeAlias = Callable[[pa.Table], np.ndarray]
"""Makes the features of one column, float32, (rows, features of the column)."""

_LEAST_SPREAD = 1e-6  # of the bounds: a column that is nearly constant in training must not blow up the test values


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
    """Scores classifiers on a real table, after training them on another table.

    With two classes, the last level of the label is the positive class. Rows whose label is missing or not a level are
    left out. If the training table has fewer than two classes, the scores are those of a constant predictor, with a
    note.

    Args:
        synthetic: The table to train on.
        test: The real table to score on.
        schema: The schema of both.
        seed: As for `noisegate_evaluate.evaluate_tables`.
        classifiers: As for `noisegate_evaluate.evaluate_tables`.
        networks: As for `noisegate_evaluate.evaluate_tables`.
        jobs: As for `noisegate_evaluate.evaluate_tables`.
        progress: As for `noisegate_evaluate.evaluate_tables`.

    Raises:
        DataError: no model can be scored (no label with levels, or fewer than two classes in the test table), a table
            lacks a column, or a pixel is missing.
        OptionError: ``classifiers`` is not one of these values, ``jobs`` is below 1, or the columns are not pixels of
            images.
        MissingExtraError: a classifier needs a package that is not installed.
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    suite = (
        read_suite(classifiers, networks)
        if isinstance(classifiers, str)
        else classifiers
    )
    if reason := unscorable(test, schema):
        raise DataError(f"no downstream scores: {reason}")
    rows = LabelledTables.of(synthetic, test, schema, seed=seed)
    column = rows.column
    assert not column.numeric  # unscorable() said so
    if suite.name == "networks":
        pixels = find_pixels(schema, networks.image if networks else None)
        features = {
            what: pixels.read(table, schema, what)
            for what, table in rows.tables.items()
        }
    else:
        features = rows.features()
    train, held_out = rows.with_features(features)
    report = utility_scores(
        suite,
        train,
        held_out,
        classes=len(column.levels),
        seed=seed,
        jobs=jobs,
        progress=progress,
    )
    remarks = (*rows.remarks, *(_one_class(train.labels, column) or report.remarks))
    number = len(column.levels)
    averaging = f"positive class {column.levels[-1]!r}"
    if number != 2:
        averaging = f"macro average, one against the rest, over the classes of the test table ({number} levels)"
    return replace(report, label=column.name, averaging=averaging, remarks=remarks)


def unscorable(test: pa.Table, schema: Schema, *, regress: bool = False) -> str:
    """Returns why no classifier, or regressor, can be scored on a test table; empty when one can."""
    column = schema.label_column
    if column is None:
        return "the schema names no label column"
    if column.numeric != regress:
        only = "" if regress else "; models are scored on labels with levels only"
        return f"the label {column.name!r} is {column.kind}{only}"
    values, known = _labels(test, column, schema)
    found = len(np.unique(values[known]))
    if found >= 2:
        return ""
    if regress:
        return f"the label {column.name!r} has fewer than 2 values in the test table"
    return f"the label {column.name!r} has {found} class(es) in the test table; scores need at least 2"


def _labels(
    table: pa.Table, column: Column, schema: Schema
) -> tuple[np.ndarray, np.ndarray]:
    if column.numeric:
        unit = read_numbers(table, column, schema).unit
        return unit, ~np.isnan(unit)
    levels = read_levels(table, column, schema)
    return levels.codes, levels.known


@dataclass(frozen=True, kw_only=True)
class LabelledTables:
    """The "training" and the "test" table, by name, without the rows whose label is not known."""

    column: Column
    schema: Schema
    tables: Mapping[str, pa.Table]
    labels: Mapping[str, np.ndarray]
    remarks: tuple[str, ...]

    @classmethod
    def of(
        cls, train: pa.Table, test: pa.Table, schema: Schema, *, seed: int = 0
    ) -> LabelledTables:
        """Returns two tables of a schema with a label.

        If a table has more than `MAX_SCORED_ROWS` rows, that number of rows is drawn, with a remark. Models of more
        rows take long, and their scores differ little.
        """
        column = schema.label_column
        assert column is not None
        tables: dict[str, pa.Table] = {}
        labels: dict[str, np.ndarray] = {}
        remarks: list[str] = []
        for what, all_rows in (("training", train), ("test", test)):
            random = np.random.default_rng(seed)
            table = some_rows(all_rows, MAX_SCORED_ROWS, random)
            if table.num_rows < all_rows.num_rows:
                remarks.append(
                    f"{table.num_rows:,} rows of the {what} table were drawn from its "
                    f"{all_rows.num_rows:,}"
                )
            values, known = _labels(table, column, schema)
            tables[what] = table.filter(pa.array(known))
            labels[what] = values[known]
            if gone := int((~known).sum()):
                remarks.append(
                    f"{gone} rows of the {what} table have no known {column.name!r} and were left out"
                )
        return cls(
            column=column,
            schema=schema,
            tables=tables,
            labels=labels,
            remarks=tuple(remarks),
        )

    def with_features(
        self, features: Mapping[str, np.ndarray]
    ) -> tuple[LabelledRows, LabelledRows]:
        """Returns the rows of both tables to train and to test on, with features by their names."""
        train, test = (
            LabelledRows(features=features[name], labels=self.labels[name])
            for name in self.tables
        )
        return train, test

    def features(self) -> dict[str, np.ndarray]:
        """Returns the features of both, float32, (rows, features), by the training table; none is the label."""
        # A leading constant, so that a table whose only column is the label still has a
        # feature.
        blocks: list[_Block] = [_constant]
        blocks += [
            _block(self.tables["training"], column, self.schema)
            for column in self.schema.columns
            if column.name != self.column.name
        ]
        return {
            name: np.hstack([block(table) for block in blocks])
            for name, table in self.tables.items()
        }


def _constant(table: pa.Table) -> np.ndarray:
    """Returns ones, (rows, 1)."""
    return np.ones((len(table), 1), dtype=np.float32)


def _block(train: pa.Table, column: Column, schema: Schema) -> _Block:
    """Learns the features of one column from the training table.

    A missing number becomes the training median, with an indicator column where
    training had missing ones. A missing level has a column of its own, and a value
    outside the levels has none, so it never crashes.

    Args:
        train: The training table.
        column: The column.
        schema: The schema of both tables.
    """
    if not column.numeric:
        level_count = len(column.levels)
        # The last column is for missing; what is outside has a row of zeros.
        one_hot = np.eye(level_count + 2, level_count + 1, dtype=np.float32)
        return lambda table: one_hot[read_levels(table, column, schema).codes]
    numbers = known_numbers(train, column, schema)
    has_gaps = len(numbers) < len(train)
    # Without a number to learn from: the middle of the bounds, which are public.
    median = centre = 0.5
    deviation = 1.0
    if len(numbers):
        median = np.median(numbers)
        centre = numbers.mean()
        deviation = numbers.std()
    scale = deviation if deviation > _LEAST_SPREAD else 1.0

    def scaled(table: pa.Table) -> np.ndarray:
        unit = read_numbers(table, column, schema).unit
        is_missing = np.isnan(unit)
        filled = (np.where(is_missing, median, unit) - centre) / scale
        features = [filled, is_missing] if has_gaps else [filled]
        return np.column_stack(features).astype(np.float32)

    return scaled


def _one_class(labels: np.ndarray, column: CodedColumn) -> tuple[str, ...]:
    found = np.unique(labels)
    if len(found) > 1:
        return ()
    kind = (
        f"only the class {column.levels[found[0]]!r}"
        if len(found)
        else "no class at all"
    )
    return (
        f"the training table has {kind} of {column.name!r}: every row gets the same score for each class",
    )


REGRESSORS = 2
REGRESSORS_VERSION = "2026.1"
"""How many there are, and the version of the list; figures of two versions are not comparable."""


@dataclass(frozen=True, kw_only=True)
class RegressionScores(Averaged):
    """How well a regressor predicts the label of real records."""

    r2: float
    """Share of the label's variance that the regressor explains: 1 is best; 0 is the score of the mean of the test
    records; a negative score is worse than that."""
    absolute_error: float
    """Mean absolute error, as a share of the range between the bounds of the label."""


@dataclass(frozen=True, kw_only=True)
class RegressionReport:
    """Scores of regressors on real records, after training on other records."""

    label: str
    """The predicted column."""
    models: Mapping[str, RegressionScores]
    """Scores of each regressor, by its name."""
    seed: int
    """Seed of the regressors."""
    notes: tuple[str, ...] = ()
    """Messages about unusual records or an unusual training."""

    @property
    def mean(self) -> RegressionScores:
        """Average scores of the regressors."""
        return RegressionScores.mean(list(self.models.values()))

    def to_json(self) -> dict[str, object]:
        """Returns the figures as JSON values, with a statement that they are outside the guarantee."""
        return {
            "caveat": CAVEAT,
            "label": self.label,
            "version": REGRESSORS_VERSION,
            "seed": self.seed,
            "mean": self.mean.to_json(),
            "models": as_json(self.models),
            "notes": list(self.notes),
        }


def regression_scores(
    synthetic: pa.Table,
    test: pa.Table,
    schema: Schema,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> RegressionReport:
    """Scores regressors on a real table, after training them on another table.

    The label is numeric or a date. Rows whose label is missing are left out. If the training table has fewer than two
    values of the label, the scores are those of a constant, with a note.

    Args:
        synthetic: The table to train on.
        test: The real table to score on.
        schema: The schema of both.
        seed: As for `noisegate_evaluate.evaluate_tables`.
        progress: As for `noisegate_evaluate.evaluate_tables`.

    Raises:
        DataError: the label is not numeric, has fewer than two values in the test table, or a column is missing.

    Examples:
        >>> import numpy as np, pyarrow as pa
        >>> from noisegate import Schema
        >>> from noisegate.schema import Continuous
        >>> schema = Schema([Continuous(name=name, lower=0.0, upper=1.0) for name in "xy"], label="y")
        >>> x = np.linspace(0, 1, 200)
        >>> table = pa.table({"x": x, "y": 1 - x})
        >>> round(regression_scores(table, table, schema).models["ridge regression"].r2, 2)
        1.0
    """
    check_seed(seed, most=MOST_EVALUATION_SEED)
    if reason := unscorable(test, schema, regress=True):
        raise DataError(f"no regression scores: {reason}")
    rows = LabelledTables.of(synthetic, test, schema, seed=seed)
    train = rows.labels["training"]
    real = rows.labels["test"]
    models = {}
    remarks = list(rows.remarks)
    if len(np.unique(train)) > 1:
        features = rows.features()
        for name, regressor in regressors(seed).items():
            regressor.fit(features["training"], train)
            models[name] = _scores(
                real, np.clip(regressor.predict(features["test"]), 0.0, 1.0)
            )
            if progress is not None:
                progress(name, len(models), REGRESSORS)
    else:
        models = dict.fromkeys(
            regressors(seed),
            _scores(real, np.full(len(real), train[0] if len(train) else 0.5)),
        )
        found = f"{len(np.unique(train))} value(s) of {rows.column.name!r}"
        remarks.append(
            f"the training table has {found}: every row gets the same answer"
        )
    return RegressionReport(
        label=rows.column.name, models=models, seed=seed, notes=tuple(remarks)
    )


def regressors(seed: int) -> dict[str, Any]:
    """Returns the regressors of tables by name, not fitted."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge

    boosting = HistGradientBoostingRegressor(
        max_iter=100, early_stopping=False, random_state=seed
    )
    return {"ridge regression": Ridge(alpha=1.0), "gradient boosting": boosting}


def _scores(real: np.ndarray, predicted: np.ndarray) -> RegressionScores:
    """Returns how well labels are predicted; both are (rows,)."""
    from sklearn.metrics import mean_absolute_error, r2_score

    return RegressionScores(
        r2=float(r2_score(real, predicted)),
        absolute_error=float(mean_absolute_error(real, predicted)),
    )
