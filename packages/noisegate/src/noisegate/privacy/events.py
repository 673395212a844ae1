"""Defines what a guarantee speaks of: neighbours, privacy units, and what was run.

An *event* states one mechanism that ran on private records: its sensitivity, its noise,
and how many numbers came out. Plans, ledgers and certificates hold events, and
`accounting` computes ε from them alone. There is a class for each mechanism with a
proof. All but one consist of a noisy sum, and say how often and on which records it was
taken::

    Gaussian             one noisy sum over all records
    Continual(event)     noisy sums of the periods of a stream          (G-34)
    Sampled(event)       steps, each a noisy sum over a Poisson sample  (G-19)
    Batched(event)       steps, each a noisy vector of a whole sample   (G-24)
    Sharded(event)       steps, each a noisy sum over disjoint shards   (G-26)
    Thresholded(event)   noisy counts above a threshold                 (G-15)
    ZeroConcentrated     an adaptive mechanism that is ρ-zCDP           (G-16)

Rules for this file: what ledgers and certificates hold of an event, its kind, its
fields and their meaning, is never changed or removed. A new mechanism is a new class.

Sensitivities and noise are in grid units, the whole numbers that vectors are rounded to
(`grid`). All sensitivities are in the L2 norm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from enum import Enum
from itertools import pairwise
from typing import Any, TypeVar

from noisegate.errors import OptionError, UserError, said

TOEPLITZ = 256
"""The weights of a stream's Toeplitz factor are integers, in parts of one over this."""
MOST_PERIODS = 1000
"""Largest number of periods of a stream."""

# Larger integers than 2¹⁰⁰⁰ do not fit into float64, and mean nothing.
_MAX_BITS = 1000
# The square of a stated sensitivity may fall below the exact one by this much,
# relatively: what squaring it in float64 rounds.
_SQUARE_TOLERANCE = 1e-12
# What the square of a record's sensitivity is multiplied with in a stream: 1 if records
# stay as they are. If each may be withdrawn or amended once, 5 or 9, whatever record is
# withdrawn; or 3, only where it is, to the bit, the one that was given (G-34).
_EXACT_CORRECTION_FACTOR = 3
_CORRECTION_FACTORS = (1, _EXACT_CORRECTION_FACTOR, 5, 9)


