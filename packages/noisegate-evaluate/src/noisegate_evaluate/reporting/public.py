"""The page of a model that may be published: a function of what has left the gate, and of what was drawn from it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisegate.linked.links import Link, qualified
from noisegate.linked.schema import LinkedSchema
from noisegate.privacy.certificate import schema_cost
from noisegate.privacy.events import Adjacency
from noisegate.privacy.release import Release
from noisegate.schema import EncodedTable, NumericColumn
from noisegate.schema.columns import column_form
from noisegate.tables.associations import WEAKENED
from noisegate.verdict import Verdict
from noisegate_evaluate.reporting.change import Change
from noisegate_evaluate.reporting.page import Card, Chart, card, heat_map, number, percent, picture, render_page
from noisegate_evaluate.reporting.promise import questions, tradeoff, tradeoff_chart
from noisegate_evaluate.reporting.released import (
    Marginal,
    PairError,
    Released,
    error_matrix,
    noisy_marginals,
    noisy_tables,
    pair_errors,
    typical_error,
)

_MOST_CHANGED = 4  # cells whose shares are drawn over the periods of a stream
_MOST_NAMED = 300  # columns that a heat map has room for


_NOTHING: dict[str, Any] = {
    **dict.fromkeys(
        ("cards_", "marginals", "unfitted", "worst", "associations", "bounds", "relations", "changed", "change_cards"),
        (),
    ),
    **{"errors": None, "picture": None, "unmeasured": 0, "unfitted_cells": (0, 0), "unfitted_error": 0.0},
}
"""What the template shows of a release that has none of it."""


@dataclass(frozen=True, kw_only=True)
class ReleasedLink:
    """What the release says of one link: tables of its transitions, and one of each synthetic family, encoded."""

    link: Link
    released: Released
    drawn: EncodedTable


def public_page(
    release: Release,
    verdict: Verdict | None,
    distance: float | None,
    *,
    released: Released,
    unfitted: Released,
    bounds: Sequence[str],
    drawn: EncodedTable | None,
    png: bytes | None,
    changed: Sequence[Change] = (),
) -> str:
    """Returns the page of a model of one table or of images, HTML.

    `verdict` is what the fit came to, `distance` from the model to the release, over what the noise explains; None
    where nobody knows. `unfitted` are tables that the fit never saw, `bounds` what the method says of the error of its
    questions, in words. Of a stream `changed` is what moved in its last period. Of a classifier nothing is `drawn`; of
    images `png` is a picture of some.
    """
    schema = release.schema
    found = [] if drawn is None else noisy_marginals(released, drawn)
    places = {name: place for place, name in enumerate(schema.names)} if schema.images is None else {}
    found.sort(key=lambda one: places.get(one.name, 0))
    apart = [] if drawn is None else noisy_tables(unfitted, drawn)
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
        marginals=[(one.name, f"{len(one.cells):,}", percent(one.error)) for one in found],
        unfitted=[measured_card(place, one, "unfitted") for place, one in enumerate(apart)],
        unfitted_cells=(sum(one.explained for one in apart), sum(len(one.cells) for one in apart)),
        unfitted_error=typical_error(apart) if apart else 0.0,
        columns=None if schema.images is not None else [described(column) for column in schema.columns],
        errors=errors_chart(found, errors),
        worst=sorted(errors, key=lambda error: -error.error)[:10],
        **_associations(verdict),
        changed=[one.row for one in changed if one.clear],
        change_cards=[one.card(place) for place, one in enumerate(changed[:_MOST_CHANGED])],
        picture=None if png is None else picture(png),
    )


def _rendered(release: Release, verdict: Verdict | None, distance: float | None, **shown: Any) -> str:
    told = {"verdict_": verdict, "distance": distance, **promised(release)}
    return render_page("public.html", **_NOTHING | told | shown)


def _associations(verdict: Verdict | None) -> dict[str, Any]:
    """Returns what the fit keeps of the associations that the release shows, and how many pairs nobody looked at."""
    figures = {} if verdict is None else verdict.figures
    found = figures.get("associations", {})
    rows = [(pair, "kept" if part >= WEAKENED else "weakened", percent(min(part, 1.0))) for pair, part in found.items()]
    return {"associations": rows, "unmeasured": figures.get("pairs_not_measured", 0)}


def promised(release: Release) -> dict[str, Any]:
    """Returns what the page of any release says of the promise, by the names of the template."""
    certificate = release.certificate
    curve, settings = tradeoff(certificate), certificate.public.get("settings")
    # A unit that has several records is called "all records of ..." or "one record of ... with all that belongs to it".
    whole = bool(certificate.contributions) or isinstance(release.stated_schema, LinkedSchema)
    return {
        "certificate": certificate,
        "recomputed": certificate.check(),
        "digest": certificate.digest(),
        "somebody": certificate.unit if whole else f"one {certificate.unit}",
        "neighbours": certificate.adjacency.sentence(certificate.unit) if whole else certificate.adjacency.sentence(),
        "whole": whole,
        "replaced": certificate.adjacency is Adjacency.REPLACE_ONE,
        "right": min(math.ceil(100 * curve.right - 1e-9), 100),  # of 100 guesses at even odds, at most
        "tradeoff": tradeoff_chart(curve),
        "caught": math.ceil(1000 * curve.catches(0.05) - 1e-9) / 10,
        "questions": questions(certificate, release.noise_std),
        "bought": schema_cost(certificate),
        "settings": [(str(name), str(value)) for name, value in settings.items()] if isinstance(settings, dict) else [],
    }


def told_records(released: Released) -> tuple[str, str]:
    """Returns how many records there are, and how well that is known."""
    if released.total is None:
        return "–", "records: their number was not asked"
    records, error = released.total
    if not error:
        return number(records), "records; their number is public"
    return f"about {number(max(round(records), 0))}", f"records, ± {number(round(error))} by the noise"


def measured_card(place: int, shown: Marginal, key: str = "column") -> Card:
    """Returns the card of one table of the release beside the synthetic records."""
    told = f"{shown.explained} of {len(shown.cells)} cells agree within noise and draw."
    return card(
        f"{key}-{place}",
        shown.columns,
        shown.cells,
        (shown.noisy, shown.synthetic),
        told,
        ("measured, with noise", "synthetic"),
        error=shown.two_sigma,
    )


def errors_chart(found: Sequence[Marginal], errors: Sequence[PairError], key: str = "pair-errors") -> Chart | None:
    """Returns a map of the expected errors of pairs of columns; None where there are none, or too many columns."""
    names = list(dict.fromkeys([one.name for one in found] + [name for error in errors for name in error.columns]))
    if not 1 < len(names) <= _MOST_NAMED or not errors:
        return None
    matrix = error_matrix(names, errors)
    most = max(float(np.nanmax(matrix)), 1e-9)
    worst = max(errors, key=lambda error: error.error)
    told = f"The largest is {percent(worst.error)}, of {' and '.join(worst.columns)}."
    drawn = heat_map(key, "Expected error of each pair of columns", told, names, matrix, most=most)
    rows = [(" × ".join(error.columns), f"{error.cells:,}", percent(error.error)) for error in errors]
    return Chart(drawing=drawn, headings=("pair", "cells", "expected error"), rows=rows, wide=True)


def described(column: Any) -> tuple[str, str, str]:
    """Returns the name, the kind and the values of a column."""
    form = column_form(column)
    kind = form.pop("kind")
    if isinstance(column, NumericColumn):
        told = [f"{form.pop('lower')} to {form.pop('upper')}"]
    else:
        told = [", ".join(map(str, form.pop("levels", ()))) or "yes or no"]
    told += [f"{name} {value}" for name, value in form.items() if name != "missing"]
    return column.name, str(kind), "; ".join(told) + ("; may be missing" if column.missing else "")


def linked_page(
    release: Release,
    verdict: Verdict | None,
    distance: float | None,
    *,
    schema: LinkedSchema,
    links: Sequence[ReleasedLink],
) -> str:
    """Returns the page of a model of linked tables, HTML; `links` are those of the schema, parents first."""
    records, unit = told_records(links[0].released)
    own = [f"{table.name}: {rule}" for table in schema.tables for rule in table.schema.constraints]
    return _rendered(
        release,
        verdict,
        distance,
        schema={"images": None, "constraints": [*own, *map(str, schema.constraints)]},
        drawn=0,
        what=f"A synthetic copy of {len(schema.tables)} linked tables: {', '.join(schema.names)}",
        records=(records, unit.replace("records", f"records of {schema.root.name}")),
        columns=[described(column) for table in schema.tables for column in qualified(table)],
        relations=[_shown(one, founding=not place) for place, one in enumerate(links)],
    )


def _shown(one: ReleasedLink, *, founding: bool) -> dict[str, Any]:
    """Returns a link as the template shows it: the parents' columns with the first one, and no column twice."""
    link = one.link
    left_out = {link.step, *(column.name for column in link.previous_columns)}
    left_out |= set() if founding else {column.name for column in link.parent_columns}
    found = [marginal for marginal in noisy_marginals(one.released, one.drawn) if marginal.name not in left_out]
    found.sort(key=lambda marginal: link.schema.names.index(marginal.name))
    return {
        "title": f"{link.parent.name} and their {link.name}",
        "drawn": len(one.drawn),
        "cards": [measured_card(place, marginal, f"link-{link.name}") for place, marginal in enumerate(found)],
        "errors": errors_chart(found, pair_errors(one.released), f"pair-errors-{link.name}"),
    }
