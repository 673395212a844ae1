"""What was unusual about the evaluation."""

from noisegate_evaluate.reporting.figure import Figure

NOTES = Figure(
    place=100,
    template="""
{% if page.report.notes %}
<section>
<h2>Notes</h2>
<ul>{% for note in page.report.notes %}<li>{{ note }}</li>{% endfor %}</ul>
</section>
{% endif %}
""",
)
