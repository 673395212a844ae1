"""The statement that is handed out with every result, and its verification without the data."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noisegate._version import __version__
from noisegate.errors import ModelError, UserError
from noisegate.privacy import accounting
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.events import (
    Event,
    ThresholdedGaussianEvent,
    ZeroConcentratedEvent,
    event_to_json,
    events_from_json,
)
from noisegate.privacy.units import check_unit, several, used

FORMAT = 1
# There is no way to seed private noise in this library, so this is a constant.
NOISE_SOURCE = "operating system, unseeded"
_LONGEST_TEXT = 1000


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What was asked of the private data, with what noise, and what follows from it.

    Attributes:
        epsilon: Upper bound for the events at `delta`; anyone can recompute it.
        delta: δ of the guarantee.
        adjacency: The neighbouring relation.
        unit: The privacy unit: what one record stands for, or whose records belong together.
        events: Everything that was computed from private records.
        method: Name of the method.
        public: What was taken as public knowledge: schema, hyper-parameters, the seed of the public randomness.
        hashes: SHA-256 of what was released.
        ledger: Data set and reservation in the ledger that the cost was booked on, or None.
        contributions: How many records of one unit were used at most; None when every record is a unit.
        version: Version of noisegate that wrote it.
    """

    epsilon: float
    delta: float
    adjacency: Adjacency
    unit: str
    events: tuple[Event, ...]
    method: str
    public: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, str] | None = None
    contributions: int | None = None
    version: str = __version__

    def __str__(self) -> str:
        releases = "; ".join(_in_words(event) for event in self.events)
        return (
            f"({self.epsilon:g}, {self.delta:g})-differential privacy, {self.adjacency.value}, unit: "
            f"{used(self.unit, self.contributions)}, "
            f"method: {self.method}. Released {releases}."
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the certificate as a JSON object."""
        # Left out where there is none: certificates of one record a unit keep their digests.
        limit = {} if self.contributions is None else {"contributions": self.contributions}
        return {
            "format": FORMAT,
            "noisegate": self.version,
            "guarantee": {
                "epsilon": self.epsilon,
                "delta": self.delta,
                "adjacency": self.adjacency.value,
                "unit": self.unit,
                **limit,
            },
            "method": self.method,
            "events": [event_to_json(event) for event in self.events],
            "public": dict(self.public),
            "hashes": dict(self.hashes),
            "noise_source": NOISE_SOURCE,
            "ledger": dict(self.ledger) if self.ledger else None,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Certificate:
        """Returns the certificate in a JSON object.

        Raises:
            ModelError: if a field is missing, unusable or not known: a claim that is not understood is not checked.
        """
        try:
            if data["format"] != FORMAT:
                raise ModelError(f"certificate format {data['format']!r} is not known; this version reads {FORMAT}.")
            if data["noise_source"] != NOISE_SOURCE:
                raise ModelError(
                    f"the certificate states noise_source={data['noise_source']!r}; a guarantee is proved for "
                    f"{NOISE_SOURCE!r} only: do not rely on it."
                )
            guarantee = data["guarantee"]
            found = cls(
                epsilon=float(guarantee["epsilon"]),
                delta=float(guarantee["delta"]),
                adjacency=Adjacency.parse(guarantee["adjacency"]),
                unit=str(guarantee["unit"]),
                contributions=_contributions(guarantee),
                events=events_from_json(data["events"]),
                method=str(data["method"]),
                public=data["public"],
                hashes=data["hashes"],
                ledger=data["ledger"],
                version=str(data["noisegate"]),
            )
            _check_fields(found)
            _check_nothing_else(found.to_json(), data)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
            raise ModelError(f"the certificate is broken: {type(error).__name__} at {error}.") from None
        return found

    def digest(self) -> str:
        """Returns the SHA-256 of the canonical JSON form."""
        return hashlib.sha256(canonical_json(self.to_json())).hexdigest()

    def check(self) -> float:
        """Returns ε recomputed from the events.

        Raises:
            ModelError: if the stated ε is lower than what the events cost, or the certificate claims no event, or a
                unit that no run can have.
        """
        if not (0 < self.delta < 1 and 0 <= self.epsilon < math.inf):
            raise ModelError(
                f"the certificate states epsilon={self.epsilon} at delta={self.delta}, which means nothing."
            )
        if self.contributions is not None and self.adjacency is Adjacency.REPLACE_ONE:
            raise ModelError("the certificate states contributions under replace-one, for which nothing is proved.")
        if self.contributions is not None and not several(self.unit):
            raise ModelError(f"the certificate states contributions, but its unit={self.unit!r} names no unit column.")
        try:
            check_unit(self.unit, self.contributions)
            recomputed = accounting.epsilon(self.events, self.delta, self.adjacency)
        except (UserError, ValueError, ArithmeticError) as error:
            raise ModelError(f"the certificate's unit or events mean nothing: {error}") from None
        if not self.events or not math.isfinite(recomputed) or recomputed > self.epsilon * (1 + 1e-9):
            raise ModelError(
                f"the certificate states epsilon={self.epsilon:g} at delta={self.delta:g}, "
                f"but its {len(self.events)} events cost epsilon={recomputed:g}: do not rely on it."
            )
        return recomputed


def _in_words(event: Event) -> str:
    if isinstance(event, ZeroConcentratedEvent):
        return f"{event.name}: noisy marginals chosen on the way, rho {event.rho:.4g} together"
    if isinstance(event, ThresholdedGaussianEvent):
        return f"{event.name}: counts above a threshold, noise / sensitivity {event.noise_multiplier:.4g}"
    return f"{event.name}: {event.coordinates} numbers, noise / sensitivity {event.noise_multiplier:.4g}"


def _check_fields(certificate: Certificate) -> None:
    """Checks what from_json() takes as it comes.

    Raises:
        ModelError: if a text is no line, or a table holds other things than it may.
    """
    texts = {"unit": certificate.unit, "method": certificate.method, "noisegate": certificate.version}
    texts |= {f"name of event {number}": event.name for number, event in enumerate(certificate.events)}
    for name, text in texts.items():
        if not text.strip() or not text.isprintable() or len(text) > _LONGEST_TEXT:
            raise ModelError(f"the certificate's {name} is no line of text of at most {_LONGEST_TEXT} characters.")
    if not isinstance(certificate.public, dict):
        raise ModelError("the certificate's public knowledge is no table of names and values.")
    for name, table in (("hashes", certificate.hashes), ("ledger", certificate.ledger)):
        if name == "ledger" and table is None:
            continue
        if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
            raise ModelError(f"the certificate's {name} is no table of names and texts.")


def _check_nothing_else(understood: Mapping[str, Any], stored: Mapping[str, Any]) -> None:
    """Checks that a certificate says what was understood, in the same words, and nothing beside it.

    Raises:
        ModelError: if a field is not known, or is of another type than it was written with.
    """
    for name in sorted({*understood, *stored}):
        if name not in understood or canonical_json(understood[name]) != canonical_json(stored.get(name)):
            raise ModelError(
                f"the certificate's field {name!r} holds something that this version of noisegate does not know or "
                "would not have written; use the version that wrote it, and do not rely on it if it is this one."
            )


def _contributions(guarantee: Mapping[str, Any]) -> int | None:
    """Returns the limit on the records of a unit, as a certificate states it.

    Raises:
        ModelError: if it is no positive whole number.
    """
    limit = guarantee.get("contributions")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ModelError(f"the certificate states contributions={limit!r}, which means nothing.")
    return limit


def canonical_json(data: Any) -> bytes:
    """Returns the one byte form of a JSON value that hashes are taken of."""
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def read_json(path: Path) -> Any:
    """Returns what a JSON file says, if it says it once and in numbers.

    Raises:
        FileNotFoundError: if there is no such file.
        ModelError: if it cannot be read, is no JSON, names something twice, or holds NaN or infinity.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise ModelError(f"{path} is a link or no file; what is verified must lie in the folder itself.")
        text = path.read_text(encoding="utf-8")
        return json.loads(text, object_pairs_hook=_table, parse_constant=_no_number, parse_float=_finite)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} is no JSON that can be relied on: {error}.") from None


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name stands in a table twice")
    return table


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _no_number(text)


def read_certificate(path: Path) -> Certificate:
    """Returns the certificate in the file `path`.

    Raises:
        ModelError: if the file is missing or no certificate.
    """
    try:
        stored = read_json(path)
    except FileNotFoundError:
        raise ModelError(f"{path} does not exist; give the folder that `noisegate fit --out` wrote.") from None
    return Certificate.from_json(stored)
