"""Regressions whose mean is no linear function: by records of the model, weighted to have the released moments."""

from collections.abc import Callable, Sequence

import numpy as np

from noisegate.inference.evidence import Sums
from noisegate.schema import EncodedTable
from noisegate.tables.released import Floats

Link = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats]]
"""The mean of an outcome by its score, and by that mean how it grows with the score."""

_NEWTON, _MOST = 30, 50.0


def calibrated(
    sums: Sums, sample: EncodedTable, terms: Sequence[int], link: Link
) -> tuple[Callable[[Floats, Floats], Floats], Callable[[Floats], Floats]]:
    """Returns what solves X'y/n = Σ w x μ(x'β) for β, given sums and X'y/n; NaN where there is no solution.

    And the covariance of a solution by the sampling of the model's records: of what xμ has beside its regression on the
    products, since their sums are those released.

    Weights are linear, 1 + (products − mean) λ, with the λ that gives the released products of the regressors (Deville
    and Särndal, JASA 1992, https://doi.org/10.2307/2290268). What the model gets wrong counts only as far as μ is no
    quadratic function.
    """
    design = sums.terms.of(sample)[:, terms].astype(np.float64)
    inside = np.flatnonzero(np.isin(sums.terms.entries, terms).all(axis=0))
    products = sums.terms.products(sample)[:, inside].astype(np.float64)
    mean, (means_of, slope_of) = products.mean(axis=0), link
    # Products that others imply have no direction of their own.
    turn = np.linalg.pinv(np.cov(products, rowvar=False).reshape(len(inside), -1), rcond=1e-6, hermitian=True)
    calibrate = (products - mean) @ turn
    undefined, start = np.full(len(terms), np.nan), np.zeros(len(terms))

    def solved(values: Floats, wanted: Floats) -> Floats:
        nonlocal start
        if values[0] <= 0:
            return undefined
        weights = 1 + calibrate @ (values[inside] / values[0] - mean)
        found = start
        with np.errstate(all="ignore"):
            for _ in range(_NEWTON):
                means = means_of(design @ found)
                hessian = (design * (weights * slope_of(means))[:, None]).T @ design / len(design)
                try:
                    step = np.linalg.solve(hessian, wanted - design.T @ (weights * means) / len(design))
                except np.linalg.LinAlgError:
                    return undefined
                found = found + step / max(1.0, float(np.abs(step).max()))
                if not np.isfinite(found).all() or np.abs(found).max() > _MOST:
                    return undefined
                if np.abs(step).max() < 1e-9:
                    if not start.any():  # the first is asked at what was released: others are near it
                        start = found
                    return found
        return undefined

    def sampled(found: Floats) -> Floats:
        if not np.isfinite(found).all():
            return np.zeros((len(terms), len(terms)))
        means = means_of(design @ found)
        hessian = (design * slope_of(means)[:, None]).T @ design / len(design)
        left = design * means[:, None]
        left = left - left.mean(axis=0)
        left -= calibrate @ ((products - mean).T @ left) / len(design)
        bread = np.linalg.pinv(hessian)
        return np.asarray(bread @ (left.T @ left) @ bread / len(design) ** 2)

    return solved, sampled
