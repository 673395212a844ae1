"""What is promised, and the queries that were run on the records for it."""

from noisegate_evaluate.reporting.figure import Figure

PROMISE = Figure(
    place=10,
    template="""
{{ findings(page.verdict) }}
<section>
<h2>What is promised</h2>
<div class="two">
<div>
<p><strong>{{ protection }}</strong></p>
<p>Somebody wants to find out about {{ somebody }}. They hold the synthetic records, the
model and this page, they know every other record, and they have unlimited time. Even
so, at most {{ right }} of 100 guesses
{{ "which of two answers is the true one" if replaced else
   "whether that record is in the data" }}
can be right; tossing a coin gets 50.</p>
<p>If they wrongly suspect no more than 5 of 100 who are not in the data, they find at
most {{ "%g" | format(caught) }} of 100 who are.<span class="screen"> The curve shows this
for every rate of false alarms; the dashed line is blind guessing.</span></p>
<p>In the words of the proof: what was made from the private records satisfies
<strong>({{ "%g" | format(certificate.epsilon) }},
{{ "%g" | format(certificate.delta) }})-differential privacy</strong>.
{{ neighbours | replace("two data sets", "Two data sets") }}. Privacy unit:
{{ certificate.unit if whole else somebody }}.<span class="screen"> The curve covers
all queries{{ ", the estimate of the schema included"
if together is not sameas certificate }}, at every δ.</span></p>
<p>It says nothing about other releases from the same records: their costs add up, and a
ledger tracks them.</p>
</div>
{{ chart(tradeoff, "what an attacker can reach") }}
</div>
</section>
""",
)

QUERIES = Figure(
    place=20,
    template="""
<section class="queries">
<h2>Queries run on the real records</h2>
<p>Nothing else was computed from them. Each query is a sum over all records; noise is
added once to each value before it is released.<span class="paper"> Method
{{ certificate.method }} of noisegate {{ certificate.version }}.</span></p>
<div class="scroll" tabindex="0" role="region" aria-label="Queries">
<table>
<thead><tr><th scope="col">query</th><th scope="col">values</th>
<th scope="col">sensitivity</th><th scope="col">noise σ</th>
<th scope="col">noise multiplier (σ / sensitivity)</th>
{% if questions and questions[0].share is not none %}
<th scope="col">share of the budget</th>
{% endif %}
<th scope="col">ε of the query alone</th></tr></thead>
<tbody>
{% for query in questions %}
<tr><th scope="row">{{ query.name }}
{%- if query.meaning %}<br><span class="soft">{{ query.meaning }}</span>{% endif %}</th>
<td>{{ query.numbers }}</td><td>{{ query.moved }}</td><td>{{ query.noise }}</td>
<td>{{ query.ratio }}</td>
{% if query.share is not none %}
<td>{{ query.share | percent }}</td>
{% endif %}
<td>{{ query.alone | number }}</td></tr>
{% endfor %}
</tbody>
</table>
</div>
<p class="soft">Noise: standard deviation, in the units of a record’s vector. It has no
seed; its randomness came from the operating system. All queries together cost
ε = {{ "%.6g" | format(recomputed) }} at δ = {{ "%g" | format(certificate.delta) }}; the
costs of single queries do not add up to it.</p>
{% if certificate.ledger %}
<p>The cost is recorded in a ledger:
{% for name, value in certificate.ledger.items() %}
{{ name }} <code>{{ value }}</code>{{ ", " if not loop.last else "." }}
{% endfor %}
</p>
{% else %}
<p class="soft">The cost is not recorded in a ledger: other releases from the same
records were not counted.</p>
{% endif %}
</section>
""",
)
