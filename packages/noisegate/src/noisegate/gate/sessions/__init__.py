"""What steps compute of a sample, and the marginals that OpenDP chooses.

- `gradients`: sums of clipped gradients over Poisson samples.
- `shards`: sums over disjoint shards, and vectors of whole samples.
- `marginals`: tables that OpenDP's AIM and MST choose and measure.
"""
