"""How a fit ended, as a model keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from noisegate.verdict import Verdict, Word

_OF_CHANCE, _RECOGNISED = 2.5, 0.55
"""Times chance, and part of the way from chance to all, below which images are noise, and rough: a fit of stripes has
2.4, and drawings at .52 of that way teach a classifier .74 of what real ones do (benchmarks/images)."""


@dataclass(frozen=True, kw_only=True)
class FitSummary:
    """How a fit ended.

    Attributes:
        step: Steps done.
        steps: Most steps that there would have been.
        discrepancy: The distance over what the noise alone would leave: 1 is as good as it gets.
        notes: What else the method says of it, by name, as JSON values; a "warning" is shown to whoever fits.
        verdict: What it came to, in words; None where nothing is known, or the model was saved before there were any.
    """

    step: int
    steps: int
    discrepancy: float
    notes: Mapping[str, Any] = field(default_factory=dict)
    verdict: Verdict | None = None

    def with_agreement(self, agreement: float, classes: int, *, kept: bool) -> Self:
        """Returns the summary, with the share of images that fit the released means of their own class best.

        Where that is too few for the means to have a say, images of a class are no good; where it is hardly more than
        by chance, they are noise.

        Args:
            agreement: Of images as the generator makes them.
            classes: How many there are to choose from.
            kept: Whether the others are made again.
        """
        told = (
            f"of 100 images that the generator makes, {100 * agreement:.0f} fit the released means of their class best"
        )
        recognised = agreement * classes - 1 >= _RECOGNISED * (classes - 1)
        reasons = [f"{told}; {'the others are made again' if kept else 'too few for means to judge by: all are taken'}"]
        if not recognised:
            reasons.append("classes can hardly be told apart in what is made: look at the pictures")
        figures = {"agreement": agreement}
        bad: Word = "rough" if kept or agreement * classes >= _OF_CHANCE else "noise"
        found = Verdict(word=None if recognised else bad, source="fit", reasons=tuple(reasons), figures=figures)
        return replace(self.with_verdict(found), notes={**self.notes, **figures})

    def with_verdict(self, found: Verdict) -> Self:
        """Returns the summary with what else is found."""
        return replace(self, verdict=Verdict.together([part for part in (self.verdict, found) if part]))

    def to_json(self) -> dict[str, Any]:
        """The summary as JSON values; a distance that was not measured is None."""
        told: dict[str, Any] = {"step": self.step, "steps": self.steps, "notes": dict(self.notes)}
        told["discrepancy"] = self.discrepancy if math.isfinite(self.discrepancy) else None
        return told | {"verdict": None if self.verdict is None else self.verdict.to_json()}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Returns the summary that `to_json` wrote, in any version."""
        verdict = told.get("verdict")
        known = None if verdict is None else Verdict.from_json(verdict)
        distance = math.inf if told["discrepancy"] is None else told["discrepancy"]
        return cls(**{**told, "discrepancy": distance, "verdict": known})
