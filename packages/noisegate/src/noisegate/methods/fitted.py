"""What a fit came to: its summary with a verdict, and the synthesizer.

A method hands over what it knows of its own fit; what all have in common is here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from noisegate.answers.findings import questions_of_table
from noisegate.methods.forecast import Forecast, unanswered, verdict_of_fit
from noisegate.models.checkpoint import Fit, FitSummary

if TYPE_CHECKING:
    from noisegate.answers.verdict import Verdict
    from noisegate.models.record_model import RecordModel
    from noisegate.models.synthesizer import Synthesizer
    from noisegate.privacy.release import Release


def fitted_synthesizer(
    release: Release,
    fitting: Fit,
    model: RecordModel,
    *,
    expected: Forecast | None = None,
    verdicts: Iterable[Verdict] = (),
    is_far: bool | None = None,
) -> Synthesizer:
    """Returns the synthesizer of a model that a fit has reached.

    Args:
        release: The release that was fitted.
        fitting: Its fit, which has ended.
        model: The model of records.
        expected: How far records will be from real ones; None where it is unknown.
        verdicts: What the fit keeps of its release.
        is_far: Whether it ended too far from its release to be relied on; None to judge
            by the distance alone.
    """
    from noisegate.models.synthesizer import Synthesizer

    summary = fit_summary(
        release, fitting, expected=expected, verdicts=verdicts, is_far=is_far
    )
    if summary.verdict is not None:
        questions = questions_of_table(release.schema)
        verdict = summary.verdict.answering(questions, unanswered("fit"))
        summary = replace(summary, verdict=verdict)
    synthesizer = Synthesizer(release=release, model=model, summary=summary)
    if release.schema.has_rules:
        return synthesizer.with_verdict_of_rules()
    return synthesizer


def fit_summary(
    release: Release,
    fitting: Fit,
    *,
    expected: Forecast | None = None,
    verdicts: Iterable[Verdict] = (),
    is_far: bool | None = None,
) -> FitSummary:
    """Returns how a fit ended, with the verdict on it.

    The arguments are those of `fitted_synthesizer`.
    """
    warning = getattr(fitting, "warning", None)
    return FitSummary(
        step=fitting.step,
        steps=fitting.steps,
        discrepancy=fitting.discrepancy,
        notes={"warning": warning} if warning else {},
        verdict=verdict_of_fit(
            release,
            fitting.discrepancy,
            expected=expected,
            verdicts=verdicts,
            is_far=ended_far(fitting.discrepancy) if is_far is None else is_far,
        ),
    )


def ended_far(discrepancy: float) -> bool:
    """Returns whether a fit ended too far from its release, by the distance alone.

    Args:
        discrepancy: The distance, over what the noise alone explains; infinite or NaN
            where there is none.
    """
    from noisegate.models.tables.mixture_fit import FAR

    return math.isfinite(discrepancy) and discrepancy > FAR
