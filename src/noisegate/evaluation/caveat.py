"""The sentence that every figure computed on real data carries."""

from __future__ import annotations

CAVEAT = (
    "These figures were computed on real data and are NOT covered by the differential privacy guarantee; "
    "publishing them reveals something about the real records."
)
