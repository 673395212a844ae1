"""What finitely many features lose, against quadrature and against many draws of the features."""

import math

import numpy as np
import pytest
from scipy.special import eval_hermite, gammaln

from noisegate.errors import OptionError
from noisegate.features.fourier import draw
from noisegate.privacy.approximation_bounds import (
    hermite_kernel_error,
    random_feature_error,
    random_fourier_kernel_error,
    truncation_error,
)
from noisegate.schema import Boolean, Continuous, EncodedTable, Schema

RHO = 1 / 3
GRID = np.linspace(-9, 9, 601)
WEIGHT = np.exp(-(GRID**2) / 2) / math.sqrt(2 * math.pi) * (GRID[1] - GRID[0])


def squared_mmd(omega, one, two):
    """Of two tables of numbers, by the features of frequencies `omega`, (draws, F)."""
    waves = [np.exp(1j * omega[..., None] * table).mean(axis=-1) for table in (one, two)]
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
    bound = random_feature_error(frequencies, squared_mmd=exact)
    assert np.abs(found - exact).mean() <= bound < random_feature_error(frequencies)
    # Opposite characteristic functions leave nothing to chance, and equal ones neither.
    assert random_feature_error(frequencies, squared_mmd=4) == random_feature_error(frequencies, squared_mmd=0) == 0
    # As printed: D = 2F features.
    assert random_feature_error(frequencies) < 8 * math.sqrt(math.pi / frequencies) / 7


@pytest.mark.parametrize("kernel", ["pairs", "numeric"])
def test_the_features_of_the_library_keep_the_bound(kernel):
    """Length scales and columns are drawn as well, columns by fixed shares; the kernel is the mean over all draws."""
    schema = Schema((*(Continuous(name=name, lower=0.0, upper=1.0) for name in "uvw"), Boolean(name="y")))
    layout = schema.layout
    records = EncodedTable(
        numeric=np.array([[0.1, 0.9, 0.5], [0.8, 0.2, 0.5]]), codes=np.array([[0], [1]], dtype=np.int32)
    )
    found = []
    for seed in range(200):
        features = draw(
            layout, count=25, kernel=kernel, length_scales=[(0.005, 0.5)] * 3, exclude_label=False, seed=seed
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


def hermite_error(order):
    """Returns E |error| and E error² by quadrature, from the paper's own definition of the features."""
    x, y = np.meshgrid(GRID, GRID)
    features = np.array(
        [
            np.exp(0.5 * (math.log(1 - RHO) + c * math.log(RHO) - c * math.log(2) - gammaln(c + 1)))
            * ((1 + RHO) / (1 - RHO)) ** 0.25
            * eval_hermite(c, GRID)
            * np.exp(-RHO / (1 + RHO) * GRID**2)
            for c in range(order + 1)
        ]
    )
    error = np.exp(-RHO / (1 - RHO**2) * (x - y) ** 2) - features.T @ features
    return WEIGHT @ np.abs(error) @ WEIGHT, WEIGHT @ error**2 @ WEIGHT


@pytest.mark.parametrize("order", range(9))
def test_hermite_features_of_one_number(order):
    mean, square = hermite_error(order)
    assert square == pytest.approx(9.0 ** -(order + 1) / 2, rel=1e-6)
    assert 0.33 * hermite_kernel_error(order) < mean <= hermite_kernel_error(order)
    # Read as a statement on C features, of orders below C, the printed bound is false.
    assert mean > hermite_kernel_error(order + 1)


@pytest.mark.parametrize("features", [2, 4, 20, 500])
def test_random_fourier_features_of_one_number(features):
    random = np.random.default_rng(1)
    draws = 20_000 if features < 100 else 4_000
    x, y = random.standard_normal((2, draws))
    omega = random.standard_normal((draws, features // 2)) * math.sqrt(0.75)
    error = np.abs(np.exp(-0.375 * (x - y) ** 2) - np.cos(omega * (x - y)[:, None]).mean(axis=1))
    slack = 4 * error.std() / math.sqrt(draws)
    low, high = random_fourier_kernel_error(features)
    assert 1 / (8 * features) < low
    # The mean of C/2 terms of kurtosis 15 has kurtosis 3 + 24/C; the lower bound is the upper one over its root.
    assert low == pytest.approx(high / math.sqrt(3 + 24 / features), rel=1e-12)
    assert low - slack <= error.mean() <= high + slack
    if features >= 20:
        assert error.mean() == pytest.approx(1 / math.sqrt(2 * math.pi * features), rel=0.1)


def test_the_kurtosis_of_a_term():
    """The polynomial in the docstring, against quadrature over ω ~ N(0, 3/4)."""
    density = np.exp(-(GRID**2) / 1.5) / math.sqrt(1.5 * math.pi) * (GRID[1] - GRID[0])
    for distance in (0.3, 1.0, 2.5):
        k = math.exp(-0.375 * distance**2)
        term = np.cos(GRID * distance) - k
        v = k**2
        kurtosis = (density @ term**4) / (density @ term**2) ** 2
        assert kurtosis == pytest.approx(1.5 + 6 * v + 5 * v**2 + 2 * v**3 + v**4 / 2, rel=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: random_feature_error(0), "frequencies=0"),
        (lambda: random_feature_error(3, squared_mmd=4.1), r"squared_mmd=4\.1"),
        (lambda: truncation_error(-0.1), r"tail=-0\.1"),
        (lambda: hermite_kernel_error(-1), "order=-1"),
        (lambda: random_fourier_kernel_error(3), "features=3"),
    ],
)
def test_unusable_arguments_are_refused(call, message):
    with pytest.raises(OptionError, match=message):
        call()
