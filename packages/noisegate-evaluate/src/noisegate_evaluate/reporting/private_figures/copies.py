"""Whether records of the fit were copied."""

from noisegate_evaluate.reporting.figure import Figure

COPIES = Figure(
    place=60,
    needs=("copies",),
    template="""
{% set copies = page.copies %}
<section>
<h2>Were records copied?</h2>
<p>For each of {{ "{:,}".format(copies.synthetic) }} synthetic records: the nearest of
{{ "{:,}".format(copies.real) }} real records of the fit, and the nearest of as many
held-out ones. Without copying, both distances are alike.</p>
{{ table(["", "records of the fit", "held-out records"], [
  ("nearest, for this share of synthetic records",
   copies.nearer | percent, (1 - copies.nearer) | percent),
  ("equal to one of them in every value",
   copies.same | percent, copies.same_held_out | percent),
  ("median distance to the nearest",
   "%.4f" | format(copies.distance), "%.4f" | format(copies.distance_held_out)),
], "Nearest records") }}
<p class="soft">This checks one failure mode only; the guarantee is in the
certificate.</p>
</section>
""",
)
