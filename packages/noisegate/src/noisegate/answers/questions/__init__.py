"""The questions that `infer` answers, each a class in a file of its own.

::

    "mean(wage) by sex" ──parse_question──► Mean(column="wage", group="sex")
                                              │ answer(evidence, intervals)
                                              ▼
                                            [Estimate, …]

- `question`: the base class, and how text becomes a question.
- `sums`: what answers of second moments have in common.
- `mean`, `share`, `count`, `correlation`, `regression`: from second moments.
- `weighted`: means and shares of the population, by survey weights.
- `effect`, `interaction`: from second moments in each level of a column (`arms`).
- `quantile`, `tables`, `rank_correlation`, `survival`: from counts.

A question is found by an entry point, ours as a stranger's::

    [project.entry-points."noisegate.questions"]
    mean = "noisegate.answers.questions.mean:Mean"
"""
