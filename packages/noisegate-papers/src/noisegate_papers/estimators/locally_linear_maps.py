"""A classifier with the interface of scikit-learn, trained through the gate."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from noisegate.errors import OptionError
from noisegate.ledger.ledger import Ledger
from noisegate.privacy.events import Adjacency
from noisegate.schema import EncodedTable, Schema
from noisegate.sources.frames import records_table
from noisegate.sources.tables.tables import TableSource
from noisegate_papers.estimators.private_sampler import (
    PublicFacts,
    check_numbers,
    warn_of_fitted_before,
)
from noisegate_papers.methods.dp_llm import DPLLM


class LocallyLinearMaps(ClassifierMixin, PublicFacts):  # type: ignore[misc]
    """A differentially private, explainable classifier: DP-LLM with the interface of scikit-learn.

    Every call of `fit` costs `epsilon` again, including the calls in cross-validation or a grid search. Choose settings
    on public or simulated records. Several fits on the same records without a ledger give a warning with their total
    cost. The fitted classifier may be used, saved and shared at no further cost.

    Args:
        epsilon: ε of the guarantee of one fit.
        delta: As for `noisegate.PrivateSampler`.
        bounds: As for `noisegate.PrivateSampler`.
        schema: As for `noisegate.PrivateSampler`.
        ledger: As for `noisegate.PrivateSampler`.
        dataset: As for `noisegate.PrivateSampler`.
        classes: All possible labels, public knowledge; not needed with a schema, which states them.
        records: Number of records as publicly known, for instance a rounded one. Sums of gradients are divided by it.
        random_state: Seed for non-private randomness: projection and initial weights. Sampling and noise have no seed,
            so two fits with the same `random_state` differ.
        maps: See `noisegate_papers.methods.dp_llm.DPLLM`, also for `projection`, `temperature`, `steps`,
            `sampling_probability`, `clip_norm`, `learning_rate`, `decay`, `init_std` and `centre`.
        adjacency: "add-remove" or "replace-one"; with the latter, `records` must be exact.

    Attributes:
        classes_: The labels, in ascending order (after the fit).
        classifier_: The trained `noisegate_papers.models.locally_linear.LocallyLinear` (after the fit).
        certificate_: Its certificate (after the fit).
        input_names_: The name of each input that an explanation has a number for (after the fit).

    Examples:
        >>> import numpy as np
        >>> from noisegate import LocallyLinearMaps
        >>> X = np.random.default_rng(0).uniform(size=(200, 3))
        >>> settings = {"classes": [0, 1], "bounds": (0, 1), "records": 200, "steps": 5, "sampling_probability": 0.1}
        >>> model = LocallyLinearMaps(epsilon=1.0, projection=None, **settings).fit(X, X[:, 0] > 0.5)
        >>> model.predict(X).shape, model.explain(X[:2]).shape, model.certificate_.epsilon
        ((200,), (2, 3), 1.0)
    """

    _holds_certificate = "classifier_"

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 1e-5,
        classes: Any = None,
        bounds: Any = None,
        schema: Schema | None = None,
        records: int | None = None,
        random_state: Any = None,
        maps: int = DPLLM.maps,
        projection: int | None = DPLLM.projection,
        temperature: float = DPLLM.temperature,
        steps: int = DPLLM.steps,
        sampling_probability: float = DPLLM.sampling_probability,
        clip_norm: float = DPLLM.clip_norm,
        learning_rate: float = DPLLM.learning_rate,
        decay: float = DPLLM.decay,
        init_std: float = DPLLM.init_std,
        centre: float | None = DPLLM.centre,
        adjacency: Adjacency | str = "add-remove",
        ledger: Ledger | str | Path | None = None,
        dataset: str | None = None,
    ) -> None:
        self.epsilon, self.delta, self.adjacency = epsilon, delta, adjacency
        self.classes, self.bounds, self.schema, self.records = (
            classes,
            bounds,
            schema,
            records,
        )
        self.random_state = random_state
        self.maps, self.projection, self.temperature = maps, projection, temperature
        self.steps, self.sampling_probability, self.clip_norm = (
            steps,
            sampling_probability,
            clip_norm,
        )
        self.learning_rate, self.decay, self.init_std, self.centre = (
            learning_rate,
            decay,
            init_std,
            centre,
        )
        self.ledger, self.dataset = ledger, dataset

    def fit(self, X: Any, y: Any = None) -> LocallyLinearMaps:  # noqa: N803 - as scikit-learn calls it
        """Trains the classifier, which spends the budget.

        Args:
            X: Array, (records, columns). With a schema, X may also be a pandas, Polars or PyArrow table.
            y: Labels, (records,); None if X is a table with the label as a column.

        Returns:
            The classifier itself.

        Raises:
            UserError: if a setting is unusable or the data does not fit; nothing is spent.
            BudgetRefusedError: if the ledger refuses the cost.
        """
        schema, table = self.described(X, y)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        own = [field.name for field in fields(DPLLM) if hasattr(self, field.name)]
        method = DPLLM(**{name: getattr(self, name) for name in own}, seed=seed)
        method.check_fit("cpu")
        gate = self.gate(schema, table)
        warn_of_fitted_before(self)
        self.classifier_ = method.classifier(method.query(gate))
        labels = np.asarray(
            self.classifier_.classes if self.schema is not None else self.declared()
        )
        self._order = np.argsort(labels, kind="stable")
        self.classes_ = labels[self._order]
        self.n_features_in_ = len(schema.columns) - 1
        self.input_names_ = self.classifier_.inputs.names
        return self

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # Noise may exceed the few records of a test set.
        tags.classifier_tags.poor_score = True
        return tags

    def predict(self, X: Any) -> npt.NDArray[Any]:  # noqa: N803
        """Returns the most likely label of each record, (records,)."""
        likely = self.predict_proba(X).argmax(axis=1)
        return np.asarray(self.classes_[likely])

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:  # noqa: N803
        """Returns the probability of each label of `classes_`, (records, classes). It is not calibrated."""
        encoded = self._encoded(X)
        return self.classifier_.probabilities(encoded)[:, self._order]

    def explain(self, X: Any, *, label: Any = None) -> npt.NDArray[np.float32]:  # noqa: N803
        """Explains the predictions for records: the weighted linear map of one class at each record.

        A number states how much the score of the class gains if its column goes from the lower to the upper bound, or
        takes the level. Explaining costs no privacy.

        Args:
            X: Records as for `predict`, or one record as an array of any shape with one number for each column.
            label: The class to explain; None for the predicted class.

        Returns:
            An array with the shape of X, if every number of X is one input. Otherwise (records, inputs): a column with
            levels, or one that may be missing, has several inputs (see `input_names_`).
        """
        encoded, shape = self._shaped(X)
        maps = self.classifier_.explain(
            encoded, of=self._positions(label, len(encoded))
        )
        return maps.reshape(shape) if maps.size == np.prod(shape) else maps

    def importance(self, X: Any, *, label: Any = None) -> npt.NDArray[np.float32]:  # noqa: N803
        """Returns the weight of each map of one class at each record, (records, maps). Rows sum to 1."""
        encoded, _ = self._shaped(X)
        return self.classifier_.importance(
            encoded, of=self._positions(label, len(encoded))
        )

    def filters(self, label: Any) -> npt.NDArray[np.float32]:
        """Returns every linear map of a class, (maps, inputs), in the units of `explain`.

        Raises:
            OptionError: if there is no such class.
        """
        check_is_fitted(self)
        return self.classifier_.filters(self._level(label))

    def _encoded(self, X: Any) -> EncodedTable:  # noqa: N803
        check_is_fitted(self)
        public = self.classifier_.release.schema.unlabelled()
        if self.schema is None:
            check_numbers(X)
            X = validate_data(self, X, reset=False, dtype=np.float64)  # noqa: N806
        return EncodedTable.concatenate(
            list(TableSource(records_table(X, public.names), public).batches())
        )

    def _shaped(self, X: Any) -> tuple[EncodedTable, tuple[int, ...]]:  # noqa: N803
        """Returns records to explain, and the shape that an explanation of them has if all inputs are columns."""
        check_is_fitted(self)
        if isinstance(X, np.ndarray) and X.size == self.n_features_in_:
            return self._encoded(X.reshape(1, -1)), X.shape
        encoded = self._encoded(X)
        return encoded, (len(encoded), self.n_features_in_)

    def _positions(self, label: Any, records: int) -> npt.NDArray[np.int64] | None:
        """Returns the position of one class among those of the classifier, for each record."""
        if label is None:
            return None
        return np.full(records, self.classifier_.classes.index(self._level(label)))

    def _level(self, label: Any) -> Any:
        """Returns what the schema calls a label."""
        known = self.classes_.tolist()
        if label not in known:
            raise OptionError(f"label={label!r} is not a class; choose one of {known}.")
        return self.classifier_.classes[int(self._order[known.index(label)])]
