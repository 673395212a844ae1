"""Estimates a schema: bounds and levels of columns, from noisy counts (G-15).

In reading order::

    schema_gate ──► raw ──► exact_counts ──► noise ──► findings ──► schema file

- `schema_gate`: `discover_schema`, which reserves the budget, counts and adds noise.
- `partial`: what is public of the columns before.
- `raw`: a table before there is a schema.
- `exact_counts`: exact counts of one pass, inside the gate.
- `findings`: from noisy counts to bounds, levels and the file.
"""
