"""Several silos that may not pool their records: each releases sums under one published plan, and these are added up.

Methods ask for sums over records, so the sum over all silos is the sum of what each of them has. What leaves a silo is
a release like any other, with its certificate; what is made of several is post-processing (docs/silos.md, G-30).
"""
