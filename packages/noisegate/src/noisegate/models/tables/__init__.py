"""The fit of the default method for tables, from released counts to a model of records.

All of it is post-processing of a release, without a record::

    released tables ─► pack ─► denoise ─► descend ─► mixture ─► label ─► verdicts

- `packed_tables`: tables of counts by class of the label, laid side by side.
- `pair_denoising`: shrinks pairs of columns, as far as they are noise.
- `initial_components`: the components from which a fit starts.
- `distance`: what a mixture expects of tables, its distance to them and the gradient.
- `array_adam`, `descent`: the steps that bring a mixture near to tables.
- `mixture_fit`: the fit of a mixture to any tables; `pairwise_fit`: to a release.
- `record_mixture`: makes a mixture of records from fitted components.
- `label_effects`, `label_fit`: a model of the label on top of the mixture.
- `associations`, `association_verdicts`: how much of a release a fit keeps.
"""
