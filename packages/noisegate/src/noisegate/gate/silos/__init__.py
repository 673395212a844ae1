"""Sums over several silos, whose records do not leave them (G-32).

Each silo hands out its sum with part of the noise, under a mask. Over all silos the
masks cancel.

- `keys`: keys of silos, and the masks that follow from them.
- `session`: a session of the gate whose answers are masked shares.
"""
