"""What was added up to one release, and what a record pays for it: silos (G-30), and periods of a stream (G-34)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from noisegate.errors import ModelError
from noisegate.privacy import accounting
from noisegate.privacy.events import (
    Adjacency,
    ContinualGaussianEvent,
    Event,
    GaussianEvent,
    event_to_json,
    events_from_json,
)


@dataclass(frozen=True, kw_only=True)
class Silo:
    """What one silo released: ε and δ that it states for all rounds, digests of certificates, events so far."""

    name: str
    certificates: tuple[str, ...]
    epsilon: float
    delta: float
    events: tuple[Event, ...]

    def to_json(self) -> dict[str, Any]:
        """Returns the silo as a JSON object."""
        events = [event_to_json(event) for event in self.events]
        return {**vars(self), "certificates": list(self.certificates), "events": events}


@dataclass(frozen=True, kw_only=True)
class Silos:
    """The silos whose releases were added up, and whether units may have records in several of them.

    That they have not is an assumption about the world, which nobody can read off the releases: `stated_by` says who
    made it; None where `overlapping`, which assumes nothing. Where the sums were taken under masks (G-32) the events of
    each silo are those of the sum, and hold against whoever added up together with `colluding` silos.
    """

    members: tuple[Silo, ...]
    overlapping: bool = False
    stated_by: str | None = None
    colluding: int | None = None

    @property
    def sentence(self) -> str:
        """Whose releases were added up, and what was assumed about them."""
        names = ", ".join(silo.name for silo in self.members)
        added = f"The releases of {len(self.members)} silos were added up: {names}."
        if self.colluding is not None:
            added += " They came under masks, with one noise for all; what is claimed holds against whoever added them "
            added += f"up, together with {self.colluding} of the silos."
        if self.overlapping:
            return f"{added} A unit may have records in all of them: their costs are composed."
        return f"{added} {self.stated_by} states that no unit has records in two: the largest cost of one silo counts."

    @property
    def groups(self) -> tuple[tuple[Event, ...], ...]:
        """The events that one unit can be in, for each way in which it can be in any."""
        if self.overlapping and self.colluding is not None:
            return (
                tuple(
                    _moved(event, len(self.members)) for event in self.members[0].events
                ),
            )
        if self.overlapping:
            return (tuple(event for silo in self.members for event in silo.events),)
        return tuple(silo.events for silo in self.members)

    def costliest(self, delta: float, adjacency: Adjacency) -> tuple[Event, ...]:
        """Returns the group with the largest ε."""
        return max(
            self.groups, key=lambda events: accounting.epsilon(events, delta, adjacency)
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the silos as a JSON object."""
        told: dict[str, Any] = {
            "overlapping": self.overlapping,
            "stated_by": self.stated_by,
        }
        told |= {} if self.colluding is None else {"colluding": self.colluding}
        return told | {"silos": [silo.to_json() for silo in self.members]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Silos:
        """Returns the silos in a JSON object; whoever reads it names the file of a KeyError, TypeError or ValueError.

        Raises:
            ModelError: if one stands there twice, or there are none.
        """
        members = tuple(
            Silo(
                name=_text(one["name"]),
                certificates=tuple(map(_text, one["certificates"])),
                epsilon=float(one["epsilon"]),
                delta=float(one["delta"]),
                events=events_from_json(one["events"]),
            )
            for one in data["silos"]
        )
        names = [silo.name for silo in members]
        if (
            not names
            or len(set(names)) < len(names)
            or not all(silo.events for silo in members)
        ):
            raise ModelError(
                f"the certificate's silos {names} mean nothing: each needs its own name and its events."
            )
        overlapping, stated_by = data["overlapping"], data["stated_by"]
        if not isinstance(overlapping, bool) or (stated_by is None) is not overlapping:
            raise ModelError(
                "the certificate does not say who states that no unit has records in two silos."
            )
        masked = data.get("colluding")
        if masked is not None and (
            type(masked) is not int or not 0 <= masked < len(members)
        ):
            raise ModelError(
                f"the certificate states colluding={masked!r} of {len(members)} silos."
            )
        if masked is not None and len({silo.events for silo in members}) > 1:
            raise ModelError(
                "the certificate states a secure sum, and other events for some of its silos."
            )
        stated = None if overlapping else _text(stated_by)
        return cls(
            members=members, overlapping=overlapping, stated_by=stated, colluding=masked
        )


OF_PERIODS = "of a period: "
"""Before the name of a query in the release of a stream: its answers of single periods, one a column."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """How far a stream has come, of which a release is the total: of all periods so far, or of a window of the last."""

    plan: str
    period: int
    periods: int
    window: int | None
    corrections: bool
    corrected: frozenset[int] = frozenset()
    """What the events state of corrections: `ContinualGaussianEvent.corrected`."""

    @classmethod
    def of(cls, public: Mapping[str, Any], events: Sequence[Event]) -> Stream | None:
        """Returns what a certificate states beside its events; None of no stream, and a ModelError of nonsense."""
        if not (
            continual := [
                event for event in events if isinstance(event, ContinualGaussianEvent)
            ]
        ):
            return None
        try:
            found = cls(**public["stream"])
            last = 1 if found.window is None else found.window
            plain = isinstance(found.plan, str) and all(
                type(one) is int for one in (found.period, last)
            )
            plain = plain and 1 <= found.period <= found.periods and last >= 1
            if not plain or {
                (event.periods, event.corrected > 1) for event in continual
            } != {(found.periods, found.corrections)}:
                raise ValueError("other events")
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"the certificate does not say how far its stream has come: {error}."
            ) from None
        return replace(
            found, corrected=frozenset(event.corrected for event in continual)
        )

    def to_json(self) -> dict[str, Any]:
        """Returns what a certificate states beside its events."""
        return {
            name: value for name, value in vars(self).items() if name != "corrected"
        }

    @property
    def sentence(self) -> str:
        """What was added up, and what one record may be in it."""
        last = (
            "all records so far"
            if self.window is None
            else f"the records of the last {self.window} periods"
        )
        changed = (
            ", and is withdrawn or amended once at most, in a later one"
            if self.corrections
            else ""
        )
        # Certificates of before are compared with this text, so it stays as it was where they state 3 or 9 alone.
        changed += (
            " (what is withdrawn may be any record)" if 5 in self.corrected else ""
        )
        return (
            f"Period {self.period} of {self.periods} of a stream: what is released is about {last}. Each record comes "
            f"in one period{changed}; epsilon and delta are of all {self.periods} together, those to come included."
        )

    @property
    def condition(self) -> str | None:
        """What the guarantee takes for granted beside the sentence; None where that is nothing."""
        if 3 not in self.corrected:
            return None
        return (
            "The guarantee holds where each record that is withdrawn is, to the bit, the one that was given, as plans "
            "of earlier versions took for granted."
        )


def _moved(event: Event, times: int) -> Event:
    if not isinstance(event, GaussianEvent):
        raise ModelError(
            f"event {event.name!r} of a secure sum is not a sum with Gaussian noise."
        )
    return replace(event, sensitivity=times * event.sensitivity)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise ValueError(f"{value!r} is not a line of text")
    return value
