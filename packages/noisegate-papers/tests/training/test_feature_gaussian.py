"""Noisy moments made valid: each projection is the nearest point of its set, and never further from the truth."""

import numpy as np
import pytest

from noisegate_papers.training import gaussians


def noisy(seed, rows=40, dim=6, size=1.0):
    return np.random.default_rng(seed).normal(0.1, size, size=(rows, dim))


def symmetric(seed, rows=10, dim=4):
    matrices = np.random.default_rng(seed).normal(size=(rows, dim, dim))
    return matrices + matrices.transpose(0, 2, 1)


def test_the_nearest_point_of_the_simplex():
    """A projection p of r is the one for which ⟨r − p, q − p⟩ ≤ 0 for every point q of the set."""
    rows, others = noisy(0), np.random.default_rng(1).dirichlet(np.ones(6), size=100)
    found = gaussians.simplex_projection(rows)
    assert found.min() >= 0
    assert found.sum(axis=1) == pytest.approx(np.ones(40))
    assert (
        np.einsum("rd,rqd->rq", rows - found, others[None] - found[:, None]).max()
        <= 1e-9
    )
    inside = np.array([[0.2, 0.3, 0.5]])
    assert gaussians.simplex_projection(inside) == pytest.approx(inside)


def test_entries_may_add_up_to_less():
    rows = np.array([[0.2, -0.3, 0.1], [0.9, 0.9, -1.0]])
    assert gaussians.simplex_projection(rows, at_most=True) == pytest.approx(
        np.array([[0.2, 0, 0.1], [0.5, 0.5, 0]])
    )


@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_nearest_mean(nonnegative):
    rows, random = noisy(0), np.random.default_rng(2)
    others = random.normal(size=(200, 6))
    others = (np.abs(others) if nonnegative else others) / np.linalg.norm(
        others, axis=1, keepdims=True
    )
    others *= random.uniform(0, 1, (200, 1))
    found = gaussians.mean_projection(rows, nonnegative=nonnegative)
    assert np.linalg.norm(found, axis=1).max() <= 1 + 1e-12
    assert not nonnegative or found.min() >= 0
    assert (
        np.einsum("rd,rqd->rq", rows - found, others[None] - found[:, None]).max()
        <= 1e-9
    )
    assert gaussians.mean_projection(
        others / 2, nonnegative=nonnegative
    ) == pytest.approx(others / 2)


@pytest.mark.parametrize("at_most", [False, True])
def test_the_nearest_second_moment(at_most):
    matrices, random = symmetric(0), np.random.default_rng(1)
    found = gaussians.moment_projection(matrices, at_most=at_most)
    traces = np.trace(found, axis1=1, axis2=2)
    assert np.linalg.eigvalsh(found).min() >= -1e-12
    assert traces.max() <= 1 + 1e-12
    assert at_most or traces == pytest.approx(np.ones(10))
    vectors = random.normal(size=(50, 4))
    others = (
        np.einsum("qi,qj->qij", vectors, vectors)
        / np.square(vectors).sum(axis=1)[:, None, None]
    )
    others = others * random.uniform(0.1, 1, (50, 1, 1)) if at_most else others
    assert (
        np.einsum("rij,rqij->rq", matrices - found, others[None] - found[:, None]).max()
        <= 1e-9
    )


def test_projections_come_nearer_to_the_truth_and_variances_are_valid():
    random = np.random.default_rng(0)
    vectors = np.abs(random.normal(size=(5000, 20)) + np.linspace(0, 2, 20))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    mean, second = vectors.mean(axis=0)[None], np.square(vectors).mean(axis=0)[None]
    means, seconds = (
        mean + random.normal(0, 0.05, (30, 20)),
        second + random.normal(0, 0.05, (30, 20)),
    )
    centres, variances = gaussians.diagonal_gaussians(
        means, seconds, floor=1e-6, nonnegative=True
    )
    assert np.linalg.norm(centres - mean) < np.linalg.norm(means - mean)
    assert np.linalg.norm(
        gaussians.simplex_projection(seconds) - second
    ) < 0.9 * np.linalg.norm(seconds - second)
    assert 1e-6 == variances.min() < variances.max() <= 1
    exact = gaussians.diagonal_gaussians(mean, second, floor=1e-9, nonnegative=True)
    assert exact[0] == pytest.approx(mean)
    assert exact[1] == pytest.approx(vectors.var(axis=0)[None])


def test_a_full_covariance_is_that_of_the_vectors_and_valid_under_noise():
    random = np.random.default_rng(0)
    vectors = random.normal(size=(4000, 3)) @ random.normal(size=(3, 3)) + 1
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    mean, moment = vectors.mean(axis=0)[None], (vectors.T @ vectors / 4000)[None]
    centres, covariances = gaussians.full_gaussians(
        mean, moment, floor=1e-9, at_most=False
    )
    assert centres == pytest.approx(mean)
    assert covariances[0] == pytest.approx(
        np.cov(vectors, rowvar=False, bias=True), abs=1e-9
    )
    _, under_noise = gaussians.full_gaussians(
        mean, moment + symmetric(1, 1, 3), floor=1e-3, at_most=True
    )
    assert np.linalg.eigvalsh(under_noise).min() >= 1e-3 - 1e-12
    roots = gaussians.symmetric_roots(covariances)
    assert roots @ roots == pytest.approx(covariances)
