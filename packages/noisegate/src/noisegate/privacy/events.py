"""The vocabulary of guarantees: what neighbours are, and what was run. How it is analysed says `accounting`.

Rules for this file: an event class, its fields and their meaning are never changed or removed, since ledgers and
certificates hold them; a new mechanism is a new class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from enum import Enum
from itertools import pairwise
from typing import Any

from noisegate.errors import OptionError, UserError, said


class Adjacency(Enum):
    """The neighbouring relation of a guarantee. Closed: a new relation needs a new proof.

    ADD_REMOVE
        Neighbours differ by one record that is present in one of them only. The number of records is private.
        The default.
    REPLACE_ONE
        Neighbours have the same, public, number of records and differ in one of them. Use it to compare with the
        papers, which state their results for it.

    Examples:
        >>> from noisegate import Adjacency
        >>> from noisegate.privacy.grid import Grid
        >>> bound = Grid(norm=1.0).bound  # signed vectors
        >>> {each.value: bound.sensitivity(each) / bound.units for each in Adjacency}
        {'add-remove': 1.0, 'replace-one': 2.0}
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @classmethod
    def parse(cls, value: Adjacency | str) -> Adjacency:
        """Returns the relation named by `value`."""
        try:
            return cls(value)
        except ValueError:
            names = ", ".join(repr(member.value) for member in cls)
            raise OptionError(
                f"adjacency={value!r} is not known; choose one of {names}."
            ) from None

    def sentence(self, more: str = "exactly one record") -> str:
        """Returns the relation in plain words; under add-remove, one of two neighbours has `more`."""
        if self is Adjacency.ADD_REMOVE:
            return f"two data sets are neighbours when one of them has {more} more; the number of records is private"
        return "two data sets are neighbours when they have the same public number of records and differ in one of them"


class Sampler(Enum):
    """How Gaussian noise was drawn. Closed: each sampler has its own proof in docs/guarantees.md.

    Examples:
        >>> from noisegate.privacy.events import Sampler
        >>> [sampler.value for sampler in Sampler]
        ['discrete-gaussian', 'rounded-gaussian', 'convolved-gaussian', 'summed-gaussian']
    """

    DISCRETE_GAUSSIAN = "discrete-gaussian"
    ROUNDED_GAUSSIAN = "rounded-gaussian"
    CONVOLVED_GAUSSIAN = "convolved-gaussian"
    SUMMED_GAUSSIAN = "summed-gaussian"


class EventError(UserError):
    """A stored event cannot be understood; no guarantee can be computed from it."""


@dataclass(frozen=True, kw_only=True)
class _NamedEvent:
    name: str

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise EventError(f"event name={self.name!r} is not text.")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.type == "int" and not isinstance(value, int):
                raise EventError(
                    f"event {self.name!r}: {field.name}={value!r} is not a whole number."
                )
            if field.type not in ("int", "float"):
                continue
            if isinstance(value, int) and value.bit_length() > 1000:
                raise EventError(
                    f"event {self.name!r}: {field.name} is too large to mean anything."
                )
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 < value < math.inf
            ):
                raise EventError(
                    f"event {self.name!r}: {field.name}={value!r} is not a positive finite number."
                )


class _NoisySum:
    noise_std: float
    sensitivity: float

    @property
    def noise_multiplier(self) -> float:
        """Noise standard deviation over sensitivity."""
        return self.noise_std / self.sensitivity


@dataclass(frozen=True, kw_only=True)
class GaussianEvent(_NoisySum, _NamedEvent):
    """One sum over all records, with Gaussian noise added once to each coordinate.

    Attributes:
        name: The question that was answered.
        sensitivity: L2 sensitivity of the sum, in grid units.
        noise_std: Standard deviation of the noise on each coordinate, in grid units.
        coordinates: How many coordinates were released.
        sampler: How the noise was drawn.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon
        >>> from noisegate.privacy.events import GaussianEvent, Sampler
        >>> noise = {"noise_std": 20.0, "sampler": Sampler.DISCRETE_GAUSSIAN}
        >>> sums = GaussianEvent(name="sums", sensitivity=1, coordinates=4, **noise)
        >>> sums.noise_multiplier, round(epsilon([sums], delta=1e-5), 4)
        (20.0, 0.1609)
    """

    sensitivity: float
    noise_std: float
    coordinates: int
    sampler: Sampler


