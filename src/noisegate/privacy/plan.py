"""Plan before data: questions and budget shares, calibrated to noise before the first record is read.

`Plan` is what a method wants to ask; `Plan.calibrate(budget)` gives a `CalibratedPlan`, the only thing the gate
takes. So an uncalibrated run is a type error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from noisegate.errors import CalibrationError, OptionError
from noisegate.privacy import accounting, gaussian
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.convolution import reached
from noisegate.privacy.events import GaussianEvent, Sampler
from noisegate.privacy.grid import Grid
from noisegate.privacy.noise import choose_samplers
from noisegate.privacy.units import RECORD, check_contributions, check_unit

MINIMUM_EPSILON, MAXIMUM_EPSILON = 0.01, 1000.0
MINIMUM_DELTA = 1e-12


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The guarantee that is asked for.

    Attributes:
        epsilon: In [0.01, 1000].
        delta: In [1e-12, 0.5). Choose it well below one over the number of records.
        adjacency: The neighbouring relation.
        unit: What one record stands for, in the words of the certificate; or whose records belong together.
        contributions: How many records of one unit are used at most; None when every record is a unit.
    """

    epsilon: float
    delta: float = 1e-5
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    unit: str = RECORD
    contributions: int | None = None

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("epsilon", self.epsilon, MINIMUM_EPSILON, MAXIMUM_EPSILON),
            ("delta", self.delta, MINIMUM_DELTA, math.nextafter(0.5, 0)),
        ):
            if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
                raise OptionError(f"{name}={value!r} must be a number from {low:g} to {high:g}{_hint(name, value)}.")
            # A certificate is hashed as JSON, where 1 is not 1.0, and read back it has floats.
            object.__setattr__(self, name, float(value))
        check_contributions(self.contributions)
        check_unit(self.unit, self.contributions)
        if self.contributions is not None and self.adjacency is Adjacency.REPLACE_ONE:
            raise OptionError(
                "adjacency='replace-one' takes the number of records as public, which depends on how many records each "
                "unit has; with unit_column use adjacency='add-remove'."
            )


def _hint(name: str, value: object) -> str:
    if name == "epsilon" and isinstance(value, int | float) and value > MAXIMUM_EPSILON:
        return "; above that there is no privacy left to speak of"
    return "; for instance 1 (--epsilon 1)" if name == "epsilon" else "; for instance 1e-5 (--delta 1e-5)"


@dataclass(frozen=True, kw_only=True)
class Question:
    """One sum over all records of a vector of bounded norm.

    Attributes:
        name: Unique within the plan.
        dim: Length of one record's vector; with `adaptive`, the largest that it may have.
        columns: How many columns (label values) a record's vector may go to; 1 without labels.
        norm: L2 norm that every vector is clipped to.
        share: Part of the budget, positive; shares are relative to their sum, in units of Gaussian-DP μ².
        nonnegative: Whether vectors are non-negative; enforced by the gate.
        centre: Public centre to subtract, or None.
        adaptive: Whether the map is chosen after earlier answers of the same plan. Its norm, its share and its noise
            are fixed now all the same (docs/guarantees.md, G-13).
        tables: Number of contingency tables, where the question is about these. Only for forecasts of time.
    """

    name: str
    dim: int
    columns: int
    norm: float
    share: float
    nonnegative: bool = False
    centre: tuple[float, ...] | None = None
    adaptive: bool = False
    tables: int | None = None

    def __post_init__(self) -> None:
        if self.dim < 1 or self.columns < 1:
            raise OptionError(f"question {self.name!r}: dim={self.dim} and columns={self.columns} must be at least 1.")
        if not (math.isfinite(self.share) and self.share > 0):
            raise OptionError(f"question {self.name!r}: share={self.share!r} must be positive and finite.")

    @property
    def grid(self) -> Grid:
        """The grid on which this question is summed."""
        return Grid(norm=self.norm, nonnegative=self.nonnegative, centre=self.centre)

    def sensitivity(self, budget: Budget) -> int:
        """Returns the L2 sensitivity of the sum for one privacy unit of `budget`, in grid units."""
        return self.grid.bound.of_unit(budget.contributions or 1).sensitivity(budget.adjacency)

    @property
    def coordinates(self) -> int:
        """How many numbers the answer has; with `adaptive`, at most."""
        return self.dim * self.columns


