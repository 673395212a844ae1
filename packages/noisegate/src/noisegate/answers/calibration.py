"""Regressions whose mean is no linear function, by weighted records of the model.

Such a regression solves X'y = X'·μ(Xβ) for the coefficients β. X'y is released. X'·μ is
not, so it is computed by records of the model, weighted so that their products of
regressors are those released. Weights are linear in the products, 1 + (products −
mean)·λ (Deville and Särndal, Journal of the American Statistical Association, 1992,
https://doi.org/10.2307/2290268). What the model gets wrong then counts only as far as μ
is no quadratic function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import Floats
from noisegate.answers.noisy_moments import ProductSums
from noisegate.schema import EncodedTable

# Newton's method converges in a few steps where it does; its steps are at most 1 long.
_MAX_NEWTON_STEPS = 30
_MAX_STEP = 1.0
_TOLERANCE = 1e-9
# Scores beyond this have means that are 0 or 1, or numbers that no record has.
_MAX_COEFFICIENT = 50.0
# Directions in which products vary by less, relative to the largest, are left out: they
# are implied by others.
_MIN_RELATIVE_VARIANCE = 1e-6


class MeanFunction(NamedTuple):
    """The mean of an outcome as a function of its score Xβ.

    Attributes:
        mean: From scores to means.
        slope: From means to how they grow with the score.
    """

    mean: Callable[[Floats], Floats]
    slope: Callable[[Floats], Floats]


LOGISTIC = MeanFunction(
    lambda score: 1 / (1 + np.exp(-score)), lambda mean: mean * (1 - mean)
)
# Scores are bounded, so that trial steps of Newton's method stay finite.
EXPONENTIAL = MeanFunction(
    lambda score: np.exp(np.minimum(score, 50.0)), lambda mean: mean
)


@dataclass(eq=False)
class CalibratedRegression:
    """A regression by records of a model, weighted as the released products say.

    Attributes:
        design: The regressors of the records, (rows, regressors).
        products: The products of their terms that are released, (rows, products).
        product_indices: Which of all released products these are, (products,).
        link: The mean of the outcome.
    """

    design: Floats
    products: Floats
    product_indices: npt.NDArray[np.intp]
    link: MeanFunction

    @classmethod
    def of(
        cls,
        moments: ProductSums,
        sample: EncodedTable,
        regressors: Sequence[int],
        link: MeanFunction,
    ) -> CalibratedRegression:
        """Prepares the regression.

        Args:
            moments: The released products.
            sample: Records of the model.
            regressors: Indices of the terms that are regressed on.
            link: The mean of the outcome.
        """
        left, right = moments.factors
        is_inside = np.isin(left, regressors) & np.isin(right, regressors)
        product_indices = np.flatnonzero(is_inside)
        terms = moments.feature_map.terms_of(sample)
        products = moments.feature_map.products(sample)
        return cls(
            design=terms[:, list(regressors)].astype(np.float64),
            products=products[:, product_indices].astype(np.float64),
            product_indices=product_indices,
            link=link,
        )

    def __post_init__(self) -> None:
        """Computes what all solutions share."""
        self._mean_products = self.products.mean(axis=0)
        self._centred_products = self.products - self._mean_products
        n_products = self.products.shape[1]
        covariance = np.cov(self.products, rowvar=False).reshape(n_products, -1)
        inverse = np.linalg.pinv(
            covariance, rcond=_MIN_RELATIVE_VARIANCE, hermitian=True
        )
        # Times a change of mean products: the change of each record's weight.
        self._weight_changes = self._centred_products @ inverse
        self._start = np.zeros(self.design.shape[1])

    def solve(self, sums: Floats, outcome_means: Floats) -> Floats:
        """Solves for the coefficients by Newton's method.

        The first solution is where later ones start, as these are of nearby sums.

        Args:
            sums: Of all products over the records, (all products,).
            outcome_means: X'y/n, (regressors,).

        Returns:
            The coefficients, (regressors,); NaN where there is no solution.
        """
        undefined = np.full(len(self._start), np.nan)
        records = float(sums[0])
        if records <= 0:
            return undefined
        mean_products = sums[self.product_indices] / records
        change = mean_products - self._mean_products
        weights = 1 + self._weight_changes @ change
        coefficients = self._start
        with np.errstate(all="ignore"):
            for _ in range(_MAX_NEWTON_STEPS):
                step = self._newton_step(coefficients, weights, outcome_means)
                if step is None:
                    return undefined
                largest = float(np.abs(step).max())
                coefficients = coefficients + step / max(1.0, largest / _MAX_STEP)
                is_finite = np.isfinite(coefficients).all()
                if not is_finite or np.abs(coefficients).max() > _MAX_COEFFICIENT:
                    return undefined
                if largest < _TOLERANCE:
                    if not self._start.any():
                        self._start = coefficients
                    return coefficients
        return undefined

    def sampling_covariance(self, coefficients: Floats) -> Floats:
        """Computes the covariance of a solution, as the model's records are a sample.

        Record i of n has the regressors x_i, the mean μ_i = μ(x_iᵀβ) and the products
        q_i of its terms, whose sums over the real records are released. The solution β
        is where the weighted mean of x_i μ_i is the released X'y/n. Another sample of
        records would have another mean of x_i μ_i, and so another β. Its covariance is
        the sandwich ::

            A⁻¹ (Σ_i e_i e_iᵀ / n²) A⁻¹      A = Σ_i μ'_i x_i x_iᵀ / n

        Here μ'_i is the slope of μ, so that A is how the mean of x_i μ_i changes with
        β, and e_i is what x_i μ_i has beside its linear regression on q_i. The rest of
        it does not vary: weights give the mean of q_i its released value. With C the
        covariance of q_i ::

            e_i = (x_i μ_i - mean) - B (q_i - mean)      B = Cov(x_i μ_i, q_i) C⁻¹

        Weights are taken as 1 in it.

        Args:
            coefficients: A solution β, (regressors,).

        Returns:
            The covariance, (regressors, regressors); 0 where there is no solution.
        """
        n_records, n_regressors = self.design.shape
        if not np.isfinite(coefficients).all():
            return np.zeros((n_regressors, n_regressors))
        means = self.link.mean(self.design @ coefficients)
        slopes = self.link.slope(means)
        hessian = (self.design * slopes[:, None]).T @ self.design / n_records
        scores = self.design * means[:, None]
        scores = scores - scores.mean(axis=0)
        regression = self._centred_products.T @ scores / n_records
        residuals = scores - self._weight_changes @ regression
        inverse = np.linalg.pinv(hessian)
        covariance = inverse @ (residuals.T @ residuals) @ inverse / n_records**2
        return np.asarray(covariance)

    def _newton_step(
        self, coefficients: Floats, weights: Floats, outcome_means: Floats
    ) -> Floats | None:
        """Computes a step of Newton's method; None where there is none.

        With w_i the weight of record i of n, x_i its regressors, μ_i the mean and μ'_i
        its slope at β, and t the outcome means, the equation is Σ_i w_i x_i μ_i / n = t
        and a step δ solves (Σ_i w_i μ'_i x_i x_iᵀ / n) δ = t - Σ_i w_i x_i μ_i / n.

        Args:
            coefficients: β so far, (regressors,).
            weights: Weights of the records, 1 on average, (rows,).
            outcome_means: t, X'y/n as released, (regressors,).
        """
        n_records = len(self.design)
        means = self.link.mean(self.design @ coefficients)
        slopes = weights * self.link.slope(means)
        hessian = (self.design * slopes[:, None]).T @ self.design / n_records
        residual = outcome_means - self.design.T @ (weights * means) / n_records
        try:
            return np.asarray(np.linalg.solve(hessian, residual))
        except np.linalg.LinAlgError:
            return None
