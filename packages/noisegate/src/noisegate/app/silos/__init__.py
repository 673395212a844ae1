"""Several silos that may not pool their records: sums of each, under one published plan, are added up (G-30).

What leaves a silo is a release like any other; what is made of several is
post-processing (docs/silos.md, G-30).
"""
