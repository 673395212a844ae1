"""What was measured of columns and pairs, beside synthetic records, and how much the noise blurs it."""

from collections.abc import Sequence

import numpy as np

from noisegate.models.tables.associations import WEAKENED
from noisegate_evaluate.reporting.charts import Card, Chart, card, heat_map, percent
from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.public import PublicPage
from noisegate_evaluate.reporting.released import (
    MeasuredTable,
    PairError,
    error_matrix,
    unexplained_error,
)

# Columns that a heat map has room for.
_MAX_NAMES = 300
# Pairs of columns that are named as the worst.
_MAX_WORST = 10


def measured_cards(tables: Sequence[MeasuredTable], key: str) -> list[Card]:
    """Returns the card of each table of the release beside the synthetic records.

    Args:
        tables: The tables.
        key: What the cards are called on the page; each adds its number.
    """
    return [
        card(
            f"{key}-{index}",
            table.columns,
            table.cells,
            (table.measured, table.synthetic),
            f"{table.explained} of {len(table.cells)} cells agree within noise and sampling error.",
            ("measured, with noise", "synthetic"),
            error=2 * table.noise_std,
        )
        for index, table in enumerate(tables)
    ]


def errors_chart(
    tables: Sequence[MeasuredTable],
    errors: Sequence[PairError],
    key: str = "pair-errors",
) -> Chart | None:
    """Returns a map of the expected errors of pairs of columns.

    Args:
        tables: Measured columns, which lead the map.
        errors: The errors of pairs.
        key: What the chart is called on the page.

    Returns:
        The map; None where there are no pairs, or too many columns for one.
    """
    names_of_pairs = [name for error in errors for name in error.columns]
    names = list(dict.fromkeys([*(table.name for table in tables), *names_of_pairs]))
    if not errors or not 1 < len(names) <= _MAX_NAMES:
        return None
    matrix = error_matrix(names, errors)
    largest = max(float(np.nanmax(matrix)), 1e-9)
    worst = max(errors, key=lambda error: error.misplaced)
    drawing = heat_map(
        key,
        "Expected error of each pair of columns",
        f"The largest is {percent(worst.misplaced)}, of {' and '.join(worst.columns)}.",
        names,
        matrix,
        largest=largest,
        ends=("0 %", percent(largest)),
    )
    rows = [
        (" × ".join(error.columns), f"{error.cells:,}", percent(error.misplaced))
        for error in errors
    ]
    headings = ("pair", "cells", "expected error")
    return Chart(drawing=drawing, headings=headings, rows=rows, wide=True)


def _columns(page: PublicPage) -> Data:
    """Returns the card of each column."""
    return {"columns": measured_cards(page.tables, "column")}


def _held_out(page: PublicPage) -> Data:
    """Returns the card of each table that the fit never saw, and their common error."""
    tables = page.held_out
    return {
        "unfitted": measured_cards(tables, "unfitted"),
        "explained": sum(table.explained for table in tables),
        "cells": sum(len(table.cells) for table in tables),
        "error": unexplained_error(tables),
    }


def _blur(page: PublicPage) -> Data:
    """Returns what noise does to columns, to pairs and to their associations."""
    figures = {} if page.verdict is None else page.verdict.figures
    errors = page.pair_errors
    return {
        "columns": [
            (table.name, f"{len(table.cells):,}", percent(table.misplaced))
            for table in page.tables
        ],
        "errors": errors_chart(page.tables, errors),
        "worst": sorted(errors, key=lambda error: -error.misplaced)[:_MAX_WORST],
        "associations": [
            (
                pair,
                "kept" if kept_part >= WEAKENED else "weakened",
                percent(min(kept_part, 1.0)),
            )
            for pair, kept_part in figures.get("associations", {}).items()
        ],
    }


COLUMNS = Figure(
    place=60,
    needs=("tables",),
    data=_columns,
    template="""
<section class="screen">
<h2>{{ "Single columns" if page.columns is not none else "Classes" }}</h2>
<p>Measured shares with twice the standard deviation of their noise, beside the shares
among {{ "{:,}".format(page.drawn) }} synthetic records. A dot within its error bar
agrees with what was measured.</p>
{{ key("measured, with noise (± 2 standard deviations)", "synthetic") }}
{{ cards(columns) }}
</section>
""",
)

HELD_OUT = Figure(
    place=90,
    needs=("held_out",),
    data=_held_out,
    template="""
<section>
<h2>Queries that the fit did not see</h2>
<p>Some counts of pairs of columns were measured but not used in the fit, so that the
copy can be scored in public. {{ explained }} of {{ cells }} cells agree within noise
and sampling error. About 95 of 100 would if the copy were exact.
{% if error %}
Beyond noise and sampling error a cell is typically off by {{ error | percent }} of the
records.
{%- else %}
Beyond noise and sampling error there is no visible error.
{%- endif %}</p>
{{ key("measured, with noise (± 2 standard deviations)", "synthetic") }}
{{ cards(unfitted) }}
</section>
""",
)

BLUR = Figure(
    place=100,
    data=_blur,
    template="""
{% if page.discrepancy is not none or page.bounds or errors or columns or associations
   or page.unmeasured_pairs %}
<section class="screen">
<h2>How much the noise blurs</h2>
{% if columns %}
<p>Expected total variation distance caused by the noise alone: of 100 records, how many
fall into a wrong bin of a column or a wrong cell of a pair of columns. The fit removes
a part of that noise, so this is an upper estimate.</p>
<details><summary>Column by column</summary>
{{ table(["column", "cells", "expected error"], columns, "Expected error of columns") }}
</details>
{% endif %}
{% if errors %}
<p>Measured pairs of columns. Darker cells are more blurred
{%- if worst %}; the worst is {{ worst[0].columns | join(" × ") }} with
{{ worst[0].misplaced | percent }}{% endif %}.</p>
{{ chart(errors, "expected error of pairs") }}
{% endif %}
{% if associations or page.unmeasured_pairs %}
<h3>Associations between columns</h3>
{% if associations %}
<p>The strongest associations that the noisy measurements show, and how much of each the
synthetic records keep.</p>
<details open><summary>{{ "The 40 strongest of " if associations | length > 40 -}}
{{ associations | length }} association{{ "s" if associations | length > 1 }}</summary>
{{ table(["columns", "in this copy", "kept"], associations[:40], "Associations") }}
</details>
{% endif %}
{% if page.unmeasured_pairs %}
<p><strong>{{ unmeasured }} not measured{{ " (hatched above)" if errors }}: their columns
are independent in this copy, except for what other pairs imply. Draw no conclusion from
that.</strong></p>
{% endif %}
{% endif %}
{% if page.discrepancy is not none and (page.discrepancy | number) != "–" %}
<p>The distance of the fitted model from the measured values is
{{ page.discrepancy | number }} times what their noise explains; 1 is the best
possible.</p>
{% endif %}
{% for bound in page.bounds %}
<p class="soft">{{ bound }}</p>
{% endfor %}
</section>
{% endif %}
""",
)
