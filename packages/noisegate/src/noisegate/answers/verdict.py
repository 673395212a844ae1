"""A verdict: how far synthetic records can be relied on, and what would improve them.

It is based on two figures:

- the share of records that would have to move to another cell for a pair of columns to
  have the distribution of real records (total variation distance, beyond the sampling
  error);
- the share of the accuracy of models that is preserved.

Findings are answers to named questions in addition to the verdict: see
`noisegate.answers.findings`. Their limits, such as `MISPLACED_SCALE`, are those of
verdicts: "good" is "kept", and what is worse than the last limit of its scale is
"lost".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, get_args

from noisegate.answers.findings import (
    QUESTIONS,
    Answer,
    Question,
    Scale,
    VerdictFinding,
    merge_findings,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

Word: TypeAlias = Literal["noise", "rough", "usable", "good"]
Source: TypeAlias = Literal["plan", "fit", "evaluate"]

WORDS: tuple[Word, ...] = get_args(Word)
"""From worst to best."""

MEANINGS: Mapping[Word, str] = {
    "good": "single columns and pairs of columns are close to those of the real "
    "records",
    "usable": "the main patterns are there; small groups and fine detail are blurred",
    "rough": "single columns are about right; associations between them may be "
    "weakened or lost",
    "noise": "mostly noise; do not use it",
}

MISPLACED: Mapping[Word, float] = {"good": 0.04, "usable": 0.12, "rough": 0.30}
"""For each verdict, the largest share of records in the wrong cell of a pair of
columns.

Above the last limit, the verdict is "noise"."""

KEPT: Mapping[Word, float] = {"good": 0.90, "usable": 0.75, "rough": 0.40}
"""For each verdict, the smallest preserved share of what models learn from real
records.

Below the last limit, the verdict is "noise"."""

RANKS: Mapping[Word, float] = {"good": 0.05, "usable": 0.12}
"""For each verdict, the largest share of records between a real and a synthetic
quantile.

