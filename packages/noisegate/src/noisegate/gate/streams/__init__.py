"""Releases that grow: each period brings new records, and a record costs (ε, δ) once, however many periods follow."""
