"""Several silos that may not pool their records: sums of each, under one published plan, are added up (G-30)."""
