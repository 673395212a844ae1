"""The plan of a stream: what every period asks, and the factor by which later noise takes earlier noise back (G-34).

The sums of all periods so far are A x, with A of ones on and below the diagonal. With A
= B C, where C is its square root as a Toeplitz matrix (c_j = (-1)^j binom(-1/2, j)),
what is released is A x + B z: its noise grows with log t, and a record moves C x by the
norm of one column. Fichtenberger, Henzinger and Upadhyay (2023), arXiv:2202.11205;
bands, Kalinin and Lampert (2024), arXiv:2405.13763. A band of `BAND` periods serves any
number of them: up to a thousand its noise is below that of epochs that double.
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
    prefix_noise,
)
from noisegate.privacy.events import (
    MOST_PERIODS,
    TOEPLITZ,
    Adjacency,
    ContinualGaussianEvent,
)
from noisegate.privacy.plan import (
    Budget,
    CalibratedPlan,
    PlannedRelease,
    Query,
    with_noise,
)

BAND = 48
"""How many periods a period takes noise back from at most, itself among them."""
_FORESEEN = 24  # what the first period says stands for this many, where cells and pairs are chosen


@dataclass(frozen=True, kw_only=True)
class ContinualRelease(PlannedRelease):
    """A query that every period answers, as its total after one of them."""

    horizon: Horizon
    period: int

    @property
    def event(self) -> ContinualGaussianEvent:
        """The private event that the answers of all periods are together."""
        periods, query = self.horizon.periods, self.query
        told: dict[str, Any] = {
            **vars(super().event),
            "coordinates": query.coordinates * periods,
            "periods": periods,
        }
        told |= {
            "weights": self.horizon.weights,
            "record": float(query.grid.bound.units),
        }
        return ContinualGaussianEvent(**told, corrected=self.horizon.corrected(query))

    @property
    def noise_std_natural(self) -> float:
        """Standard deviation of the noise on the total, in the units of the record's vector."""
        return self.noise_std / self.query.grid.scale * self.horizon.noise(self.period)


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """How many periods there are, and what is released after each.

    Attributes:
        periods: How many there are at most; left out, `MOST_PERIODS`.
        window: How many of the last periods each release is about; None for all so far.
        corrections: Whether a record may be withdrawn or amended once, in a later period.
        exact_withdrawals: Whether what is withdrawn is taken to be, to the bit, what was given. Plans that do not say
            so pay for whatever is withdrawn; those of earlier versions took it for granted, and keep their price.

    Raises:
        OptionError: if one of them is no such number.

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
        if self.exact_withdrawals and not self.corrections:
            raise OptionError(
                f"{said('exact_withdrawals', True)}: without corrections nothing is withdrawn."
            )
        for name, most in (("periods", MOST_PERIODS), ("window", self.periods)):
            value = getattr(self, name)
            if not (type(value) is int and 1 <= value <= most) and (name, value) != (
                "window",
                None,
            ):
                raise OptionError(
                    f"{said(name, value)} must be a whole number from 1 to {most}."
                )

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The first column of C, in parts of 256: that of the square root of the matrix that adds periods up."""
        root: list[float] = []
        for at in range(min(self.periods, BAND)):
            both = sum(root[one] * root[at - one] for one in range(1, at))
            root.append(
                1.0
                if not at
                else (float(at < (self.window or self.periods)) - both) / 2
            )
        return tuple(round(TOEPLITZ * one) for one in root)

    @property
    def band(self) -> int:
        """How many periods the noise of one is needed in, its own among them."""
        return len(self.weights)

    def corrected(self, query: Query) -> int:
        """Returns the square of how many times as far a record moves an answer with a correction, at most (G-34)."""
        if self.corrections and not query.nonnegative:
            return 9
        return self._corrected_nonnegative

    @property
    def _corrected_nonnegative(self) -> int:
        if not self.corrections:
            return 1
        if not self.exact_withdrawals:
            return 5
        # As plans of earlier versions had it.
        falling = (
            list(self.weights) == sorted(self.weights, reverse=True)
            and self.weights[-1] >= 0
        )
        return 3 if falling else 9

    def noise(self, period: int) -> float:
        """Returns the noise of what is released after a period, over the fresh noise of one."""
        return prefix_noise(self.weights, period, self.window)

    def overhead(self, period: int) -> float:
        """Returns the noise of what is released after a period, over that of a release at once at the same price."""
        return (
            self.noise(period)
            * math.sqrt(sum(one * one for one in self.weights))
            / TOEPLITZ
        )

    @property
    def foreseen(self) -> int:
        """How many periods cells and pairs are chosen for."""
        return min(self.periods, self.window or self.periods, _FORESEEN)

    def plan(self, once: CalibratedPlan, period: int | None = None) -> CalibratedPlan:
        """Returns the plan of a stream at the price of one that asks once, with the noise after `period` or the last.

        Raises:
            OptionError: if its guarantee is of replaced records, or of units with several.
        """
        budget = once.budget
        if budget.adjacency is not Adjacency.ADD_REMOVE:
            raise OptionError(
                "adjacency='replace-one': how many records a period has is private; use 'add-remove'."
            )
        if budget.contributions is not None:
            says = "unit_column: the records of one unit may come in several periods, and nobody counts them over all"
            raise OptionError(
                f"{says}; give a table with one record for each unit, each in one period."
            )
        period = period or self.periods
        return replace(
            once, releases=tuple(self._release(one, period) for one in once.releases)
        )

    def _release(self, one: PlannedRelease, period: int) -> ContinualRelease:
        query = one.query
        told = (
            self.weights,
            float(query.grid.bound.units),
            self.corrected(query),
            query.coordinates,
        )
        sensitivity = math.ceil(continual_sensitivity(*told))
        made = with_noise(
            query, one.sampler, 1 / effective_multiplier(one.event), sensitivity
        )
        return ContinualRelease(**vars(made), horizon=self, period=period)

    def noise_of(self, plan: CalibratedPlan, period: int) -> dict[str, float]:
        """Returns the noise on what a plan of this stream releases after a period, in the units of the answers."""
        scale = self.noise(period)
        return {
            one.query.name: one.noise_std / one.query.grid.scale * scale
            for one in plan.releases
        }

    def at_once(self, budget: Budget) -> Budget:
        """Returns the price at which a release at once has the noise of the last one of the stream."""
        most = max(
            self.overhead(self.periods) * math.sqrt(self._corrected_nonnegative), 1.0
        )
        mu = accounting.mu_for(budget.epsilon, budget.delta) / most
        return replace(
            budget, epsilon=max(accounting.gaussian_epsilon(mu, budget.delta), 0.01)
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the horizon as a JSON object, with the noise of its last release over that of one at once."""
        return {
            **self.facts,
            "weights": list(self.weights),
            "overhead": self.overhead(self.periods),
        }

    @property
    def facts(self) -> dict[str, Any]:
        """The horizon as a plan stores it: those of earlier versions say nothing of exact withdrawals."""
        facts = asdict(self)
        if not self.corrections or self.exact_withdrawals:
            del facts["exact_withdrawals"]
        return facts

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Horizon:
        """Returns the horizon that a plan stores."""
        return cls(**{"exact_withdrawals": facts.get("corrections", False), **facts})

    def text(self) -> str:
        """Returns in words what a stream costs."""
        last, times = (
            self.overhead(self.periods),
            math.sqrt(self.window or self.periods),
        )
        what = (
            "all records so far"
            if self.window is None
            else f"the records of the last {self.window} periods"
        )
        changed = ""
        if self.corrections:
            exactly = ", exactly as it was given" if self.exact_withdrawals else ""
            changed = f", and may be withdrawn or amended once, in a later one{exactly}"
        return (
            f"A stream of at most {self.periods} periods, each release about {what}. A record comes in one "
            f"period{changed}, and costs epsilon once. The noise on the last release is {last:.2f} times that of one "
            f"release of everything at the end (releases of single periods, added up: {times:.2f} times). "
            "Cells and pairs are chosen in the first period, and stay."
        )
