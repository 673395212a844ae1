"""How long an embedding should be: the error of standing for a kernel falls with its length, that of the noise grows.

A method states its bound as an `ErrorBound`, at its own setting and at the one where the bound is least;
`noisegate plan` prints both. Nothing here depends on data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noisegate.privacy.error_bounds import MeanNoise, expected_error_of_any

if TYPE_CHECKING:
    from noisegate.privacy.plan import PlannedRelease


@dataclass(frozen=True, kw_only=True)
class ErrorTerms:
    """The bound at one value of a setting.

    Attributes:
        value: Of the setting.
        dim: Length of a record's vector, that is of the embedding of one label value.
        approximation: What is lost because finitely many features stand for a kernel.
        noise: What is lost because of the noise.
    """

    value: int
    dim: int
    approximation: float
    noise: float

    @property
    def total(self) -> float:
        """Both together."""
        return self.approximation + self.noise


@dataclass(frozen=True, kw_only=True)
class ErrorBound:
    """How far what is fitted may be from the squared MMD of the kernel, for one question of a plan.

    Attributes:
        question: Its name in the plan.
        setting: The setting that its dimension follows from.
        chosen: The bound at the value that the method has.
        least: The bound at the value where it is least.
        largest: The largest value that a squared MMD of such features can have; a bound above it says nothing.
        source: Paper and proposition.
    """

    question: str
    setting: str
    chosen: ErrorTerms
    least: ErrorTerms
    largest: float
    source: str


def error_bound(
    release: PlannedRelease,
    *,
    records: int,
    setting: str,
    value: int,
    candidates: Iterable[int],
    dimension: Callable[[int], int],
    approximation: Callable[[int], float],
    source: str,
    norm: Callable[[int], float] | None = None,
) -> ErrorBound:
    """Returns the bound for one question, and where it is least.

    The noise on a coordinate is proportional to the norm, at the same budget and share, and does not depend on how many
    coordinates there are; so it follows from that of `release` for every candidate.

    Args:
        release: The question with its noise.
        records: How many records the sum is divided by.
        setting: The setting that the dimension follows from.
        value: The value that the method has.
        candidates: Values to choose from, besides `value`.
        dimension: Value of the setting to length of a record's vector.
        approximation: Value of the setting to a bound on |MMD² by the features − MMD² by the kernel|, or on its
            expectation.
        source: Paper and proposition.
        norm: Value of the setting to the norm bound of a record's vector; that of the question when None.
    """
    question = release.question
    per_norm = release.noise_std_natural / records / question.norm

    def terms(value: int) -> ErrorTerms:
        dim = dimension(value)
        bound = question.norm if norm is None else norm(value)
        noise = MeanNoise(stds=(per_norm * bound,), dims=(dim * question.columns,))
        error = expected_error_of_any(noise, norm=bound)
        return ErrorTerms(value=value, dim=dim, approximation=approximation(value), noise=error)

    chosen = terms(value)
    least = min([chosen, *map(terms, candidates)], key=lambda entry: entry.total)
    return ErrorBound(
        question=question.name,
        setting=setting,
        chosen=chosen,
        least=least,
        largest=4 * question.norm**2,
        source=source,
    )
