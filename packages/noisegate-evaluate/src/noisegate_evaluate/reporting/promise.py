"""What a certificate promises, and the queries on the records, in numbers and words.

The public page and the statements for registries show it: what an attacker can reach
(G-28), and what each query cost.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from noisegate.answers.measurements import Measurements
from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate, schema_cost_sentence
from noisegate.privacy.events import (
    RECORD,
    Adjacency,
    Batched,
    Event,
    Sharded,
    StepEvent,
    SumEvent,
    Thresholded,
    ZeroConcentrated,
    gaussian_of,
)
from noisegate.privacy.release import Release
from noisegate.privacy.schema_certificate import with_discovery
from noisegate.schema.columns import column_form
from noisegate.schema.linked.schema import LinkedSchema
from noisegate_evaluate.reporting.charts import Chart, lines, number
from noisegate_evaluate.reporting.released import released_total

# From a half down to 1e-6.
_PARTS = tuple(10 ** (-exponent / 24) for exponent in range(8, 145))
# At these δ the ε of all that was run is computed: also near 1, where the curve ends.
_DELTAS = (*(1 - part for part in _PARTS[:48]), *_PARTS)
# Where each takes up to a second.
_FEW_DELTAS = (0.5, 0.2, 0.05, 0.01, 1e-3, 1e-4)
# False alarms at which the table of the chart says what is caught.
_ALARMS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.5)
_POINTS = 80
# What the queries of methods are of, by name.
_MEANINGS = {
    "fine": "how the values of each numeric column are spread, in fine bins",
    "coarse": "the same in few bins",
    "screen": "a rough screening of all pairs of columns, to choose some",
    "counts": "how many records there are, in each class of the label if there is one",
    "one-way": "counts in the bins of each column",
    "pairs": "counts of the cells of pairs of columns",
    "unfitted": "counts of pairs of columns that the fit does not see, for this page",
    "gradients": "steps of a training, each a sum over a sample of the records",
    "fourier": "sums of random waves of the columns",
    "first-moments": "sums of the features of a public network in the images",
    "second-moments": "the same, squared",
    "pixels": "sums of random features of pixels",
    "orientations": "sums of random features of edges",
    "wavelets": "sums of random features of patterns",
    "marginals": "counts of contingency tables, chosen adaptively",
}


def query_rows(
    certificate: Certificate, noise_std: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Returns the queries of a certificate in words, in their order.

    Args:
        certificate: The certificate.
        noise_std: Noise of the released sums, in the units of a record's vector.
    """
    events = certificate.events
    if certificate.silos is not None:
        # It is that of all silos together, beside events of one.
        noise_std = {}
    # Costs add up in parts if all noise is Gaussian and nothing is sampled.
    squares = [
        accounting.total_mu([event]) ** 2 if isinstance(event, SumEvent) else math.nan
        for event in events
    ]
    total = math.fsum(squares)
    return [
        {
            "name": event.name,
            "meaning": _MEANINGS.get(event.name, ""),
            "share": square / total if math.isfinite(total) else None,
            "alone": accounting.epsilon(
                [event], certificate.delta, certificate.adjacency
            ),
            **_sensitivity_and_noise(event, noise_std.get(event.name)),
        }
        for event, square in zip(events, squares, strict=True)
    ]


def tradeoff_chart(curve: Tradeoff) -> Chart:
    """Returns the curve of what an attacker catches at most over the false alarms, beside that of guessing."""
    # More points where the curve is steep.
    alarms = [(index / _POINTS) ** 2 for index in range(_POINTS + 1)]
    headings = ("false alarms", "caught, at most")
    drawing = lines(
        "tradeoff",
        "What an attacker can reach at most",
        f"At 5 % false alarms at most {100 * curve.catches(0.05):.3g} % of those who "
        "are there are caught.",
        {
            "guess": [(0.0, 0.0), (1.0, 1.0)],
            "curve": [(alarm, curve.catches(alarm)) for alarm in alarms],
        },
        headings,
    )
    rows = []
    for alarm in _ALARMS:
        # Rounded up to a hundredth of a percent.
        caught = math.ceil(10_000 * curve.catches(alarm) - 1e-9) / 100
        rows.append((f"{100 * alarm:g} %", f"{caught:g} %"))
    return Chart(drawing=drawing, headings=headings, rows=rows)


def _sensitivity_and_noise(event: Event, std: float | None) -> dict[str, str]:
    """Returns how much one unit moves a sum at most, and the noise over that, in words.

    Args:
        event: The event of the query.
        std: Noise of the released sum in the units of a record's vector; None for the
            units of the grid.
    """
    if isinstance(event, ZeroConcentrated):
        return {
            "numbers": "chosen on the way",
            "moved": "-",
            "noise": f"ρ = {event.rho:.4g}",
            "ratio": "-",
        }
    gaussian = gaussian_of(event)
    unit = 1.0 if std is None else std / gaussian.noise_std
    grid = " (grid)" if std is None else ""
    return {
        "numbers": _released(event),
        "moved": f"{gaussian.sensitivity * unit:.4g}{grid}",
        "noise": f"{gaussian.noise_std * unit:.4g}{grid}",
        "ratio": f"{gaussian.noise_multiplier:.4g}",
    }


