"""Runs: what is asked for, the folder they are written down in, and what they tell."""
