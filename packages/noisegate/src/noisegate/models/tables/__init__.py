"""The fit of the default method for tables, from released counts to a model of records.

All of it is post-processing of a release, without a record::

    released tables ─► packed and denoised ─► descent ─► mixture and label ─► verdicts

- `packed_tables`: tables of counts by class of the label, laid side by side, and the
  shrinkage of pairs that are noise.
- `distance`: what a mixture expects of tables, its distance to them and the gradient.
- `descent`: the steps that bring a mixture near to tables, and where they start.
- `mixture_fit`: the fit of a mixture to tables, and to a release.
- `label_fit`: a model of the label on top of the mixture.
- `associations`: how much of a release a fit keeps.
"""
