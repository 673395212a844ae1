"""Bounds on the squared MMD, from settings alone: of DP-MERF and DP-MEPF's supplement A (docs/differences.md).

a is the difference between the mean embedding of the records and that of the synthetic ones, n the noise, normal with
covariance Σ, B is `norm`, the largest norm of a record's vector. The squared MMD is ‖a‖²; what is fitted is ‖a + n‖². A
bound may fail with probability `failure`, and Q = Tr Σ + 2 ‖Σ‖_F √L + 2 ‖Σ‖_op L with L = ln(1/failure).

Cost and accuracy of an embedding, before any data is read: bounds on the squared
MMD, from its settings alone.

A mean embedding of finitely many features stands for a kernel, and it is released with
noise: the error of the former falls with its length, that of the latter grows. A method
states both as an `ErrorBound`, which `noisegate plan` prints.

The bounds on the noise are those of DP-MERF and of DP-MEPF's supplement A, corrected:
[differences](../../docs/differences.md) says where and why. a is the difference between
the mean embedding of the records and that of the synthetic ones, n the noise, normal
with covariance Σ, B is `norm`, the largest norm of a record's vector. The squared MMD
is ‖a‖²; what is fitted is ‖a + n‖². A bound may fail with probability `failure`, and Q
= Tr Σ + 2 ‖Σ‖_F √L + 2 ‖Σ‖_op L with L = ln(1/failure).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from noisegate.privacy.plan import NoisySum

BOUNDED = "the expected absolute error of the noisy squared MMD by features against that by their kernel without noise"


def noise_error(std: float, dim: int, *, norm: float) -> float:
    """Returns a bound on E sup |‖a + n‖² − ‖a‖²| over all synthetic tables, also those fitted to this very noise.

    It is D s² + 4 B E‖n‖, with E‖n‖ = s √2 Γ((D+1)/2)/Γ(D/2), for noise of standard deviation s on each of D
    coordinates (DP-MERF, Lemma B.3 and the bracket of Proposition 3.1, where B = 1 and s = 2σ/m).
    """
    # The mean of the chi distribution is √D to a relative 1/(4 D), and for long D the difference of logarithms loses
    # digits.
    half = dim / 2
    length = (
        math.sqrt(dim)
        if dim > 1_000_000
        else math.sqrt(2) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
    )
    return std**2 * dim + 4 * norm * (std * length)


def random_feature_error(frequencies: int) -> float:
    """Returns 2/√F ≥ E |MMD² by F random Fourier frequencies − MMD²| (DP-MERF, the last term of Proposition 3.1)."""
    return 2 / math.sqrt(frequencies)


def truncation_error(tail: float) -> float:
    """Returns the most that a squared MMD loses without features whose squared norm is at most `tail`: 4 · `tail`."""
    return 4 * tail


@dataclass(frozen=True, kw_only=True)
class ErrorTerms:
    """The bound at one value of a setting."""

    value: int
    dim: int  # length of a record's vector
    approximation: float  # lost because finitely many features stand for a kernel
    noise: float  # lost because of the noise

    @property
    def total(self) -> float:
        """Both together."""
        return self.approximation + self.noise


@dataclass(frozen=True, kw_only=True)
class ErrorBound:
    """How far what is fitted may be from the squared MMD of the kernel, for one question of a plan."""

    question: str
    setting: str  # what the dimension follows from
    chosen: ErrorTerms  # at the value that the method has
    least: ErrorTerms  # where it is least
    largest: float  # what a squared MMD of such features can be at most; a bound above it says nothing
    source: str

    def to_json(self) -> dict[str, Any]:
        """Returns the bound as a JSON object."""
        both = {"chosen": self.chosen, "least": self.least}
        terms = {name: asdict(one) | {"total": one.total} for name, one in both.items()}
        return {**asdict(self), **terms, "bounds": BOUNDED}

    def text(self) -> str:
        """Returns the bound in words."""
        chosen, least = self.chosen, self.least
        text = (
            f"Error bound of {self.question!r} with {self.setting}={chosen.value} ({chosen.dim:,} features): "
            f"{chosen.approximation:.3g} from the features + {chosen.noise:.3g} from the noise = {chosen.total:.3g}. "
            f"Least at {self.setting}={least.value} ({least.dim:,}): "
            f"{least.approximation:.3g} + {least.noise:.3g} = {least.total:.3g}.\n"
            f"It bounds {BOUNDED} ({self.source}): a worst case over all tables. In practice the default may do better."
        )
        if chosen.total >= self.largest:
            text += (
                f"\nNo squared MMD exceeds {self.largest:g}: with "
                f"{self.setting}={chosen.value} it is vacuous."
            )
        return text


def error_bound(
    release: NoisySum,
    *,
    records: int,
    setting: str,
    value: int,
    candidates: Iterable[int],
    dimension: Callable[[int], int],
    approximation: Callable[[int], float],
    source: str,
) -> ErrorBound:
    """Returns the bound for one question of a plan, a sum over so many `records`, and where it is least."""
    # The noise on a coordinate does not depend on how many there are; so that of `release` is that of every candidate.
    # `dimension` gives for a value of the setting the length of a record's vector, `approximation` a bound on |MMD² by
    # the features − MMD² by the kernel|, or on its expectation.
    question = release.query
    std = release.noise_std_natural / records

    def terms(value: int) -> ErrorTerms:
        dim = dimension(value)
        noise = noise_error(std, dim * question.columns, norm=question.norm)
        return ErrorTerms(
            value=value, dim=dim, approximation=approximation(value), noise=noise
        )

    chosen = terms(value)
    least = min([chosen, *map(terms, candidates)], key=lambda entry: entry.total)
    largest = 4 * question.norm**2
    return ErrorBound(
        question=question.name,
        setting=setting,
        chosen=chosen,
        least=least,
        largest=largest,
        source=source,
    )


FAILURE = 0.01
"""The probability with which those bounds that hold with high probability may fail, where a plan is printed."""


@dataclass(frozen=True, kw_only=True)
class MeanNoise:
    """Independent normal noise on a mean embedding, in blocks: Σ is diagonal and constant on each block."""

    stds: tuple[float, ...]  # in the units of the mean embedding
    dims: tuple[int, ...]  # numbers of coordinates, all labels together

    @property
    def trace(self) -> float:
        """Tr Σ = E‖n‖²."""
        return math.fsum(
            std**2 * dim for std, dim in zip(self.stds, self.dims, strict=True)
        )


def along(noise: MeanNoise, distances: tuple[float, ...]) -> float:
    """Returns ‖Σ^½ a‖ for an a that has norm `distances` on each block."""
    return math.sqrt(
        math.fsum(
            (std * distance) ** 2
            for std, distance in zip(noise.stds, distances, strict=True)
        )
    )


def squared_norm_quantile(noise: MeanNoise, failure: float) -> float:
    """Returns Q, which ‖n‖² exceeds with probability at most `failure` (Laurent and Massart, 2000, Lemma 1)."""
    log = -math.log(failure)
    # Equation 9 of DP-MEPF adds up the blocks instead of their squares: an upper bound of this.
    frobenius = math.sqrt(
        math.fsum(std**4 * dim for std, dim in zip(noise.stds, noise.dims, strict=True))
    )
    return noise.trace + 2 * frobenius * math.sqrt(log) + 2 * max(noise.stds) ** 2 * log


def expected_error_of_one(noise: MeanNoise, *, distances: tuple[float, ...]) -> float:
    """Returns Tr Σ + 2 √(2/π) ‖Σ^½ a‖ ≥ E |‖a + n‖² − ‖a‖²| for a table that was made without looking at the noise."""
    # `distances` are ‖a‖ on each block (DP-MEPF, Proposition A.1).
    return noise.trace + 2 * math.sqrt(2 / math.pi) * along(noise, distances)


def error_quantile(
    noise: MeanNoise, *, distances: tuple[float, ...], failure: float
) -> float:
    """Returns what |‖a + n‖² − ‖a‖²| exceeds with probability at most `failure`, for one synthetic table.

    It is Tr Σ + 2 (‖Σ‖_F + √2 ‖Σ^½ a‖) √L + 2 ‖Σ‖_op L with L = ln(2/failure) (DP-MEPF, Proposition A.2, less a term).
    `distances` are ‖a‖ on each block; the table must have been made without looking at the noise.
    """
    root = math.sqrt(2 * math.log(2 / failure))
    return (
        squared_norm_quantile(noise, failure / 2) + 2 * along(noise, distances) * root
    )


def error_quantile_of_any(noise: MeanNoise, *, norm: float, failure: float) -> float:
    """Returns Q + 4 B √Q, which sup |‖a + n‖² − ‖a‖²| over all tables seldom exceeds (DP-MEPF, A.3, corrected)."""
    squared = squared_norm_quantile(noise, failure)
    return squared + 4 * norm * math.sqrt(squared)


def excess_of_minimiser(noise: MeanNoise, *, norm: float, failure: float) -> float:
    """Returns 4 B √Q: how much larger ‖a‖² is at the minimiser of ‖a + n‖² than at its own (DP-MEPF, A.4, tight)."""
    # It holds for any set of generators; both minimisers are assumed to be found, which no fit promises.
    return 4 * norm * math.sqrt(squared_norm_quantile(noise, failure))


def optimistic_excess_of_minimiser(
    noise: MeanNoise, *, distance: float, failure: float
) -> float:
    """Returns 4 Q + 4 M √Q: the same for generators of which one has the MMD M, `distance` (A.5, made tight)."""
    squared = squared_norm_quantile(noise, failure)
    return 4 * squared + 4 * distance * math.sqrt(squared)


@dataclass(frozen=True, kw_only=True)
class NoiseBounds:
    """The five propositions for the queries of a plan, whose features are summed up by their mean embeddings."""

    queries: tuple[str, ...]
    features: int
    expected: float  # A.1, the expected error of the squared MMD, of records made without looking at the noise
    quantile: float  # A.2, what it exceeds with probability at most `failure`
    quantile_of_any: float  # A.3, the same for any synthetic records, also those fitted to this very noise
    excess: float  # A.4, how much the best fit to the noise is above the least squared MMD, at most
    optimistic_excess: (
        float  # A.5, the same where the best generator matches the records exactly
    )
    failure: float
    largest: (
        float  # a squared MMD of such features at most; a bound above it says nothing
    )

    def to_json(self) -> dict[str, Any]:
        """Returns the bounds as a JSON object."""
        return {**asdict(self), "source": "DP-MEPF, Propositions A.1 to A.5, corrected"}

    def text(self) -> str:
        """Returns the bounds in words."""
        names, chance = (
            ", ".join(map(repr, self.queries)),
            f"{1 - self.failure:.0%} of the time",
        )
        lines = [
            f"The noise on {names} ({self.features:,} numbers) moves the squared MMD, at most {self.largest:g},",
            f"  by {self.expected:.3g} in expectation (DP-MEPF, A.1), by less than {self.quantile:.3g} {chance} (A.2), "
            "for images made without looking at it;",
            f"  by less than {self.quantile_of_any:.3g} {chance}, for whatever is fitted to it (A.3, corrected).",
            f"  The best fit is worse than the best generator by less than {self.excess:.3g} {chance} (A.4), and by "
            f"{self.optimistic_excess:.3g} if that matches the records (A.5).",
        ]
        least = min(self.excess, self.optimistic_excess)
        if least >= self.largest:
            lines.append(
                "  So these bounds say nothing at this ε and number of records."
            )
        return "\n".join(lines)


def noise_bounds(
    releases: Sequence[NoisySum], *, records: int, failure: float = FAILURE
) -> NoiseBounds:
    """Returns the bounds for the queries of a plan that a generator is matched to, as sums over so many `records`."""
    # Mean embeddings are at most twice the norm of a record's vector apart in each query, so A.1 and A.2 are stated for
    # the farthest synthetic records that there are.
    noise = MeanNoise(
        stds=tuple(one.noise_std_natural / records for one in releases),
        dims=tuple(one.query.dim * one.query.columns for one in releases),
    )
    norms = [one.query.norm for one in releases]
    norm, distances = math.hypot(*norms), tuple(2 * each for each in norms)
    return NoiseBounds(
        queries=tuple(one.query.name for one in releases),
        features=sum(noise.dims),
        expected=expected_error_of_one(noise, distances=distances),
        quantile=error_quantile(noise, distances=distances, failure=failure),
        quantile_of_any=error_quantile_of_any(noise, norm=norm, failure=failure),
        excess=excess_of_minimiser(noise, norm=norm, failure=failure),
        optimistic_excess=optimistic_excess_of_minimiser(
            noise, distance=0.0, failure=failure
        ),
        failure=failure,
        largest=4 * norm**2,
    )
