"""Answers: what was learnt from a release. No file here can reach a private record.

- `domain`, `noisy_table`, `noisy_moments`, `measurements`: one algebra of noisy
  answers, which are tables of named columns with their noise, and the best estimates of
  all that a release states. `reading` reads them from a release; `reconcile`,
  `crosstab` and `distribution` compute with them.
- `infer`: questions that are answered with intervals. `questions` has a class for each;
  they rest on `evidence` (what is known of sums of products), `estimates` (intervals
  of functions of them) and `calibration` (regressions that are not linear).
- `worth`: the effective sample size of a copy.
- `design`: which tables the pairwise method asks for, as far as public facts decide.
  `rounds` is what answers decide about later rounds, `pair_choice` which pairs.
- `verdict`: what a model is good for, in words. `findings` has its named questions.

Whatever is computed here is post-processing of a release, and costs no privacy.
"""
