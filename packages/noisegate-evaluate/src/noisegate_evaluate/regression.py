"""A numeric label: how much of its variance models explain on real records, after training on synthetic ones.

Two regressors of scikit-learn, a ridge regression and histogram gradient boosting, on the features of classifiers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from noisegate.errors import DataError
from noisegate.schema import Schema
from noisegate.seeds import MOST_EVALUATION_SEED, check_seed
from noisegate_evaluate.metrics.result import CAVEAT
from noisegate_evaluate.tables import LabelledTables, unscorable
from noisegate_evaluate.utility.scores import Averaged

REGRESSORS, REGRESSORS_VERSION = 2, "2026.1"
"""How many there are, and the version of the list; figures of two versions are not comparable."""


@dataclass(frozen=True, kw_only=True)
class RegressionScores(Averaged):
    """How well a regressor predicts the label of real records.

    Attributes:
        r2: share of the label's variance that it explains: 1 is best, 0 what the mean of the test records would do;
            below 0 it is worse than that.
        absolute_error: mean absolute error, as a share of the range between the bounds of the label.
    """

    r2: float
    absolute_error: float


@dataclass(frozen=True, kw_only=True)
class RegressionReport:
    """Scores on real records of regressors that were trained on other records.

    Attributes:
        label: the column that was predicted.
        models: scores per regressor.
        seed: of the regressors.
        remarks: what was unusual, in words.
    """

    label: str
    models: Mapping[str, RegressionScores]
    seed: int
    remarks: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What was unusual, in words."""
        return self.remarks

    @property
    def mean(self) -> RegressionScores:
        """The mean over the regressors."""
        return RegressionScores.mean(list(self.models.values()))

    def to_json(self) -> dict[str, object]:
        """The figures as JSON values, with the sentence about the guarantee."""
        return {
            "caveat": CAVEAT,
            "label": self.label,
            "version": REGRESSORS_VERSION,
            "seed": self.seed,
            "mean": self.mean.to_json(),
            "models": {name: scores.to_json() for name, scores in self.models.items()},
            "notes": list(self.remarks),
        }


def regression_scores(
    synthetic: pa.Table,
    test: pa.Table,
    schema: Schema,
    *,
    seed: int = 0,
    progress: Callable[[str, int, int], None] | None = None,
) -> RegressionReport:
    """Returns scores of regressors that were trained on another table; rows whose label is missing are left out.

    Args:
        synthetic: the table to train on.
        test: the real table to score on.
        schema: columns and a numeric or date label.
        seed: of the regressors; the same seed gives the same scores.
        progress: told after each regressor: its name, how many are done, and how many there will be.

    Returns:
        Scores per regressor. Where the training table has fewer than two values of the label, those of a constant, and
        a remark.

    Raises:
        DataError: the label is not numeric, takes fewer than two values in the test table, or a column is lacking.

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
    rows = LabelledTables.of(synthetic, test, schema)
    train, real = rows.labels["training"], rows.labels["test"]
    models, remarks = {}, list(rows.remarks)
    if len(np.unique(train)) > 1:
        features = rows.features()
        for name, regressor in _regressors(seed).items():
            regressor.fit(features["training"], train)
            models[name] = _scores(real, np.clip(regressor.predict(features["test"]), 0.0, 1.0))
            if progress is not None:
                progress(name, len(models), REGRESSORS)
    else:
        models = dict.fromkeys(_regressors(seed), _scores(real, np.full(len(real), train[0] if len(train) else 0.5)))
        found = f"{len(np.unique(train))} value(s) of {rows.column.name!r}"
        remarks.append(f"the training table has {found}: every row gets the same answer")
    return RegressionReport(label=rows.column.name, models=models, seed=seed, remarks=tuple(remarks))


def _regressors(seed: int) -> dict[str, Any]:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import Ridge

    boosting = HistGradientBoostingRegressor(max_iter=100, early_stopping=False, random_state=seed)
    return {"ridge regression": Ridge(alpha=1.0), "gradient boosting": boosting}


def _scores(real: np.ndarray, predicted: np.ndarray) -> RegressionScores:
    off = real - predicted
    r2 = 1 - float(np.square(off).sum() / np.square(real - real.mean()).sum())
    return RegressionScores(r2=r2, absolute_error=float(np.abs(off).mean()))
