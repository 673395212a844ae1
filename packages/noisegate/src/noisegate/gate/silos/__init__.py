"""The share of one silo in a secure sum: masked before it leaves the gate (G-32).

- `keys`: the key pairs of silos, and the masks that cancel in the sum of all.
- `session`: a session of the gate whose answers are masked shares.
"""
