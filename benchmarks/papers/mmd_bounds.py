"""What the papers prove of noise on a mean embedding and of features for a kernel, with what is wrong in print.

Write a for the difference between the mean embedding of the records and that of the synthetic records, and n for the
noise on the former, normal with covariance Σ. The squared MMD is ‖a‖²; what is fitted is ‖a + n‖². The propositions of
DP-MEPF (Harder, Jalali Asadabadi, Sutherland and Park, TMLR 2023, supplement A), DP-MERF (Harder, Adamczewski and
Park, AISTATS 2021, Proposition 3.1) and DP-HP (ICML 2022, Proposition B.1) say how far the two are apart, and what that
costs the generator. Each function names its proposition. Where the printed one is loose the tight form is given here,
where it is false the right one, and the docstring says so; `tests/benchmarks/test_mmd_bounds.py` has both, with
simulations and with the counterexample. What `noisegate plan` prints is in `noisegate.features.error_bounds`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from noisegate.errors import OptionError
from noisegate.features.error_bounds import random_feature_error


@dataclass(frozen=True, kw_only=True)
class MeanNoise:
    """Independent normal noise on a mean embedding, in blocks: Σ is diagonal and constant on each block.

    Attributes:
        stds: Standard deviation of the noise on each coordinate of a block, in the units of the mean embedding.
        dims: Number of coordinates of each block, all labels together.
    """

    stds: tuple[float, ...]
    dims: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.stds or len(self.stds) != len(self.dims):
            raise OptionError(f"stds={self.stds!r} and dims={self.dims!r} must name the same blocks, at least one.")
        if not all(math.isfinite(std) and std >= 0 for std in self.stds) or min(self.dims) < 1:
            raise OptionError(f"stds={self.stds!r} must be finite and at least 0, and dims={self.dims!r} at least 1.")

    @property
    def trace(self) -> float:
        """Tr Σ = E‖n‖²."""
        return math.fsum(std**2 * dim for std, dim in zip(self.stds, self.dims, strict=True))

    @property
    def expected_norm(self) -> float:
        """E‖n‖: exact for one block, by the mean of the chi distribution; √Tr Σ, which is above it, for several."""
        # For long blocks the two agree to a relative 1/(4 dim), and the difference of logarithms loses digits.
        if len(self.stds) > 1 or self.dims[0] > 1_000_000:
            return math.sqrt(self.trace)
        half = self.dims[0] / 2
        return self.stds[0] * math.sqrt(2) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))


def expected_error_of_any(noise: MeanNoise, *, norm: float) -> float:
    """Returns a bound on E sup |‖a + n‖² − ‖a‖²| over all synthetic tables, also those fitted to this very noise.

        Tr Σ + 4 B E‖n‖

    It is exact when the features of tables fill the ball of radius B, for noise of one block.

    Args:
        noise: Of the mean embedding.
        norm: B, the largest norm of a record's vector.

    Source: as of `noisegate.features.error_bounds.noise_error`, which is this for one block.
    """
    return noise.trace + 4 * norm * noise.expected_norm


def frobenius(noise: MeanNoise) -> float:
    """Returns ‖Σ‖_F. DP-MEPF's equation 9 adds up the blocks instead of their squares: an upper bound of this."""
    return math.sqrt(math.fsum(std**4 * dim for std, dim in zip(noise.stds, noise.dims, strict=True)))


def largest_variance(noise: MeanNoise) -> float:
    """Returns ‖Σ‖_op, the largest variance of a coordinate."""
    return max(noise.stds) ** 2


def along(noise: MeanNoise, distances: tuple[float, ...]) -> float:
    """Returns ‖Σ^½ a‖ for an a that has norm `distances` on each block."""
    if len(distances) != len(noise.stds):
        raise OptionError(f"distances={distances!r} must have one entry for each of {len(noise.stds)} blocks.")
    return math.sqrt(math.fsum((std * distance) ** 2 for std, distance in zip(noise.stds, distances, strict=True)))


def squared_norm_quantile(noise: MeanNoise, failure: float) -> float:
    """Returns Tr Σ + 2‖Σ‖_F √L + 2‖Σ‖_op L with L = ln(1/failure).

    ‖n‖² exceeds it with probability at most `failure` (Laurent and Massart, 2000, Lemma 1).
    """
    if not 0 < failure < 1:
        raise OptionError(f"failure={failure!r} must be a probability between 0 and 1.")
    log = -math.log(failure)
    return noise.trace + 2 * frobenius(noise) * math.sqrt(log) + 2 * largest_variance(noise) * log


