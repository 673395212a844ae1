"""Answers: what was learnt from a release. No file here can reach a private record.

- `domain`, `noisy_table`, `noisy_moments`, `measurements`: one algebra of noisy
  answers, which are tables of named columns with their noise, and the best estimates of
  all that a release states. `reading` reads them from a release; `reconcile` and
  `crosstab` compute with them. Readers with columns by number (below) give way to it.
- `cells`: which numbers a cell of a numeric column holds.
- `released`: the noisy tables of counts, read from a release.
- `design`: which tables a release shall have, and with which cells.
- `verdict`: what a model is good for, in words.
- `infer`: questions that are answered with intervals (`answers`, `evidence`,
  `estimands`, `cumulative`, `worth`).

Whatever is computed here is post-processing of a release, and costs no privacy.
"""
