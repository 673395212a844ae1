"""DP-HP's Lemma D.1 and Proposition C.3: bounds that hold, that are met, and what is wrong in print."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import eval_hermite

from noisegate_papers.queries.hermite import hermite, rho_of

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from papers.hermite_bounds import (
    mahalanobis_error,
    mahalanobis_features,
    marginal_distance,
    order_within,
    sum_kernel_distance,
)

SCALE = 0.3


def samples(seed, columns=4):
    """Two sets of points in [−1, 1] whose columns differ, some of them much."""
    random = np.random.default_rng(seed)
    moved = random.uniform(-0.5, 0.5, columns) * random.integers(0, 2, columns)
    return [
        np.clip(random.normal(0, 0.3, (80, columns)) + shift, -1, 1)
        for shift in (0, moved)
    ]


def mmds(one, two):
    """The MMD of each column under the Gaussian kernel, without a series."""

    def kernel(x, y):
        return np.exp(-np.square(x[:, None] - y) / (2 * SCALE**2)).mean()

    columns = zip(one.T, two.T, strict=True)
    return [
        math.sqrt(max(kernel(x, x) + kernel(y, y) - 2 * kernel(x, y), 0))
        for x, y in columns
    ]


def embedding(points, order):
    features = hermite(points, order=order, rho=rho_of(SCALE))
    return features.mean(axis=0).ravel() / math.sqrt(points.shape[1])


def squared_mmd(one, two, order=None):
    """Of two tables of weighted points of one column: of the Gaussian kernel, or of a series of it."""
    points = np.concatenate([one[0], two[0]])
    weights = np.concatenate([one[1], -two[1]])
    gram = np.exp(-np.square(points[:, None] - points) / (2 * SCALE**2))
    if order is not None:
        features = hermite(points, order=order, rho=rho_of(SCALE))
        gram = features @ features.T
    return float(weights @ gram @ weights)


@pytest.mark.parametrize("error", [0.5, 1e-2, 1e-6])
def test_lemma_c1_gives_an_order_that_is_enough_for_any_two_tables_and_not_too_long(
    error,
):
    order, random = order_within(error, length_scale=SCALE), np.random.default_rng(5)
    for _ in range(200):
        one, two = (
            (random.uniform(-1, 1, 6), random.dirichlet(np.full(6, 0.3)))
            for _ in range(2)
        )
        lost = squared_mmd(one, two) - squared_mmd(one, two, order)
        assert -1e-12 <= lost <= error
    # Records at opposite ends lose most; a shorter series loses a good part of what is allowed.
    ends = [(np.array([end]), np.ones(1)) for end in (-1.0, 1.0)]
    losses = [
        squared_mmd(*ends) - squared_mmd(*ends, shorter)
        for shorter in (order - 2, order - 1)
    ]
    assert (
        max(losses) > error / 2
        and order_within(error, length_scale=SCALE, half=2.0) > order
    )


@pytest.mark.parametrize("order", [0, 3, 10, 60])
def test_lemma_d1_holds_in_both_directions(order):
    grid = hermite(np.linspace(-1, 1, 2001), order=order, rho=rho_of(SCALE))
    tail = 1 - float(np.square(grid).sum(axis=1).min())
    for seed in range(20):
        one, two = samples(seed)
        distance = float(np.linalg.norm(embedding(one, order) - embedding(two, order)))
        found = mmds(one, two)
        assert max(found) <= marginal_distance(distance, columns=4, tail=tail) + 1e-9
        assert distance <= sum_kernel_distance(found) + 1e-9


def test_lemma_d1_is_met_where_one_column_differs():
    """So the factor √D of the first part, which equation 89 has lost, is needed."""
    one = np.zeros((1, 4))
    two = np.array([[1.0, 0.0, 0.0, 0.0]])
    distance = float(np.linalg.norm(embedding(one, 100) - embedding(two, 100)))
    assert mmds(one, two)[0] == pytest.approx(
        marginal_distance(distance, columns=4, tail=0.0), rel=1e-4
    )
    assert mmds(one, two)[0] > 1.9 * distance
    assert distance == pytest.approx(sum_kernel_distance(mmds(one, two)), rel=1e-4)


MATRIX = np.array([[2.0, 0.9, 0.0], [0.9, 1.0, -0.3], [0.0, -0.3, 0.7]])
POINTS = np.random.default_rng(1).uniform(-0.8, 0.8, (12, 3))


def mahalanobis(x, y):
    apart = x[:, None] - y
    return np.exp(-np.einsum("abi,ij,abj->ab", apart, MATRIX, apart))


@pytest.mark.parametrize("alpha", [1.5, 3.0, 10.0])
def test_tensor_products_of_series_are_the_mahalanobis_kernel(alpha):
    features = mahalanobis_features(POINTS, MATRIX, order=24, alpha=alpha)
    assert features.shape == (12, 25**3)
    bound = 1e-2 if alpha == 1.5 else 1e-6
    assert np.abs(features @ features.T - mahalanobis(POINTS, POINTS)).max() < bound


@pytest.mark.parametrize("order", [1, 4, 9])
def test_the_error_of_tensor_products_is_below_its_bound(order):
    features = mahalanobis_features(POINTS, MATRIX, order=order)
    eigenvalues, directions = np.linalg.eigh(MATRIX)
    root = directions * np.sqrt(eigenvalues) @ directions.T
    moved = POINTS @ root * math.sqrt(8 / 3)
    kept = np.square(hermite(moved, order=order, rho=1 / 3)).sum(axis=2)
    error = np.abs(features @ features.T - mahalanobis(POINTS, POINTS))
    bound = mahalanobis_error(kept, kept)
    assert (error <= bound + 1e-12).all()
    assert (error / bound).max() > 0.2, "a bound that is far from what it bounds"


def test_equation_61_is_false_as_printed():
    alpha, points = 3.0, np.linspace(-0.5, 0.5, 5)
    scaled = points * math.sqrt((alpha**2 - 1) / alpha)
    printed = np.array(
        [
            ((alpha**2 - 1) * alpha**-k / (alpha**2 * math.factorial(k))) ** 0.25
            * np.exp(-(scaled**2) / (alpha + 1))
            * eval_hermite(k, scaled)
            for k in range(30)
        ]
    )
    assert (
        np.abs(printed.T @ printed - np.exp(-np.square(points[:, None] - points))).max()
        > 1
    )
