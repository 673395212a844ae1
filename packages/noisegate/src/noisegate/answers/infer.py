"""Answers with error bars from what was released; the kernel does not import it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noisegate.errors import OptionError

if TYPE_CHECKING:
    from noisegate.answers.answers import Estimate
    from noisegate.models.synthesizer import Synthesizer


def infer(
    model: Synthesizer, *questions: str, level: float = 0.95, finite: bool = False
) -> list[Estimate]:
    """Returns answers with intervals, from what the gate released and not from rows of a sample; costs no privacy.

    Args:
        model: A model of one table.
        questions: Of the forms in `noisegate.answers.answers.FORMS`.
        level: Of intervals, between 0 and 1.
        finite: Whether they are about the records themselves, and not about the population that these are a sample of.

    Raises:
        OptionError: if a question is not understood, names a column that is not there or was not measured, or the
            release is of a method that counts nothing.

    Examples:
        >>> import pyarrow as pa
        >>> from noisegate import Schema, synthesize
        >>> from noisegate.schema import Boolean
        >>> table = pa.table({"ill": [True, False, False, False] * 500})
        >>> model = synthesize(table, schema=Schema([Boolean(name="ill")]), epsilon=1.0)
        >>> (found,) = model.infer("share(ill = true)")
        >>> bool(found.low < found.value < found.high), bool(abs(found.value - 0.25) < 0.1)
        (True, True)
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
    asked = [read(question) for question in questions]
    found = Estimands(Evidence(model), level=level, finite=finite)
    return [answer for question in asked for answer in found.answer(question)]
