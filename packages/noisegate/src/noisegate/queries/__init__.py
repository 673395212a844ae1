"""Feature maps: what may be computed from a record; public, and frozen once built.

- `feature_map`: the protocols. A map takes a record to a vector of bounded norm, which
  is a function of that record alone, bit for bit.
- `contingency`: the map of tables of counts, whose columns are cut into bins.
- `binning`: bins of a numeric column, from the schema or from a noisy histogram.
- `moments`: the map of second moments.
"""
