"""A sampler with the interface of scikit-learn: fitted through the gate, it draws records that look like X and y."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from noisegate.data.frames import native_form
from noisegate.errors import OptionError
from noisegate.gate.gate import Gate
from noisegate.ledger.ledger import Ledger
from noisegate.methods.registry import AUTO, make_for
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Adjacency
from noisegate.schema import Schema
from noisegate_papers.estimators.public_facts import PublicFacts, warn_of_fitted_before

_SEEDS = 2**31 - 1


class PrivateSampler(PublicFacts, BaseEstimator):  # type: ignore[misc]
    """Draws differentially private synthetic records, with the interface of scikit-learn and imbalanced-learn.

    `fit` spends the budget, and every fit costs `epsilon` anew. `sample` draws from the model as
    `sklearn.neighbors.KernelDensity` does, at no further cost, and `fit_resample` does both, as samplers of
    imbalanced-learn: what follows it in a pipeline of theirs sees synthetic records only.

    Args:
        epsilon: ε of the guarantee of one fit.
        delta: δ of the guarantee.
        classes: Every label that y may hold, public knowledge; None without y, or with a schema.
        bounds: Smallest and largest value of the columns of X, public knowledge: a pair of numbers, or of one number
            for each column. Values outside are moved to the bound.
        schema: Instead of `classes` and `bounds`: what is publicly known about the columns of X and the label, for
            tables that have other columns than numbers.
        method: Name of the method; "auto" is the one that does best where nothing else is known.
        settings: Of the method, by name.
        samples: How many records `fit_resample` draws, public knowledge; None for `records`.
        records: The number of records as far as the public knows.
        random_state: Of the public randomness of the fit; the private noise takes no seed.
        adjacency: "add-remove" or "replace-one"; with the latter `records` must be exact.
        ledger: Ledger, its path or its URL, to book each fit on.
        dataset: Name of the data set in the ledger.

    Attributes:
        synthesizer_: What was fitted; see `noisegate.Synthesizer`.
        certificate_: The statement to hand out with it.
        n_features_in_: Number of columns of X.

    Examples:
        >>> import numpy as np
        >>> from noisegate import PrivateSampler
        >>> X = np.random.default_rng(0).uniform(size=(200, 3))
        >>> sampler = PrivateSampler(epsilon=1.0, classes=[0, 1], bounds=(0, 1)).fit(X, X[:, 0] > 0.5)
        >>> made, labels = sampler.sample(5, random_state=0)
        >>> made.shape, labels.shape, set(labels.tolist()) <= {0, 1}
        ((5, 3), (5,), True)
    """

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
        """Fits the model; this is where the budget is spent.

        Args:
            X: Records: an array (records, columns); with a schema a table too, of any kind that `noisegate.fit` takes.
            y: Their labels, (records,), or None: `sample` then gives X alone.

        Raises:
            UserError: if a setting is unusable or the data does not fit; nothing is spent.
            BudgetRefusedError: if the ledger refuses.
        """
        schema, table = self.described(X, y)
        seed = int(check_random_state(self.random_state).randint(_SEEDS))
        method = make_for(self.method, schema, {"seed": seed, **(self.settings or {})})
        if method.makes != "records":
            raise OptionError(f"method={self.method!r} trains a classifier and makes no records; take another method.")
        told = {name: getattr(self, name) for name in ("epsilon", "delta", "adjacency", "records", "ledger", "dataset")}
        gate = Gate(table, schema=schema, **told)
        warn_of_fitted_before(self)
        self.synthesizer_ = method.fit(gate)
        self._label = schema.label if y is not None else None
        shown = Schema([column for column in schema.columns if y is None or column.name != schema.label])
        self._form = native_form(np.asarray(X) if self.schema is None or isinstance(X, list) else X, shown)
        self.n_features_in_ = len(schema.columns) - (y is not None)
        return self

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Any:
        """Returns synthetic records: X alone, or X and y where y was given to `fit`; costs no privacy.

        Args:
            n_samples: How many.
            random_state: Of the draw; None for other records at every call.

        Returns:
            X of the kind that came in, (n_samples, columns), and the labels, (n_samples,).
        """
        check_is_fitted(self)
        seed = None if random_state is None else int(check_random_state(random_state).randint(_SEEDS))
        drawn = self.synthesizer_.sample(int(n_samples), seed=seed)
        if self._label is None:
            return self._form(drawn)
        labels = np.asarray(drawn[self._label].to_pylist())
        return self._form(drawn.drop_columns([self._label])), self._labels(labels)

    def fit_resample(self, X: Any, y: Any) -> Any:  # noqa: N803
        """Returns synthetic X and y in place of the private ones; see `fit` and `sample`.

        Raises:
            OptionError: if neither `samples` nor `records` says how many: the number of records in X is private.
        """
        count = self.records if self.samples is None else self.samples
        if count is None:
            raise OptionError(
                "samples=None: say how many records to draw; how many X has is private, unless records= says it."
            )
        return self.fit(X, y).sample(count, random_state=self.random_state)

    @property
    def certificate_(self) -> Certificate:
        """The statement to hand out with the records."""
        check_is_fitted(self)
        return self.synthesizer_.certificate

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def _labels(self, drawn: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Returns labels as `classes` has them."""
        if self.schema is not None:
            return drawn
        given = np.asarray(self.classes)
        back = dict(zip(self.levels(), given, strict=True))
        return np.array([back[label] for label in drawn.tolist()], dtype=given.dtype)
