"""Answers with error bars from what was released, at no cost.

`infer` answers questions in text, such as ``mean(wage) by sex``. Whoever only samples
does not import this.
"""

from __future__ import annotations

from dataclasses import replace

from noisegate.answers.estimates import TOO_NOISY, Estimate, Intervals
from noisegate.answers.evidence import (
    Evidence,
    NotMeasuredError,
    ReleasedModel,
    TooNoisyError,
    evidence_of,
)
from noisegate.answers.questions.question import Question, parse_question
from noisegate.errors import OptionError

# Numbers of these columns are counted from 1970-01-01, in days and in microseconds.


def infer(
    model: ReleasedModel, *questions: str, level: float = 0.95, finite: bool = False
) -> list[Estimate]:
    """Answers questions with intervals, from what was released and not from samples.

    Args:
        model: A model of one table.
        questions: Of the forms that `noisegate.answers.questions` has.
        level: Level of the intervals, between 0 and 1.
        finite: Whether answers are about the records themselves, and not about the
            population that these are a sample of.

    Returns:
        The answers, one or more for each question, in their order. Of several questions
        one for which nothing was measured has an answer that says so in ``refused``.

    Raises:
        OptionError: if a question is not understood or names a column that is not
            there, the release is of a method that counts nothing, or the only question
            is about columns that were not measured, or not together.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, synthesize
        >>> from noisegate.schema import Boolean
        >>> patients = pa.table({"ill": [True, False, False, False] * 500})
        >>> schema = Schema([Boolean(name="ill")])
        >>> model = synthesize(patients, schema=schema, epsilon=1.0)
        >>> (answer,) = model.infer("share(ill = true)")
        >>> bool(answer.low < answer.value < answer.high)
        True
    """
    if not 0 < level < 1:
        raise OptionError(
            f"level={level!r} must be a number between 0 and 1, for instance 0.95."
        )
    if not questions:
        raise OptionError(
            "no query is given; for instance 'mean(age)' or 'wage ~ age + sex'."
        )
    for text in questions:
        _check_is_text(text)
    parsed_questions = [parse_question(text) for text in questions]
    evidence = evidence_of(model)
    intervals = Intervals(level, finite)
    if len(parsed_questions) == 1:
        return answer_question(parsed_questions[0], evidence, intervals)
    answers = []
    for question in parsed_questions:
        try:
            answers += answer_question(question, evidence, intervals)
        except NotMeasuredError as error:
            # So a question that has no answer does not take those of the others.
            answers += question.refused(str(error).removesuffix("."))
    return answers


def _check_is_text(question: object) -> None:
    """Refuses a query that is no text, such as a list of them."""
    if isinstance(question, str):
        return
    cure = "write it as text, for instance 'mean(age)'"
    if isinstance(question, list | tuple):
        cure = "give several queries one after the other, as in infer(*queries)"
    raise OptionError(f"query {question!r} is a {type(question).__name__}; {cure}.")


def answer_question(
    question: Question, evidence: Evidence, intervals: Intervals
) -> list[Estimate]:
    """Answers one question; reports columns that are too noisy.

    Raises:
        OptionError: if the question does not fit the columns.
        NotMeasuredError: if nothing was measured for it.
    """
    try:
        answers = question.answer(evidence, intervals)
    except TooNoisyError as drowned:
        return question.refused(
            f"{TOO_NOISY}: the noise exceeds the range of '{drowned}'"
        )
    notes = [
        *_unit_notes(question, evidence),
        *_limit_notes(question, evidence),
        *_weight_notes(question, evidence),
    ]
    return [replace(answer, notes=(*answer.notes, *notes)) for answer in answers]


def _unit_notes(question: Question, evidence: Evidence) -> list[str]:
    """Says in which unit dates are counted, if answers are in it."""
    notes = []
    for name in question.columns_with_unit:
        column = evidence.numeric_column(name)
        if column is not None and column.unit is not None:
            notes.append(f"{name!r} is counted in {column.unit}")
    return notes


def _weight_notes(question: Question, evidence: Evidence) -> list[str]:
    """Says that records count once each, where a weighted answer may be meant."""
    if evidence.weights is None or question.weighted_form is None:
        return []
    return [
        f"each record counts once; {question.weighted_form!r} is that of the population"
    ]


def _limit_notes(question: Question, evidence: Evidence) -> list[str]:
    """Says what the limits of a number count as, such as "<0.5"."""
    notes = []
    for name in question.columns:
        column = evidence.numeric_column(name)
        if column is None or not column.limits:
            continue
        limits = ", ".join(column.limits)
        if question.limits_count_as == "missing":
            notes.append(f"{name!r}: only measured numbers are used, not {limits}")
        elif question.limits_count_as == "ends":
            notes.append(
                f"{name!r}: {limits} are treated as beyond the measured numbers"
            )
    return notes
