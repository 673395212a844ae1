"""The page of a model that may be published: a function of its release, and of what was drawn from it.

It says what the certificate promises: what an attacker can reach (G-28), and what each question cost.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisegate.answers.measurements import Measurements
from noisegate.answers.verdict import Verdict
from noisegate.app.heading import HEADING_NAMES
from noisegate.models.tables.associations import WEAKENED
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
from noisegate.schema import EncodedTable
from noisegate.schema.columns import column_form
from noisegate.schema.linked.links import Link, qualified
from noisegate.schema.linked.schema import LinkedSchema
from noisegate_evaluate.reporting.change import Change
from noisegate_evaluate.reporting.page import (
    Card,
    Chart,
    card,
    cut,
    heat_map,
    lines,
    number,
    percent,
    render_page,
)
from noisegate_evaluate.reporting.released import (
    MeasuredTable,
    PairError,
    error_matrix,
    measured_columns,
    pair_errors,
    released_total,
    unexplained_error,
)

_PARTS = tuple(
    10 ** (-exponent / 24) for exponent in range(8, 145)
)  # from a half down to 1e-6
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


def questions(
    certificate: Certificate, noise_std: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Returns the queries, in order; `noise_std` gives the noise of released sums in the units of a record."""
    events = certificate.events
    if certificate.silos is not None:
        noise_std = {}  # that of all silos together, beside events of one
    gaussian = all(isinstance(event, SumEvent) for event in events)
    total = math.fsum(_squared(event) for event in events) if gaussian else 0.0
    return [
        _question(
            certificate,
            event,
            noise_std.get(event.name),
            _squared(event) / total if gaussian else None,
        )
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
    drawn = lines(
        "tradeoff",
        title,
        told,
        {"guess": [(0.0, 0.0), (1.0, 1.0)], "curve": points},
        headings,
    )
    rows = [
        (
            f"{100 * alarm:g} %",
            f"{math.ceil(100 * curve.catches(alarm) * 100 - 1e-9) / 100:g} %",
        )
        for alarm in _ALARMS
    ]
    return Chart(drawing=drawn, headings=headings, rows=rows)


def _question(
    certificate: Certificate, event: Event, std: float | None, share: float | None
) -> dict[str, Any]:
    # How much one unit moves the sum at most, and the noise over that; no share where costs do not add up in parts.
    alone = accounting.epsilon([event], certificate.delta, certificate.adjacency)
    told = {
        "name": event.name,
        "meaning": _MEANINGS.get(event.name, ""),
        "share": share,
        "alone": alone,
    }
    if isinstance(event, ZeroConcentrated):
        texts = ("chosen on the way", "-", f"ρ = {event.rho:.4g}", "-")
    else:
        gaussian = gaussian_of(event)
        unit = (
            1.0 if std is None else std / gaussian.noise_std
        )  # of a grid step, in the units of a record's vector
        grid = " (grid)" * (std is None)
        moved, noise = (
            f"{size * unit:.4g}{grid}"
            for size in (gaussian.sensitivity, gaussian.noise_std)
        )
        texts = (_released(event), moved, noise, f"{gaussian.noise_multiplier:.4g}")
    return told | dict(zip(("numbers", "moved", "noise", "ratio"), texts, strict=True))


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


def _squared(event: Event) -> float:
    return accounting.total_mu([event]) ** 2 if isinstance(event, SumEvent) else 0.0


@dataclass(frozen=True)
class Tradeoff:
    """Pairs (ε, δ) for each of which what was run is differentially private.

    Examples:
        >>> from noisegate_evaluate.reporting.public import Tradeoff
        >>> pure = Tradeoff(((1.0, 0.0),))
        >>> round(pure.catches(0.05), 3), round(pure.right, 3)
        (0.136, 0.731)
    """

    pairs: tuple[tuple[float, float], ...]

    def catches(self, false_alarms: float) -> float:
        """Returns the largest share of cases that a test catches which raises at most this share of false alarms."""
        caught = []
        for epsilon, delta in self.pairs:
            caught.append(
                min(math.exp(min(epsilon, 700)) * false_alarms + delta, 1.0)
                if false_alarms
                else delta
            )
            caught.append(1 - math.exp(-epsilon) * max(1 - delta - false_alarms, 0.0))
        return min(caught)

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
    events, adjacency = certificate.composed, certificate.adjacency
    slow = any(isinstance(event, StepEvent) and event.rate < 1 for event in events)
    deltas: Sequence[float] = () if not events else _FEW if slow else _DELTAS
    found = [(accounting.epsilon(events, delta, adjacency), delta) for delta in deltas]
    pairs = [(epsilon, delta) for epsilon, delta in found if math.isfinite(epsilon)]
    return Tradeoff(((certificate.epsilon, certificate.delta), *pairs))


_MOST_CHANGED = 4  # cells whose shares are drawn over the periods of a stream
_MOST_NAMED = 300  # columns that a heat map has room for
_MAX_PRINTED = 180  # characters of a column's values on paper: three lines


_NO_HEADING: Mapping[str, str] = {}

_NOTHING: dict[str, Any] = {
    **dict.fromkeys(HEADING_NAMES, ""),
    **dict.fromkeys(
        (
            "cards_",
            "marginals",
            "unfitted",
            "worst",
            "associations",
            "bounds",
            "relations",
            "changed",
            "change_cards",
            "population",
        ),
        (),
    ),
    **{
        "errors": None,
        "picture": None,
        "is_dated": False,
        "unmeasured": 0,
        "has_moments": False,
        "unfitted_cells": (0, 0),
        "unfitted_error": 0.0,
    },
    **{"rules": None, "refusal": "", "weights": None},
}
"""What the template shows of a release that has none of it."""


@dataclass(frozen=True, kw_only=True)
class ReleasedLink:
    """What the release says of one link: tables of its transitions, and one of each synthetic family, encoded."""

    link: Link
    released: Measurements
    drawn: EncodedTable


@dataclass(frozen=True, kw_only=True)
class ModelRules:
    """How many records of a model keep to the rules of the schema, where most do not."""

    drawn: int
    accepted: int
    rejecting: Sequence[tuple[str, float]]
    """Rules, and the share of the model's records that breaks each, those that reject most first."""

    @property
    def share(self) -> str:
        """The share of records that keep to all rules, with two digits."""
        return f"{100 * self.accepted / self.drawn:.2g} %"

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The rules, and how many records break each, for a table."""
        return [(rule, f"{100 * share:.1f} %") for rule, share in self.rejecting]


def public_page(
    release: Release,
    verdict: Verdict | None,
    distance: float | None,
    *,
    released: Measurements,
    held_out: Sequence[MeasuredTable],
    bounds: Sequence[str],
    drawn: EncodedTable | None,
    png: bytes | None,
    changed: Sequence[Change] = (),
    rules: ModelRules | None = None,
    population: Sequence[tuple[str, str, str]] = (),
    is_dated: bool = False,
    heading: Mapping[str, str] = _NO_HEADING,
) -> str:
    """Returns the page of a model of one table or of images, HTML.

    `verdict` is what the fit came to, `distance` from the model to the release, over what the noise explains; None
    where nobody knows. `held_out` are tables that the fit never saw, `bounds` what the method says of the error of its
    questions, in words. Of a stream `changed` is what moved in its last period. Of a classifier nothing is `drawn`; of
    images `png` is a picture of some. `rules` says how many records keep to the rules, None where most do. Of a table
    with survey weights `population` are shares and means by them. The `heading` is what its owner says: title, owner
    and purpose; `is_dated` whether the page says the day.
    """
    schema = release.schema
    found = []
    if drawn is not None and len(drawn):
        found = measured_columns(released, schema.layout, drawn)
    places = (
        {name: place for place, name in enumerate(schema.coordinates.names)}
        if schema.images is None
        else {}
    )
    found.sort(key=lambda one: places.get(one.name, 0))
    errors = pair_errors(released)
    what = f"A synthetic copy of a table of {len(schema.columns)} column{'s' * (len(schema.columns) != 1)}"
    if drawn is None:
        what = "A classifier that was trained under differential privacy"
    elif schema.images is not None:
        what = f"Synthetic images of {schema.images.shape.height} × {schema.images.shape.width} pixels"
    return _rendered(
        release,
        verdict,
        distance,
        schema=schema,
        drawn=None if drawn is None else len(drawn),
        what=what,
        records=told_records(released),
        bounds=bounds,
        cards_=[measured_card(place, one) for place, one in enumerate(found)],
        marginals=[
            (one.name, f"{len(one.cells):,}", percent(one.misplaced)) for one in found
        ],
        unfitted=[
            measured_card(place, one, "unfitted") for place, one in enumerate(held_out)
        ],
        unfitted_cells=(
            sum(one.explained for one in held_out),
            sum(len(one.cells) for one in held_out),
        ),
        unfitted_error=unexplained_error(held_out) if held_out else 0.0,
        columns=None
        if schema.images is not None
        else [described(column) for column in schema.columns],
        errors=errors_chart(found, errors),
        worst=sorted(errors, key=lambda error: -error.misplaced)[:10],
        **_associations(verdict),
        changed=[one.row for one in changed if one.is_clear],
        change_cards=[
            one.card(place) for place, one in enumerate(changed[:_MOST_CHANGED])
        ],
        rules=rules,
        population=population,
        weights=schema.weights,
        has_moments=released.moments is not None,
        picture=None if png is None else base64.b64encode(png).decode("ascii"),
        is_dated=is_dated,
        **heading,
    )


def _rendered(
    release: Release, verdict: Verdict | None, distance: float | None, **shown: Any
) -> str:
    told = {"verdict_": verdict, "distance": distance, **promised(release)}
    if shown["columns"] is not None:
        told["columns_on_paper"] = _on_paper(shown["columns"])
    return render_page("public.html", **_NOTHING | told | shown)


def _associations(verdict: Verdict | None) -> dict[str, Any]:
    """Returns what the fit keeps of the associations that the release shows, and how many pairs nobody looked at."""
    figures = {} if verdict is None else verdict.figures
    found = figures.get("associations", {})
    rows = [
        (pair, "kept" if part >= WEAKENED else "weakened", percent(min(part, 1.0)))
        for pair, part in found.items()
    ]
    return {"associations": rows, "unmeasured": figures.get("pairs_not_measured", 0)}


def promised(release: Release) -> dict[str, Any]:
    """Returns what the page of any release says of the promise, by the names of the template."""
    certificate = release.certificate
    together, settings = with_discovery(certificate), certificate.public.get("settings")
    curve = tradeoff(together)
    is_linked = isinstance(release.stated_schema, LinkedSchema)
    # A unit that has several records is called "all records of ..." or "one record of ... with all that belongs to it".
    whole = bool(certificate.contributions) or is_linked
    return {
        "certificate": certificate,
        "together": together,
        "recomputed": certificate.check(),
        "digest": certificate.digest(),
        # "one patient", of all records of one patient.
        "somebody": certificate.unit.removeprefix("all records of ")
        if whole
        else f"one {certificate.unit}",
        "neighbours": certificate.adjacency.sentence(certificate.unit)
        if whole
        else certificate.adjacency.sentence(),
        "whole": whole,
        "protection": protection(together, is_linked=is_linked),
        "replaced": certificate.adjacency is Adjacency.REPLACE_ONE,
        "right": min(
            math.ceil(100 * curve.right - 1e-9), 100
        ),  # of 100 guesses at even odds, at most
        "tradeoff": tradeoff_chart(curve),
        "caught": math.ceil(1000 * curve.catches(0.05) - 1e-9) / 10,
        "questions": questions(certificate, release.noise_std),
        "bought": schema_cost_sentence(certificate),
        "settings": [(str(name), str(value)) for name, value in settings.items()]
        if isinstance(settings, dict)
        else [],
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
    cost = (
        "k records cost k times epsilon; two cost epsilon = "
        f"{2 * certificate.epsilon:.4g}."
    )
    if unit == RECORD:
        return (
            "One record is protected. If a person has several records, the promise "
            f"for that person is weaker: {cost}"
        )
    return (
        f"One {unit} is protected, where each has one record. For one with several the "
        f"promise is weaker: {cost}"
    )


def told_records(released: Measurements) -> tuple[str, str]:
    """Returns how many records there are, and how well that is known."""
    total = released_total(released)
    if total is None:
        return "–", "records: their number was not asked"
    records = total.value
    if total.variance == 0:
        return number(records), "records; their number is public"
    error = 2 * math.sqrt(total.variance)
    return (
        f"about {number(max(round(records), 0))}",
        f"records, ± {number(round(error))} by the noise",
    )


def measured_card(place: int, shown: MeasuredTable, key: str = "column") -> Card:
    """Returns the card of one table of the release beside the synthetic records."""
    told = f"{shown.explained} of {len(shown.cells)} cells agree within noise and draw."
    return card(
        f"{key}-{place}",
        shown.columns,
        shown.cells,
        (shown.measured, shown.synthetic),
        told,
        ("measured, with noise", "synthetic"),
        error=2 * shown.noise_std,
    )


def errors_chart(
    found: Sequence[MeasuredTable],
    errors: Sequence[PairError],
    key: str = "pair-errors",
) -> Chart | None:
    """Returns a map of the expected errors of pairs of columns; None where there are none, or too many columns."""
    names = list(
        dict.fromkeys(
            [one.name for one in found]
            + [name for error in errors for name in error.columns]
        )
    )
    if not 1 < len(names) <= _MOST_NAMED or not errors:
        return None
    matrix = error_matrix(names, errors)
    most = max(float(np.nanmax(matrix)), 1e-9)
    worst = max(errors, key=lambda error: error.misplaced)
    told = (
        f"The largest is {percent(worst.misplaced)}, of {' and '.join(worst.columns)}."
    )
    scale: Any = {"most": most, "ends": ("0 %", percent(most))}
    drawn = heat_map(
        key, "Expected error of each pair of columns", told, names, matrix, **scale
    )
    rows = [
        (" × ".join(error.columns), f"{error.cells:,}", percent(error.misplaced))
        for error in errors
    ]
    return Chart(
        drawing=drawn,
        headings=("pair", "cells", "expected error"),
        rows=rows,
        wide=True,
    )


def described(column: Any) -> tuple[str, str, str]:
    """Returns the name, the kind and the values of a column."""
    form = column_form(column)
    kind = form.pop("kind")
    if column.numeric:
        told = [f"{form.pop('lower')} to {form.pop('upper')}"]
    else:
        told = [", ".join(map(str, form.pop("levels", ()))) or "yes or no"]
    told += [
        _attribute(name, value) for name, value in form.items() if name != "missing"
    ]
    return (
        column.name,
        str(kind),
        "; ".join(told) + ("; may be missing" if column.missing else ""),
    )


def _attribute(name: str, value: Any) -> str:
    """Returns an attribute of a column in words, such as "limits <0.5, 90+" or "ordered"."""
    if value is True:
        return name
    if isinstance(value, list):
        return f"{name} {', '.join(map(str, value))}"
    return f"{name} {value}"


def _on_paper(columns: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Returns the rows of columns, with long lists of values cut between two of them."""
    return [
        (name, kind, values)
        if len(values) <= _MAX_PRINTED
        else (name, kind, f"{cut(values, _MAX_PRINTED).rpartition(', ')[0]}, …")
        for name, kind, values in columns
    ]


def linked_page(
    release: Release,
    verdict: Verdict | None,
    distance: float | None,
    *,
    schema: LinkedSchema,
    links: Sequence[ReleasedLink],
    refusal: str = "",
    is_dated: bool = False,
    heading: Mapping[str, str] = _NO_HEADING,
) -> str:
    """Returns the page of a model of linked tables, HTML; `links` are those of the schema, parents first.

    Without links, the `refusal` says why no tables could be drawn.
    """
    records, unit = (
        told_records(links[0].released)
        if links
        else ("–", "records: no table could be drawn")
    )
    own = [
        f"{table.name}: {rule}"
        for table in schema.tables
        for rule in table.schema.constraints
    ]
    own_relations = [
        f"{table.name}: {relation}"
        for table in schema.tables
        for relation in table.schema.relations
    ]
    return _rendered(
        release,
        verdict,
        distance,
        schema={
            "images": None,
            "relations": [*own_relations, *map(str, schema.relations)],
            "constraints": [*own, *map(str, schema.constraints)],
        },
        drawn=0,
        what=f"A synthetic copy of {len(schema.tables)} linked tables: {', '.join(schema.names)}",
        records=(records, unit.replace("records", f"records of {schema.root.name}")),
        columns=[
            described(column) for table in schema.tables for column in qualified(table)
        ],
        relations=[_shown(one, founding=not place) for place, one in enumerate(links)],
        refusal=refusal,
        is_dated=is_dated,
        **heading,
    )


def _shown(one: ReleasedLink, *, founding: bool) -> dict[str, Any]:
    """Returns a link as the template shows it: the parents' columns with the first one, and no column twice."""
    link = one.link
    left_out = {link.step, *(column.name for column in link.previous_columns)}
    left_out |= set() if founding else {column.name for column in link.parent_columns}
    found = [
        marginal
        for marginal in measured_columns(one.released, link.schema.layout, one.drawn)
        if marginal.name not in left_out
    ]
    found.sort(key=lambda marginal: link.schema.names.index(marginal.name))
    return {
        "title": f"{link.parent.name} and their {link.name}",
        "drawn": len(one.drawn),
        "cards": [
            measured_card(place, marginal, f"link-{link.name}")
            for place, marginal in enumerate(found)
        ],
        "errors": errors_chart(
            found, pair_errors(one.released), f"pair-errors-{link.name}"
        ),
    }