@dataclass(frozen=True, kw_only=True)
class PlannedRelease:
    """A question with its noise: everything the gate needs, and everything the certificate states."""

    question: Question
    sensitivity: int
    noise_std: float
    sampler: Sampler

    @property
    def event(self) -> GaussianEvent:
        """The private event that answering this question is."""
        return GaussianEvent(
            name=self.question.name,
            sensitivity=self.sensitivity,
            noise_std=self.noise_std,
            coordinates=self.question.coordinates,
            sampler=self.sampler,
        )

    @property
    def noise_std_natural(self) -> float:
        """Standard deviation of the noise in the units of the record's vector."""
        return self.noise_std / self.question.grid.scale


@dataclass(frozen=True, kw_only=True)
class CalibratedPlan:
    """Questions with noise that together cost at most `budget`. Made by `Plan.calibrate` only."""

    budget: Budget
    releases: tuple[PlannedRelease, ...]

    def __post_init__(self) -> None:
        for release in self.releases:
            if release.sensitivity < release.question.sensitivity(self.budget):
                raise CalibrationError(
                    f"question {release.question.name!r}: sensitivity={release.sensitivity} is below that of "
                    f"{self.budget.adjacency.value}; make plans with Plan.calibrate."
                )
        spent = self.epsilon
        if not spent <= self.budget.epsilon:
            raise CalibrationError(
                f"the plan costs epsilon={spent:g}, more than the {self.budget.epsilon:g} asked for."
            )

    @property
    def events(self) -> tuple[GaussianEvent, ...]:
        """What will be run, for the ledger and the certificate."""
        return tuple(release.event for release in self.releases)

    @property
    def epsilon(self) -> float:
        """ε of the whole plan at the budget's δ, recomputed from its events."""
        return accounting.epsilon(self.events, self.budget.delta, self.budget.adjacency)

    def release(self, name: str) -> PlannedRelease:
        """Returns the planned release of the question called `name`."""
        return next(release for release in self.releases if release.question.name == name)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a method wants to ask of the private data, before any budget is fixed."""

    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        names = [question.name for question in self.questions]
        if not names or len(set(names)) != len(names):
            raise OptionError(f"questions={names!r}: a plan needs at least one question, each with its own name.")

    def calibrate(self, budget: Budget) -> CalibratedPlan:
        """Returns the plan with the least noise that keeps `budget`.

        The Gaussian-DP budget μ² is split in proportion to the shares (exact composition, so nothing is lost by asking
        several questions), and each question's noise follows from its own sensitivity.

        Raises:
            CalibrationError: if no noise can give the guarantee.
        """
        sizes = [question.coordinates for question in self.questions]
        samplers = choose_samplers(sizes, epsilon=budget.epsilon, delta=budget.delta)
        slack = sum(
            question.coordinates * accounting.ROUNDED_DISTANCE
            for question, sampler in zip(self.questions, samplers, strict=True)
            if sampler is Sampler.ROUNDED_GAUSSIAN
        )
        # At most a tenth of δ, or another sampler would have been chosen.
        delta = budget.delta - slack * (1 + math.exp(budget.epsilon)) * (1 + 1e-9) if slack else budget.delta
        mu = gaussian.mu_for(budget.epsilon, delta) * (1 - 1e-9 if slack else 1)
        total = math.fsum(question.share for question in self.questions)
        releases = tuple(
            _calibrated(question, sampler, mu * math.sqrt(question.share / total), budget)
            for question, sampler in zip(self.questions, samplers, strict=True)
        )
        return CalibratedPlan(budget=budget, releases=releases)


def _calibrated(question: Question, sampler: Sampler, mu: float, budget: Budget) -> PlannedRelease:
    sensitivity = question.sensitivity(budget)
    ideal = sensitivity / mu
    if sampler in (Sampler.DISCRETE_GAUSSIAN, Sampler.CONVOLVED_GAUSSIAN):
        ideal = math.sqrt(ideal**2 + accounting.SMOOTHING_VARIANCE)
    if not accounting.MINIMUM_STD <= ideal < accounting.MAXIMUM_STD:
        raise CalibrationError(
            f"question {question.name!r} would need noise of {ideal:g} grid units, outside [16, 2^50]; "
            "give it a larger share, or ask for another epsilon."
        )
    noise_std = ideal * (1 + 1e-12)
    if sampler is Sampler.CONVOLVED_GAUSSIAN:
        noise_std = reached(noise_std)  # convolutions come in steps; the event states what is drawn
    return PlannedRelease(question=question, sensitivity=sensitivity, noise_std=noise_std, sampler=sampler)
