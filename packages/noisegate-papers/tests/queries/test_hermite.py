import math

import mpmath
import numpy as np
import pytest

from noisegate_papers.queries.hermite import Series, hermite, rho_of, shortest_series


@pytest.mark.parametrize("length_scale", [0.03, 0.0707, 0.5, 1.0, 7.0])
def test_the_series_is_the_gaussian_kernel(length_scale):
    rho = rho_of(length_scale)
    assert rho / (1 - rho**2) == pytest.approx(1 / (2 * length_scale**2), rel=1e-9)
    x, y = 0.31, 0.31 + 0.7 * min(length_scale, 1.0)
    left, right = hermite([x, y], order=2000, rho=rho)
    assert left @ right == pytest.approx(
        math.exp(-((x - y) ** 2) / (2 * length_scale**2)), rel=2e-2
    )


@pytest.mark.parametrize("length_scale", [0.0707, 0.4, 5.0])
def test_the_recursion_is_exact_in_float64_far_out(length_scale):
    """Against the definition in 60 digits: √λ_c f_c, with λ_c = (1 − ρ)ρ^c and N_c = 2^c c! √((1 − ρ)/(1 + ρ))."""
    rho = rho_of(length_scale)
    order, x = 400, 0.83
    found = hermite(x, order=order, rho=rho)
    with mpmath.workdps(60):
        r, at = mpmath.mpf(rho), mpmath.mpf(x)
        before, now = mpmath.mpf(0), mpmath.mpf(1)  # physicist's Hermite polynomials
        for c in range(order + 1):
            norm = (
                mpmath.mpf(2) ** c
                * mpmath.factorial(c)
                * mpmath.sqrt((1 - r) / (1 + r))
            )
            exact = (
                mpmath.sqrt((1 - r) * r**c / norm)
                * now
                * mpmath.exp(-r / (1 + r) * at**2)
            )
            assert abs(found[c] - float(exact)) < 1e-12
            before, now = now, 2 * at * now - 2 * c * before


def test_the_norm_is_far_below_one_where_the_paper_says_one():
    """REFERENCE: l² = 0.005 keeps 0.69 at order 100 and 0.35 at order 20; l² = 0.15 keeps nearly all."""

    def largest(order, squared_scale):
        features = hermite(
            np.linspace(0, 1, 20_001), order=order, rho=rho_of(math.sqrt(squared_scale))
        )
        return np.square(features).sum(axis=1).max()

    assert largest(100, 0.005) == pytest.approx(0.69, abs=0.005)
    assert largest(20, 0.005) == pytest.approx(0.357, abs=0.005)
    assert largest(20, 0.15) == pytest.approx(0.989, abs=0.002)


def test_a_stretched_series_is_the_same_kernel_with_far_fewer_terms():
    series = shortest_series(math.sqrt(0.005), 0.9)
    assert series.order < 15
    assert series.kept >= 0.9
    assert Series(length_scale=math.sqrt(0.005), order=100, origin=0.0).kept < 0.7
    x, y = 0.42, 0.47
    exact = math.exp(-((x - y) ** 2) / 0.01)
    longer = Series(length_scale=series.length_scale, order=60, stretch=series.stretch)
    assert longer(x) @ longer(y) == pytest.approx(exact, rel=1e-5)
