"""Several silos that may not pool their records: each releases sums under one published plan, and these are added up.

What leaves a silo is a release like any other; what is made of several is post-processing (docs/silos.md, G-30).
"""
