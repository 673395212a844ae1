"""States what was added up to one release, and what a record pays for all of it.

Two kinds of sums are released as one. A certificate names the parts, so that whoever
reads it can compute what one privacy unit pays:

- `Silos`: releases of several holders of data, who asked the same queries (G-30), with
  noise of each, or with one noise for all under masks (G-32).
- `Stream`: the periods of a stream, so far or in a window of the last ones (G-34).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from noisegate.errors import ModelError
from noisegate.privacy import accounting
from noisegate.privacy.events import (
    Adjacency,
    Continual,
    Event,
    SumEvent,
    event_to_json,
    events_from_json,
    gaussian_of,
    replace_gaussian,
)

PERIOD_PREFIX = "of a period: "
"""Before the name of a query in the release of a stream: its answers of single periods,
a column each."""


# Silos.


@dataclass(frozen=True, kw_only=True)
class Silo:
    """What one silo released.

    Attributes:
        name: Name of the silo.
        certificates: Digests of the certificates of its releases, in their order.
        epsilon: ε that it states for all rounds.
        delta: δ that it states for all rounds.
        events: What it has run so far.
    """

    name: str
    certificates: tuple[str, ...]
    epsilon: float
    delta: float
    events: tuple[Event, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the silo as a JSON object."""
        return {
            "name": self.name,
            "certificates": list(self.certificates),
            "epsilon": self.epsilon,
            "delta": self.delta,
            "events": [event_to_json(event) for event in self.events],
        }


@dataclass(frozen=True, kw_only=True)
class Silos:
    """The silos whose releases were added up, and in how many a unit may have records.

    That no unit has records in two silos is an assumption about the world, which nobody
    can read off the releases; so the certificate names who states it.

    Attributes:
        members: The silos.
        overlapping: Whether a unit may have records in several of them.
        stated_by: Who states that it may not; None where `overlapping`, which assumes
            nothing.
        colluding: None for releases that each have their own noise. Where the sums were
            taken under masks (G-32), the number of silos that may collude: the events
            of each silo are then those of the sum, and hold against whoever added up
            together with so many silos.
    """

    members: tuple[Silo, ...]
    overlapping: bool = False
    stated_by: str | None = None
    colluding: int | None = None

    @property
    def sentence(self) -> str:
        """Whose releases were added up, and what was assumed about them, in words."""
        names = ", ".join(silo.name for silo in self.members)
        origin = f"The releases of {len(self.members)} silos were added up: {names}."
        if self.colluding is not None:
            origin = (
                f"{origin} They were masked, with one noise for all; the guarantee "
                "holds against whoever added them up together with "
                f"{self.colluding} of the silos."
            )
        if self.overlapping:
            return (
                f"{origin} A unit may have records in all of them: their costs are "
                "composed."
            )
        return (
            f"{origin} {self.stated_by} states that no unit has records in two: the "
            "largest cost of one silo counts."
        )

    @property
    def event_groups(self) -> tuple[tuple[Event, ...], ...]:
        """The events that one unit can be in, for each way in which it can be in any.

        A unit of disjoint silos is in the events of one, of whichever. One of
        overlapping silos is in all events; under masks the silos share the events of
        their sum, which a unit moves once for each silo.
        """
        if not self.overlapping:
            return tuple(silo.events for silo in self.members)
        if self.colluding is not None:
            silo_count = len(self.members)
            shared_events = self.members[0].events
            events = tuple(
                _with_scaled_sensitivity(event, silo_count) for event in shared_events
            )
        else:
            events = tuple(event for silo in self.members for event in silo.events)
        return (events,)

    def costliest_group(self, delta: float, adjacency: Adjacency) -> tuple[Event, ...]:
        """Returns those of `event_groups` with the largest ε: what ε is computed from.

        Args:
            delta: δ of the guarantee.
            adjacency: What neighbours are.
        """
        return max(
            self.event_groups,
            key=lambda events: accounting.epsilon(events, delta, adjacency),
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the silos as a JSON object."""
        data: dict[str, Any] = {
            "overlapping": self.overlapping,
            "stated_by": self.stated_by,
        }
        # Left out where there is none, so that certificates keep their digests.
        if self.colluding is not None:
            data["colluding"] = self.colluding
        data["silos"] = [silo.to_json() for silo in self.members]
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Silos:
        """Returns the silos in a JSON object that anybody may have edited.

        Raises:
            ModelError: if there are none, two have one name, or what is assumed about
                them contradicts itself.
            KeyError, TypeError, ValueError: if a field is missing or has the wrong
                type. `Certificate.from_json` turns these into one error of the file.
        """
        members = tuple(
            Silo(
                name=_text_line(silo["name"]),
                certificates=tuple(map(_text_line, silo["certificates"])),
                epsilon=float(silo["epsilon"]),
                delta=float(silo["delta"]),
                events=events_from_json(silo["events"]),
            )
            for silo in data["silos"]
        )
        _check_members(members)
        overlapping = data["overlapping"]
        stated_by = data["stated_by"]
        _check_overlap(overlapping, stated_by)
        colluding = data.get("colluding")
        _check_colluding(colluding, members)
        return cls(
            members=members,
            overlapping=overlapping,
            stated_by=None if overlapping else _text_line(stated_by),
            colluding=colluding,
        )


def _check_members(members: Sequence[Silo]) -> None:
    """Checks that there are silos, each with its own name and with events.

    Raises:
        ModelError: otherwise.
    """
    names = [silo.name for silo in members]
    has_duplicates = len(set(names)) < len(names)
    all_have_events = all(silo.events for silo in members)
    if not names or has_duplicates or not all_have_events:
        raise ModelError(
            f"the certificate's silos {names} mean nothing: each needs its own "
            "name and its events."
        )


def _check_overlap(overlapping: Any, stated_by: Any) -> None:
    """Checks that silos overlap, or somebody states that they do not; never both.

    Args:
        overlapping: JSON from a file that anybody may have edited.
        stated_by: Likewise; who states it is checked to be text elsewhere.

    Raises:
        ModelError: otherwise.
    """
    if not isinstance(overlapping, bool) or (stated_by is None) is not overlapping:
        raise ModelError(
            "the certificate does not say who states that no unit has records in "
            "two silos."
        )


def _check_colluding(colluding: Any, members: Sequence[Silo]) -> None:
    """Checks the number of silos that may collude in a secure sum (G-32).

    Some silo must not collude, since its noise is what protects. And all silos state
    the events of the one sum, so they must state the same.

    Args:
        colluding: JSON from a file that anybody may have edited; None where the sums
            came under no masks.
        members: The silos.

    Raises:
        ModelError: if it is no number from 0 to one less than the silos, or the silos
            state different events.
    """
    if colluding is None:
        return
    # `type` and not `isinstance`, for which True is an integer.
    if type(colluding) is not int or not 0 <= colluding < len(members):
        raise ModelError(
            f"the certificate states colluding={colluding!r} of {len(members)} silos."
        )
    if len({silo.events for silo in members}) > 1:
        raise ModelError(
            "the certificate states a secure sum, and other events for some of its "
            "silos."
        )


def _with_scaled_sensitivity(event: Event, factor: int) -> Event:
    """Returns the event of a sum that one unit moves several times.

    By the triangle inequality it moves the sum by so many sensitivities at most.

    Args:
        event: A sum with Gaussian noise.
        factor: How often the unit moves the sum.

    Raises:
        ModelError: if the event is another one, which no secure sum has.
    """
    if not isinstance(event, SumEvent):
        raise ModelError(
            f"event {event.name!r} of a secure sum is not a sum with Gaussian noise."
        )
    sensitivity = factor * gaussian_of(event).sensitivity
    return replace_gaussian(event, sensitivity=sensitivity)


def _text_line(value: Any) -> str:
    """Returns a value of JSON that must be one line of text; else a ValueError."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{value!r} is not a line of text")
    return value


