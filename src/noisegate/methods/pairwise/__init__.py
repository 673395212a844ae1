"""Pairwise counts of all columns, and a mixture fitted to them."""
