"""The page of a model of linked tables that may be published: a function of what has left the gate, and of draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from noisegate.privacy.release import Release
from noisegate.reporting.charts.svg import Chart
from noisegate.reporting.marginals import Card
from noisegate.reporting.page import render_page
from noisegate.reporting.public import described, errors_chart, measured_card, promised, told_records
from noisegate.reporting.released import Released, noisy_marginals, pair_errors
from noisegate.schema import EncodedTable
from noisegate.schema.linked import LinkedSchema
from noisegate.schema.links import Link, qualified
from noisegate.verdict import Verdict


@dataclass(frozen=True, kw_only=True)
class ReleasedLink:
    """What the release says of one link.

    Attributes:
        link: The two tables.
        released: The tables of its transitions.
        drawn: One transition of each synthetic family, encoded.
    """

    link: Link
    released: Released
    drawn: EncodedTable


@dataclass(frozen=True, kw_only=True)
class LinkedSubject:
    """What a public page of linked tables is made of.

    Attributes:
        release: What has left the gate.
        schema: Of all tables.
        recomputed: ε of its events.
        verdict: What the fit came to; None where nobody knows.
        distance: From the model to the release, over what the noise explains; None where none was measured.
        links: What was released of each, parents first.
    """

    release: Release
    schema: LinkedSchema
    recomputed: float
    verdict: Verdict | None
    distance: float | None
    links: Sequence[ReleasedLink]
    bounds: Sequence[str] = ()

    @property
    def drawn(self) -> Sequence[ReleasedLink]:
        """What synthetic records there are."""
        return self.links


@dataclass(frozen=True, kw_only=True)
class _Shown:
    title: str
    drawn: int
    cards: Sequence[Card]
    errors: Chart | None


def linked_page(subject: LinkedSubject) -> str:
    """Returns the page, HTML."""
    schema = subject.schema
    number, unit = told_records(subject.links[0].released)
    none: dict[str, Any] = dict.fromkeys(("cards_", "marginals", "unfitted", "worst"), ())
    return render_page(
        "public.html",
        subject=subject,
        **promised(subject.release),
        schema={"images": None, "constraints": _rules(schema)},
        what=f"A synthetic copy of {len(schema.tables)} linked tables: {', '.join(schema.names)}",
        records=(number, unit.replace("records", f"records of {schema.root.name}")),
        columns=[described(column) for table in schema.tables for column in qualified(table)],
        relations=[_shown(one, founding=not place) for place, one in enumerate(subject.links)],
        unfitted_cells=(0, 0),
        unfitted_error=0.0,
        errors=None,
        picture=None,
        **none,
    )


def _shown(one: ReleasedLink, *, founding: bool) -> _Shown:
    """Returns a link as it is shown: the parents' columns with the first one, and no column twice."""
    link = one.link
    left_out = {link.step, *(column.name for column in link.previous_columns)}
    left_out |= set() if founding else {column.name for column in link.parent_columns}
    found = [marginal for marginal in noisy_marginals(one.released, one.drawn) if marginal.name not in left_out]
    found.sort(key=lambda marginal: link.schema.names.index(marginal.name))
    return _Shown(
        title=f"{link.parent.name} and their {link.name}",
        drawn=len(one.drawn),
        cards=[measured_card(place, marginal, f"link-{link.name}") for place, marginal in enumerate(found)],
        errors=errors_chart(found, pair_errors(one.released), f"pair-errors-{link.name}"),
    )


def _rules(schema: LinkedSchema) -> list[str]:
    """Returns all rules in words, those of one table with its name."""
    own = [f"{table.name}: {rule}" for table in schema.tables for rule in table.schema.constraints]
    return own + [str(rule) for rule in schema.constraints]
