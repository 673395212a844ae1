"""What a certificate promises somebody who decides: what an attacker can reach (G-28), what each question cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import (
    BatchGaussianEvent,
    Event,
    GaussianEvent,
    SampledGaussianEvent,
    ShardGaussianEvent,
    ThresholdedGaussianEvent,
    ZeroConcentratedEvent,
)
from noisegate_evaluate.reporting.page import Chart, lines

_PARTS = tuple(10 ** (-exponent / 24) for exponent in range(8, 145))  # from a half down to 1e-6
_DELTAS = (*(1 - part for part in _PARTS[:48]), *_PARTS)
_FEW = (0.5, 0.2, 0.05, 0.01, 1e-3, 1e-4)  # where each takes up to a second
_ALARMS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
_POINTS = 80
_MEANINGS = {
    "fine": "how the values of each numeric column are spread, on fine cells",
    "coarse": "the same on few cells",
    "screen": "a rough look at all pairs of columns, to choose some",
    "counts": "how many records there are, in each class of the label if there is one",
    "one-way": "counts of the cells of each column",
    "pairs": "counts of the cells of pairs of columns",
    "unfitted": "counts of pairs of columns that the fit does not see, for this page",
    "gradients": "steps of a training, each a sum over a sample of the records",
    "fourier": "sums of random waves of the columns",
    "first-moments": "sums of what a public network sees in the images",
    "second-moments": "the same, squared",
    "pixels": "sums of random features of pixels",
    "orientations": "sums of random features of edges",
    "wavelets": "sums of random features of patterns",
    "marginals": "counts of tables of columns, chosen on the way",
}


@dataclass(frozen=True, kw_only=True)
class AskedQuestion:
    """One query run on the private records, as texts."""

    name: str
    meaning: str
    numbers: str
    moved: str  # how much one unit moves the sum at most
    noise: str
    ratio: str  # of the noise to that
    share: float | None  # of the budget; None where costs do not add up in parts
    alone: float  # ε of this question by itself


def questions(certificate: Certificate, noise_std: Mapping[str, float]) -> list[AskedQuestion]:
    """Returns the queries, in order; `noise_std` gives the noise of released sums in the units of a record."""
    events = certificate.events
    if certificate.silos is not None:
        noise_std = {}  # that of all silos together, beside events of one
    gaussian = all(isinstance(event, GaussianEvent) for event in events)
    total = math.fsum(_squared(event) for event in events) if gaussian else 0.0
    return [
        _question(certificate, event, noise_std.get(event.name), _squared(event) / total if gaussian else None)
        for event in events
    ]


def tradeoff_chart(curve: Tradeoff) -> Chart:
    """Returns the curve of what an attacker catches at most over the false alarms, beside that of guessing."""
    # More points where the curve is steep.
    alarms = [(place / _POINTS) ** 2 for place in range(_POINTS + 1)]
    points = [(alarm, curve.catches(alarm)) for alarm in alarms]
    title = "What an attacker can reach at most"
    told = f"At 5 % false alarms at most {100 * curve.catches(0.05):.3g} % of those who are there are caught."
    headings = ("false alarms", "caught, at most")
    drawn = lines("tradeoff", title, told, {"guess": [(0.0, 0.0), (1.0, 1.0)], "curve": points}, headings)
    rows = [
        (f"{100 * alarm:g} %", f"{math.ceil(100 * curve.catches(alarm) * 100 - 1e-9) / 100:g} %") for alarm in _ALARMS
    ]
    return Chart(drawing=drawn, headings=headings, rows=rows)


def _question(certificate: Certificate, event: Event, std: float | None, share: float | None) -> AskedQuestion:
    alone = accounting.epsilon([event], certificate.delta, certificate.adjacency)
    told = {"name": event.name, "meaning": _MEANINGS.get(event.name, ""), "share": share, "alone": alone}
    if isinstance(event, ZeroConcentratedEvent):
        texts = ("chosen on the way", "-", f"ρ = {event.rho:.4g}", "-")
    else:
        unit = 1.0 if std is None else std / event.noise_std  # of a grid step, in the units of a record's vector
        grid = " (grid)" * (std is None)
        moved, noise = (f"{size * unit:.4g}{grid}" for size in (event.sensitivity, event.noise_std))
        texts = (_released(event), moved, noise, f"{event.noise_multiplier:.4g}")
    return AskedQuestion(**told, **dict(zip(("numbers", "moved", "noise", "ratio"), texts, strict=True)))  # type: ignore[arg-type]


def _released(event: Event) -> str:
    if isinstance(event, ThresholdedGaussianEvent):
        return "those above a threshold"
    assert not isinstance(event, ZeroConcentratedEvent)
    times = ""
    if isinstance(event, SampledGaussianEvent):
        times = f" × {event.steps:,} steps at rate {event.rate:.3g}"
    if isinstance(event, BatchGaussianEvent | ShardGaussianEvent) and event.shards > 1:
        times += f", {event.shards:,} shards"
    return f"{event.coordinates:,}{times}"


def _squared(event: Event) -> float:
    return accounting.total_mu([event]) ** 2 if isinstance(event, GaussianEvent) else 0.0


@dataclass(frozen=True)
class Tradeoff:
    """Pairs (ε, δ) for each of which what was run is differentially private.

    Examples:
        >>> from noisegate_evaluate.reporting.promise import Tradeoff
        >>> pure = Tradeoff(((1.0, 0.0),))
        >>> round(pure.catches(0.05), 3), round(pure.right, 3)
        (0.136, 0.731)
    """

    pairs: tuple[tuple[float, float], ...]

    def catches(self, false_alarms: float) -> float:
        """Returns the largest share of cases that a test catches which raises at most this share of false alarms."""
        caught = []
        for epsilon, delta in self.pairs:
            caught.append(min(math.exp(min(epsilon, 700)) * false_alarms + delta, 1.0) if false_alarms else delta)
            caught.append(1 - math.exp(-epsilon) * max(1 - delta - false_alarms, 0.0))
        return min(caught)

    @property
    def right(self) -> float:
        """The largest share of guesses that are right where both cases are equally likely; of coins it is one half."""
        # (e^ε + δ)/(e^ε + 1), by what cannot overflow.
        return min((1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon)) for epsilon, delta in self.pairs)


def tradeoff(certificate: Certificate) -> Tradeoff:
    """Returns what follows from all that a certificate states; its own pair is among these."""
    events, adjacency = certificate.composed, certificate.adjacency
    slow = any(isinstance(event, SampledGaussianEvent) and event.rate < 1 for event in events)
    found = [(accounting.epsilon(events, delta, adjacency), delta) for delta in (_FEW if slow else _DELTAS)]
    pairs = [(epsilon, delta) for epsilon, delta in found if math.isfinite(epsilon)]
    return Tradeoff(((certificate.epsilon, certificate.delta), *pairs))
