"""Streams: releases that grow with each period, at one cost a record.

- `published`: the plan of a stream, as a file that all periods follow.
- `period`: what one period asks at the gate.
- `periods`: `plan_stream` and `fit_period`, for Python and the command line.
"""