def _released(event: Event) -> str:
    if isinstance(event, Thresholded):
        return "those above a threshold"
    assert not isinstance(event, ZeroConcentrated)
    times = ""
    if isinstance(event, StepEvent):
        times = f" × {event.steps:,} steps at rate {event.rate:.3g}"
    if isinstance(event, Batched | Sharded) and event.shards > 1:
        times += f", {event.shards:,} shards"
    return f"{gaussian_of(event).coordinates:,}{times}"


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
        bounds = []
        for epsilon, delta in self.pairs:
            bound = delta
            if false_alarms:
                # e^700 is about the largest float.
                odds = math.exp(min(epsilon, 700))
                bound = min(odds * false_alarms + delta, 1.0)
            bounds.append(bound)
            missed = math.exp(-epsilon) * max(1 - delta - false_alarms, 0.0)
            bounds.append(1 - missed)
        return min(bounds)

    @property
    def right(self) -> float:
        """The largest share of guesses that are right where both cases are equally likely; of coins it is one half."""
        # (e^ε + δ)/(e^ε + 1), by what cannot overflow.
        return min(
            (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
            for epsilon, delta in self.pairs
        )


def tradeoff(certificate: Certificate) -> Tradeoff:
    """Returns what follows from all that a certificate states, or from its own pair alone if that is of no events."""
    events = certificate.composed
    is_slow = any(isinstance(event, StepEvent) and event.rate < 1 for event in events)
    pairs = [(certificate.epsilon, certificate.delta)]
    for delta in (_FEW_DELTAS if is_slow else _DELTAS) if events else ():
        epsilon = accounting.epsilon(events, delta, certificate.adjacency)
        if math.isfinite(epsilon):
            pairs.append((epsilon, delta))
    return Tradeoff(tuple(pairs))


def promised(release: Release) -> dict[str, Any]:
    """Returns what the page of any release says of the promise, by the names of the template."""
    certificate = release.certificate
    together = with_discovery(certificate)
    settings = certificate.public.get("settings")
    if not isinstance(settings, dict):
        settings = {}
    curve = tradeoff(together)
    is_linked = isinstance(release.stated_schema, LinkedSchema)
    # A unit that has several records is called "all records of ..." or "one record of
    # ... with all that belongs to it".
    whole = bool(certificate.contributions) or is_linked
    if whole:
        # "one patient", of all records of one patient.
        somebody = certificate.unit.removeprefix("all records of ")
        neighbours = certificate.adjacency.sentence(certificate.unit)
    else:
        somebody = f"one {certificate.unit}"
        neighbours = certificate.adjacency.sentence()
    return {
        "certificate": certificate,
        "together": together,
        "recomputed": certificate.check(),
        "digest": certificate.digest(),
        "somebody": somebody,
        "neighbours": neighbours,
        "whole": whole,
        "protection": protection(together, is_linked=is_linked),
        "replaced": certificate.adjacency is Adjacency.REPLACE_ONE,
        # Of 100 guesses at even odds, and of 100 cases at 5 % false alarms, at most.
        "right": min(math.ceil(100 * curve.right - 1e-9), 100),
        "caught": math.ceil(1000 * curve.catches(0.05) - 1e-9) / 10,
        "tradeoff": tradeoff_chart(curve),
        "questions": query_rows(certificate, release.noise_std),
        "bought": schema_cost_sentence(certificate),
        "settings": [(str(name), str(value)) for name, value in settings.items()],
    }


def protection(certificate: Certificate, *, is_linked: bool) -> str:
    """Returns whose records are protected together, and what follows for people with several, in words."""
    unit = certificate.unit
    if certificate.contributions is not None:
        count = certificate.contributions
        return (
            f"{unit[0].upper()}{unit[1:]} are protected together, up to {count:,}. "
            "Further records were not used."
        )
    if is_linked:
        return (
            f"{unit[0].upper()}{unit[1:]} is protected. However many records belong to "
            "it, they weigh no more together than one would."
        )
    cost = f"k records cost k times ε; two cost ε = {2 * certificate.epsilon:.4g}."
    if unit == RECORD:
        return (
            "One record is protected. If a person has several records, the promise "
            f"for that person is weaker: {cost}"
        )
    return (
        f"One {unit} is protected, where each has one record. For one with several the "
        f"promise is weaker: {cost}"
    )


def total_words(released: Measurements) -> tuple[str, str]:
    """Returns how many records there are, and how well that is known."""
    total = released_total(released)
    if total is None:
        return "–", "records: their number was not queried"
    records = total.value
    if total.variance == 0:
        return number(records), "records; their number is public"
    error = 2 * math.sqrt(total.variance)
    return (
        f"about {number(max(round(records), 0))}",
        f"records, ± {number(round(error))} by the noise",
    )


def column_words(column: Any) -> tuple[str, str, str]:
    """Returns the name, the kind and the values of a column."""
    form = column_form(column)
    kind = form.pop("kind")
    if column.numeric:
        texts = [f"{form.pop('lower')} to {form.pop('upper')}"]
    else:
        texts = [", ".join(map(str, form.pop("levels", ()))) or "yes or no"]
    form.pop("missing", None)
    texts += [_attribute(name, value) for name, value in form.items()]
    if column.missing:
        texts.append("may be missing")
    return column.name, str(kind), "; ".join(texts)


def _attribute(name: str, value: Any) -> str:
    """Returns an attribute of a column in words, such as "limits <0.5, 90+" or "ordered"."""
    if value is True:
        return name
    if isinstance(value, list):
        return f"{name} {', '.join(map(str, value))}"
    return f"{name} {value}"
