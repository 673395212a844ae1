"""What is publicly known of records that come as X and y: bounds and labels, or a schema."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import validate_data

from noisegate.data.frames import records_table, with_labels
from noisegate.errors import DataError, OptionError, UncoveredWarning
from noisegate.schema import Categorical, Column, Continuous, Schema

LABEL = "label"


class PublicFacts:
    """A base of estimators that are told about X and y by `classes` and `bounds`, or by a schema."""

    classes: Any
    bounds: Any
    schema: Schema | None

    def described(self, X: Any, y: Any) -> tuple[Schema, pa.Table]:  # noqa: N803
        """Returns the schema of X and y, and both as one table; y may be None where X needs no label, or has it."""
        return self._bounded(X, y) if self.schema is None else (self.schema, _labelled(self.schema, X, y))

    def declared(self) -> list[Any]:
        """Returns the labels that were given, as plain values."""
        if self.classes is None or np.ndim(self.classes) != 1:
            raise OptionError(
                f"classes={self.classes!r}: give every label that there may be, as public knowledge. Labels read off "
                "private records would leak which of them occur."
            )
        classes: list[Any] = np.asarray(self.classes).tolist()
        if len(classes) < 2 or len(set(classes)) < len(classes):
            raise OptionError(f"classes={self.classes!r} must be two labels or more, all different.")
        return classes

    def _bounded(self, X: Any, y: Any) -> tuple[Schema, pa.Table]:  # noqa: N803
        """Returns schema and table of an array of numbers between `bounds`, with its labels."""
        classes = [] if y is None else self.declared()
        check_numbers(X)
        validated = validate_data(self, X, y, dtype=np.float64)
        X, y = (validated, None) if y is None else validated  # noqa: N806
        columns: list[Column] = [
            Continuous(name=f"x{j}", lower=low, upper=high) for j, (low, high) in enumerate(self._pairs(X.shape[1]))
        ]
        table = records_table(X, [column.name for column in columns])
        if y is None:
            return Schema(columns), table
        levels = dict(zip(classes, _levels(classes), strict=True))
        schema = Schema((*columns, Categorical(name=LABEL, levels=tuple(levels.values()))), label=LABEL)
        found = [levels.get(cell) for cell in np.asarray(y).tolist()]
        if None in found:
            raise DataError(
                f"y: record {found.index(None) + 1} has a label that is none of classes={list(classes)}; correct it, "
                "or add the label to classes if it is publicly known that it may occur."
            )
        return schema, with_labels(table, found, LABEL)

    def levels(self) -> list[str | int]:
        """Returns what the schema of X and y calls the labels that were given."""
        return _levels(self.declared())

    def _pairs(self, columns: int) -> list[tuple[float, float]]:
        """Returns the bounds of each column."""
        try:
            low, high = (np.broadcast_to(np.asarray(end, np.float64), columns) for end in self.bounds)
        except (TypeError, ValueError):
            raise OptionError(
                f"bounds={self.bounds!r}: give the smallest and the largest value of the {columns} columns as public "
                "knowledge: bounds=(0, 255), or two sequences with one number for each column. Bounds read off private "
                "records would leak them. A schema says the same, and more."
            ) from None
        return list(zip(low.tolist(), high.tolist(), strict=True))


def _levels(classes: list[Any]) -> list[str | int]:
    """Returns labels as levels of a schema, which are all text or all whole numbers."""
    if all(isinstance(label, int | float) and float(label).is_integer() for label in classes):
        return [int(label) for label in classes]
    if not all(isinstance(label, str) for label in classes):
        raise OptionError(f"classes={classes!r} must be all text or all whole numbers; name the labels anew.")
    return classes


def check_numbers(X: Any) -> None:  # noqa: N803
    """Finds text that is no number before NumPy does, whose message would quote it."""
    cells = np.asarray(X)
    if cells.ndim != 2 or cells.dtype.kind not in "OUS":
        return
    try:
        cells.astype(np.float64)
        return
    except (TypeError, ValueError):
        pass  # what is raised here would carry the message
    raise DataError("X: a value is no number; columns of text need schema=, which describes them.")


def _labelled(schema: Schema, X: Any, y: Any) -> pa.Table:  # noqa: N803
    """Returns records and labels as a table with the columns of the schema."""
    if y is None:
        return records_table(X, schema.names)
    if schema.label is None:
        raise OptionError("the schema names no label; say which column is to be predicted: Schema(..., label=NAME).")
    names = [name for name in schema.names if name != schema.label]
    return with_labels(records_table(X, names), y, schema.label)


def warn_of_fitted_before(estimator: Any) -> None:
    """Warns of transformers that a pipeline around the fit of `estimator`, which calls this, has fitted on its records.

    A pipeline hands on what its transformers make and says nothing of itself, so it is found among the callers.
    """
    names = [name for pipeline in _pipelines(sys._getframe(1)) for name in _learning(pipeline)]
    if names:
        warnings.warn(
            f"{', '.join(names)} in the pipeline before {type(estimator).__name__}: fitted on the private records "
            "without noise, so what comes out tells of them, and the certificate does not cover it. State bounds= or a "
            "schema instead, which scale by themselves; or fit transformers on public records, and give them as "
            "sklearn.frozen.FrozenEstimator(transformer).",
            UncoveredWarning,
            stacklevel=3,
        )


def _pipelines(frame: FrameType | None) -> Iterator[Pipeline]:
    """Yields the pipelines of scikit-learn that are being fitted, from the innermost."""
    while frame is not None:
        caller = frame.f_locals.get("self")
        if frame.f_code.co_name.startswith("fit") and isinstance(caller, Pipeline):
            yield caller
        frame = frame.f_back


def _learning(pipeline: Pipeline) -> Iterator[str]:
    """Yields what the steps but the last are called that learn something from records."""
    for name, step in pipeline.steps[:-1]:
        kept = step in (None, "passthrough") or isinstance(step, FrozenEstimator)
        if not kept and get_tags(step).requires_fit:
            yield f"{name} ({type(step).__name__})"
