"""Plans a stream: queries of every period, and noise that partly cancels (G-34).

Let x be the exact sums of the periods, one row each. What is wanted are the totals A x,
with ones on and below the diagonal of A (or in a band of it, for totals of a window).
With A = B C, the square root C as a Toeplitz matrix::

    answers of the periods     y = x + C⁻¹ z      z: fresh noise of each period
    totals that are released   A y = A x + B z    noise grows with log of the periods
    what a record moves        C x                by the norm of one column of C

So each period draws fresh noise and takes back a part of the noise of earlier periods.
The first column of C is w₀, w₁, … with wⱼ = (−1)ʲ·binom(−½, j) where totals are of all
periods so far (Fichtenberger, Henzinger and Upadhyay, ICML 2023,
https://arxiv.org/abs/2202.11205). It is cut after `BAND` entries (Kalinin and Lampert,
2024, https://arxiv.org/abs/2405.13763), which serves any number of periods: up to a
thousand its noise is below that of epochs that double.

`Horizon` is what a user decides, and prices a plan for all periods.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from noisegate.errors import OptionError, said
from noisegate.privacy import accounting
from noisegate.privacy.accounting import (
    continual_sensitivity,
    effective_multiplier,
    total_noise_factor,
)
from noisegate.privacy.events import (
    MOST_PERIODS,
    TOEPLITZ,
    Adjacency,
)
from noisegate.privacy.plan import Budget, NoisySum, Plan, Query, with_noise

BAND = 48
"""From how many periods one takes noise back at most, itself among them."""
# Cells and pairs are chosen in the first period, for the records of so many.
_MAX_PLANNING_PERIODS = 24
# The least ε of a budget that is only shown.
_MIN_EPSILON = 0.01


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """How many periods a stream has, and what is released after each.

    Attributes:
        periods: Largest number of periods.
        window: How many of the last periods each release is about; None for all so far.
        corrections: Whether a record may be withdrawn or amended once, in a later
            period.
        exact_withdrawals: Whether what is withdrawn is taken to be, to the bit, what
            was given. New plans pay for whatever is withdrawn. Those of earlier
            versions took it for granted, and keep their cost.

    Raises:
        OptionError: if a number is out of range, or withdrawals are exact without
            corrections.

    Examples:
        >>> from noisegate.privacy.continual_plan import Horizon
        >>> Horizon(periods=24).weights[:4]
        (256, 128, 96, 80)
        >>> [round(Horizon(periods=24).overhead(period), 2) for period in (1, 12, 24)]
        [1.44, 1.96, 2.07]
    """

    periods: int = MOST_PERIODS
    window: int | None = None
    corrections: bool = False
    exact_withdrawals: bool = False

    def __post_init__(self) -> None:
        """Checks the fields against each other."""
        if self.exact_withdrawals and not self.corrections:
            raise OptionError(
                f"{said('exact_withdrawals', True)}: without corrections nothing is "
                "withdrawn."
            )
        _check_count("periods", self.periods, MOST_PERIODS)
        if self.window is not None:
            _check_count("window", self.window, self.periods)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The first column of C, in units of 1/256, cut after `BAND` entries.

        With the first column a of A, the column c of its square root has
        Σ cᵢ·cⱼ₋ᵢ = aⱼ, so cⱼ = (aⱼ − Σ_{0<i<j} cᵢ·cⱼ₋ᵢ)/2 for j > 0, and c₀ = 1.
        """
        window = self.window or self.periods
        root = [1.0]
        for j in range(1, min(self.periods, BAND)):
            entry_of_totals = 1.0 if j < window else 0.0
            inner_products = sum(root[i] * root[j - i] for i in range(1, j))
            root.append((entry_of_totals - inner_products) / 2)
        return tuple(round(TOEPLITZ * entry) for entry in root)

    @property
    def band(self) -> int:
        """For how many periods the noise of one is kept, its own among them."""
        return len(self.weights)

    def correction_factor(self, query: Query) -> int:
        """Returns the factor on the squared sensitivity that corrections cost (G-34).

        With a correction a record moves up to three vectors: what was given, what is
        withdrawn, and what takes its place. That is 9; less where no two vectors of
        records point away from each other.

        Args:
            query: Has non-negative vectors or not.

        Returns:
            1 without corrections; else 9, or for non-negative vectors 5. Plans of
            earlier versions have 3 in place of 5.
        """
        if self.corrections and not query.nonnegative:
            return 9
        return self._nonnegative_correction_factor

    @property
    def _nonnegative_correction_factor(self) -> int:
        """The factor of corrections for queries whose vectors are not negative."""
        if not self.corrections:
            return 1
        if not self.exact_withdrawals:
            return 5
        weights = list(self.weights)
        is_falling = weights == sorted(weights, reverse=True) and weights[-1] >= 0
        return 3 if is_falling else 9

    def noise_factor(self, period: int) -> float:
        """Returns the noise of the release after a period, over fresh noise of one."""
        return total_noise_factor(self.weights, period, self.window)

    def overhead(self, period: int) -> float:
        """Returns the noise of the release after a period, over that of asking once.

        Asking once means a single release of all these records, at the same ε; rounding
        and corrections are left out.
        """
        squared_weights = sum(weight * weight for weight in self.weights)
        return self.noise_factor(period) * math.sqrt(squared_weights) / TOEPLITZ

    @property
    def planning_periods(self) -> int:
        """For how many periods of records the first one chooses cells and pairs."""
        return min(self.periods, self.window or self.periods, _MAX_PLANNING_PERIODS)

    def plan(self, once: Plan, period: int | None = None) -> Plan:
        """Plans a stream at the cost of a plan that asks once.

        Args:
            once: The plan that asks once.
            period: After which period the noise is stated; None for the last.

        Raises:
            OptionError: if its guarantee is about replaced records, or about units with
                several records.
        """
        budget = once.budget
        if budget.adjacency is not Adjacency.ADD_REMOVE:
            raise OptionError(
                "adjacency='replace-one': how many records a period has is private; "
                "use 'add-remove'."
            )
        if budget.contributions is not None:
            raise OptionError(
                "unit_column: the records of one unit may come in several periods, and "
                "nobody counts them over all; give a table with one record for each "
                "unit, each in one period."
            )
        releases = tuple(
            self._in_periods(release, period or self.periods)
            for release in once.releases
        )
        return replace(once, mechanisms=releases)

    def _in_periods(self, once: NoisySum, period: int) -> NoisySum:
        """Plans a query for all periods, at the Gaussian-DP μ of asking it once."""
        query = once.query
        sensitivity = continual_sensitivity(
            self.weights,
            float(query.grid.bound.units),
            self.correction_factor(query),
            query.coordinates,
        )
        mu = 1 / effective_multiplier(once.event)
        in_a_period = with_noise(query, once.sampler, mu, math.ceil(sensitivity))
        return replace(in_a_period, horizon=self, period=period)

    def noise_by_query(self, plan: Plan, period: int) -> dict[str, float]:
        """Returns the noise on each answer after a period, in the units of the answers.

        Args:
            plan: A plan of this stream.
            period: The period.
        """
        factor = self.noise_factor(period)
        return {
            release.query.name: release.noise_std / release.query.grid.scale * factor
            for release in plan.releases
        }

    def at_once(self, budget: Budget) -> Budget:
        """Returns a budget for asking once, at the noise of the stream's last release.

        It tells what quality to expect: as that of a fit at this smaller ε.

        Args:
            budget: The budget of the stream.
        """
        correction = math.sqrt(self._nonnegative_correction_factor)
        noise_ratio = max(self.overhead(self.periods) * correction, 1.0)
        mu = accounting.mu_for(budget.epsilon, budget.delta) / noise_ratio
        epsilon = accounting.gaussian_epsilon(mu, budget.delta)
        return replace(budget, epsilon=max(epsilon, _MIN_EPSILON))

    def to_json(self) -> dict[str, Any]:
        """Returns the horizon as a JSON object, with its weights and overhead."""
        return {
            **self.facts,
            "weights": list(self.weights),
            "overhead": self.overhead(self.periods),
        }

    @property
    def facts(self) -> dict[str, Any]:
        """The horizon as a published plan stores it.

        Exact withdrawals stand only where they are not what a reader assumes, see `of`:
        so plans without corrections are stored as earlier versions stored them.
        """
        fields = asdict(self)
        if not self.corrections or self.exact_withdrawals:
            del fields["exact_withdrawals"]
        return fields

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Horizon:
        """Reads a horizon from the fields that a plan stores.

        Plans with corrections that say nothing of withdrawals are of earlier versions,
        which took them for exact.
        """
        assumed = {"exact_withdrawals": facts.get("corrections", False)}
        return cls(**{**assumed, **facts})

    def text(self) -> str:
        """Describes in words what a stream releases, and at what noise."""
        if self.window is None:
            records = "all records so far"
        else:
            records = f"the records of the last {self.window} periods"
        corrections = ""
        if self.corrections:
            corrections = ", and may be withdrawn or amended once, in a later one"
        if self.exact_withdrawals:
            corrections += ", exactly as it was given"
        overhead = self.overhead(self.periods)
        overhead_of_sums = math.sqrt(self.window or self.periods)
        return (
            f"A stream of at most {self.periods} periods, each release about {records}. "
            f"A record comes in one period{corrections}, and costs epsilon once. The "
            f"noise on the last release is {overhead:.2f} times that of one release of "
            "everything at the end (releases of single periods, added up: "
            f"{overhead_of_sums:.2f} times). Cells and pairs are chosen in the first "
            "period, and stay."
        )


def _check_count(name: str, value: int, largest: int) -> None:
    """Requires that a field is an integer from 1 to a largest one; True is none."""
    if type(value) is not int or not 1 <= value <= largest:
        raise OptionError(
            f"{said(name, value)} must be a whole number from 1 to {largest}."
        )
