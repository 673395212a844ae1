"""What models learn from synthetic and from real records."""

from noisegate_evaluate.comparison import Report
from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.private import PrivatePage


def _scores(page: PrivatePage) -> Data | None:
    """Returns the table of scores; None where none was scored."""
    report = page.report
    scores = report.scores()
    if scores is None:
        return None
    ceiling = report.ceiling
    regression_ceiling = (
        report.regression_ceiling if isinstance(report, Report) else None
    )
    return {
        "headings": [heading.removeprefix(">") for heading in scores.headings],
        "rows": [row for row in scores.rows if row],
        "has_ceiling": ceiling is not None or regression_ceiling is not None,
    }


MODELS = Figure(
    place=30,
    data=_scores,
    template="""
<section>
<h2>What models learn</h2>
<p>Models are trained on synthetic records and tested on held-out real
ones{{ "; the ceiling is reached by the same models trained on real records" if has_ceiling }}.
Larger is better, except for errors.</p>
{{ table(headings, rows, "Scores of models") }}
</section>
""",
)
