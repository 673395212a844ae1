"""``survival(time, event)`` and ``survival(time, event) by g``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from noisegate.answers.domain import Floats, NumberRange
from noisegate.answers.estimates import (
    Estimate,
    Intervals,
    estimate,
    spread_of_table,
)
from noisegate.answers.evidence import Evidence
from noisegate.answers.noisy_table import NoisyTable
from noisegate.answers.questions.question import (
    Question,
    column_name,
    level_text,
    parse_call,
    register,
    require_levels,
    require_number,
    require_two_levels,
)
from noisegate.answers.questions.tables import counts_together


@register("survival")
@dataclass(frozen=True, kw_only=True)
class Survival(Question):
    """The share of records that survives the end of each cell of time.

    Attributes:
        time: When a record left: a number.
        event: Whether it left by the event, or was lost: two levels.
        group: Column of the groups; None for all records.
    """

    forms = ("survival(time, event)", "survival(time, event) by g")
    rests_on = "tables"
    limits_count_as = "ends"

    time: str
    event: str
    group: str | None = None

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Parses the question; None if it is another."""
        call = parse_call(text, "survival")
        if call is None or len(call.arguments) != 2 or len(call.groups) > 1:
            return None
        time, event = call.arguments
        return cls(
            text=text,
            time=column_name(time),
            event=column_name(event),
            group=call.groups[0] if call.groups else None,
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Time and event, and the column of groups if there is one."""
        pair = (self.time, self.event)
        return pair if self.group is None else (*pair, self.group)

    def answer(self, evidence: Evidence, intervals: Intervals) -> list[Estimate]:
        """Returns the share that survives each end of a cell, in each group."""
        require_number(self, evidence, self.time)
        problem = f": {self.event!r} must have two levels, yes or no."
        require_two_levels(self, evidence, self.event, problem)
        if self.group is None:
            table = counts_together(self, evidence, self.columns)
            return self._life_table(evidence, table, "", intervals)
        levels = require_levels(self, evidence, self.group)
        table = counts_together(self, evidence, self.columns)
        answers = []
        for level in levels:
            of_group = table.condition(**{self.group: level})
            prefix = f"{self.group} = {level_text(level)}: "
            answers += self._life_table(evidence, of_group, prefix, intervals)
        return answers

    def _life_table(
        self,
        evidence: Evidence,
        table: NoisyTable,
        prefix: str,
        intervals: Intervals,
    ) -> list[Estimate]:
        """Estimates survival by a life table (Cutler and Ederer, 1958).

        Those who are lost in a cell are at risk in half of it. They may have been lost
        at its beginning or at its end, which bounds what that adds.

        Args:
            evidence: What the release says.
            table: Counts of time and event.
            prefix: Begins the names of answers.
            intervals: Which intervals are wanted.
        """
        cells = table.domain.by_name[self.time]
        spans = [cell for cell in cells if isinstance(cell, NumberRange)]
        present = NoisyTable(
            table.domain.with_cells(self.time, spans),
            table.counts[: len(spans)],
            table.variance[: len(spans)],
        )
        highs = evidence.within_bounds(
            self.time, np.array([span.high for span in spans])
        )
        lows = evidence.within_bounds(self.time, np.array([span.low for span in spans]))
        names = [
            f"{prefix}beyond {(high + low) / 2:.4g}"
            for high, low in zip(highs[:-1], lows[1:], strict=True)
        ]
        answers = estimate(
            self.text,
            names,
            lambda counts: _survival(counts, lost_part_at_risk=0.5),
            spread_of_table(present, intervals),
            intervals,
        )
        counts = present.counts.ravel()
        lowest = _survival(counts, lost_part_at_risk=0.0)
        highest = _survival(counts, lost_part_at_risk=1.0)
        bounds = np.abs(highest - lowest) / 2
        return [
            answer.widened_by(bound)
            for answer, bound in zip(answers, bounds.tolist(), strict=True)
        ]


def _survival(counts: Floats, *, lost_part_at_risk: float) -> Floats:
    """Computes the share that survives the end of each cell of time but the last.

    Args:
        counts: Those who were lost, and those with the event, in each cell,
            (2·cells,).
        lost_part_at_risk: For which part of their cell those who are lost are at risk.

    Returns:
        The shares, (cells − 1,); NaN from where nobody is at risk.
    """
    lost, events = counts.reshape(-1, 2).T
    remaining = np.cumsum((lost + events)[::-1])[::-1]
    at_risk = remaining - (1 - lost_part_at_risk) * lost
    with np.errstate(all="ignore"):
        hazard = np.where(at_risk > 0, events / at_risk, np.nan)
    return np.asarray(np.cumprod(1 - hazard)[:-1])
