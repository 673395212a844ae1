"""Shares and means of the population, by survey weights."""

from noisegate_evaluate.comparison import ImageReport
from noisegate_evaluate.metrics.weighted import WeightedFigures
from noisegate_evaluate.reporting.charts import percent
from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.private import PrivatePage

_MAX_SHOWN = 20


def _population(page: PrivatePage) -> Data | None:
    """Returns the figures; None without weights."""
    if isinstance(page.report, ImageReport):
        return None
    weighted = page.report.metrics.get(WeightedFigures.METRIC)
    if not isinstance(weighted, WeightedFigures):
        return None
    rows = [
        (
            figure.name,
            f"{figure.real:.4g}",
            f"{figure.synthetic:.4g}",
            percent(figure.error),
            percent(figure.chance),
        )
        for figure in weighted.figures[:_MAX_SHOWN]
    ]
    return {"weights": weighted.weights, "rows": rows, "of": len(weighted.figures)}


POPULATION = Figure(
    place=20,
    data=_population,
    template="""
<section>
<h2>The population</h2>
<p>Shares and means weighted by <code>{{ weights }}</code>. The largest differences come
first; each error is a share of the population.
{%- if of > rows | length %} The first {{ rows | length }} of {{ of }} are shown.
{%- endif %}</p>
{{ table(["", "real", "synthetic", "error", "by chance"], rows,
         "Weighted shares and means") }}
</section>
""",
)
