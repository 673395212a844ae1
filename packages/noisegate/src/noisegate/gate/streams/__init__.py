"""Releases that grow: each period brings new records.

A record costs (ε, δ) once, however many periods follow (G-34).

- `state`: what a stream keeps between its periods, and when it is erased.
- `session`: the sums of one period, with noise that takes earlier noise back.
"""
