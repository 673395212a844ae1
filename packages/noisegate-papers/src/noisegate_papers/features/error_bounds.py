"""What an embedding costs and is worth, before any data is read: bounds on the squared MMD, from its settings alone.

A mean embedding of finitely many features stands for a kernel, and it is released with noise. The error of the former
falls with its length, that of the latter grows: a method states both as an `ErrorBound`, which `noisegate plan` prints.
Embeddings are means over the records: noise on a sum is divided by the number of records. The notation is that of
`noisegate_papers.features.noise_bounds`; the papers' other propositions are in benchmarks/papers/mmd_bounds.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.privacy.plan import PlannedRelease

BOUNDED = "the expected absolute error of the noisy squared MMD by features against that by their kernel without noise"


def noise_error(std: float, dim: int, *, norm: float) -> float:
    """Returns a bound on E sup |‖a + n‖² − ‖a‖²| over all synthetic tables, also those fitted to this very noise.

        D s² + 4 B E‖n‖,    E‖n‖ = s √2 Γ((D+1)/2)/Γ(D/2)

    for noise of standard deviation s on each of D coordinates of the mean embedding, and B, the largest norm of a
    record's vector. It is exact when the features of tables fill the ball of radius B.

    Source: DP-MERF, Lemma B.3 and the bracket of Proposition 3.1, where B = 1 and s = 2σ/m. The paper states it for one
    table, for which Tr Σ + 2 √(2/π) ‖Σ^½ a‖ does, but its proof takes the supremum. (Equations 38 and 41 are printed
    for half that noise.)
    """
    # The mean of the chi distribution is √D to a relative 1/(4 D), and for long D the difference of logarithms loses
    # digits.
    half = dim / 2
    length = math.sqrt(dim) if dim > 1_000_000 else math.sqrt(2) * math.exp(math.lgamma(half + 0.5) - math.lgamma(half))
    return std**2 * dim + 4 * norm * (std * length)


def random_feature_error(frequencies: int) -> float:
    """Returns 2/√F ≥ E |MMD² by F random Fourier frequencies − MMD²| for two tables, over the draw of the features.

    The squared MMD by F frequencies is the mean over them of |difference of two characteristic functions|², summed over
    labels. Each term lies in [0, 4] and has mean M, hence a variance of at most M (4 − M) (Bhatia and Davis, 2000). Two
    tables of one record each, far apart, reach 0.56 of it. Drawing a fixed share of the frequencies for each pair of
    columns, as `noisegate_images.features.fourier.draw` does, does not raise the variance.

    Source: DP-MERF, Lemma B.2 and the last term of Proposition 3.1, 8√(2π/D) with D = 2F features: true, and 7.1 times
    larger, since it goes through a tail bound. (Equation 32 of its Lemma B.1 is loose as well.)
    """
    if frequencies < 1:
        raise OptionError(f"frequencies={frequencies!r} must be at least 1.")
    return 2 / math.sqrt(frequencies)


def truncation_error(tail: float) -> float:
    """Returns the most that a squared MMD loses when features are left out: 4 · `tail`, which can be reached.

    `tail` is the largest squared norm of what is left out, over all records. For a series that adds up to a kernel with
    k(x, x) = 1 (DP-HP, equation 6) it is 1 − the least squared norm of the features that are kept.
    """
    if not 0 <= tail < math.inf:
        raise OptionError(f"tail={tail!r} must be at least 0 and finite.")
    return 4 * tail


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
            text += f"\nNo squared MMD exceeds {self.largest:g}: with {self.setting}={chosen.value} it says nothing."
        return text


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
) -> ErrorBound:
    """Returns the bound for one question, and where it is least.

    The noise on a coordinate does not depend on how many there are; so that of `release` is that of every candidate.

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
    """
    question = release.query
    std = release.noise_std_natural / records

    def terms(value: int) -> ErrorTerms:
        dim = dimension(value)
        noise = noise_error(std, dim * question.columns, norm=question.norm)
        return ErrorTerms(value=value, dim=dim, approximation=approximation(value), noise=noise)

    chosen = terms(value)
    least = min([chosen, *map(terms, candidates)], key=lambda entry: entry.total)
    largest = 4 * question.norm**2
    return ErrorBound(
        question=question.name, setting=setting, chosen=chosen, least=least, largest=largest, source=source
    )
