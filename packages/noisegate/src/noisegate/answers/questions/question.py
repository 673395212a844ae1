"""What a question is, and how text becomes one."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, Self

from noisegate.answers.domain import Level, NumberRange
from noisegate.answers.estimates import Estimate, Intervals
from noisegate.answers.evidence import Evidence
from noisegate.errors import OptionError
from noisegate.registry import Registry

QUESTIONS: Registry[Question] = Registry("noisegate.questions", "question")
register = QUESTIONS.register

# `mean(wage) by sex`: a function, what is in its brackets, and groups.
_LEVEL = re.compile(r"(?P<column>[^<=]+?)\s*=\s*(?P<level>.+)")
_CALL = re.compile(
    r"(?P<function>[a-z0-9]+)\s*\((?P<arguments>.*)\)(?:\s+by\s+(?P<groups>.+))?",
    re.DOTALL,
)


@dataclass(frozen=True, kw_only=True)
class Question(ABC):
    """One question about the records of a release.

    Attributes:
        name: Under which the class is registered.
        forms: How it is written, for messages.
        percent_of: What a hundred percent of an answer is, where a width in percent has
            a meaning: 1, or the range of the first column.
        rests_on: Whether second moments narrow the answers, or tables of counts alone
            say something.
        unit_columns: In the units of which of its columns answers, or their names, are.
        weighted_form: How its weighted twin is written, for a note where the schema
            names survey weights; None without a twin.
        limits_count_as: What a limit of a number, such as "<0.5", counts as: a missing
            value; as beyond all numbers; or as a group of its own.
        text: The question, as it was asked.
    """

    name: ClassVar[str]
    forms: ClassVar[tuple[str, ...]]
    percent_of: ClassVar[Literal["one", "range"] | None] = None
    rests_on: ClassVar[Literal["moments", "tables"]] = "moments"
    unit_columns: ClassVar[Literal["none", "first", "all"]] = "none"
    limits_count_as: ClassVar[Literal["missing", "ends", "groups"]] = "missing"
    weighted_form: ClassVar[str | None] = None

    text: str

    @classmethod
    @abstractmethod
    def parse(cls, text: str) -> Self | None:
        """Parses a question without blanks at its ends; None if it has another form.

        Raises:
            OptionError: if it has the form, with something impossible in it.
        """

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """All columns that the question names, in its order."""

    @property
    def columns_with_unit(self) -> tuple[str, ...]:
        """Columns in whose unit answers, or their names, are; see `unit_columns`."""
        if self.unit_columns == "none":
            return ()
        return self.columns[:1] if self.unit_columns == "first" else self.columns

    @abstractmethod
    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Answers the question.

        Raises:
            OptionError: if the columns are not of the kind that it is about.
            NotMeasuredError: if they were not measured, or not together.
            TooNoisyError: if a number is too noisy to be located.
        """

    def refused(self, reason: str) -> list[Estimate]:
        """Returns that there is no answer, and why."""
        return [Estimate(question=self.text, name=self.text, refused=reason)]

    def error(self, problem: str) -> OptionError:
        """Returns an error about the question."""
        return question_error(self.text, problem)


def question_error(text: str, problem: str) -> OptionError:
    """Returns an error about a question, which its message begins with."""
    return OptionError(f"query {text!r}{problem}")


class Call(NamedTuple):
    """A question such as ``mean(wage) by sex``, taken apart.

    Attributes:
        arguments: What is in the brackets, split at commas, without blanks at the ends.
        inside: The same as one text.
        groups: The columns after "by"; none without.
    """

    arguments: tuple[str, ...]
    inside: str
    groups: tuple[str, ...]


def parse_call(text: str, function: str) -> Call | None:
    """Takes the call of a function apart; None if the text is none.

    Examples:
        >>> from noisegate.answers.questions.question import parse_call
        >>> call = parse_call("mean(wage) by sex", "mean")
        >>> call.arguments, call.groups
        (('wage',), ('sex',))
    """
    match = _CALL.fullmatch(text)
    if match is None or match["function"] != function:
        return None
    groups: tuple[str, ...] = ()
    if match["groups"] is not None:
        groups = tuple(column_name(name) for name in match["groups"].split(","))
    inside = match["arguments"]
    arguments = tuple(part.strip() for part in inside.split(","))
    return Call(arguments, inside.strip(), groups)


