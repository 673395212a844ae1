"""What a copy is good for, question by question: the vocabulary of findings.

A finding answers one question about synthetic records, such as whether pairs of columns
are as in the real ones. Plans, fits and evaluations answer the same questions, each
from what it knows (`docs/verdicts.md`), and a `noisegate.answers.verdict.Verdict` holds
their findings beside its word.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from noisegate.schema import Schema
    from noisegate.schema.linked.schema import LinkedSchema

# Models are stored with these names: add some, and never change or remove one.
Question: TypeAlias = Literal[
    "single columns",
    "values missing together",
    "pairs of columns",
    "regressions",
    "relations and rules",
    "what models learn of the label",
    "groups",
    "means and tails",
    "parents and children",
    "children of one parent",
]
Answer: TypeAlias = Literal["kept", "weakened", "not known", "lost"]

QUESTIONS: tuple[Question, ...] = get_args(Question)
"""In the order in which they are listed."""

ANSWERS: tuple[Answer, ...] = get_args(Answer)
"""From best to worst: what is not known counts as not kept."""

# Of findings with the same answer, so many say why.
_MAX_DETAILS = 2


@dataclass(frozen=True, kw_only=True)
class VerdictFinding:
    """The answer to one question about synthetic records.

    Attributes:
        question: What is asked, one of `QUESTIONS`.
        answer: "kept", "weakened", "not known" or "lost".
        detail: The figure that it rests on, or why it is not known, in a few words.

    Raises:
        ValueError: if question or answer are none.

    Examples:
        >>> finding = VerdictFinding(
        ...     question="pairs of columns", answer="kept", detail="error of 2%"
        ... )
        >>> VerdictFinding.from_json(finding.to_json()) == finding
        True
    """

    question: Question
    answer: Answer
    detail: str

    def __post_init__(self) -> None:
        """Checks question and answer."""
        if self.question not in QUESTIONS:
            raise ValueError(
                f"a finding is on {self.question!r}; expected one of {QUESTIONS}"
            )
        if self.answer not in ANSWERS:
            raise ValueError(
                f"the answer on {self.question} is {self.answer!r}; expected one of "
                f"{ANSWERS}"
            )

    def to_json(self) -> dict[str, str]:
        """Returns the finding as JSON values."""
        return {
            "question": self.question,
            "answer": self.answer,
            "detail": self.detail,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, str]) -> VerdictFinding:
        """Returns the finding that `to_json` wrote.

        Raises:
            ValueError, TypeError, LookupError: if the content is none.
        """
        question: Question = content["question"]  # type: ignore[assignment]
        answer: Answer = content["answer"]  # type: ignore[assignment]
        return cls(question=question, answer=answer, detail=str(content["detail"]))


@dataclass(frozen=True)
class Scale:
    """Two limits of a figure, between which a property is weakened.

    Attributes:
        kept: The limit up to which the property is kept.
        lost: The limit beyond which it is lost. The larger limit of the two says
            whether large figures are good.
    """

    kept: float
    lost: float

    def answer(self, figure: float) -> Answer:
        """Returns the answer that a figure gives; a limit belongs to the better one.

        Args:
            figure: The figure; NaN is not known.

        Examples:
            >>> error = Scale(kept=0.04, lost=0.30)
            >>> [error.answer(figure) for figure in (0.04, 0.05, 0.31)]
            ['kept', 'weakened', 'lost']
            >>> part_kept = Scale(kept=0.90, lost=0.40)
            >>> [part_kept.answer(figure) for figure in (0.95, 0.5, 0.1)]
            ['kept', 'weakened', 'lost']
        """
        if math.isnan(figure):
            return "not known"
        larger_is_better = self.kept > self.lost
        sign = 1 if larger_is_better else -1
        if sign * figure >= sign * self.kept:
            return "kept"
        if sign * figure >= sign * self.lost:
            return "weakened"
        return "lost"


def merge_findings(findings: Iterable[VerdictFinding]) -> tuple[VerdictFinding, ...]:
    """Returns one finding for each question, with the worst answer to it.

    Args:
        findings: Findings in any order, several of one question among them.

    Returns:
        They are in the order of `QUESTIONS`. Of several with the worst answer, the
        details of the first two stay.
    """
    by_question: dict[Question, list[VerdictFinding]] = {}
    for finding in findings:
        by_question.setdefault(finding.question, []).append(finding)
    return tuple(
        _worst(by_question[question])
        for question in QUESTIONS
        if question in by_question
    )


def _worst(findings: Sequence[VerdictFinding]) -> VerdictFinding:
    """Returns the finding with the worst answer to one question."""
    answer = max((finding.answer for finding in findings), key=ANSWERS.index)
    details = dict.fromkeys(
        finding.detail for finding in findings if finding.answer == answer
    )
    return VerdictFinding(
        question=findings[0].question,
        answer=answer,
        detail="; ".join(list(details)[:_MAX_DETAILS]),
    )


def questions_of_table(schema: Schema) -> tuple[Question, ...]:
    """Returns the questions that apply to a table, by its schema alone.

    Values are missing together where two columns may be missing. Regressions are those
    of numbers, which have means and tails. Groups are asked about where somebody names
    a column of them, which no schema does. None applies to images.
    """
    if schema.images is not None:
        return ()
    columns = schema.columns
    has_numbers = any(column.numeric for column in columns)
    has_pairs = len(columns) > 1
    applies: dict[Question, bool] = {
        "single columns": True,
        "values missing together": sum(column.missing for column in columns) > 1,
        "pairs of columns": has_pairs,
        "regressions": has_numbers and has_pairs,
        "relations and rules": bool(schema.constraints or schema.relations),
        "what models learn of the label": schema.label is not None,
        "means and tails": has_numbers,
    }
    return tuple(question for question in QUESTIONS if applies.get(question, False))


def questions_of_linked(schema: LinkedSchema) -> tuple[Question, ...]:
    """Returns the questions that apply to linked tables, by their schema alone.

    They are those of each table, and how records follow their parents and each other.
    Regressions are not asked about: nothing runs them over several tables.
    """
    applies = {
        question
        for table in schema.tables
        for question in questions_of_table(table.schema)
    }
    applies.add("parents and children")
    if any(link.child.most != 1 for link in schema.links):
        applies.add("children of one parent")
    if schema.constraints or schema.relations:
        applies.add("relations and rules")
    applies.discard("regressions")
    return tuple(question for question in QUESTIONS if question in applies)
