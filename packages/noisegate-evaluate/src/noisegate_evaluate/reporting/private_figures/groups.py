"""Figures of each group of a column."""

from noisegate_evaluate.comparison import ImageReport
from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.private import PrivatePage
from noisegate_evaluate.sheets import group_sheet, worst_group_sheet


def _groups(page: PrivatePage) -> Data | None:
    """Returns the tables of groups; None without."""
    report = page.report
    if isinstance(report, ImageReport) or report.groups is None:
        return None
    sheets = [worst_group_sheet(report.groups), group_sheet(report.groups)]
    return {"column": report.groups.column, "sheets": sheets}


GROUPS = Figure(
    place=40,
    data=_groups,
    template="""
<section>
<h2>Groups of {{ column }}</h2>
<p>Each figure within each group, beyond sampling error. A copy may be good on average
and bad for a small group.</p>
{% for sheet in sheets %}
{{ table(sheet.headings | map("replace", ">", ""), sheet.rows, sheet.title) }}
{% endfor %}
</section>
""",
)
