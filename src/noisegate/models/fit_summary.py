"""How a fit ended, as a model keeps it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from noisegate.verdict import Verdict, Word

_OF_CHANCE = 3.0


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

        Where that is too few for the means to have a say, images of a class are no good; where it is less than three
        times as many as by chance, they are noise.

        Args:
            agreement: Of images as the generator makes them.
            classes: How many there are to choose from.
            kept: Whether the others are made again.
        """
        told = (
            f"of 100 images that the generator makes, {100 * agreement:.0f} fit the released means of their class best"
        )
        then = "the others are made again" if kept else "that is too few for means to judge by, and all are taken"
        figures = {"agreement": agreement}
        word: Word | None = None if kept else "rough" if agreement * classes >= _OF_CHANCE else "noise"
        found = Verdict(word=word, source="fit", reasons=(f"{told}; {then}",), figures=figures)
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
