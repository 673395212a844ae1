"""The pass of the gate that estimates a schema: bounds and levels from noisy counts.

- `raw`: a file as text, before there is a schema.
- `partial`: what a partial schema already says, and what is asked of the records.
- `exact_counts`: the counts of one pass, exact, inside the gate.
- `findings`: from noisy counts to bounds and levels.
- `schema_gate`: `discover_schema`, which reserves the budget, counts and adds noise.
"""
