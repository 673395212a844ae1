"""Gradients of a loss at single records.

- `gradients`: losses, gradients of a block of records, and the probe that each is a
  function of its record alone.
- `tracing`: how the gradients of a block are computed at once, almost as fast as their
  sum.
"""