# Streams.


@dataclass(frozen=True, kw_only=True)
class Stream:
    """How far a stream has come when a total of its periods is released.

    Attributes:
        plan: Identifier of the plan.
        period: The last period in the total, counted from 1.
        periods: Largest number of periods, which are paid for from the beginning.
        window: How many periods the total is of, counted from the last; None for all so
            far.
        corrections: Whether a record may be withdrawn or amended once.
        corrected: What the events state of corrections, each once
            (`Continual.corrected`). It is not stored beside them.
    """

    plan: str
    period: int
    periods: int
    window: int | None
    corrections: bool
    corrected: frozenset[int] = frozenset()

    @classmethod
    def from_certificate(
        cls, public: Mapping[str, Any], events: Sequence[Event]
    ) -> Stream | None:
        """Returns what a certificate states of a stream.

        Args:
            public: What it lists as public.
            events: Its events.

        Returns:
            How far the stream has come; None if no event is of a stream.

        Raises:
            ModelError: if that is missing or unusable, or the events are of another
                number of periods, or pay for other corrections.
        """
        continual_events = [event for event in events if isinstance(event, Continual)]
        if not continual_events:
            return None
        try:
            stream = cls(**public["stream"])
            paid_for = {
                (event.periods, event.corrected > 1) for event in continual_events
            }
            matches_events = paid_for == {(stream.periods, stream.corrections)}
            if not stream._is_usable or not matches_events:
                raise ValueError("other events")
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"the certificate does not say how far its stream has come: {error}."
            ) from None
        corrected = frozenset(event.corrected for event in continual_events)
        return replace(stream, corrected=corrected)

    @property
    def _is_usable(self) -> bool:
        """Whether fields from a file have their types, and are in range."""
        window = 1 if self.window is None else self.window
        # `type` and not `isinstance`, for which True is an integer.
        return (
            isinstance(self.plan, str)
            and type(self.period) is int
            and type(window) is int
            and 1 <= self.period <= self.periods
            and window >= 1
        )

    def to_json(self) -> dict[str, Any]:
        """Returns what a certificate states beside its events, as a JSON object."""
        return {
            "plan": self.plan,
            "period": self.period,
            "periods": self.periods,
            "window": self.window,
            "corrections": self.corrections,
        }

    @property
    def sentence(self) -> str:
        """What was added up, and what one record may be in it, in words."""
        if self.window is None:
            records = "all records so far"
        else:
            records = f"the records of the last {self.window} periods"
        changes = ""
        if self.corrections:
            changes = ", and is withdrawn or amended once at most, in a later one"
        # Pages of certificates that state 3 or 9 were written without this.
        if 5 in self.corrected:
            changes = f"{changes} (what is withdrawn may be any record)"
        return (
            f"Period {self.period} of {self.periods} of a stream: what is released is "
            f"about {records}. Each record comes in one period{changes}; epsilon and "
            f"delta are of all {self.periods} together, those to come included."
        )

    @property
    def condition(self) -> str | None:
        """What the guarantee takes for granted beside `sentence`; None if nothing.

        Events that state 3 for a correction are proved for one case only (G-34).
        """
        if 3 not in self.corrected:
            return None
        return (
            "The guarantee holds where each record that is withdrawn is, to the bit, "
            "the one that was given, as plans of earlier versions took for granted."
        )
