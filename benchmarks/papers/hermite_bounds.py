"""What DP-HP proves of its sum kernel and of kernels of several columns, with what is wrong in print.

Vinaroz, Charusaie, Harder, Adamczewski and Park (ICML 2022), https://arxiv.org/abs/2106.05042, supplements C and D. The
features of one number and their recursion are in `noisegate_papers.queries.hermite`, bounds on noise in
`papers.mmd_bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate_papers.queries.error_bounds import truncation_error
from noisegate_papers.queries.hermite import MOST_ORDER, hermite, rho_of

Numbers = npt.NDArray[np.float64]


def order_within(error: float, *, length_scale: float, half: float = 1.0) -> int:
    """Returns the least order whose squared MMD is within `error` of the Gaussian kernel's, for all tables.

    Two kernels that differ by at most e have squared MMDs that differ by at most 4e, which a difference of e·s(x)s(y)
    reaches where s is 1 on one table and −1 on the other. What a series of Mehler leaves out is a kernel itself, so e
    is its largest value at (x, x), and the squared MMD only falls (`truncation_error`).

    Args:
        error: Above 0.
        length_scale: Of the kernel, in units of x.
        half: All records lie in [−half, half].

    Source: DP-HP, Theorem C.1 and Lemma C.1, whose n this is; equation 50 lacks a bracket. Some bound on x is needed:
    of two records far enough out every order keeps nothing, so on the whole line the lemma is false for this series.

    Raises:
        OptionError: `error` or `half` is not above 0, or no order up to 2,000 is enough.
    """
    if not error > 0 or not half > 0:
        raise OptionError(f"error={error!r} and half={half!r} must be above 0.")
    positions, kept = np.linspace(0, half, 1025), np.zeros(1025)
    for order, feature in enumerate(
        hermite(positions, order=MOST_ORDER, rho=rho_of(length_scale)).T
    ):
        kept += np.square(feature)
        if truncation_error(max(0.0, 1 - float(kept.min()))) <= error:
            return order
    raise OptionError(
        f"no order up to {MOST_ORDER} is within {error:g}; take a larger length scale, error or both."
    )


def marginal_distance(distance: float, *, columns: int, tail: float) -> float:
    """Returns a bound on the MMD of every column: √(D·distance² + 4·tail).

    Args:
        distance: Of the two mean embeddings by the sum kernel's features, (φ(x_1), …, φ(x_D))/√D.
        columns: D.
        tail: Largest squared norm, at any value, of what the series leaves out of a column's features.

    The squared distance is the mean over columns of ‖E φ_i(P) − E φ_i(Q)‖², so each of these is at most D times it;
    what is left out adds at most 4·tail to a squared MMD (`truncation_error`). With tail ≤ distance²/4 it is the
    printed √(D + 1)·distance. Source: DP-HP, Lemma D.1, first part; its equation 89 has lost the factor D.
    """
    if distance < 0 or columns < 1:
        raise OptionError(
            f"distance={distance!r} must be at least 0, and columns={columns!r} at least 1."
        )
    return math.sqrt(columns * distance**2 + truncation_error(tail))


def sum_kernel_distance(mmds: Sequence[float]) -> float:
    """Returns a bound on the distance of the mean embeddings by the sum kernel, from the MMD of each column.

    The root of their mean square: a cut series only shortens a distance. Source: DP-HP, Lemma D.1, second part, where
    all are ε; the printed √2·ε is true and loose.
    """
    if not mmds or min(mmds) < 0:
        raise OptionError(f"mmds={mmds!r} must be at least one number, none negative.")
    return math.sqrt(math.fsum(mmd**2 for mmd in mmds) / len(mmds))


def mahalanobis_features(
    points: Numbers, matrix: Numbers, *, order: int, alpha: float = 3.0
) -> Numbers:
    """Returns features of the kernel exp(−(x − y) A (x − y)ᵀ), (rows, (order + 1)^D).

    The points times √A times √((α² − 1)/α), column by column through the series of ρ = 1/α, and multiplied with each
    other: as ρ/(1 − ρ²) = α/(α² − 1), the exponents add up to (x − y) A (x − y)ᵀ.

    Args:
        points: (rows, D).
        matrix: A, (D, D), symmetric and positive semi-definite.
        order: Of the series of each coordinate.
        alpha: Above 1.

    Source: DP-HP, Proposition C.3. The features of its equation 61 lack a square, and the 4^k of the physicists'
    polynomials: of order k they must have (α^−2k/(4^k k!²))^¼ where (α^−k/k!)^¼ is printed.
    """
    eigenvalues, directions = np.linalg.eigh(matrix)
    if (
        alpha <= 1
        or order < 0
        or not np.allclose(matrix, matrix.T)
        or eigenvalues.min() < -1e-12
    ):
        raise OptionError(
            "alpha must be above 1, order at least 0, and the matrix symmetric, with no negative eigenvalue."
        )
    root = directions * np.sqrt(np.maximum(eigenvalues, 0)) @ directions.T
    series = hermite(
        points @ root * math.sqrt((alpha**2 - 1) / alpha), order=order, rho=1 / alpha
    )
    product = series[:, 0]
    for column in range(1, points.shape[1]):
        product = (product[:, :, None] * series[:, column, None, :]).reshape(
            len(points), -1
        )
    return product


def mahalanobis_error(kept: Numbers, other: Numbers) -> Numbers:
    """Returns bounds on |k(x, y) − ⟨φ(x), φ(y)⟩| for pairs of points, (rows, others).

    Args:
        kept: The squared norm of the series of each coordinate at x, (rows, D), at most 1.
        other: The same at y, (others, D).

    A product of D factors of modulus at most 1 differs from another one by at most the sum of the factors' differences,
    and a factor's is what is left out of its series: at most √((1 − kept)(1 − other)) by Cauchy and Schwarz. This makes
    the "uniformly" of Proposition C.3 a number.
    """
    left_out = np.sqrt(np.maximum(1 - kept, 0)), np.sqrt(np.maximum(1 - other, 0))
    bounds: Numbers = left_out[0] @ left_out[1].T
    return bounds