@dataclass(frozen=True, kw_only=True)
class ContinualGaussianEvent(GaussianEvent):
    """Sums of the records of `periods`, one after the other, with noise that cancels in their total (G-34).

    Attributes, beside those of `GaussianEvent`:
        sensitivity: L2 norm of what one record, with its correction, moves in all periods together, in grid units.
        noise_std: Of the fresh noise of each period.
        periods: How many sums there are at most; `coordinates` counts the numbers of all.
        weights: First column of the Toeplitz factor, times 256: which parts of earlier noise a period takes back.
        record: L2 sensitivity of the sum of one period, in grid units.
        corrected: 1; where a record may be withdrawn or amended once, the square of what that multiplies: 5 or 9,
            whatever is withdrawn, or 3, where it is to the bit what was given and the weights fall.

    Examples:
        >>> from noisegate.privacy.events import ContinualGaussianEvent, Sampler
        >>> from noisegate.privacy.accounting import prefix_noise
        >>> noise = {"noise_std": 2e6, "coordinates": 8, "sampler": Sampler.DISCRETE_GAUSSIAN}
        >>> factor = {"periods": 2, "weights": (256, 128), "record": 100_000, "corrected": 1, "sensitivity": 111_812}
        >>> sums = ContinualGaussianEvent(name="sums", **noise, **factor)
        >>> [round(prefix_noise(sums.weights, period) * sums.noise_multiplier, 2) for period in (1, 2)]
        [17.89, 20.0]
    """

    periods: int
    weights: tuple[int, ...]
    record: float
    corrected: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "weights", tuple(self.weights))
        whole = all(type(one) is int and abs(one) <= TOEPLITZ for one in self.weights)
        whole = whole and self.corrected in (1, 3, 5, 9)
        if (
            not whole
            or self.weights[:1] != (TOEPLITZ,)
            or not len(self.weights) <= self.periods <= MOST_PERIODS
        ):
            raise EventError(
                f"event {self.name!r}: its weights, or corrected={self.corrected}, mean nothing."
            )
        falling = all(one >= other for one, other in pairwise((*self.weights, 0)))
        if self.corrected == 3 and not falling:
            raise EventError(
                f"event {self.name!r}: corrected=3 is proved for weights that fall and are not negative, and these "
                "are others; do not rely on it."
            )


@dataclass(frozen=True, kw_only=True)
class SampledGaussianEvent(_NoisySum, _NamedEvent):
    """`steps` sums over independent Poisson samples of the records, each with Gaussian noise.

    Attributes, beside those of `GaussianEvent`:
        rate: Probability with which each record enters a step's sample, in (0, 1].
        steps: How many steps were run.
        sensitivity: Largest L2 norm of one record's vector, in grid units, whatever the adjacency: what a replaced
            record does to a sampled sum is the accountant's business.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon
        >>> from noisegate.privacy.events import SampledGaussianEvent, Sampler
        >>> noise = {"sensitivity": 32, "noise_std": 64.0, "coordinates": 4, "sampler": Sampler.CONVOLVED_GAUSSIAN}
        >>> steps = SampledGaussianEvent(name="gradients", rate=0.0625, steps=10, **noise)
        >>> round(epsilon([steps], 1e-5), 3)
        0.489
    """

    rate: float
    steps: int
    sensitivity: float
    noise_std: float
    coordinates: int
    sampler: Sampler

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate > 1:
            raise EventError(f"event {self.name!r}: rate={self.rate} is above 1.")

    @property
    def uses(self) -> int:
        """How many steps one record can take part in."""
        return self.steps


