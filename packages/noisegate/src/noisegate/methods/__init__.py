"""Methods: each chooses queries, a model and defaults. One paper, one short file.

- `method`: the base of all: plan, query once, fit what was released.
- `embedding`, `gradient`: the bases of methods with one round of sums, and of methods
  that train on noisy gradients.
- `pairwise`, `linked`: the defaults for tables and for linked tables.
- `abilities`: what some methods can do besides, such as to ask in rounds.
- `fitted`: the synthesizer that a fit has reached, with its verdict.
- `forecast`: how good records will be, and verdicts in words.
- `registry`: methods by name.
"""
