"""Several silos that may not pool their records: sums of each, added up (G-30).

- `shared_plan`: the plan that all follow, as a file with an identifier.
- `rounds`: what one silo releases in a round of it (`release`).
- `merging`: adds the releases up and fits one model to the sum (`merge`).

What leaves a silo is a release like any other; what is made of several is
post-processing (docs/silos.md). Keys and masks of secure sums are `gate.silos`.
"""
