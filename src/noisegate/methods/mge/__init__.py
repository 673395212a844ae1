"""DP-MGE: a Gaussian of encoder features, decoded."""