def expected_error(noise: MeanNoise, *, distances: tuple[float, ...]) -> float:
    """Returns a bound on E |‖a + n‖² − ‖a‖²| for one synthetic table that was made without looking at the noise.

        Tr Σ + 2 √(2/π) ‖Σ^½ a‖

    It is at most twice the expectation, which is E max(‖n‖², 2|⟨n, a⟩|) exactly: n and −n are equally likely, and
    (|q + 2l| + |q − 2l|)/2 = max(q, 2|l|). So it lies between the larger of the two terms and their sum.

    Args:
        noise: Of the mean embedding.
        distances: ‖a‖ on each block, the MMD of its features; at most twice the norm that a record's vector may have.

    Source: DP-MEPF, Proposition A.1. DP-MERF's Lemma B.3 bounds the same by way of E‖n‖, which grows with the
    dimension where this does not; see `expected_error_of_any`.
    """
    return noise.trace + 2 * math.sqrt(2 / math.pi) * along(noise, distances)


def error_quantile(noise: MeanNoise, *, distances: tuple[float, ...], failure: float) -> float:
    """Returns what |‖a + n‖² − ‖a‖²| exceeds with probability at most `failure`, for one synthetic table.

        Tr Σ + 2 (‖Σ‖_F + √2 ‖Σ^½ a‖) √L + 2 ‖Σ‖_op L,    L = ln(2/failure)

    Args:
        noise: Of the mean embedding.
        distances: ‖a‖ on each block; the table must have been made without looking at the noise.
        failure: In (0, 1).

    Source: DP-MEPF, Proposition A.2, less its term √(2/π) ‖Σ^½ a‖: ⟨n, a⟩ is normal, and |N(0, 1)| exceeds √(2L) with
    probability at most exp(−L), so there is nothing to add for its mean. (The printed proof needs twice the printed
    term. The statement is true all the same.)
    """
    return squared_norm_quantile(noise, failure / 2) + 2 * along(noise, distances) * math.sqrt(
        2 * math.log(2 / failure)
    )


def error_quantile_of_any(noise: MeanNoise, *, norm: float, failure: float) -> float:
    """Returns what sup |‖a + n‖² − ‖a‖²| over all pairs of tables exceeds with probability at most `failure`.

        Q + 4 B √Q,    Q = Tr Σ + 2 ‖Σ‖_F √L + 2 ‖Σ‖_op L,    L = ln(1/failure)

    The supremum is ‖n‖² + 4B‖n‖ exactly, so one bound on ‖n‖ does for both terms.

    Args:
        noise: Of the mean embedding.
        norm: B, the largest norm of a record's vector.
        failure: In (0, 1).

    Source: DP-MEPF, Proposition A.3, which is false as printed: its 4 B ‖Σ‖_op^½ √ln(2/ρ) has lost a factor √2 of its
    own proof. With one coordinate, σ ≪ B and ρ = 10⁻⁸ it fails with probability 7.9 · 10⁻⁸. What is returned here is
    below the printed bound with that factor restored.
    """
    squared = squared_norm_quantile(noise, failure)
    return squared + 4 * norm * math.sqrt(squared)


def excess_of_minimiser(noise: MeanNoise, *, norm: float, failure: float) -> float:
    """Returns a bound on how much larger ‖a‖² is at the minimiser of ‖a + n‖² than at its own minimiser.

        4 B √Q,    Q as in `error_quantile_of_any`

    It holds with probability at least 1 − `failure`, for any set of generators; one that is left between two tables can
    reach 4 B ‖n‖. Both are assumed to be found, which no fit promises.

    Args:
        noise: Of the mean embedding.
        norm: B, the largest norm of a record's vector.
        failure: In (0, 1).

    Source: DP-MEPF, Proposition A.4, made tight. The paper takes twice the bound of A.3 (its proof says A.2); but ‖n‖²
    is the same for both generators and cancels: ‖ã‖² − ‖â‖² ≤ 2⟨n, â − ã⟩ ≤ 2‖n‖ · 2B.
    """
    return 4 * norm * math.sqrt(squared_norm_quantile(noise, failure))


def optimistic_excess_of_minimiser(noise: MeanNoise, *, distance: float, failure: float) -> float:
    """Returns the bound of `excess_of_minimiser` for generators that can come close to the records.

        4 Q + 4 M √Q,    Q as in `error_quantile_of_any`

    (M + 2‖n‖)² − M² can be reached: noise puts a generator at M and one at M + 2‖n‖ on its other side on a par.

    Args:
        noise: Of the mean embedding.
        distance: M, the least MMD that a generator of the set has to the records.
        failure: In (0, 1).

    Source: DP-MEPF, Proposition A.5, made tight: 4 stands for the paper's 9. By the triangle inequality, twice,
    ‖ã‖ ≤ ‖ã + n‖ + ‖n‖ ≤ ‖â + n‖ + ‖n‖ ≤ M + 2‖n‖.
    """
    squared = squared_norm_quantile(noise, failure)
    return 4 * squared + 4 * distance * math.sqrt(squared)


def random_feature_mmd_error(*, frequencies: int, noise_std: float, columns: int = 1) -> float:
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
