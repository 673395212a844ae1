"""What was taken as public knowledge, and how to check, use and cite the copy."""

from noisegate_evaluate.reporting.figure import Figure

KNOWLEDGE = Figure(
    place=110,
    template="""
<section>
<h2>Assumed public knowledge</h2>
<p>The following was assumed to be public. Nothing of it was read from the
records{{ ", except what was estimated as stated above" if bought }}.</p>
{% if page.columns is not none %}
<details class="screen">
<summary>The {{ page.columns | length }} columns and their values</summary>
{{ table(["column", "kind", "values"], page.columns, "Columns") }}
</details>
{% set printed = page.columns | printed_columns %}
<div class="paper columns{{ " many" if page.columns | length > 20 }}">
{{ table(["column", "kind", "values"], printed, "Columns, printed") }}
{% if printed != page.columns %}
<p class="soft">Long lists of values are cut here; the file certificate.json has all.</p>
{% endif %}
</div>
{% endif %}
{% if page.images %}
{% set shape, labels = page.images.shape, page.images.labels %}
<p>Images of {{ shape.height }} × {{ shape.width }} pixels, of
{{ "one channel" if shape.channels == 1 else shape.channels ~ " channels" }}
{%- if labels %}, with a label out of {{ labels | join(", ") }}{% endif %}.</p>
{% endif %}
{% if page.weights %}
<p>The column <code>{{ page.weights }}</code> holds survey weights: the number of people
in the population that each record represents. Weight shares and means of the population
by it.</p>
{% endif %}
{% if page.relations %}
<p>These relations hold in every synthetic record. The columns on the left were
computed, not measured:</p>
<ul>{% for relation in page.relations %}<li><code>{{ relation }}</code></li>
{%- endfor %}</ul>
{% endif %}
{% if page.constraints %}
<p>Every synthetic record satisfies these rules:</p>
<ul>{% for rule in page.constraints %}<li><code>{{ rule }}</code></li>{% endfor %}</ul>
{% endif %}
<details class="screen"><summary>Settings of the method {{ certificate.method }}</summary>
{{ table(["setting", "value"], settings, "Settings") }}
</details>
</section>
""",
)

CHECK = Figure(
    place=120,
    template="""
<section>
<h2>Check it yourself</h2>
<p>You need the model folder, not the real records, and need not trust whoever made it.
<code>verify</code> recomputes ε from the table above and compares every file with its
hash; <code>report</code> writes this page again
{{- ", except for its heading and date" if page.is_dated }}:</p>
<pre tabindex="0"><code>noisegate verify MODEL
noisegate report MODEL -o DIR</code></pre>
<p>Both are commands of noisegate {{ certificate.version }} or newer:
<code>pip install 'noisegate[evaluate]'</code>. SHA-256 of the certificate:
<code>{{ digest }}</code></p>
</section>
""",
)

LIMITS = Figure(
    place=130,
    template="""
<section>
<h2>Do not use it</h2>
<ul>
<li>for decisions about individuals: synthetic records are not real people;</li>
<li>for p-values, standard errors or confidence intervals computed from its rows: they
are wrong, and <code>noisegate infer MODEL</code> gives intervals that account for the
noise
{%- if page.has_moments %}. Rows of <code>noisegate sample --calibrated</code> have the
means, correlations and regressions that it estimates, and no intervals either
{%- endif %};</li>
<li>for rare combinations, outliers or small groups: the noise is larger than counts of
a few records;</li>
{% if page.unmeasured_pairs %}
<li>for conclusions on the {{ unmeasured }} not measured: here they are independent,
except for what other pairs imply;</li>
{% endif %}
<li>for more precision than the error bars support;</li>
<li>as a proof that another release from the same records is safe.</li>
</ul>
</section>
""",
)

CITATION = Figure(
    place=140,
    template="""
<section class="screen">
<h2>How to cite</h2>
<p>{{ page.heading.owner ~ ": " if page.heading.owner -}}
“{{ page.heading.title or page.subject }}, ({{ "%g" | format(together.epsilon) }},
{{ "%g" | format(together.delta) }})-differentially private
({{ certificate.adjacency.value }}, unit: {{ certificate.unit }}), made with noisegate
{{ certificate.version }}, method {{ certificate.method }}; certificate
{{ digest[:16] }}.” Name the paper of the method as well; the documentation of noisegate
lists them.</p>
</section>
<section class="paper sign" aria-label="Signature">
<p>Name and role</p><p>Date</p><p>Signature</p>
</section>
""",
)
