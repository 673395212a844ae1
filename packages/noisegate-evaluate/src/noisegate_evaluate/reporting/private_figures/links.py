"""How linked tables hang together: numbers of children, gaps, and successive children."""

from typing import Any

from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.private import ComparedLink, PrivatePage
from noisegate_evaluate.reporting.private_figures.differences import (
    map_charts,
    share_cards,
)


def _links(page: PrivatePage) -> Data:
    """Returns each link with its cards and maps."""
    compared_with = page.report.compared_with
    return {
        "links": [
            {
                "title": link.title,
                "figures": link.figures,
                "cards": share_cards(link.shares, f"link-{index}", compared_with),
                "charts": succession_charts(link),
                "column_count": link.column_count,
            }
            for index, link in enumerate(page.links)
        ]
    }


def succession_charts(link: ComparedLink) -> list[Any]:
    """Returns the maps of successive children; none where there are too few."""
    if link.successions is None:
        return []
    title = (
        f"How a record of {link.name} (rows) goes with the next one of the same parent "
        "(columns)"
    )
    key = f"successions-{link.name}"
    return map_charts(link.successions, key, title, " → ", is_symmetric=False)


LINKS = Figure(
    place=50,
    needs=("links",),
    data=_links,
    template="""
{% for link in links %}
<section>
<h2>{{ link.title[0] | upper }}{{ link.title[1:] }}</h2>
<p>Total variation distances of parents, of pairs of records and of gaps: 0 means that
both agree. Then flaws, of which there must be none.</p>
{{ table(["", "synthetic against real", "real against real", "largest"], link.figures,
         "Figures of " ~ link.title) }}
{{ key("real", "synthetic") }}
{{ cards(link.cards) }}
{% if link.charts %}
<h3>How a record goes with the next one of its parent</h3>
<p>Darker cells are stronger associations of a column (rows) with a column of the next
record (columns). The two maps should look alike.
{%- if link.column_count > 41 %} The first 40 of {{ link.column_count }} columns are
shown.
{%- endif %}</p>
{{ maps(link.charts, "successive records", "Successive records, real") }}
{% endif %}
</section>
{% endfor %}
""",
)
