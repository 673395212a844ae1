"""DP-DRE: public records, weighed to look like the private ones."""
