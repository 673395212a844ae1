import math

import numpy as np
import pytest

from noisegate import DPMERF
from noisegate.privacy.events import Adjacency
from noisegate.privacy.plan import Budget, Query, plan_sums
from noisegate.schema import Boolean, Categorical, Continuous, EncodedTable, Schema
from noisegate_images.queries.fourier import draw
from noisegate_papers.queries.error_bounds import (
    error_bound,
    noise_error,
    random_feature_error,
    truncation_error,
)

SCHEMA = Schema(
    (Continuous(name="x", lower=0.0, upper=1.0), Boolean(name="y")), label="y"
)


def series(records, order=3, columns=1, epsilon=1.0, norm=0.5):
    """A truncated series: an error that falls geometrically, and one feature more for each order."""
    question = Query(
        name="series", dim=order + 1, columns=columns, norm=norm, share=1.0
    )
    release = plan_sums(Budget(epsilon=epsilon), (question,)).release("series")
    bound = error_bound(
        release,
        records=records,
        setting="order",
        value=order,
        candidates=range(200),
        dimension=lambda value: value + 1,
        approximation=lambda value: 0.3**value,
        source="a paper",
    )
    return bound, release


def test_the_bound_is_least_where_it_says():
    bound, release = series(10_000)
    std = release.noise_std_natural / 10_000
    # The noise term is σ²D + 4·B·σ·E(chi of D), with B = 0.5; the chi distribution's mean is √(D − 1/2) or so.
    for terms in (bound.chosen, bound.least):
        assert terms.dim == terms.value + 1
        assert terms.noise == pytest.approx(
            std**2 * terms.dim + 2 * std * (terms.dim - 0.5) ** 0.5, rel=0.02
        )
        assert terms.total == terms.approximation + terms.noise
    totals = {order: series(10_000, order)[0].chosen.total for order in range(200)}
    assert bound.least.value == min(totals, key=totals.__getitem__) > 3
    assert bound.least.total == min(totals.values())
    assert bound.largest == 1.0


def test_more_labels_and_fewer_records_ask_for_fewer_features():
    orders = [
        series(records, columns=columns)[0].least.value
        for records, columns in ((10**6, 1), (10**4, 1), (10**4, 50), (10, 50))
    ]
    assert orders == sorted(orders, reverse=True)
    assert len(set(orders)) == 4


@pytest.mark.parametrize("adjacency", Adjacency)
def test_dp_merf_follows_its_proposition(adjacency):
    """The noise is that of the plan, for labels, adjacency and shares as they are."""
    schema = Schema(
        (*SCHEMA.columns, Categorical(name="k", levels=("a", "b", "c"))), label="k"
    )
    budget = Budget(epsilon=2.0, adjacency=adjacency)
    method = DPMERF(frequencies=70)
    (bound,) = method.error_bounds(schema, budget, 5_000)
    std = method.plan(schema, budget).release("fourier").noise_std_natural / 5_000
    for terms in (bound.chosen, bound.least):
        expected = random_feature_error(terms.value) + noise_error(
            std, 2 * terms.value * 3, norm=1.0
        )
        assert terms.total == pytest.approx(expected, rel=1e-12)
        assert terms.dim == 2 * terms.value
    assert bound.chosen.value == 70
    # The plan that follows the recommendation has the noise that the bound counted on.
    advised = DPMERF(frequencies=bound.least.value).error_bounds(schema, budget, 5_000)[
        0
    ]
    assert advised.chosen.total == pytest.approx(bound.least.total, rel=1e-9)
    assert advised.least.total == pytest.approx(bound.least.total, rel=1e-9)


# What finitely many features lose, against many draws of the features.


def squared_mmd(omega, one, two):
    """Of two tables of numbers, by the features of frequencies `omega`, (draws, F)."""
    waves = [
        np.exp(1j * omega[..., None] * table).mean(axis=-1) for table in (one, two)
    ]
    return (np.abs(waves[0] - waves[1]) ** 2).mean(axis=-1)


@pytest.mark.parametrize("frequencies", [1, 10, 300])
def test_random_features_of_two_tables(frequencies):
    random = np.random.default_rng(0)
    omega = random.standard_normal((2_000, frequencies))
    far = np.abs(squared_mmd(omega, np.zeros(1), np.full(1, 20.0)) - 2)
    assert 0.5 <= far.mean() / random_feature_error(frequencies) <= 0.7
    near = np.array([0.0, 0.3, 0.5]), np.array([0.1, 0.3, 0.9])
    found = squared_mmd(omega, *near)
    known = np.exp(-((np.concatenate(near)[:, None] - np.concatenate(near)) ** 2) / 2)
    sign = np.repeat([1 / 3, -1 / 3], 3)
    exact = float(sign @ known @ sign)
    bound = math.sqrt(exact * (4 - exact) / frequencies)
    assert np.abs(found - exact).mean() <= bound < random_feature_error(frequencies)
    # As printed: D = 2F features.
    assert random_feature_error(frequencies) < 8 * math.sqrt(math.pi / frequencies) / 7


@pytest.mark.parametrize("kernel", ["pairs", "numeric"])
def test_the_features_of_the_library_keep_the_bound(kernel):
    """Length scales and columns are drawn as well, columns by fixed shares; the kernel is the mean over all draws."""
    schema = Schema(
        (
            *(Continuous(name=name, lower=0.0, upper=1.0) for name in "uvw"),
            Boolean(name="y"),
        )
    )
    layout = schema.layout
    records = EncodedTable(
        numeric=np.array([[0.1, 0.9, 0.5], [0.8, 0.2, 0.5]]),
        codes=np.array([[0], [1]], dtype=np.int32),
    )
    found = []
    for seed in range(200):
        features = draw(
            layout,
            count=25,
            kernel=kernel,
            length_scales=[(0.005, 0.5)] * 3,
            exclude_label=False,
            seed=seed,
        )
        one, two = features(records)
        found.append(((one - two) ** 2).sum())
    error = np.abs(np.array(found) - np.mean(found)).mean()
    assert 0.25 <= error / random_feature_error(25) <= 1


def test_what_a_truncation_loses_can_be_lost():
    """Two tables of one record each, with opposite features where the series is cut."""
    kept, left = np.array([0.6]), np.array([0.8])
    one, two = np.concatenate([kept, left]), np.concatenate([kept, -left])
    lost = ((one - two) ** 2).sum() - ((one[:1] - two[:1]) ** 2).sum()
    assert lost == pytest.approx(truncation_error(1 - kept @ kept), rel=1e-12)
