"""How many records of the model keep to the rules of the schema, where few do."""

from noisegate_evaluate.reporting.figure import Data, Figure
from noisegate_evaluate.reporting.public import PublicPage


def _broken_rules(page: PublicPage) -> Data:
    """Returns the share of the records that keep to all rules, and what breaks each."""
    rules = page.rules
    if rules is None:
        return {}
    return {
        "share": f"{100 * rules.accepted / rules.drawn:.2g} %",
        "rows": [(rule, f"{100 * share:.1f} %") for rule, share in rules.rejecting],
    }


RULES = Figure(
    place=50,
    needs=("rules", "refusal"),
    data=_broken_rules,
    template="""
<section>
<h2>Rules that the model often breaks</h2>
{% if page.rules is not none %}
<p><strong>Of {{ "{:,}".format(page.rules.drawn) }} records that the model drew for this
page only {{ "{:,}".format(page.rules.accepted) }} ({{ share }}) satisfy every rule of
the schema.</strong> The others are drawn again, which shifts the columns that rules
name.
{% if not page.tables %}
Too few are left to be compared with the measured values.
{% endif %}
For many records <code>sample</code> may refuse.</p>
{{ table(["rule", "records of the model that break it"], rows,
         "Rules that reject records") }}
{% else %}
<p><strong>No tables could be drawn for this page.</strong>
{{ page.refusal[0] | upper }}{{ page.refusal[1:] }}</p>
{% endif %}
</section>
""",
)
