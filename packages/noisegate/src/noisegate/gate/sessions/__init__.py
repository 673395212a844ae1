"""The kinds of query: each answers one sort of plan on the state machine of `session`.

- `sums`: sums of a vector of each record, in rounds.
- `gradients`: sums of clipped gradients over Poisson samples, in steps.
- `shards`: sums over disjoint shards, and vectors of whole samples, in steps.
- `marginals`: tables that OpenDP's AIM and MST choose and measure.
"""
