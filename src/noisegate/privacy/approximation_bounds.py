"""What is lost when finitely many features stand for a kernel: bounds that depend on no data.

Of two tables, with random Fourier features (DP-MERF) or a truncated series (DP-HP): how far the squared MMD by features
is from that by the kernel. Of one pair of numbers: DP-HP's Proposition B.1, which compares the two kinds.
"""

from __future__ import annotations

import math

from noisegate.errors import OptionError


def random_feature_error(frequencies: int, *, squared_mmd: float | None = None) -> float:
    """Returns a bound on E |MMD² by random Fourier features − MMD²| for two tables, over the draw of the features.

        √(M (4 − M)/F) ≤ 2/√F,    M the squared MMD

    The squared MMD by features is the mean over frequencies of |difference of two characteristic functions|², summed
    over labels. Each term lies in [0, 4] and has mean M, hence a variance of at most M (4 − M) (Bhatia and Davis,
    2000). Two tables of one record each, far apart, reach 0.56 of 2/√F. Drawing a fixed share of the frequencies for
    each pair of columns, as `features.fourier.draw` does, does not raise the variance.

    Args:
        frequencies: F, half the number of features.
        squared_mmd: M where it is known, in [0, 4]; otherwise the worst case is returned.

    Source: DP-MERF, Lemma B.2 and the last term of Proposition 3.1, 8√(2π/D) with D = 2F features: true, and 7.1 times
    larger, since it goes through a tail bound. (Equation 32 of its Lemma B.1 is loose as well.)
    """
    if frequencies < 1:
        raise OptionError(f"frequencies={frequencies!r} must be at least 1.")
    worst = 2.0 if squared_mmd is None else squared_mmd
    if not 0 <= worst <= 4:
        raise OptionError(f"squared_mmd={squared_mmd!r} must lie between 0 and 4.")
    return math.sqrt(worst * (4 - worst) / frequencies)


def truncation_error(tail: float) -> float:
    """Returns the most that a squared MMD loses when features are left out: 4 · `tail`.

    Both mean embeddings of what is left out have a squared norm of at most `tail`, and so their difference one of at
    most 4 · `tail`. Two tables whose left-out features are opposite reach it.

    Args:
        tail: The largest squared norm, over all records, of the features that are left out. For a series that adds
            up to a kernel with k(x, x) = 1 it is 1 − the least squared norm of the features that are kept.

    Source: the definition of the MMD; DP-HP, equation 6, is such a series.
    """
    if not 0 <= tail < math.inf:
        raise OptionError(f"tail={tail!r} must be at least 0 and finite.")
    return 4 * tail


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
