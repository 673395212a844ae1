"""Answers: what was learnt from a release. No file here can reach a private record.

- `released`: the noisy tables of counts, read from a release.
- `tables`: arithmetic of tables of counts over columns.
- `design`: which tables a release shall have, and with which cells.
- `verdict`: what a model is good for, in words.
- `infer`: questions that are answered with intervals (`answers`, `evidence`,
  `estimands`, `cumulative`, `worth`).

Whatever is computed here is post-processing of a release, and costs no privacy.
"""
