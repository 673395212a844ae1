"""Distances between synthetic and real records, beside those between real ones."""

from noisegate_evaluate.comparison import ImageReport, Report
from noisegate_evaluate.metrics.result import printed
from noisegate_evaluate.reporting.charts import percent
from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.private import PrivatePage


def _distances(page: PrivatePage) -> Data:
    """Returns the rows of distances."""
    report = page.report
    if isinstance(report, ImageReport):
        return {"rows": _image_rows(report), "is_of_images": True}
    return {"rows": _table_rows(report), "is_of_images": False}


def _image_rows(report: ImageReport) -> list[tuple[str, ...]]:
    """Returns the distances of images, beside those between two real sets."""
    floor = {} if report.floor is None else report.floor.page()
    return [
        (name, text, floor.get(name, "–"))
        for name, text in report.distances.page().items()
    ]


def _table_rows(report: Report) -> list[tuple[str, ...]]:
    """Returns the distances of marginals and of other metrics, beside what sampling does."""
    rows: list[tuple[str, ...]] = []
    for entry in report.marginals.orders:
        floor_share = entry.sampling
        if report.floor is not None:
            floor_share = report.floor.order(entry.order).mean
        rows.append(
            (
                f"{entry.order} column{'s' * (entry.order > 1)} at a time",
                percent(entry.mean),
                percent(floor_share),
                f"{percent(entry.largest)} in {' × '.join(entry.largest_columns)}",
            )
        )
    floor = printed(report.metrics_floor)
    metrics = printed(report.metrics)
    rows += [(name, text, floor.get(name, "–"), "") for name, text in metrics.items()]
    return rows


DISTANCES = Figure(
    place=70,
    data=_distances,
    template="""
<section>
<h2>Distances</h2>
{% if is_of_images %}
<p>Distances between sets of images. The last column is the distance between two real
sets.</p>
{{ table(["figure", "synthetic against real", "real against real"], rows,
         "Distances") }}
{% else %}
<p>Total variation distance: the share of records that would have to move to another bin
or cell for the counts to agree. Means over all columns, pairs and triples of
columns.</p>
{{ table(["", "synthetic against real", "by sampling alone", "largest"], rows,
         "Distances") }}
{% endif %}
</section>
""",
)