Above the last limit, the verdict is "rough"."""

MISPLACED_SCALE = Scale(kept=MISPLACED["good"], lost=MISPLACED["rough"])
"""The answers for a share of records in the wrong cell."""

KEPT_SCALE = Scale(kept=KEPT["good"], lost=KEPT["rough"])
"""The answers for the part that is kept of what models learn, or of associations."""

RANKS_SCALE = Scale(kept=RANKS["good"], lost=RANKS["usable"])
"""The answers for a share of records between a real and a synthetic quantile."""

# The least part of the coefficients of regressions that is kept, for the words "good"
# and "usable". Samples of one table keep some 90 %. Chosen on simulated tables.
_MIN_KEPT_GOOD = 0.8
_MIN_KEPT_USABLE = 0.4

_STYLES: Mapping[Word, str] = {
    "good": "bold green",
    "usable": "bold green",
    "rough": "bold yellow",
    "noise": "bold red",
}
_ANSWER_STYLES: Mapping[Answer, str] = {
    "kept": "green",
    "weakened": "yellow",
    "not known": "yellow",
    "lost": "red",
}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """How far synthetic records can be relied on.

    Attributes:
        word: The verdict: "good", "usable", "rough" or "noise"; None if too little is
            known.
        source: What the verdict is based on: "plan", on public facts only; "fit", on
            the noisy results also; "evaluate", on a comparison with real records,
            outside the guarantee.
        reasons: The reasons for the verdict.
        cures: What would improve the verdict.
        figures: The figures behind the verdict, by name: shares from 0 to 1, numbers of
            records.
        findings: The answers to named questions, each with `question`, `answer`
            ("kept", "weakened", "not known" or "lost") and `detail`; none in verdicts
            from before December 2026.

    Raises:
        ValueError: if `word` or `source` has another value.

    Examples:
        >>> verdict = Verdict(
        ...     word="rough",
        ...     source="plan",
        ...     reasons=("few records",),
        ...     cures=("epsilon of at least 3",),
        ... )
        >>> print(verdict)  # doctest: +NORMALIZE_WHITESPACE
        Verdict: rough - single columns are about right; associations between them may
        be weakened or lost.
         because few records
         helps   epsilon of at least 3
        >>> Verdict.from_json(verdict.to_json()) == verdict
        True
    """

    word: Word | None
    source: Source
    reasons: tuple[str, ...]
    cures: tuple[str, ...] = ()
    figures: Mapping[str, Any] = field(default_factory=dict)
    findings: tuple[VerdictFinding, ...] = ()

    def __post_init__(self) -> None:
        """Checks word and source."""
        if self.word not in (None, *WORDS) or self.source not in get_args(Source):
            raise ValueError(
                f"a verdict of {self.source!r} has the word {self.word!r}; expected one "
                f"of {WORDS}"
            )

    @property
    def meaning(self) -> str:
        """What the verdict means for users of the records."""
        return "not judged" if self.word is None else MEANINGS[self.word]

    @property
    def headline(self) -> str:
        """The verdict and its meaning, in a sentence."""
        if self.word is None:
            return f"{self.meaning}."
        return f"{self.word} - {self.meaning}."

    def _labelled_lines(self) -> Iterator[tuple[str, str]]:
        """Yields reasons and cures; the first of each with what it is."""
        for label, lines in (("because", self.reasons), ("helps", self.cures)):
            for index, line in enumerate(lines):
                yield label if index == 0 else "", line

    def __str__(self) -> str:
        """Returns the verdict as lines of text."""
        lines = [f" {label:<7} {line}" for label, line in self._labelled_lines()]
        width = max((len(finding.question) for finding in self.findings), default=0)
        lines += [
            f" {finding.question:<{width}}  {finding.answer:<9}  {finding.detail}"
            for finding in self.findings
        ]
        return "\n".join([f"Verdict: {self.headline}", *lines])

    def render(self) -> RenderableType:
        """Returns the verdict for ``rich.console.Console.print``.

        The colour of `word` shows its meaning.
        """
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        word = self.word or ""
        style = "" if self.word is None else _STYLES[self.word]
        rest = self.headline.removeprefix(word)
        headline = Text("Verdict: ", style="bold") + Text(word, style=style)
        grid = Table.grid(padding=(0, 0, 0, 1), pad_edge=True)
        for label, line in self._labelled_lines():
            grid.add_row(label, Text(line))
        parts: list[RenderableType] = [headline + Text(rest), grid]
        if self.findings:
            parts += [Text(), self._findings_table()]
        return Group(*parts)

    def _findings_table(self) -> RenderableType:
        """Returns the findings as a table without lines, which any console can show."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, padding=(0, 1, 0, 1), pad_edge=True)
        table.add_column("what it is good for", no_wrap=True)
        table.add_column("answer", no_wrap=True)
        table.add_column("why")
        for finding in self.findings:
            answer = Text(finding.answer, style=_ANSWER_STYLES[finding.answer])
            table.add_row(finding.question, answer, Text(finding.detail))
        return table

    def to_json(self) -> dict[str, Any]:
        """Returns the verdict as JSON values."""
        return {
            "word": self.word,
            "meaning": self.meaning,
            "source": self.source,
            "reasons": list(self.reasons),
            "cures": list(self.cures),
            "figures": dict(self.figures),
            "findings": [finding.to_json() for finding in self.findings],
        }

    def answering(
        self,
        questions: Sequence[Question],
        otherwise: Mapping[Question, VerdictFinding],
    ) -> Self:
        """Returns the verdict with findings on exactly these questions.

        Args:
            questions: The questions that apply to the records.
            otherwise: Findings for the questions that this verdict has no finding on.
        """
        stated = {finding.question: finding for finding in self.findings}
        answers = {**otherwise, **stated}
        findings = tuple(
            answers.get(question) or not_known(question, "nothing tells it")
            for question in QUESTIONS
            if question in questions
        )
        return replace(self, findings=findings)

    @classmethod
    def together(cls, parts: Sequence[Verdict]) -> Verdict | None:
        """Combines verdicts of the same source.

        Returns:
            A verdict with the worst `word`, the worst answer to each question, and all
            reasons and cures; None if there is no verdict.
        """
        if not parts:
            return None
        words = [part.word for part in parts if part.word is not None]
        worst_word = min(words, key=WORDS.index) if words else None
        cures = dict.fromkeys(cure for part in parts for cure in part.cures)
        figures: dict[str, Any] = {}
        for part in parts:
            figures |= part.figures
        return cls(
            word=worst_word,
            source=parts[0].source,
            reasons=tuple(reason for part in parts for reason in part.reasons),
            cures=tuple(cures),
            figures=figures,
            findings=merge_findings(
                finding for part in parts for finding in part.findings
            ),
        )

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Creates a verdict from the JSON values that `to_json` returned.

        Raises:
            ValueError, TypeError, LookupError: if the values are not those of a
                verdict.
        """
        return cls(
            word=content["word"],
            source=content["source"],
            reasons=tuple(map(str, content["reasons"])),
            cures=tuple(map(str, content["cures"])),
            figures=dict(content["figures"]),
            # Verdicts that were stored before December 2026 have none.
            findings=tuple(map(VerdictFinding.from_json, content.get("findings", ()))),
        )


def word_of_misplaced(share: float) -> Word:
    """Returns the verdict for a share of records in the wrong cell of two columns.

    Examples:
        >>> [word_of_misplaced(share) for share in (0.0, 0.1, 0.2, 0.9)]
        ['good', 'usable', 'rough', 'noise']
    """
    return next((word for word, most in MISPLACED.items() if share <= most), "noise")


def word_of_kept(kept: float) -> Word:
    """Returns the verdict for the preserved share of what models learn.

    Args:
        kept: The share of what they learn from real records; `nan` is noise.
    """
    return next((word for word, least in KEPT.items() if kept >= least), "noise")


def word_of_rank_error(error: float) -> Word:
    """Returns the verdict for the share of records between two quantiles.

    Args:
        error: The share between a real and a synthetic quantile, beyond the sampling
            error.
    """
    return next((word for word, most in RANKS.items() if error <= most), "rough")


def of_coefficients(kept: float, source: Source, doubt: float = 0.0) -> Verdict:
    """Returns a verdict on the coefficients of regressions.

    Args:
        kept: The share of them that is preserved, on average.
        source: What the verdict is based on.
        doubt: How much too low `kept` may be; the verdict "usable" allows for it.
    """
    word: Word
    if kept >= _MIN_KEPT_GOOD:
        word = "good"
    elif kept + doubt >= _MIN_KEPT_USABLE:
        word = "usable"
    else:
        word = "rough"
    lost = f"{1 - kept:.0%} on average"
    if source == "fit":
        reason = f"expect coefficients of regressions to be off by {lost}"
    else:
        reason = f"coefficients of regressions on all other columns are off by {lost}"
    scale = Scale(kept=_MIN_KEPT_GOOD, lost=_MIN_KEPT_USABLE - doubt)
    cures: tuple[str, ...] = ()
    if word != "good":
        cures = (
            "more records or a larger epsilon; for regressions `noisegate infer`, where "
            "the method has it",
        )
    return Verdict(
        word=word,
        source=source,
        reasons=(reason,),
        cures=cures,
        figures={"coefficients_kept": kept},
        findings=(
            VerdictFinding(
                question="regressions",
                answer=scale.answer(kept),
                detail=f"coefficients off by {lost}",
            ),
        ),
    )


def of_misplaced(
    question: Question, share: float, detail: str = "", *, is_expected: bool = False
) -> VerdictFinding:
    """Returns a finding on a share of records in the wrong cell.

    Args:
        question: The question that the finding answers.
        share: The share, from 0 to 1.
        detail: What the share is about, for the end of the sentence, such as " of 'f'".
        is_expected: Whether the noise makes it likely, without a comparison.
    """
    if is_expected:
        error = "expected total variation distance:"
    else:
        error = "total variation distance of"
    return VerdictFinding(
        question=question,
        answer=MISPLACED_SCALE.answer(share),
        detail=f"{error} {in_percent(share)}{detail}",
    )


def not_known(question: Question, reason: str) -> VerdictFinding:
    """Returns that a question has no answer, and why."""
    return VerdictFinding(question=question, answer="not known", detail=reason)


def in_percent(share: float) -> str:
    """Returns a share in per cent, in words where it is small.

    Examples:
        >>> in_percent(0.314), in_percent(0.002)
        ('31%', 'less than 1%')
    """
    return "less than 1%" if share < 0.01 else f"{share:.0%}"
