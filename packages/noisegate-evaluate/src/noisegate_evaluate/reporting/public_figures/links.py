"""What was measured of each link of linked tables, beside synthetic families."""

from typing import Any

from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.public import PublicPage, ReleasedLink
from noisegate_evaluate.reporting.public_figures.columns import (
    errors_chart,
    measured_cards,
)
from noisegate_evaluate.reporting.released import measured_columns, pair_errors


def _links(page: PublicPage) -> Data:
    """Returns each link; the parents' columns stand with the first one."""
    return {
        "links": [
            _link_section(link, has_parents=index == 0)
            for index, link in enumerate(page.links)
        ]
    }


def _link_section(released_link: ReleasedLink, *, has_parents: bool) -> dict[str, Any]:
    """Returns what is shown of a link.

    Args:
        released_link: The link.
        has_parents: Whether the parents' columns are shown, which others may have been.
    """
    link = released_link.link
    left_out = {link.step, *(column.name for column in link.previous_columns)}
    if not has_parents:
        left_out |= {column.name for column in link.parent_columns}
    tables = [
        table
        for table in measured_columns(
            released_link.released, link.schema.layout, released_link.drawn
        )
        if table.name not in left_out
    ]
    tables.sort(key=lambda table: link.schema.names.index(table.name))
    return {
        "title": f"{link.parent.name} and their {link.name}",
        "families": len(released_link.drawn),
        "cards": measured_cards(tables, f"link-{link.name}"),
        "errors": errors_chart(
            tables, pair_errors(released_link.released), f"pair-errors-{link.name}"
        ),
    }


LINKS = Figure(
    place=80,
    needs=("links",),
    data=_links,
    template="""
{% for link in links %}
<section class="screen">
<h2>{{ link.title[0] | upper }}{{ link.title[1:] }}</h2>
<p>Measured shares with twice the standard deviation of their noise, beside those of
{{ "{:,}".format(link.families) }} synthetic families. Each unit counts once, with the
mean over its records. Units without records, and the gap before a first record, count
as missing.</p>
{{ key("measured, with noise (± 2 standard deviations)", "synthetic") }}
{{ cards(link.cards) }}
{% if link.errors %}
<h3>How much the noise blurs their pairs</h3>
<p>Of 100 units, how many the noise alone puts into a wrong cell on average. The fit
removes a part of this noise.</p>
{{ chart(link.errors, "expected error of pairs") }}
{% endif %}
</section>
{% endfor %}
""",
)