def column_name(text: str) -> str:
    """Returns the name of a column, which may be written between backquotes."""
    return text.strip().strip("`")


def parse_level(text: str) -> tuple[str, str] | None:
    """Parses a column and one of its levels, such as "sex = female".

    Returns:
        The column's name and the level, which may stand between quotes; None if the
        text is none of that form.

    Examples:
        >>> from noisegate.answers.questions.question import parse_level
        >>> parse_level("`job title` = 'nurse'"), parse_level("age < 30")
        (('job title', 'nurse'), None)
    """
    match = _LEVEL.fullmatch(text)
    if match is None:
        return None
    return column_name(match["column"]), match["level"].strip().strip("'\"")


def parse_question(text: str) -> Question:
    """Parses a question.

    Raises:
        OptionError: if it has none of the known forms, or something impossible in it.

    Examples:
        >>> from noisegate.answers.questions.question import parse_question
        >>> question = parse_question("logit(ill) ~ age + `smokes daily`")
        >>> question.name, question.columns
        ('logit', ('ill', 'age', 'smokes daily'))
    """
    for question_class in QUESTIONS.values():
        question = question_class.parse(text.strip())
        if question is not None:
            return question
    forms = "; ".join(question_forms())
    raise OptionError(f"query {text!r} is not understood; the forms are: {forms}.")


def question_forms() -> list[str]:
    """Returns how all questions are written."""
    return [form for question in QUESTIONS.values() for form in question.forms]


def level_text(level: Level) -> str:
    """Returns a level as questions and answers write it."""
    return "missing" if level is None else str(level)


def find_level(
    question: Question, levels: Sequence[Level], column: str, value: str
) -> int:
    """Finds a level by what the question says.

    Args:
        question: For the message.
        levels: All levels of the column.
        column: Its name, for the message.
        value: The level as it was written; "true" and "false" need no capital.

    Returns:
        The index of the level.

    Raises:
        OptionError: if the column has no such level.
    """
    texts = [level_text(level) for level in levels]
    for candidate in (value, value.capitalize()):
        if candidate in texts:
            return texts.index(candidate)
    raise question.error(
        f": {column!r} has no level {value!r}; it has {', '.join(texts)}."
    )


def limit_cell(evidence: Evidence, column: str, text: str) -> NumberRange | None:
    """Returns the cell that holds a limit of a number alone.

    Args:
        evidence: What the release says.
        column: Name of a column.
        text: What the question calls a level, such as "<0.5".

    Returns:
        The cell; None if the column has levels, or no such limit.
    """
    number_column = evidence.numeric_column(column)
    if number_column is None or text not in number_column.limit_numbers:
        return None
    number = float(number_column.limit_numbers[text])
    return NumberRange(number, number)


def require_levels(
    question: Question, evidence: Evidence, column: str
) -> tuple[Level, ...]:
    """Returns the levels of a column, missing included.

    Raises:
        OptionError: if the column is a number, or there is none.
    """
    if evidence.numeric_column(column) is not None:
        raise question.error(
            f": {column!r} is a number; a column with levels is expected there."
        )
    return evidence.levels(column)


def require_two_levels(
    question: Question, evidence: Evidence, column: str, problem: str
) -> None:
    """Requires two levels, missing included; an OptionError of `problem` if not."""
    if len(require_levels(question, evidence, column)) != 2:
        raise question.error(problem)


def require_number(question: Question, evidence: Evidence, column: str) -> None:
    """Requires a numeric column; an OptionError if it has levels, or there is none."""
    if evidence.numeric_column(column) is None:
        raise question.error(f": {column!r} is not numeric; it has levels.")


def require_distinct(question: Question, columns: Sequence[str]) -> None:
    """Requires that no column is named twice; an OptionError if one is."""
    if len(set(columns)) < len(columns):
        raise question.error(" names a column twice.")
