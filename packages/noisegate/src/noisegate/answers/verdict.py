"""A verdict in words: how far synthetic records can be relied on, why, and what would help.

It rests on two figures: of 100 records, how many would have to move to another cell for
a pair of columns to be as the real ones are (total variation, beyond what sampling
alone does), and how much of what models learn is kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

if TYPE_CHECKING:
    from rich.console import RenderableType

Word: TypeAlias = Literal["noise", "rough", "usable", "good"]
Source: TypeAlias = Literal["plan", "fit", "evaluate"]

WORDS: tuple[Word, ...] = get_args(Word)
"""From worst to best."""

MEANINGS: Mapping[Word, str] = {
    "good": "pairs of columns, and what is learnt from them, are close to the real records'",
    "usable": "the main patterns are there; small groups and fine detail are blurred",
    "rough": "single columns are about right; associations between them may be weakened or lost",
    "noise": "mostly noise; do not use it",
}

MISPLACED: Mapping[Word, float] = {"good": 0.04, "usable": 0.12, "rough": 0.30}
"""The largest share of records in the wrong cell of a pair of columns for each word; above the last it is noise."""

KEPT: Mapping[Word, float] = {"good": 0.90, "usable": 0.75, "rough": 0.40}
"""The least part kept of what models learn from real records for each word; below the last it is noise."""

RANKS: Mapping[Word, float] = {"good": 0.05, "usable": 0.12}
"""The largest share of real records between a real quantile and the synthetic one for each word; above it is rough."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How far synthetic records can be relied on.

    Examples:
        >>> verdict = Verdict(word="rough", source="plan", reasons=("few records",), cures=("epsilon of at least 3",))
        >>> print(verdict)
        Verdict: rough - single columns are about right; associations between them may be weakened or lost.
         because few records
         helps   epsilon of at least 3
        >>> Verdict.from_json(verdict.to_json()) == verdict
        True
    """

    word: Word | None
    """"good", "usable", "rough" or "noise"; None where too little is known for one."""
    source: Source
    """What says so: a "plan", from public facts alone; a "fit", from what left the gate besides; or an "evaluate",
    which compared with real records and is outside the guarantee."""
    reasons: tuple[str, ...]
    """Why, in words."""
    cures: tuple[str, ...] = ()
    """What would lead to a better word."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """What the word rests on, by name: shares from 0 to 1, numbers of records."""

    def __post_init__(self) -> None:
        if self.word not in (None, *WORDS) or self.source not in get_args(Source):
            raise ValueError(
                f"a verdict of {self.source!r} has the word {self.word!r}; expected one of {WORDS}"
            )

    @property
    def meaning(self) -> str:
        """What the word means for whoever uses the records."""
        return "not judged" if self.word is None else MEANINGS[self.word]

    @property
    def headline(self) -> str:
        """The word and what it means, in a sentence."""
        return (
            f"{self.meaning}."
            if self.word is None
            else f"{self.word} - {self.meaning}."
        )

    def __str__(self) -> str:
        lines = [f"Verdict: {self.headline}"]
        for what, told in (("because", self.reasons), ("helps", self.cures)):
            lines += [
                f" {'' if place else what:<7} {text}" for place, text in enumerate(told)
            ]
        return "\n".join(lines)

    def render(self) -> RenderableType:
        """The verdict as a page for ``rich.console.Console.print``, its first word in the colour of its meaning."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        page = Table.grid(padding=(0, 0, 0, 1), pad_edge=True)
        for what, told in (("because", self.reasons), ("helps", self.cures)):
            for place, text in enumerate(told):
                page.add_row("" if place else what, Text(text))
        style = {
            "good": "bold green",
            "usable": "bold green",
            "rough": "bold yellow",
            "noise": "bold red",
        }
        first = Text("Verdict: ", style="bold") + Text(
            self.word or "", style=style.get(self.word or "", "")
        )
        return Group(first + Text(self.headline.removeprefix(self.word or "")), page)

    def to_json(self) -> dict[str, Any]:
        """The verdict as JSON values."""
        told = {"word": self.word, "meaning": self.meaning, "source": self.source}
        return {
            **told,
            "reasons": list(self.reasons),
            "cures": list(self.cures),
            "figures": dict(self.figures),
        }

    @classmethod
    def together(cls, parts: Sequence[Verdict]) -> Verdict | None:
        """Returns one verdict of several of the same source: the worst word, all reasons and cures; None of none."""
        if not parts:
            return None
        words = [part.word for part in parts if part.word is not None]
        return cls(
            word=min(words, key=WORDS.index) if words else None,
            source=parts[0].source,
            reasons=tuple(reason for part in parts for reason in part.reasons),
            cures=tuple(dict.fromkeys(cure for part in parts for cure in part.cures)),
            figures={
                name: value for part in parts for name, value in part.figures.items()
            },
        )

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Returns the verdict that `to_json` wrote; a ValueError, TypeError or LookupError if it is none."""
        reasons, cures = (tuple(map(str, told[name])) for name in ("reasons", "cures"))
        return cls(
            word=told["word"],
            source=told["source"],
            reasons=reasons,
            cures=cures,
            figures=dict(told["figures"]),
        )


def word_of_misplaced(share: float) -> Word:
    """Returns the word for a share of records in the wrong cell of a pair of columns.

    Examples:
        >>> [word_of_misplaced(share) for share in (0.0, 0.1, 0.2, 0.9)]
        ['good', 'usable', 'rough', 'noise']
    """
    return next((word for word, most in MISPLACED.items() if share <= most), "noise")


def word_of_kept(kept: float) -> Word:
    """Returns the word for the part that is kept of what models learn from real records; `nan` is noise."""
    return next((word for word, least in KEPT.items() if kept >= least), "noise")


def of_coefficients(kept: float, source: Source, doubt: float = 0.0) -> Verdict:
    """Returns what is said of coefficients of regressions of which a part is kept; the word forgives a doubt.

    Samples of one table keep some 90 %. The least parts were chosen on simulated tables.
    """
    word: Word = "good" if kept >= 0.8 else "usable" if kept + doubt >= 0.4 else "rough"
    expected = "expected to be " * (source == "fit")
    reason = f"coefficients of regressions on all other columns are {expected}kept by {kept:.0%} in the mean"
    cure = "more records or a larger epsilon; for regressions `noisegate infer`, where the method has it"
    told, cures = {"coefficients_kept": kept}, (cure,) * (word != "good")
    return Verdict(
        word=word, source=source, reasons=(reason,), cures=cures, figures=told
    )


def in_percent(share: float) -> str:
    """Returns a share in per cent, in words where it is small.

    Examples:
        >>> in_percent(0.314), in_percent(0.002)
        ('31%', 'less than 1%')
    """
    return "less than 1%" if share < 0.01 else f"{share:.0%}"
