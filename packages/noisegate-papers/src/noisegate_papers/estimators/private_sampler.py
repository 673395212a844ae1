"""A sampler with the interface of scikit-learn, and what is publicly known of records that come as X and y."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data

from noisegate.errors import DataError, OptionError, UncoveredWarning
from noisegate.gate.gate import Gate
from noisegate.ledger.ledger import Ledger
from noisegate.methods.registry import AUTO, make_for
from noisegate.models.output.native_table import native_form
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Adjacency
from noisegate.schema import Categorical, Column, Continuous, Schema
from noisegate.sources.frames import records_table, with_labels

LABEL = "label"


class PublicFacts(BaseEstimator):  # type: ignore[misc]
    """Base of estimators with public facts about X and y: `classes` and `bounds`, or a schema."""

    classes: Any
    bounds: Any
    schema: Schema | None
    _holds_certificate: ClassVar[str]  # the attribute with what was fitted

    @property
    def certificate_(self) -> Certificate:
        """The statement to hand out with what was fitted."""
        check_is_fitted(self)
        certificate: Certificate = getattr(self, self._holds_certificate).certificate
        return certificate

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def described(self, X: Any, y: Any) -> tuple[Schema, pa.Table]:  # noqa: N803
        """Returns the schema of X and y, and both as one table; y may be None where X needs no label, or has it."""
        return (
            self._bounded(X, y)
            if self.schema is None
            else (self.schema, _labelled(self.schema, X, y))
        )

    def gate(self, schema: Schema, table: pa.Table) -> Gate:
        """Returns the gate of a fit, by the settings that every estimator has for it."""
        told = {
            name: getattr(self, name)
            for name in (
                "epsilon",
                "delta",
                "adjacency",
                "records",
                "ledger",
                "dataset",
            )
        }
        return Gate(table, schema=schema, **told)

    def declared(self) -> list[Any]:
        """Returns the labels that were given, as plain values."""
        if self.classes is None or np.ndim(self.classes) != 1:
            says = f"classes={self.classes!r}: give every label that there may be, as public knowledge"
            raise OptionError(
                f"{says}. Labels read off private records would leak which of them occur."
            )
        classes: list[Any] = np.asarray(self.classes).tolist()
        if len(classes) < 2 or len(set(classes)) < len(classes):
            raise OptionError(
                f"classes={self.classes!r} must be two labels or more, all different."
            )
        return classes

    def _bounded(self, X: Any, y: Any) -> tuple[Schema, pa.Table]:  # noqa: N803
        """Returns schema and table of an array of numbers between `bounds`, with its labels."""
        classes = [] if y is None else self.declared()
        check_numbers(X)
        validated = validate_data(self, X, y, dtype=np.float64)
        X, y = (validated, None) if y is None else validated  # noqa: N806
        columns: list[Column] = [
            Continuous(name=f"x{j}", lower=low, upper=high)
            for j, (low, high) in enumerate(self._pairs(X.shape[1]))
        ]
        table = records_table(X, [column.name for column in columns])
        if y is None:
            return Schema(columns), table
        levels = dict(zip(classes, _levels(classes), strict=True))
        schema = Schema(
            (*columns, Categorical(name=LABEL, levels=tuple(levels.values()))),
            label=LABEL,
        )
        found = [levels.get(cell) for cell in np.asarray(y).tolist()]
        if None in found:
            raise DataError(
                f"y: record {found.index(None) + 1} has a label that is none of classes={list(classes)}; correct it, "
                "or add the label to classes if it is publicly known that it may occur."
            )
        return schema, with_labels(table, found, LABEL)

    def _pairs(self, columns: int) -> list[tuple[float, float]]:
        try:
            low, high = (
                np.broadcast_to(np.asarray(end, np.float64), columns)
                for end in self.bounds
            )
        except (TypeError, ValueError):
            raise OptionError(
                f"bounds={self.bounds!r}: give the smallest and the largest value of the {columns} columns as public "
                "knowledge: bounds=(0, 255), or two sequences with one number for each column. Bounds read off private "
                "records would leak them. A schema says the same, and more."
            ) from None
        return list(zip(low.tolist(), high.tolist(), strict=True))


def _levels(classes: list[Any]) -> list[str | int]:
    """Returns labels as levels of a schema, which are all text or all whole numbers."""
    if all(
        isinstance(label, int | float) and float(label).is_integer()
        for label in classes
    ):
        return [int(label) for label in classes]
    if not all(isinstance(label, str) for label in classes):
        raise OptionError(
            f"classes={classes!r} must be all text or all whole numbers; rename "
            "the labels."
        )
    return classes


def check_numbers(X: Any) -> None:  # noqa: N803
    """Finds text that is no number before NumPy does, whose message would quote it."""
    cells = np.asarray(X)
    if cells.ndim != 2 or cells.dtype.kind not in "OUS":
        return
    with suppress(TypeError, ValueError):  # what is raised here would carry the message
        cells.astype(np.float64)
        return
    raise DataError(
        "X: a value is not a number; columns of text need schema=, which describes them."
    )


def _labelled(schema: Schema, X: Any, y: Any) -> pa.Table:  # noqa: N803
    if y is None:
        return records_table(X, schema.names)
    if schema.label is None:
        raise OptionError(
            "the schema names no label; say which column is to be predicted: Schema(..., label=NAME)."
        )
    names = [name for name in schema.names if name != schema.label]
    return with_labels(records_table(X, names), y, schema.label)


def warn_of_fitted_before(estimator: Any) -> None:
    """Warns of transformers that a pipeline around the fit of `estimator`, the caller, has fitted on its records."""
    # A pipeline passes on what its transformers make and says nothing of itself, so it is found among the callers.
    names = [
        name
        for pipeline in _pipelines(sys._getframe(1))
        for name in _learning(pipeline)
    ]
    if names:
        warnings.warn(
            f"{', '.join(names)} in the pipeline before "
            f"{type(estimator).__name__}: fitted on the private records without "
            "noise, so their output depends on them, and the certificate does not "
            "cover it. State bounds= or a schema instead, which scale by "
            "themselves; or fit transformers on public records, and give them as "
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


class PrivateSampler(PublicFacts):
    """Samples differentially private synthetic records, with the interface of scikit-learn and imbalanced-learn.

    - `fit` spends the budget. Every fit costs `epsilon` again.
    - `sample` draws records from the model, like `sklearn.neighbors.KernelDensity`, at no further cost.
    - `fit_resample` does both, like samplers of imbalanced-learn. All later steps of an imbalanced-learn pipeline use
      synthetic records only.

    Args:
        epsilon: ε of the guarantee of one fit.
        delta: δ of the guarantee.
        classes: All possible values of y, public knowledge; None without y, or with a schema.
        bounds: Smallest and largest value of the columns of X, public knowledge: a pair of numbers, or of sequences
            with one number for each column. Values outside are moved to the bound.
        schema: Public knowledge about the columns of X and the label, in place of `classes` and `bounds`, for tables
            that also have other columns than numbers.
        method: Name of the method; "auto" selects the default method for the schema.
        settings: Settings of the method, by name.
        samples: Number of records that `fit_resample` draws, public knowledge; None for `records`.
        records: Number of records as publicly known.
        random_state: Seed for non-private randomness of the fit. The noise that protects the records cannot be seeded.
        adjacency: "add-remove" or "replace-one"; with the latter, `records` must be exact.
        ledger: Ledger, its path or its URL, that records the cost of each fit.
        dataset: Name of the data set in the ledger.

    Attributes:
        synthesizer_: The fitted `noisegate.Synthesizer` (after the fit).
        certificate_: Its certificate (after the fit).

    Examples:
        >>> import numpy as np
        >>> from noisegate import PrivateSampler
        >>> X = np.random.default_rng(0).uniform(size=(200, 3))
        >>> sampler = PrivateSampler(epsilon=1.0, classes=[0, 1], bounds=(0, 1)).fit(X, X[:, 0] > 0.5)
        >>> made, labels = sampler.sample(5, random_state=0)
        >>> made.shape, labels.shape, set(labels.tolist()) <= {0, 1}
        ((5, 3), (5,), True)
    """

    _holds_certificate = "synthesizer_"

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 1e-5,
        classes: Any = None,
        bounds: Any = None,
        schema: Schema | None = None,
        method: str = AUTO,
        settings: Mapping[str, Any] | None = None,
        samples: int | None = None,
        records: int | None = None,
        random_state: Any = None,
        adjacency: Adjacency | str = "add-remove",
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
    ) -> None:
        self.epsilon, self.delta, self.adjacency = epsilon, delta, adjacency
        self.classes, self.bounds, self.schema = classes, bounds, schema
        self.method, self.settings, self.samples = method, settings, samples
        self.records, self.random_state = records, random_state
        self.ledger, self.dataset = ledger, dataset

    def fit(self, X: Any, y: Any = None) -> PrivateSampler:  # noqa: N803 - as scikit-learn calls it
        """Fits the model, which spends the budget.

        Args:
            X: Array, (records, columns). With a schema, X may also be a table of any kind that `noisegate.fit` accepts.
            y: Labels, (records,), or None. Without labels, `sample` returns X only.

        Returns:
            The sampler itself.

        Raises:
            UserError: if a setting is unusable or the data does not fit; nothing is spent.
            BudgetRefusedError: if the ledger refuses the cost.
        """
        schema, table = self.described(X, y)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        method = make_for(self.method, schema, {"seed": seed, **(self.settings or {})})
        if method.makes != "records":
            raise OptionError(
                f"method={self.method!r} trains a classifier and makes no records; take another method."
            )
        gate = self.gate(schema, table)
        warn_of_fitted_before(self)
        self.synthesizer_ = method.fit(gate)
        self._label = schema.label if y is not None else None
        shown = Schema(
            [
                column
                for column in schema.columns
                if y is None or column.name != schema.label
            ]
        )
        self._form = native_form(
            np.asarray(X) if self.schema is None or isinstance(X, list) else X, shown
        )
        self.n_features_in_ = len(schema.columns) - (y is not None)
        return self

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Samples synthetic records. This costs no privacy.

        Args:
            n_samples: Number of records.
            random_state: Seed of this sample; None for different records at each call.

        Returns:
            X, of the kind that was given to `fit`, (n_samples, columns). If `fit` was given y: X and y, (n_samples,).
        """
        check_is_fitted(self)
        seed = (
            None
            if random_state is None
            else int(check_random_state(random_state).randint(2**31 - 1))
        )
        drawn = self.synthesizer_.sample(int(n_samples), seed=seed)
        if self._label is None:
            return self._form(drawn)
        labels = np.asarray(drawn[self._label].to_pylist())
        if self.schema is None:  # as `classes` has them
            given = np.asarray(self.classes)
            back = dict(zip(_levels(self.declared()), given, strict=True))
            labels = np.array(
                [back[label] for label in labels.tolist()], dtype=given.dtype
            )
        return self._form(drawn.drop_columns([self._label])), labels

    def fit_resample(self, X: Any, y: Any) -> Any:  # noqa: N803
        """Fits the model, and returns synthetic X and y in place of the private ones; see `fit` and `sample`.

        Raises:
            OptionError: if neither `samples` nor `records` states the number of records to draw. The number of records
                in X is private.
        """
        count = self.records if self.samples is None else self.samples
        if count is None:
            note = "how many X has is private, unless records= says it."
            raise OptionError(f"samples=None: say how many records to draw; {note}")
        return self.fit(X, y).sample(count, random_state=self.random_state)
