"""The sampler with scikit-learn's interface, and what estimators warn of: transformers before them, and many fits."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from tests.shared.stated import ledger_of

from noisegate.errors import (
    BudgetRefusedError,
    OptionError,
    UnbookedWarning,
    UncoveredWarning,
    installed,
)
from noisegate_papers.estimators.locally_linear_maps import LocallyLinearMaps
from noisegate_papers.estimators.private_sampler import PrivateSampler

from .test_estimator_contract import EXPECTED, facts
from .test_estimators import SCHEMA

needs_torch = pytest.mark.skipif(
    not installed("torch"), reason="gradients are taken with torch"
)
FEW = {"settings": {"cells": 4, "fit_options": {"components": 12, "steps": 40}}}
BOUNDED = {"epsilon": 5.0, "classes": ["low", "high"], "bounds": (0, 10), **FEW}


def numbers(rows=400):
    X = np.random.default_rng(0).uniform(0, 10, (rows, 2))
    return X, np.where(X[:, 0] > 5, "high", "low")


def test_samples_look_like_what_was_fitted():
    X, y = numbers()
    sampler = PrivateSampler(**BOUNDED, random_state=1).fit(X, y)
    made, labels = sampler.sample(600, random_state=2)
    assert made.shape == (600, 2)
    assert made.dtype == np.float64
    assert set(labels) <= {"low", "high"}
    assert labels.dtype == y.dtype
    assert ((made[:, 0] > 5) == (labels == "high")).mean() > 0.8
    assert sampler.certificate_.epsilon == 5.0
    assert sampler.n_features_in_ == 2


def test_without_labels_x_comes_alone():
    X, _ = numbers()
    sampler = PrivateSampler(epsilon=5.0, bounds=([0, 0], [10, 10]), **FEW).fit(X)
    assert sampler.sample().shape == (1, 2)
    assert sampler.n_features_in_ == 2
    assert np.array_equal(
        sampler.sample(9, random_state=3), sampler.sample(9, random_state=3)
    )
    assert not np.array_equal(sampler.sample(9), sampler.sample(9))


def test_a_table_comes_back_as_a_table_of_its_kind():
    X, y = numbers()
    frame = pd.DataFrame({"c": ["r", "g"] * 200, "u": X[:, 0]})
    made, labels = (
        PrivateSampler(epsilon=5.0, schema=SCHEMA, **FEW)
        .fit(frame, y == "high")
        .sample(5)
    )
    assert isinstance(made, pd.DataFrame)
    assert list(made.columns) == ["u", "c"]
    assert labels.dtype == np.bool_
    whole = (
        PrivateSampler(epsilon=5.0, schema=SCHEMA, **FEW)
        .fit(frame.assign(y=y == "high"))
        .sample(5)
    )
    assert list(whole.columns) == ["u", "c", "y"]


def test_it_takes_the_place_of_private_records_in_a_pipeline_of_samplers():
    X, y = numbers()
    made, labels = PrivateSampler(**BOUNDED, samples=50, random_state=0).fit_resample(
        X, y
    )
    assert (made.shape, labels.shape) == ((50, 2), (50,))
    assert len(PrivateSampler(**BOUNDED, records=400).fit_resample(X, y)[1]) == 400
    with pytest.raises(OptionError, match="samples=None"):
        PrivateSampler(**BOUNDED).fit_resample(X, y)


def test_what_is_unusable_is_refused(tmp_path):
    X, y = numbers()
    with pytest.raises(OptionError, match="classes=None"):
        PrivateSampler(epsilon=1.0, bounds=(0, 10)).fit(X, y)
    with pytest.raises(OptionError, match="trains a classifier"):
        PrivateSampler(**BOUNDED | {"settings": None}, method="dp-llm").fit(X, y)
    with pytest.raises(NotFittedError):
        PrivateSampler(**BOUNDED).sample()
    ledger = ledger_of(tmp_path, "people", epsilon=1.0)
    with pytest.raises(BudgetRefusedError):
        PrivateSampler(**BOUNDED, ledger=ledger, dataset="people").fit(X, y)


def test_it_is_cloned_and_pickled_without_a_record():
    X, y = numbers()
    sampler = PrivateSampler(**BOUNDED).fit(X, y)
    assert clone(sampler).get_params() == sampler.get_params()
    kept = pickle.dumps(sampler)
    assert X[0].tobytes() not in kept
    assert np.array_equal(
        pickle.loads(kept).sample(3, random_state=1)[0],
        sampler.sample(3, random_state=1)[0],
    )


class Told(PrivateSampler):
    """Takes public facts from the data, which leaks: for scikit-learn's checks only, whose data are made up."""

    def fit(self, X, y=None):  # noqa: N803
        kept = self.get_params()
        try:
            self.set_params(**facts(X, None))
            return super().fit(X)
        finally:
            self.set_params(**kept)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    [Told(epsilon=50.0, bounds=(-10.0, 10.0), random_state=0, **FEW)],
    expected_failed_checks=lambda _: {
        "check_dtype_object": EXPECTED["check_dtype_object"]
    },
)
def test_the_sampler_keeps_to_what_scikit_learn_expects(estimator, check):
    check(estimator)


def classifier(**more):
    return LocallyLinearMaps(
        epsilon=3.0, classes=["low", "high"], bounds=(0, 10), records=300, steps=4, sampling_probability=0.1,
        projection=None, maps=2, **more,
    )  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [lambda: PrivateSampler(**BOUNDED), pytest.param(classifier, marks=needs_torch)],
)
def test_a_transformer_that_learnt_from_private_records_is_named(make):
    X, y = numbers()
    says = r"standardscaler \(StandardScaler\) in the pipeline before .*FrozenEstimator"
    with pytest.warns(UncoveredWarning, match=says):
        make_pipeline(StandardScaler(), Normalizer(), "passthrough", make()).fit(X, y)


def test_what_learns_nothing_from_private_records_is_not_warned_of():
    X, y = numbers()
    frozen = FrozenEstimator(
        StandardScaler().fit(np.random.default_rng(1).uniform(0, 10, (50, 2)))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error", UncoveredWarning)
        make_pipeline(Normalizer(), frozen, PrivateSampler(**BOUNDED)).fit(X, y)
        PrivateSampler(**BOUNDED).fit(
            StandardScaler().fit_transform(X), y
        )  # nobody can know


@needs_torch
def test_a_grid_search_says_what_its_fits_cost_together():
    X, y = numbers()
    search = GridSearchCV(
        classifier(), {"learning_rate": [0.1, 0.2]}, cv=3, refit=False
    )
    with pytest.warns(UnbookedWarning) as said:
        search.fit(X, y)
    told = [str(one.message) for one in said if one.category is UnbookedWarning]
    assert [line.partition(" ")[0] for line in told] == ["2", "4"]
    costs = [float(line.partition("epsilon = ")[2].partition(" ")[0]) for line in told]
    assert 3.0 < costs[0] < costs[1]
