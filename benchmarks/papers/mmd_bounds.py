"""What the papers prove of noise on a mean embedding and of features for a kernel, with what is wrong in print.

Write a for the difference between the mean embedding of the records and that of the synthetic records, and n for the
noise on the former, normal with covariance Σ. The squared MMD is ‖a‖²; what is fitted is ‖a + n‖². The propositions of
DP-MEPF (Harder, Jalali Asadabadi, Sutherland and Park, TMLR 2023, supplement A), DP-MERF (Harder, Adamczewski and
Park, AISTATS 2021, Proposition 3.1) and DP-HP (ICML 2022, Proposition B.1) say how far the two are apart, and what that
costs the generator. Each function names its proposition. Where the printed one is loose the tight form is given here,
where it is false the right one, and the docstring says so; `tests/benchmarks/test_mmd_bounds.py` has both, with
simulations and with the counterexample. DP-MEPF's, and
what `noisegate plan` prints, are in `noisegate_papers.queries.error_bounds`.
"""

from __future__ import annotations

import math

from noisegate.errors import OptionError
from noisegate_papers.queries.error_bounds import MeanNoise as MeanNoise
from noisegate_papers.queries.error_bounds import along as along
from noisegate_papers.queries.error_bounds import error_quantile as error_quantile
from noisegate_papers.queries.error_bounds import (
    error_quantile_of_any as error_quantile_of_any,
)
from noisegate_papers.queries.error_bounds import (
    excess_of_minimiser as excess_of_minimiser,
)
from noisegate_papers.queries.error_bounds import (
    expected_error_of_one as expected_error_of_one,
)
from noisegate_papers.queries.error_bounds import (
    optimistic_excess_of_minimiser as optimistic_excess_of_minimiser,
)
from noisegate_papers.queries.error_bounds import random_feature_error
from noisegate_papers.queries.error_bounds import (
    squared_norm_quantile as squared_norm_quantile,
)


def frobenius(noise: MeanNoise) -> float:
    """Returns ‖Σ‖_F. DP-MEPF's equation 9 adds up the blocks instead of their squares: an upper bound of this."""
    return math.sqrt(
        math.fsum(std**4 * dim for std, dim in zip(noise.stds, noise.dims, strict=True))
    )


def largest_variance(noise: MeanNoise) -> float:
    """Returns ‖Σ‖_op, the largest variance of a coordinate."""
    return max(noise.stds) ** 2


def expected_error_of_any(noise: MeanNoise, *, norm: float) -> float:
    """Returns Tr Σ + 4 B E‖n‖ ≥ E sup |‖a + n‖² − ‖a‖²| over all synthetic tables, also those fitted to this noise.

    E‖n‖ is exact for one block, by the mean of the chi distribution, and then so is all of it when the features of
    tables fill the ball of radius B; for several it is √Tr Σ, which is above. Source: as of
    `noisegate_papers.queries.error_bounds.noise_error`, which is this for one block.
    """
    # For long blocks the two agree to a relative 1/(4 dim), and the difference of logarithms loses digits.
    if len(noise.stds) > 1 or noise.dims[0] > 1_000_000:
        expected = math.sqrt(noise.trace)
    else:
        half = noise.dims[0] / 2
        expected = (
            noise.stds[0]
            * math.sqrt(2)
            * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
        )
    return noise.trace + 4 * norm * expected


def random_feature_mmd_error(
    *, frequencies: int, noise_std: float, columns: int = 1
) -> float:
    """Returns a bound on E |‖â + n‖² − MMD²|, with â made of random Fourier features and MMD² of the kernel itself.

        2/√F + D s² + 4 s √2 Γ((D+1)/2)/Γ(D/2),    D = 2F · columns

    The expectation is over features and noise. The records and the synthetic records are fixed before the features are
    drawn; they may depend on the noise, to which a generator is fitted.

    Args:
        frequencies: F; a vector has F pairs of a cosine and a sine, and norm 1.
        noise_std: s, the standard deviation of the noise on a coordinate of the *mean* embedding.
        columns: Number of label values; each has an embedding of its own.

    Source: DP-MERF, Proposition 3.1, with m records, noise s = 2σ/m and D features for all labels together. Its last
    term, 8√(2π/D), is seven times the one here: see `random_feature_error`.
    """
    noise = MeanNoise(stds=(noise_std,), dims=(2 * frequencies * columns,))
    return random_feature_error(frequencies) + expected_error_of_any(noise, norm=1.0)


def hermite_kernel_error(order: int) -> float:
    """Returns 3^−C/(3√2), a bound on E |k(X, Y) − ⟨φ(X), φ(Y)⟩| by Hermite features up to order C.

    X and Y are standard normal, ρ = 1/3 and k(x, y) = exp(−3(x − y)²/8). It is the root of the mean *squared* error,
    which is exactly 9^−(C+1)/2.

    Args:
        order: C, at least 0; there are C + 1 features.

    Source: DP-HP (Vinaroz, Charusaie, Harder, Adamczewski and Park, ICML 2022), Proposition B.1, equation 17. The paper
    calls this map C-dimensional; for a map with C features, which ends at order C − 1, the bound is three times as
    large, and the printed one is false for C up to 9.
    """
    if order < 0:
        raise OptionError(f"order={order!r} must be at least 0.")
    return 3.0**-order / (3 * math.sqrt(2))


def random_fourier_kernel_error(features: int) -> tuple[float, float]:
    """Returns bounds from below and above on E |k(X, Y) − ⟨φ(X), φ(Y)⟩| by random Fourier features.

        1/(2√(3C + 24)) and 1/(2√C)

    k, X and Y are as in `hermite_kernel_error`. Given X and Y the error is a mean of F = C/2 independent terms, with
    standard deviation (1 − k²)/√C, and E k² = 1/2. That gives the upper bound. The kurtosis of a term is
    1.5 + 6v + 5v² + 2v³ + v⁴/2 with v = k², at most 15, so that of the mean is at most 3 + 12/F; and
    E|Z| ≥ (E Z²)^(3/2)/(E Z⁴)^(1/2) gives the lower bound.

    Args:
        features: C, even, at least 2: a cosine and a sine for each of C/2 frequencies.

    Source: DP-HP, Proposition B.1, equation 18, states 1/(8C) from below. That is true, but of the wrong order: the
    error falls as 1/√C, asymptotically as 1/√(2πC), and the lower bound here is above 1/(8C) for every C.
    """
    if features < 2 or features % 2:
        raise OptionError(f"features={features!r} must be even and at least 2.")
    return 0.5 / math.sqrt(3 * features + 24), 0.5 / math.sqrt(features)