@dataclass(frozen=True, kw_only=True)
class BatchGaussianEvent(SampledGaussianEvent):
    """`steps` vectors of whole samples, each from any function of its sample, with Gaussian noise (G-24).

    Attributes, beside those of `SampledGaussianEvent`:
        sensitivity: Largest L2 distance between the vectors of any two samples, in grid units: twice the norm that
            vectors are clipped to, whatever the adjacency.
        shards: Number of disjoint shards that are used in turn; 1 for Poisson samples of all records.

    Examples:
        >>> from noisegate.privacy.events import BatchGaussianEvent, Sampler
        >>> noise = {"sensitivity": 32, "noise_std": 64.0, "coordinates": 4, "sampler": Sampler.CONVOLVED_GAUSSIAN}
        >>> BatchGaussianEvent(name="vectors", rate=1.0, steps=10, shards=5, **noise).uses
        2
    """

    shards: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shards > 1 and self.rate != 1:
            raise EventError(
                f"event {self.name!r}: rate={self.rate} with {self.shards} shards; nothing is proved."
            )

    @property
    def uses(self) -> int:
        """How many steps one record can take part in: those of its shard."""
        return -(-self.steps // self.shards)


@dataclass(frozen=True, kw_only=True)
class ShardGaussianEvent(SampledGaussianEvent):
    """`steps` sums of one vector of each disjoint shard that is asked, with Gaussian noise (G-26).

    Attributes, beside those of `SampledGaussianEvent`:
        rate: Probability with which each shard, by itself, is asked in a step; 1 if all are.
        sensitivity: Largest L2 distance between two vectors of a shard, in grid units, whatever the adjacency.
        shards: Number of disjoint shards.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon
        >>> from noisegate.privacy.events import Sampler, ShardGaussianEvent
        >>> noise = {"sensitivity": 32, "noise_std": 640.0, "coordinates": 4, "sampler": Sampler.CONVOLVED_GAUSSIAN}
        >>> round(epsilon([ShardGaussianEvent(name="votes", rate=1.0, steps=10, shards=50, **noise)], 1e-5), 3)
        0.561
    """

    shards: int


@dataclass(frozen=True, kw_only=True)
class ZeroConcentratedEvent(_NamedEvent):
    """An adaptive mechanism that as a whole is ρ-zCDP under the adjacency of the run.

    Attributes:
        name: What was asked; the names of the values that came of it begin with it and a slash.
        rho: The ρ that the mechanism was given to spend.
        mechanism: What ran, and whose proof the ρ rests on.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon
        >>> from noisegate.privacy.events import ZeroConcentratedEvent
        >>> tables = ZeroConcentratedEvent(name="marginals", rho=0.01, mechanism="MST")
        >>> round(epsilon([tables], 1e-5), 3)
        0.546
    """

    rho: float
    mechanism: str

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.mechanism, str) or not self.mechanism:
            raise EventError(
                f"event {self.name!r}: mechanism={self.mechanism!r} must name a mechanism."
            )


@dataclass(frozen=True, kw_only=True)
class ThresholdedGaussianEvent(_NoisySum, _NamedEvent):
    """Noisy counts of keys that nobody listed beforehand: of those that occur, the ones that reach a threshold.

    Attributes, beside those of `GaussianEvent`:
        sensitivity: L2 sensitivity of the counts of all keys that occur in both neighbours, in grid units.
        threshold: Smallest noisy count that is released, in grid units.
        weight: What one record adds to the count of each of its keys, in grid units.
        keys: How many keys one record may have.
        coordinates: Public upper bound on the number of keys that can occur; the number itself is private.
        sampler: How the noise was drawn; proved for the discrete Gaussian only.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon, threshold_odds
        >>> from noisegate.privacy.events import Sampler, ThresholdedGaussianEvent
        >>> noise = {"sensitivity": 16, "noise_std": 320.0, "coordinates": 1000, "sampler": Sampler.DISCRETE_GAUSSIAN}
        >>> levels = ThresholdedGaussianEvent(name="levels", threshold=1700, weight=16, keys=1, **noise)
        >>> threshold_odds([levels]) < 1e-6, round(epsilon([levels], 1e-5), 3)
        (True, 0.16)
    """

    sensitivity: float
    noise_std: float
    threshold: int
    weight: int
    keys: int
    coordinates: int
    sampler: Sampler

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampler is not Sampler.DISCRETE_GAUSSIAN:
            raise EventError(
                f"event {self.name!r}: a threshold is proved for the discrete Gaussian only."
            )
        if self.sensitivity**2 < self.keys * self.weight**2 * (1 - 1e-12):
            raise EventError(
                f"event {self.name!r}: sensitivity={self.sensitivity:g} is below that of {self.keys} keys."
            )


