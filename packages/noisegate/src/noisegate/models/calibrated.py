"""Calibrated rows: their own means, correlations and regressions are those of `infer`.

A model is fitted to tables of counts, and its rows are drawn at random. So a regression
of rows is about a standard error off what `noisegate.infer` estimates from the release.
Here rows are chosen among candidates, so that the sums of products of their columns are
those that the release states, from which means, correlations and linear regressions
follow::

    candidates of the model, several for each row
      │ weights of maximum entropy      their weighted means are as released
      │ systematic sample               rows are as frequent as their weights
      ▼ exchanges with other candidates their own means are as released
    rows

Weights w are nearest to equal ones (entropy balancing, Hainmueller, Political Analysis
2012, https://doi.org/10.1093/pan/mpr025): with released means m of N records, their
standard errors s, and the strength c, they minimise ::

    KL(w ‖ equal) + c/(2N) Σ_k ((Σ_i w_i p_ik − m_k) / s_k)²

over p_ik, the product k of candidate i. At c = 1 the release counts as much as its
errors say beside the model. The strength grows until means agree, or few candidates are
left. Products of levels that are too noisy stay at 1: no row can have the negative
counts that noise leaves.

Released moments of a number may count a range only, in which nearly all records lie,
and numbers outside as its nearer end. Numbers of rows count as they are, and so have
less of a tail beyond the range. That is right where the model's tail is noise; a
warning names columns whose tail it shortens.

No private record is read. The rows say no more about the population than the release.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from noisegate.answers.domain import Floats
from noisegate.answers.evidence import Evidence, TooNoisyError
from noisegate.answers.noisy_moments import MomentEstimates
from noisegate.errors import OptionError, require
from noisegate.queries.moments import ScaledNumber
from noisegate.schema import EncodedTable

Indices = npt.NDArray[np.intp]

# Rows are calibrated so many at a time, each among so many candidates.
_MAX_BLOCK_ROWS = 50_000
_CANDIDATES_PER_ROW = 4
_MIN_CANDIDATES = 20_000
# A count that is fewer standard deviations of its noise is hidden.
_MIN_VISIBLE = 3.0
# Strengths of the pull towards released means, tried in turn ...
_STRENGTHS = (10.0, 100.0, 1_000.0, 10_000.0)
_MAX_DESCENT_STEPS = 100
# ... until means are this near, in standard errors, or fewer than this part of the
# candidates would do as well as their weights (Kish's effective sample size).
_NEAR = 0.002
_MIN_EFFECTIVE_PART = 0.5
# So many rows and candidates are compared for exchanges at a time, so often, and at
# most so often in a row with hardly a gain.
_COMPARED = 300
_MAX_COMPARISONS = 2_000
_MAX_IDLE_COMPARISONS = 100
_MIN_GAIN = 0.01
# Quantiles of the first two principal components by which candidates are ordered.
_STRATA = 20
# Numbers beyond a range may add so many times the error that `infer` allows for them.
_MAX_EXCESS_RATIO = 2.0
# Rows that are further off, in standard errors, do not agree with `infer`.
_MAX_DISAGREEMENT = 0.05


class Agreement(NamedTuple):
    """How far the means of products in rows are from released ones, in standard errors.

    Attributes:
        root_mean_square: Over all products that the noise does not hide.
        largest: The largest of them.
        products: The columns of that product.
    """

    root_mean_square: float
    largest: float
    products: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class Calibration:
    """What rows shall agree with: estimates of sums of products.

    Attributes:
        moments: The estimates, in records.
        sampling: Variance of the products over records of the model, (products,).
        long_tailed: The columns of which the model has more beyond a range than the
            estimates allow for.
    """

    moments: MomentEstimates
    sampling: Floats
    long_tailed: frozenset[str]

    @classmethod
    def of(cls, evidence: Evidence, columns: Sequence[str]) -> Self:
        """Reads what a release states of some columns.

        Raises:
            OptionError: if two of them were not measured together.
            TooNoisyError: if one is too noisy to be located.
        """
        moments = evidence.moments(columns)
        products = moments.feature_map.products(evidence.sample)
        return cls(
            moments=moments,
            sampling=products.astype(np.float64).var(axis=0),
            long_tailed=_long_tailed_columns(moments, evidence.sample),
        )

    @cached_property
    def means(self) -> Floats:
        """What the mean of each product shall be, (products,)."""
        return self.moments.values / self._records

    @cached_property
    def precisions(self) -> Floats:
        """One over the standard error of each mean, (products,); 0 without an error."""
        moments = self.moments
        variance = np.square(moments.noise).sum(axis=1)
        variance += np.square(moments.bias).sum(axis=1)
        variance += self._records * self.sampling
        precisions = np.zeros(len(variance))
        # The first product is 1 in every row.
        varies = variance > 0
        varies[0] = False
        precisions[varies] = self._records / np.sqrt(variance[varies])
        return precisions

    @cached_property
    def is_hidden(self) -> npt.NDArray[np.bool_]:
        """Which products are of a level, or of two levels, that are too noisy."""
        moments = self.moments
        noise_std = np.linalg.norm(moments.noise, axis=1)
        is_visible = moments.values >= _MIN_VISIBLE * noise_std
        left, right = moments.factors
        is_level = np.array([False] + [term.kind == "level" for term in moments.terms])
        # The first products are the terms themselves.
        is_hidden_term = is_level & ~is_visible[: len(is_level)]
        is_hidden_pair = is_level[left] & is_level[right] & ~is_visible
        is_of_hidden_term = is_hidden_term[left] | is_hidden_term[right]
        return np.asarray(is_of_hidden_term | is_hidden_pair)

    @property
    def columns_with_hidden_levels(self) -> tuple[str, ...]:
        """The columns with a level that is too noisy, which rows have as drawn."""
        terms = self.moments.terms
        is_hidden_term = self.is_hidden[1 : len(terms) + 1]
        return tuple(
            dict.fromkeys(
                term.column
                for term, is_hidden in zip(terms, is_hidden_term, strict=True)
                if is_hidden
            )
        )

    @property
    def _records(self) -> float:
        """The number of records, at least 1."""
        return max(float(self.moments.values[0]), 1.0)

    def choose(
        self, candidates: EncodedTable, n: int, random: np.random.Generator
    ) -> EncodedTable:
        """Chooses rows that agree with the estimates as nearly as candidates can.

        Args:
            candidates: Records of the model, more than `n`.
            n: Number of rows. A candidate may be chosen several times.
            random: Public randomness.
        """
        terms = self._terms_of(candidates)
        weights = self._weights(terms)
        chosen = _systematic_sample(terms, n * weights, random)
        chosen = self._exchange(terms, weights, chosen, random)
        return candidates.rows(random.permutation(chosen))

    def agreement(self, sums: Floats, n: int) -> Agreement:
        """Compares rows with the estimates.

        Args:
            sums: Sums of products over the rows, (products,).
            n: Number of rows.
        """
        errors = np.abs(sums / n - self.means) * self.precisions
        visible_errors = np.where(self.is_hidden, 0.0, errors)
        worst = int(visible_errors.argmax())
        terms = ("", *(term.column for term in self.moments.terms))
        left, right = self.moments.factors
        names = dict.fromkeys(terms[index] for index in (left[worst], right[worst]))
        visible_count = max(int((~self.is_hidden).sum()), 1)
        return Agreement(
            root_mean_square=float(
                np.sqrt(np.square(visible_errors).sum() / visible_count)
            ),
            largest=float(visible_errors[worst]),
            products=tuple(name for name in names if name),
        )

    def sums_over(self, records: EncodedTable) -> Floats:
        """Sums the products over records, (products,)."""
        ones = np.ones(len(records))
        return self._mean_products(self._terms_of(records), ones)

    def _terms_of(self, records: EncodedTable) -> Floats:
        """Computes the terms of records, with numbers that are not clipped.

        Returns:
            The terms, (rows, 1 + terms).
        """
        terms = self.moments.feature_map.terms_of(records).astype(np.float64)
        for index, number in _number_terms(self.moments):
            positions = records.numeric[:, number.index]
            is_present = number.is_present(positions)
            terms[:, index] = np.where(is_present, number.unclipped(positions), 0.0)
        return terms

    def _mean_products(self, terms: Floats, weights: Floats) -> Floats:
        """Computes weighted means of the products of terms, (products,).

        Args:
            terms: Of each candidate, (candidates, 1 + terms).
            weights: Which add up to 1, (candidates,).
        """
        left, right = self.moments.factors
        matrix = (terms * weights[:, None]).T @ terms
        return np.asarray(matrix[left, right])

    def _weights(self, terms: Floats) -> Floats:
        """Computes weights of maximum entropy, which add up to 1, (candidates,).

        The strongest pull that leaves enough candidates counts.

        Args:
            terms: Of each candidate, (candidates, 1 + terms).
        """
        n_candidates = len(terms)
        weights = np.full(n_candidates, 1 / n_candidates)
        parameters = np.zeros(len(self.means))
        for strength in _STRENGTHS:
            parameters = self._tilt(terms, parameters, strength)
            tilted_weights = self._tilted(terms, parameters)
            effective_part = 1 / (n_candidates * np.square(tilted_weights).sum())
            if effective_part < _MIN_EFFECTIVE_PART:
                break
            weights = tilted_weights
            errors = (
                self._mean_products(terms, weights) - self.means
            ) * self.precisions
            if np.abs(errors[~self.is_hidden]).max(initial=0.0) < _NEAR:
                break
        return weights

    def _tilt(self, terms: Floats, start: Floats, strength: float) -> Floats:
        """Minimises the dual of the module's objective.

        With λ_k = θ_k/(s_k √N), it is log Σ_i exp(λ'(p_i − m)) + Σ_k θ_k²/(2 c_k). Its
        gradient by θ is how far the weighted means are off, and the pull of c.

        Args:
            terms: Of each candidate, (candidates, 1 + terms).
            start: Where θ starts, (products,).
            strength: c of the products that the noise does not hide.

        Returns:
            θ, (products,).
        """
        from scipy.optimize import minimize

        ridge = np.where(self.is_hidden, 1.0, 1 / strength)
        scale = self._scale

        def loss_and_gradient(parameters: Floats) -> tuple[float, Floats]:
            scores = self._scores(terms, parameters)
            highest = scores.max()
            odds = np.exp(scores - highest)
            total = odds.sum()
            means = self._mean_products(terms, odds / total)
            loss = float(highest + np.log(total) - (parameters * scale) @ self.means)
            loss += float(ridge @ np.square(parameters)) / 2
            gradient = (means - self.means) * scale + ridge * parameters
            return loss, np.asarray(gradient)

        result = minimize(
            loss_and_gradient,
            start,
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": _MAX_DESCENT_STEPS,
                "maxcor": 30,
                "ftol": 1e-15,
                "gtol": 1e-9,
            },
        )
        return np.asarray(result.x)

    def _tilted(self, terms: Floats, parameters: Floats) -> Floats:
        """Returns the weights for parameters θ, which add up to 1, (candidates,)."""
        scores = self._scores(terms, parameters)
        odds = np.exp(scores - scores.max())
        return np.asarray(odds / odds.sum())

    @property
    def _scale(self) -> Floats:
        """One over s_k √N, (products,)."""
        return np.asarray(self.precisions / np.sqrt(self._records))

    def _scores(self, terms: Floats, parameters: Floats) -> Floats:
        """Computes λ'p of each candidate, as t'·L·t of its terms, (candidates,)."""
        size = terms.shape[1]
        left, right = self.moments.factors
        half = parameters * self._scale / 2
        quadratic = np.zeros((size, size))
        np.add.at(quadratic, (left, right), half)
        np.add.at(quadratic, (right, left), half)
        return np.asarray(np.einsum("ij,ij->i", terms @ quadratic, terms))

    def _exchange(
        self,
        terms: Floats,
        weights: Floats,
        chosen: Indices,
        random: np.random.Generator,
    ) -> Indices:
        """Exchanges rows for candidates as long as their means come nearer.

        They come nearer to the weighted means, which rows can have, whether or not
        these are those released.

        Args:
            terms: Of each candidate, (candidates, 1 + terms).
            weights: Which add up to 1, (candidates,).
            chosen: Indices of the rows among the candidates, (rows,).
            random: Public randomness.

        Returns:
            The indices after all exchanges, (rows,).
        """
        chosen = chosen.copy()
        left, right = self.moments.factors
        scale = self.precisions / len(chosen)

        def products_of(indices: Indices) -> Floats:
            return np.asarray(
                terms[indices][:, left] * terms[indices][:, right] * scale
            )

        counts = np.bincount(chosen, minlength=len(terms)) / len(chosen)
        off = self._mean_products(terms, counts) - self._mean_products(terms, weights)
        errors = off * self.precisions
        best = last_gain = float(errors @ errors)
        idle = 0
        for _ in range(_MAX_COMPARISONS):
            if best < len(errors) * _NEAR**2 or idle > _MAX_IDLE_COMPARISONS:
                break
            rows = random.choice(
                len(chosen), min(_COMPARED, len(chosen)), replace=False
            )
            others = random.integers(len(terms), size=_COMPARED)
            leaving = products_of(chosen[rows])
            entering = products_of(others)
            exchanges, errors = _best_exchanges(errors, leaving, entering)
            for row, other in exchanges:
                chosen[rows[row]] = others[other]
            best = float(errors @ errors)
            idle += 1
            if best < (1 - _MIN_GAIN) * last_gain:
                last_gain = best
                idle = 0
        return chosen


def _number_terms(moments: MomentEstimates) -> Iterator[tuple[int, ScaledNumber]]:
    """Yields the index of each number's term, and how it is scaled."""
    numbers = iter(moments.feature_map.numeric)
    for index, term in enumerate(moments.terms, 1):
        if term.kind == "number":
            yield index, next(numbers)


def _long_tailed_columns(
    moments: MomentEstimates, sample: EncodedTable
) -> frozenset[str]:
    """Finds columns of which calibrated rows have less of a tail than the model.

    Args:
        moments: The estimates.
        sample: Records of the model.
    """
    records = max(float(moments.values[0]), 1.0)
    left, right = moments.factors
    columns = []
    for index, number in _number_terms(moments):
        positions = sample.numeric[:, number.index]
        beyond = np.maximum(np.abs(number.unclipped(positions)) - 1, 0.0)
        excess = np.where(number.is_present(positions), beyond, 0.0).mean()
        # What the sum of the number may be off by, as records beyond are clipped.
        is_sum = (left == 0) & (right == index)
        allowed = np.linalg.norm(moments.bias[is_sum]) / records
        if number.is_clipped and excess > _MAX_EXCESS_RATIO * allowed:
            columns.append(moments.terms[index - 1].column)
    return frozenset(columns)


def columns_to_calibrate(
    evidence: Evidence, columns: Sequence[str] | None
) -> tuple[str, ...]:
    """Returns the columns of which rows can agree with `infer`.

    Args:
        evidence: What the release says.
        columns: The columns that shall agree; None for all whose second moments were
            measured, but for those that are too noisy to be located, which a warning
            names.

    Raises:
        OptionError: if no second moments were measured, a column is unknown or named
            twice, two were not measured together, or one is too noisy to be located.
    """
    released = evidence.measurements.moments
    if columns is None and released is None:
        raise OptionError(
            "this release has no second moments that calibrated rows could agree with. "
            "Fit with the setting moments_share=0.43 of method='pairwise', or name "
            "columns that were measured together."
        )
    if columns is None:
        assert released is not None
        remaining = list(dict.fromkeys(term.column for term in released.terms))
    else:
        remaining = list(columns)
        for name in remaining:
            evidence.check_column(name)
            if remaining.count(name) > 1:
                raise OptionError(f"calibrated: column {name!r} is named twice.")
    while remaining:
        try:
            evidence.moments(remaining)
            break
        except TooNoisyError as error:
            hidden = str(error)
        problem = f"calibrated: {hidden!r} is too noisy to be located"
        if columns is not None:
            raise OptionError(f"{problem}; leave it out.")
        _warn(f"{problem}, so that it is left out.")
        remaining.remove(hidden)
    if not remaining:
        raise OptionError("calibrated: every column is too noisy to be located.")
    return tuple(remaining)


def calibrated_batches(
    calibration: Calibration,
    draw: Callable[[int], Iterator[EncodedTable]],
    n: int,
    *,
    seed: int | None,
    batch_rows: int,
) -> Iterator[EncodedTable]:
    """Yields calibrated rows in batches; warns at the end if they do not agree.

    Args:
        calibration: What rows shall agree with.
        draw: Draws a number of records of the model, in batches.
        n: Number of rows.
        seed: Of public randomness; None for other rows each time.
        batch_rows: Rows of a batch, at most.

    Raises:
        MissingExtraError: without scipy.
    """
    require("scipy", "calibrated=True")
    for term in calibration.moments.terms:
        if term.kind == "number" and term.column in calibration.long_tailed:
            low = term.centre - term.scale
            high = term.centre + term.scale
            _warn(
                f"calibrated: infer counts {term.column} outside {low:g} to {high:g} "
                "as the nearer of these, so that the rows have fewer such numbers than "
                "the records may have."
            )
    hidden = calibration.columns_with_hidden_levels
    if hidden:
        _warn(
            f"calibrated: levels of {', '.join(hidden)} are too noisy; their "
            "shares in the rows are those of the model."
        )
    random = np.random.default_rng(seed)
    sums = np.zeros(len(calibration.means))
    n_blocks = -(-n // _MAX_BLOCK_ROWS)
    for block in range(n_blocks):
        size = n // n_blocks + (block < n % n_blocks)
        n_candidates = max(_CANDIDATES_PER_ROW * size, _MIN_CANDIDATES)
        candidates = EncodedTable.concatenate(list(draw(n_candidates)))
        rows = calibration.choose(candidates, size, random)
        for start in range(0, size, batch_rows):
            batch = rows.rows(np.arange(start, min(start + batch_rows, size)))
            sums += calibration.sums_over(batch)
            yield batch
    if n > 0:
        _warn_of_disagreement(calibration.agreement(sums, n), n)


def _warn_of_disagreement(agreement: Agreement, n: int) -> None:
    """Warns if rows are further from the release than calibrated ones should be."""
    if agreement.largest <= _MAX_DISAGREEMENT:
        return
    _warn(
        f"calibrated: the {n:,} rows agree with infer to "
        f"{agreement.root_mean_square:.2g} of a standard error in the root mean square; "
        f"the furthest off is {' and '.join(agreement.products)}, by "
        f"{agreement.largest:.2g}. More rows, or fewer columns by name, agree better."
    )


def _warn(text: str) -> None:
    """Warns whoever samples, in Python and on the command line alike."""
    warnings.warn(text, UserWarning, stacklevel=2)


def _systematic_sample(
    terms: Floats, expected_counts: Floats, random: np.random.Generator
) -> Indices:
    """Draws each candidate about as often as expected, alike ones in turn.

    Candidates are ordered by their principal components, so that rows are spread out
    over them.

    Args:
        terms: Of each candidate, (candidates, 1 + terms).
        expected_counts: How often each is drawn on average, (candidates,).
        random: Public randomness.

    Returns:
        Indices of candidates, ascending, as many as the expected counts add up to.
    """
    centred = terms - terms.mean(axis=0)
    _, components = np.linalg.eigh(centred.T @ centred)
    # The largest come last. There may be fewer than three.
    scores = centred @ components[:, ::-1][:, :3]
    keys = [scores[:, -1]]
    for component in scores.T[:-1][::-1]:
        edges = np.quantile(component, np.linspace(0, 1, _STRATA + 1)[1:-1])
        keys.append(np.digitize(component, edges).astype(np.float64))
    order = np.lexsort(keys)
    total = round(float(expected_counts.sum()))
    ends = np.cumsum(expected_counts[order])
    ends *= total / ends[-1]
    # A point in each of `total` intervals of length 1.
    points = np.arange(total) + random.random()
    places = np.searchsorted(ends, points, side="right")
    return np.sort(order[np.minimum(places, len(order) - 1)])


def _best_exchanges(
    errors: Floats, leaving: Floats, entering: Floats
) -> tuple[list[tuple[int, int]], Floats]:
    """Finds exchanges that bring errors nearer to 0, the best one first.

    An exchange of row i for candidate j adds d = entering_j − leaving_i to the errors
    e, and 2 d'e + d'd to their sum of squares.

    Args:
        errors: Errors before, (products,).
        leaving: What each row adds to the errors, (rows, products).
        entering: What each candidate would add, (candidates, products).

    Returns:
        Pairs of a row and a candidate, each once at most, and the errors after.
    """
    squares = np.square(leaving).sum(axis=1)[:, None] + np.square(entering).sum(axis=1)
    squares = squares - 2 * leaving @ entering.T
    is_left = np.zeros(squares.shape, dtype=np.bool_)
    exchanges: list[tuple[int, int]] = []
    while len(exchanges) < min(squares.shape):
        gains = squares + 2 * ((entering @ errors) - (leaving @ errors)[:, None])
        gains[is_left] = np.inf
        row, other = divmod(int(gains.argmin()), gains.shape[1])
        if gains[row, other] >= 0:
            break
        errors = errors + entering[other] - leaving[row]
        exchanges.append((row, other))
        is_left[row] = True
        is_left[:, other] = True
    return exchanges, errors