class Adjacency(Enum):
    """The neighbouring relation: which two data sets must be hard to distinguish.

    Relations cannot be added, because each needs a separate proof.

    Attributes:
        ADD_REMOVE: Neighbours differ by one record that is present in one of them only.
            The number of records is private. This is the default.
        REPLACE_ONE: Neighbours have the same, public number of records and differ in
            one of them. Papers often state their results for this relation.

    Examples:
        >>> from noisegate import Adjacency
        >>> from noisegate.privacy.grid import Grid
        >>> bound = Grid(norm=1.0).bound  # signed vectors
        >>> {
        ...     adjacency.value: bound.sensitivity(adjacency) / bound.units
        ...     for adjacency in Adjacency
        ... }
        {'add-remove': 1.0, 'replace-one': 2.0}
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"

    @classmethod
    def parse(cls, value: Adjacency | str) -> Adjacency:
        """Returns the relation with a name, such as `"add-remove"`.

        Raises:
            OptionError: if there is no such relation.
        """
        try:
            return cls(value)
        except ValueError:
            names = ", ".join(repr(member.value) for member in cls)
            raise OptionError(
                f"adjacency={value!r} is not known; choose one of {names}."
            ) from None

    def sentence(self, difference: str = "exactly one record") -> str:
        """Returns the relation in plain words.

        Args:
            difference: Under add-remove, what one of two neighbours has in addition.
        """
        if self is Adjacency.ADD_REMOVE:
            return (
                f"two data sets are neighbours when one of them has {difference} more; "
                "the number of records is private"
            )
        return (
            "two data sets are neighbours when they have the same public number of "
            "records and differ in one of them"
        )


class Sampler(Enum):
    """How Gaussian noise was drawn. Each sampler has its own proof.

    Attributes:
        DISCRETE_GAUSSIAN: Exactly, on the integers, by OpenDP (G-04).
        ROUNDED_GAUSSIAN: In float64, rounded to a grid (G-05). It is no longer used,
            and appears only in certificates of earlier versions.
        CONVOLVED_GAUSSIAN: As a weighted sum of samples from a table of a discrete
            Gaussian (G-18).
        SUMMED_GAUSSIAN: As the sum of discrete Gaussians, one for each silo (G-32).

    Examples:
        >>> from noisegate.privacy.events import Sampler
        >>> [sampler.value for sampler in Sampler][:2]
        ['discrete-gaussian', 'rounded-gaussian']
        >>> [sampler.value for sampler in Sampler][2:]
        ['convolved-gaussian', 'summed-gaussian']
    """

    DISCRETE_GAUSSIAN = "discrete-gaussian"
    ROUNDED_GAUSSIAN = "rounded-gaussian"
    CONVOLVED_GAUSSIAN = "convolved-gaussian"
    SUMMED_GAUSSIAN = "summed-gaussian"


class EventError(UserError):
    """Raised where an event is unusable, so that no guarantee follows from it."""


# Events.


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """One sum over all records, with Gaussian noise added once to each coordinate.

    Attributes:
        name: Name of the query.
        sensitivity: L2 sensitivity of the sum, in grid units. Its exact meaning, such
            as a distance or the norm of one record, depends on the event that it is
            part of.
        noise_std: Standard deviation of the noise on each coordinate, in grid units.
        coordinates: Number of coordinates that were released.
        sampler: How the noise was drawn.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon
        >>> from noisegate.privacy.events import Gaussian, Sampler
        >>> noise = {"noise_std": 20.0, "sampler": Sampler.DISCRETE_GAUSSIAN}
        >>> sums = Gaussian(name="sums", sensitivity=1, coordinates=4, **noise)
        >>> sums.noise_multiplier, round(epsilon([sums], delta=1e-5), 4)
        (20.0, 0.1609)
    """

    name: str
    sensitivity: float
    noise_std: float
    coordinates: int
    sampler: Sampler

    def __post_init__(self) -> None:
        """Checks the name and the numbers."""
        _check_fields(self)

    @property
    def noise_multiplier(self) -> float:
        """Ratio of the standard deviation of the noise to the sensitivity."""
        return self.noise_std / self.sensitivity


@dataclass(frozen=True, kw_only=True)
class _OfGaussian:
    """Base of the events that consist of a noisy sum.

    Attributes:
        event: The sum.
    """

    event: Gaussian

    @property
    def name(self) -> str:
        """The query that was answered."""
        return self.event.name


@dataclass(frozen=True, kw_only=True)
class Continual(_OfGaussian):
    """Noisy sums of the periods of a stream; in totals, noise partly cancels (G-34).

    In each period fresh noise is drawn, and parts of the noise of earlier periods are
    taken back. How much of it follows from a Toeplitz matrix with the first column
    `weights`/256. All periods together are one event, paid before the first.

    Attributes:
        event: The sums of all periods together. Its sensitivity is the L2 norm of what
            one record, with its correction, moves in all periods; its noise the fresh
            noise of each period; its coordinates are those of all periods.
        periods: Largest number of periods.
        weights: First column of the Toeplitz factor, times 256; the first is 256, and
            no other is larger in magnitude. Zeros at the end are left out.
        record: L2 sensitivity of the sum of one period, in grid units.
        corrected: What the square of the sensitivity is multiplied with for a record
            that is withdrawn or amended: 1 if none may be; 5 or 9, whatever record is
            withdrawn; or 3, if it is to the bit the one that was given, for weights
            that fall and are not negative.

    Examples:
        >>> from noisegate.privacy.events import Continual, Gaussian, Sampler
        >>> from noisegate.privacy.accounting import total_noise_factor
        >>> sums = Gaussian(
        ...     name="sums",
        ...     sensitivity=111_812,
        ...     noise_std=2e6,
        ...     coordinates=8,
        ...     sampler=Sampler.DISCRETE_GAUSSIAN,
        ... )
        >>> stream = Continual(
        ...     event=sums, periods=2, weights=(256, 128), record=100_000, corrected=1
        ... )
        >>> factors = [total_noise_factor(stream.weights, n) for n in (1, 2)]
        >>> [round(factor * sums.noise_multiplier, 2) for factor in factors]
        [17.89, 20.0]
    """

    periods: int
    weights: tuple[int, ...]
    record: float
    corrected: int

    def __post_init__(self) -> None:
        """Checks the weights, and the factor for corrections that they allow (G-34).

        Raises:
            EventError: if one is unusable.
        """
        _check_fields(self)
        # JSON has lists; equal events must have equal weights.
        object.__setattr__(self, "weights", tuple(self.weights))
        are_in_range = all(
            type(weight) is int and abs(weight) <= TOEPLITZ for weight in self.weights
        )
        begin_with_one = self.weights[:1] == (TOEPLITZ,)
        fit_into_periods = len(self.weights) <= self.periods <= MOST_PERIODS
        weights_are_valid = are_in_range and begin_with_one and fit_into_periods
        if not weights_are_valid or self.corrected not in _CORRECTION_FACTORS:
            raise EventError(
                f"event {self.name!r}: its weights, or corrected={self.corrected}, "
                "mean nothing."
            )
        weights_fall = all(
            weight >= next_weight
            for weight, next_weight in pairwise((*self.weights, 0))
        )
        if self.corrected == _EXACT_CORRECTION_FACTOR and not weights_fall:
            raise EventError(
                f"event {self.name!r}: corrected=3 is proved for weights that fall and "
                "are not negative, and these are others; do not rely on it."
            )


@dataclass(frozen=True, kw_only=True)
class Sampled(_OfGaussian):
    """Steps, each a noisy sum over an independent Poisson sample of the records (G-19).

    Attributes:
        event: One step. Its sensitivity is the largest L2 norm of one record's vector,
            whatever the adjacency: the accountant computes the effect of a replaced
            record on a sampled sum.
        rate: Probability that a record is in the sample of a step, in (0, 1].
        steps: Number of steps.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon
        >>> from noisegate.privacy.events import Gaussian, Sampled, Sampler
        >>> step = Gaussian(
        ...     name="gradients",
        ...     sensitivity=32,
        ...     noise_std=64.0,
        ...     coordinates=4,
        ...     sampler=Sampler.CONVOLVED_GAUSSIAN,
        ... )
        >>> steps = Sampled(event=step, rate=0.0625, steps=10)
        >>> round(epsilon([steps], 1e-5), 3)
        0.489
    """

    rate: float
    steps: int

    def __post_init__(self) -> None:
        """Checks the numbers, and that the rate is a probability."""
        _check_fields(self)
        _check_rate(self.name, self.rate)


@dataclass(frozen=True, kw_only=True)
class Batched(_OfGaussian):
    """Steps, each with a noisy vector that any function computes from a sample (G-24).

    Attributes:
        event: One step. Its sensitivity is the largest L2 distance between the vectors
            of any two samples, whatever the adjacency: twice the norm that vectors are
            clipped to.
        rate: Probability that a record is in the sample of a step, in (0, 1].
        steps: Number of steps.
        shards: Number of disjoint shards that are used in turn, one for each step; 1
            for Poisson samples of all records. With several shards, `rate` is 1.

    Examples:
        >>> from noisegate.privacy.events import Batched, Gaussian, Sampler
        >>> step = Gaussian(
        ...     name="vectors",
        ...     sensitivity=32,
        ...     noise_std=64.0,
        ...     coordinates=4,
        ...     sampler=Sampler.CONVOLVED_GAUSSIAN,
        ... )
        >>> Batched(event=step, rate=1.0, steps=10, shards=5).steps_of_a_record
        2
    """

    rate: float
    steps: int
    shards: int

    def __post_init__(self) -> None:
        """Checks that shards are used whole: sampled ones have no proof (G-24)."""
        _check_fields(self)
        _check_rate(self.name, self.rate)
        if self.shards > 1 and self.rate != 1:
            raise EventError(
                f"event {self.name!r}: rate={self.rate} with {self.shards} shards; "
                "nothing is proved."
            )

    @property
    def steps_of_a_record(self) -> int:
        """Largest number of steps that one record can be in: those of its shard."""
        return -(-self.steps // self.shards)


@dataclass(frozen=True, kw_only=True)
class Sharded(_OfGaussian):
    """Steps, each a noisy sum of one vector of each queried shard (G-26).

    Attributes:
        event: One step. Its sensitivity is the largest L2 distance between two vectors
            of a shard, whatever the adjacency.
        rate: Probability with which each shard, independently, is queried in a step; 1
            if all are.
        steps: How many steps were run.
        shards: Number of disjoint shards.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon
        >>> from noisegate.privacy.events import Gaussian, Sampler, Sharded
        >>> step = Gaussian(
        ...     name="votes",
        ...     sensitivity=32,
        ...     noise_std=640.0,
        ...     coordinates=4,
        ...     sampler=Sampler.CONVOLVED_GAUSSIAN,
        ... )
        >>> votes = Sharded(event=step, rate=1.0, steps=10, shards=50)
        >>> round(epsilon([votes], 1e-5), 3)
        0.561
    """

    rate: float
    steps: int
    shards: int

    def __post_init__(self) -> None:
        """Checks the numbers, and that the rate is a probability."""
        _check_fields(self)
        _check_rate(self.name, self.rate)


@dataclass(frozen=True, kw_only=True)
class Thresholded(_OfGaussian):
    """Noisy counts of the keys that occur, released if they reach a threshold (G-15).

    The keys are not listed in advance: the set of keys that occur is private.

    Attributes:
        event: The counts. Their sensitivity is that of the counts of all keys that
            occur in both neighbours. Their coordinates are a public upper bound on the
            number of keys that can occur; the number itself is private. Their sampler
            is the discrete Gaussian, the only one with a proof for this event.
        threshold: Smallest noisy count that is released, in grid units.
        weight: What one record adds to the count of each of its keys, in grid units.
        keys: Largest number of keys of one record.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon, threshold_probability
        >>> from noisegate.privacy.events import Gaussian, Sampler, Thresholded
        >>> counts = Gaussian(
        ...     name="levels",
        ...     sensitivity=16,
        ...     noise_std=320.0,
        ...     coordinates=1000,
        ...     sampler=Sampler.DISCRETE_GAUSSIAN,
        ... )
        >>> levels = Thresholded(event=counts, threshold=1700, weight=16, keys=1)
        >>> threshold_probability([levels]) < 1e-6, round(epsilon([levels], 1e-5), 3)
        (True, 0.16)
    """

    threshold: int
    weight: int
    keys: int

    def __post_init__(self) -> None:
        """Checks the sampler, and that the sensitivity covers a record's keys (G-15).

        A record adds `weight` to the counts of up to `keys` keys, so the sensitivity is
        at least weight · √keys.

        Raises:
            EventError: otherwise.
        """
        _check_fields(self)
        if self.event.sampler is not Sampler.DISCRETE_GAUSSIAN:
            raise EventError(
                f"event {self.name!r}: a threshold is proved for the discrete Gaussian "
                "only."
            )
        sensitivity = self.event.sensitivity
        min_squared_sensitivity = self.keys * self.weight**2
        if sensitivity**2 < min_squared_sensitivity * (1 - _SQUARE_TOLERANCE):
            raise EventError(
                f"event {self.name!r}: sensitivity={sensitivity:g} is below that of "
                f"{self.keys} keys."
            )


@dataclass(frozen=True, kw_only=True)
class ZeroConcentrated:
    """An adaptive mechanism that, as a whole, is ρ-zCDP under the adjacency of the run.

    Attributes:
        name: Name of the query. The names of its released values begin with it and a
            slash.
        rho: The ρ that the mechanism may spend.
        mechanism: The mechanism, whose proof the ρ is based on.

    Examples:
        >>> from noisegate.privacy.accounting import epsilon
        >>> from noisegate.privacy.events import ZeroConcentrated
        >>> tables = ZeroConcentrated(name="marginals", rho=0.01, mechanism="MST")
        >>> round(epsilon([tables], 1e-5), 3)
        0.546
    """

    name: str
    rho: float
    mechanism: str

    def __post_init__(self) -> None:
        """Checks the numbers, and that a mechanism is named."""
        _check_fields(self)
        if not isinstance(self.mechanism, str) or not self.mechanism:
            raise EventError(
                f"event {self.name!r}: mechanism={self.mechanism!r} must name a "
                "mechanism."
            )


StepEvent = Sampled | Batched | Sharded
"""Events of several steps, each with fresh noise on a sample of the records."""
SumEvent = Gaussian | Continual
"""Events of one sum over all records, or over those of each period."""
NoisyEvent = SumEvent | StepEvent | Thresholded
"""Events with Gaussian noise; `gaussian_of` returns it."""
Event = NoisyEvent | ZeroConcentrated
_Noisy = TypeVar("_Noisy", bound=NoisyEvent)


def gaussian_of(event: NoisyEvent) -> Gaussian:
    """Returns the noisy sum that an event consists of, once or in several steps."""
    return event if isinstance(event, Gaussian) else event.event


def replace_gaussian(event: _Noisy, **changes: Any) -> _Noisy:
    """Returns an event whose noisy sum has some fields changed.

    Args:
        event: The event.
        changes: New values, by name of the field of `Gaussian`.
    """
    if isinstance(event, Gaussian):
        return replace(event, **changes)
    return replace(event, event=replace(event.event, **changes))


def _check_fields(event: Event) -> None:
    """Checks the name of an event, and each field that is annotated as a number.

    Events are read from files that anybody may have edited. So each field that is
    annotated as `int` or `float` must be a positive finite number: a negative noise, or
    a NaN, would make the cost of an event meaningless. A field of another type is
    checked by the class that has it.

    Raises:
        EventError: if one is not what its annotation says, or not positive.
    """
    if not isinstance(event.name, str):
        raise EventError(f"event name={event.name!r} is not text.")
    for field in fields(event):
        value = getattr(event, field.name)
        # Annotations are text in this file.
        if field.type == "int" and not isinstance(value, int):
            raise EventError(
                f"event {event.name!r}: {field.name}={value!r} is not a whole number."
            )
        if field.type in ("int", "float"):
            _check_positive(event.name, field.name, value)


def _check_positive(event_name: str, field_name: str, value: object) -> None:
    """Checks that the value of a field is a positive finite number, and no bool.

    Raises:
        EventError: otherwise.
    """
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        # Not quoted: it may have thousands of digits.
        raise EventError(
            f"event {event_name!r}: {field_name} is too large to mean anything."
        )
    is_positive_number = (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 < value < math.inf
    )
    if not is_positive_number:
        raise EventError(
            f"event {event_name!r}: {field_name}={value!r} is not a positive finite "
            "number."
        )


def _check_rate(event_name: str, rate: float) -> None:
    """Checks that a sampling rate, which is positive, is a probability.

    Raises:
        EventError: otherwise.
    """
    if rate > 1:
        raise EventError(f"event {event_name!r}: rate={rate} is above 1.")


# Events as JSON. The fields of the noisy sum stand beside those of the event that it is
# part of: so they have been stored since the first version.

# Names of the classes in ledgers and certificates, for ever.
_CLASSES_OF_GAUSSIAN: dict[str, type[Continual | StepEvent | Thresholded]] = {
    "batch-gaussian": Batched,
    "continual-gaussian": Continual,
    "sampled-gaussian": Sampled,
    "shard-gaussian": Sharded,
    "thresholded-gaussian": Thresholded,
}
_EVENT_CLASSES: dict[str, type[Event]] = {
    "gaussian": Gaussian,
    "zero-concentrated": ZeroConcentrated,
    **_CLASSES_OF_GAUSSIAN,
}
_KINDS = {event_class: kind for kind, event_class in _EVENT_CLASSES.items()}
_GAUSSIAN_FIELDS = tuple(field.name for field in fields(Gaussian))


def event_to_json(event: Event) -> dict[str, Any]:
    """Returns an event as a JSON object: its kind, then its fields.

    Numbers in float64 survive JSON exactly, so the event that is read back is equal.
    """
    data: dict[str, Any] = {"kind": _KINDS[type(event)], **asdict(event)}
    data |= data.pop("event", {})
    if "sampler" in data:
        data["sampler"] = data["sampler"].value
    return data


def event_from_json(data: Mapping[str, Any]) -> Event:
    """Returns the event that `event_to_json` wrote.

    Raises:
        EventError: if its kind, a field or a value is unknown. Nothing is skipped: what
            is not understood may have cost something.
    """
    values = dict(data)
    kind = values.pop("kind", None)
    if kind not in _EVENT_CLASSES:
        raise EventError(
            f"event kind {kind!r} is not known to this version of noisegate; use a "
            "newer one."
        )
    try:
        if kind == "zero-concentrated":
            return ZeroConcentrated(**values)
        values["sampler"] = Sampler(values.get("sampler"))
        if kind == "gaussian":
            return Gaussian(**values)
        gaussian_fields = {
            name: values.pop(name) for name in _GAUSSIAN_FIELDS if name in values
        }
        event_class = _CLASSES_OF_GAUSSIAN[kind]
        return event_class(event=Gaussian(**gaussian_fields), **values)
    except (TypeError, ValueError) as error:
        raise EventError(
            f"event {data.get('name')!r} of kind {kind!r} has unusable fields: {error}"
        ) from None


def events_from_json(data: Sequence[Mapping[str, Any]]) -> tuple[Event, ...]:
    """Returns the events of a JSON list, in order; raises an EventError as for one."""
    return tuple(event_from_json(event_data) for event_data in data)


# Privacy units, in words. A certificate states only these words and a number, and a
# ledger adds up costs of equal words. So the words themselves tell the units of records
# from those of a unit column and of linked tables, and each run may only use its own.

RECORD = "record"
"""The unit of a run that states no other: every record is one."""
SEVERAL = "all records of one"
"""Beginning of the unit's text in a run with a unit column; the column's name follows.
"""
LINKED = "one record of the table"
"""Beginning of the unit's text in a run on linked tables; the first table's name
follows."""


def check_unit(unit: str, contributions: int | None) -> None:
    """Checks the text of a privacy unit, so that it claims no more than was protected.

    Args:
        unit: What one record stands for, or what groups records.
        contributions: Largest number of records used per unit; None if every record is
            a unit.

    Raises:
        OptionError: if it is not a line of text, or claims all records of a unit in a
            run that bounds no unit's records.
    """
    if not isinstance(unit, str) or not unit.strip() or not unit.isprintable():
        raise OptionError(
            f"unit={unit!r} must say in one line what one record stands for, such as "
            "'patient'."
        )
    if contributions is None and names_unit_column(unit):
        raise OptionError(
            f"unit={unit!r} is what a run with a unit column says, and here every "
            f"record is a unit of its own; give {said('unit_column')} and "
            f"{said('contributions')} in a run, or say what a record stands for."
        )


def names_unit_column(unit: str) -> bool:
    """Returns whether the words for a privacy unit are those of a unit column.

    >>> names_unit_column("all records of one patient"), names_unit_column("patient")
    (True, False)
    """
    return _begins_with(unit, SEVERAL)


def names_linked_tables(unit: str) -> bool:
    """Returns whether the words for a privacy unit are those of linked tables."""
    return _begins_with(unit, LINKED)


def _begins_with(unit: str, words: str) -> bool:
    """Returns whether a unit begins with words, whatever its case and blanks.

    A person reads "All  records of one" as `SEVERAL`, and so does this check.

    Args:
        unit: The words for a privacy unit.
        words: In lower case, with single blanks.
    """
    return " ".join(unit.split()).casefold().startswith(words)


def describe_unit(unit: str, contributions: int | None) -> str:
    """Returns what one vector of the sums stands for, in words.

    >>> describe_unit("all records of one patient", 3)
    'all records of one patient, at most 3 used'
    >>> describe_unit("record", None)
    'record'
    """
    if contributions is None:
        return unit
    return f"{unit}, at most {contributions} used"