TOEPLITZ, MOST_PERIODS = 256, 1000
"""What the weights of a Toeplitz factor are parts of, and how many periods a stream has at most."""
Event = (
    GaussianEvent
    | SampledGaussianEvent
    | ZeroConcentratedEvent
    | ThresholdedGaussianEvent
)
_KINDS: dict[str, type[Event]] = {
    "gaussian": GaussianEvent,
    "batch-gaussian": BatchGaussianEvent,
    "continual-gaussian": ContinualGaussianEvent,
    "sampled-gaussian": SampledGaussianEvent,
    "shard-gaussian": ShardGaussianEvent,
    "zero-concentrated": ZeroConcentratedEvent,
    "thresholded-gaussian": ThresholdedGaussianEvent,
}


def event_to_json(event: Event) -> dict[str, Any]:
    """Returns the event as a JSON object; floats survive exactly."""
    kind = next(kind for kind, cls in _KINDS.items() if type(event) is cls)
    return {"kind": kind} | {
        name: getattr(value, "value", value) for name, value in asdict(event).items()
    }


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Returns the event that `event_to_json` wrote; an unknown kind, field or value is an EventError, never skipped."""
    values = dict(data)
    kind = values.pop("kind", None)
    if kind not in _KINDS:
        raise EventError(
            f"event kind {kind!r} is not known to this version of noisegate; use a newer one."
        )
    try:
        if kind != "zero-concentrated":
            values["sampler"] = Sampler(values.get("sampler"))
        return _KINDS[kind](**values)
    except (TypeError, ValueError) as error:
        raise EventError(
            f"event {data.get('name')!r} of kind {kind!r} has unusable fields: {error}"
        ) from None


def events_from_json(data: Sequence[Mapping[str, Any]]) -> tuple[Event, ...]:
    """Returns the events in a JSON list."""
    return tuple(event_from_json(item) for item in data)


RECORD = "record"
SEVERAL = "all records of one"
LINKED = "one record of the table"


def check_unit(unit: str, contributions: int | None) -> None:
    """Checks the words for a privacy unit: a run that bounds no unit's records must not claim to protect them all.

    A ledger tells costs of units from costs of records by these words only.
    """
    if not isinstance(unit, str) or not unit.strip() or not unit.isprintable():
        raise OptionError(
            f"unit={unit!r} must say in one line what one record stands for, such as 'patient'."
        )
    if contributions is None and several(unit):
        raise OptionError(
            f"unit={unit!r} is what a run with a unit column says, and here every record is a unit of its own; give "
            f"{said('unit_column')} and {said('contributions')} in a run, or say what a record stands for."
        )


def several(unit: str) -> bool:
    """Returns whether the words for a privacy unit say that several records belong together."""
    return _begins(unit, SEVERAL)


def linked(unit: str) -> bool:
    """Returns whether the words for a privacy unit are those of linked tables."""
    return _begins(unit, LINKED)


def _begins(unit: str, words: str) -> bool:
    return " ".join(unit.split()).casefold().startswith(words)


def used(unit: str, contributions: int | None) -> str:
    """Returns the unit with what is used of it: what one vector of the sums stands for."""
    return unit if contributions is None else f"{unit}, at most {contributions} used"
