"""Answers with error bars from what was released, at no cost.

- `infer` answers questions in text, such as ``mean(wage) by sex``.
- `measurements_of` returns everything that was released as tables with their noise.

Whoever only samples does not import this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.answers.answers import Analysis, Estimate
    from noisegate.answers.estimands import Estimands
    from noisegate.answers.measurements import Measurements
    from noisegate.models.synthesizer import Synthesizer


def infer(
    model: Synthesizer, *questions: str, level: float = 0.95, finite: bool = False
) -> list[Estimate]:
    """Answers questions with intervals, from what was released and not from samples.

    Args:
        model: A model of one table.
        questions: Of the forms in `noisegate.answers.answers.FORMS`.
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
    from noisegate.answers.answers import read
    from noisegate.answers.estimands import Estimands
    from noisegate.answers.evidence import Evidence

    if not 0 < level < 1:
        raise OptionError(
            f"level={level!r} must be a number between 0 and 1, for instance 0.95."
        )
    if not questions:
        raise OptionError(
            "no query is given; for instance 'mean(age)' or 'wage ~ age + sex'."
        )
    analyses = [read(question) for question in questions]
    estimands = Estimands(Evidence(model), level=level, finite=finite)
    if len(analyses) == 1:
        return estimands.answer(analyses[0])
    return [
        answer
        for analysis in analyses
        for answer in _answer_or_refuse(estimands, analysis)
    ]


def _answer_or_refuse(estimands: Estimands, analysis: Analysis) -> list[Estimate]:
    """Answers one of several questions; says why if nothing was measured for it.

    So a question that has no answer does not take those of the others.
    """
    from noisegate.answers.answers import Estimate
    from noisegate.answers.evidence import NotMeasuredError

    try:
        return estimands.answer(analysis)
    except NotMeasuredError as error:
        reason = str(error).removesuffix(".")
        return [Estimate(question=analysis.text, name=analysis.text, refused=reason)]


def measurements_of(model: Synthesizer) -> Measurements:
    """Returns all that a model's release states, as tables of named columns.

    Args:
        model: A model of one table.

    Raises:
        OptionError: if the release is of images, or its method counts nothing.
    """
    from noisegate.answers.evidence import Evidence

    return Evidence(model).measurements
