"""Where synthetic and real records differ: in columns, and in pairs of columns."""

import math
from collections.abc import Sequence

import numpy as np

from noisegate.answers.domain import NumberRange, ends_of
from noisegate.schema.layout import numbers_at
from noisegate_evaluate.metrics.marginals import ColumnShares
from noisegate_evaluate.reporting.charts import Card, Chart, card, heat_map, percent
from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.private import ColumnMaps, PrivatePage
from noisegate_evaluate.reporting.released import (
    MISSING,
    level_names,
    numbered,
    range_name,
)

_MAX_LARGEST = 10
# Pairs whose numbers stand below a map.
_MAX_PAIRS = 100


def share_cards(
    shares: Sequence[ColumnShares], key: str, compared_with: str
) -> list[Card]:
    """Returns the card of each column, with real shares as bars and synthetic as dots.

    Args:
        shares: The columns.
        key: What the cards are called on the page; each adds its number.
        compared_with: Which real records, "train" or "test".
    """
    return [
        _share_card(column, f"{key}-{index}", compared_with)
        for index, column in enumerate(shares)
    ]


def _share_card(shares: ColumnShares, key: str, compared_with: str) -> Card:
    """Returns the card of a column; missing and outside are shown where they occur."""
    cells = _cell_names(shares)
    occurs = (shares.real > 0) | (shares.synthetic > 0)
    first_special = len(cells) - 2
    shown = [
        index
        for index, name in enumerate(cells)
        if name is not None and (occurs[index] or index < first_special)
    ]
    return card(
        key,
        [shares.column],
        numbered([str(cells[index]) for index in shown]),
        (shares.real[shown], shares.synthetic[shown]),
        f"{percent(shares.distance)} of the records are in another bin.",
        (f"real ({compared_with})", "synthetic"),
    )


def _cell_names(shares: ColumnShares) -> list[str | None]:
    """Returns the name of each cell; None of a bin that no value falls into."""
    column = shares.column
    names: list[str | None]
    bins = len(shares.real) - 2
    if column.numeric:
        low, high, sizes = ends_of(column, np.arange(bins + 1) / bins)
        ranges = zip(
            numbers_at(column, low), numbers_at(column, high), sizes, strict=True
        )
        # Between two edges there may be no step.
        names = [
            range_name(column, NumberRange(first, last)) if size > 0 else None
            for first, last, size in ranges
        ]
    else:
        names = list(level_names(column)[:bins])
    return [*names, MISSING, "(outside the schema)"]


def ranked_pairs(
    maps: ColumnMaps, separator: str, *, is_symmetric: bool
) -> list[tuple[str, str, str, str]]:
    """Returns pairs of columns by how far they are apart, the farthest first.

    Args:
        maps: How strongly they go together.
        separator: Between the names of a pair.
        is_symmetric: Whether both orders of a pair are the same, so that one counts.

    Returns:
        Of each pair its name, the real value, the synthetic one, and the difference.
    """
    differences = np.abs(maps.real - maps.synthetic)
    if is_symmetric:
        is_above = np.triu(np.ones_like(differences), 1) > 0
        differences = np.where(is_above, differences, math.nan)
    pair_count = int(np.isfinite(differences).sum())
    order = np.argsort(-differences, axis=None, kind="stable")[:pair_count]
    pairs = zip(*np.unravel_index(order, differences.shape), strict=True)
    return [
        (
            f"{maps.names[i]}{separator}{maps.names[j]}",
            f"{maps.real[i, j]:.2f}",
            f"{maps.synthetic[i, j]:.2f}",
            f"{differences[i, j]:.2f}",
        )
        for i, j in pairs
    ]


def map_charts(
    maps: ColumnMaps, key: str, title: str, separator: str, *, is_symmetric: bool
) -> list[Chart]:
    """Returns the map of real and that of synthetic records; numbers are with the second.

    Args:
        maps: How strongly columns go together.
        key: What the charts are called on the page.
        title: What they show.
        separator: Between the names of a pair.
        is_symmetric: Whether both orders of a pair are the same.
    """
    rows = ranked_pairs(maps, separator, is_symmetric=is_symmetric)
    real = heat_map(f"{key}-real", f"{title}: real", "", maps.names, maps.real)
    synthetic = heat_map(
        f"{key}-synthetic", f"{title}: synthetic", "", maps.names, maps.synthetic
    )
    return [
        Chart(drawing=real, headings=(), rows=[], wide=True),
        Chart(
            drawing=synthetic,
            headings=("pair", "real", "synthetic", "difference"),
            rows=rows[:_MAX_PAIRS],
            of=len(rows),
            wide=True,
        ),
    ]


def _largest(page: PrivatePage) -> Data:
    """Returns the columns and the pairs that differ most."""
    pairs: list[tuple[str, str, str, str]] = []
    if page.associations is not None:
        pairs = ranked_pairs(page.associations, " × ", is_symmetric=True)
    return {
        "columns": [
            (column.column.name, percent(column.distance))
            for column in page.column_shares[:_MAX_LARGEST]
        ],
        "pairs": pairs[:_MAX_LARGEST],
    }


def _pairs(page: PrivatePage) -> Data:
    """Returns maps of the associations."""
    assert page.associations is not None
    title = "Association of each pair of columns"
    charts = map_charts(page.associations, "pairs", title, " × ", is_symmetric=True)
    return {"charts": charts, "shown": len(page.associations.names)}


def _columns(page: PrivatePage) -> Data:
    """Returns the card of each column."""
    compared_with = page.report.compared_with
    return {"columns": share_cards(page.column_shares, "column", compared_with)}


LARGEST = Figure(
    place=10,
    needs=("column_shares",),
    data=_largest,
    template="""
<section>
<h2>Where they differ most</h2>
<div class="maps">
<div>
<h3>Columns</h3>
{{ table(["column", "in another bin"], columns, "Columns that differ most") }}
</div>
{% if pairs %}
<div>
<h3>Pairs of columns</h3>
{{ table(["pair", "real", "synthetic", "difference"], pairs,
         "Pairs that differ most") }}
<p class="soft">Strength of the association, from 0 (none) to 1 (one column determines
the other).</p>
</div>
{% endif %}
</div>
</section>
""",
)

PAIRS = Figure(
    place=80,
    needs=("associations",),
    data=_pairs,
    template="""
<section>
<h2>Pairs of columns</h2>
<p>Darker cells are stronger associations. The two maps should look alike.
{%- if shown < page.column_count %} {{ shown }} of {{ page.column_count }} columns are
shown: the label and those that differ most.
{%- endif %}</p>
{{ maps(charts, "pairs of columns", "Pairs of columns, real") }}
</section>
""",
)

COLUMNS = Figure(
    place=90,
    needs=("column_shares",),
    data=_columns,
    template="""
<section>
<h2>Every column</h2>
<p>Columns that differ most come first.
{%- if page.links %} Each record of the parent table has summaries of its children:
their number, the mean and the last of each numeric column, scaled to 0 to 1 between the
bounds of the schema, and the share of each level.
{%- endif %}</p>
{{ key("real", "synthetic") }}
{{ cards(columns) }}
</section>
""",
)
