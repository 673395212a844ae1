"""What one period of a stream asks at the gate.

A period asks in rounds, as any method of sums does. What a round asks follows from the
answers before it: in the first period, cells and pairs are chosen by its answers times
the number of periods that are planned for, as if so many like it had come. Later
periods ask the same, and choose nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from noisegate.gate.gate import Gate
from noisegate.gate.streams.session import DECISIONS_KEY, StreamSession
from noisegate.gate.streams.state import StreamState
from noisegate.methods.abilities import in_rounds
from noisegate.methods.method import Method
from noisegate.privacy.continual_plan import Horizon
from noisegate.privacy.plan import Plan
from noisegate.privacy.release import Release
from noisegate.privacy.silos import Stream
from noisegate.sources.sources import open_records


@dataclass(frozen=True, kw_only=True)
class Period:
    """One period of a stream, which is asked at the gate of its records.

    Attributes:
        method: What is asked, and what is fitted to the totals.
        horizon: The periods of the stream.
        state: What the stream keeps between periods.
        facts: The period, for its certificate.
        after: Release of the period before; None in the first.
        withdrawn: Records that leave the stream, a path or a table; or None.
    """

    method: Method
    horizon: Horizon
    state: StreamState
    facts: Stream
    after: Release | None
    withdrawn: Any = None

    def priced(self, once: Plan) -> Plan:
        """Returns the plan of this period, with the noise on its totals.

        Args:
            once: The plan of a release that asks once, at the cost of the stream.
        """
        plan = self.horizon.plan(once, self.facts.period)
        if plan.design is None:
            return plan
        # By how much records grow more than noise, until as many periods have come.
        periods = self.horizon.planning_periods
        gain = periods / self.horizon.noise_factor(periods)
        design = replace(plan.design, decided=self.fixed, later_clarity=gain)
        return replace(plan, design=design)

    @property
    def fixed(self) -> Mapping[str, Any]:
        """What the first period decided for all; empty in the first."""
        if self.after is None:
            return {}
        public = self.after.certificate.public
        decisions: Mapping[str, Any] = public.get(DECISIONS_KEY, {})
        return decisions

    def __call__(self, gate: Gate, plan: Plan, /) -> Release:
        """Asks all rounds of this period at a gate.

        Args:
            gate: Has the records of the period.
            plan: The plan of `priced`.

        Returns:
            The totals after this period.
        """
        self.state.open_for_plan(self.facts.plan)
        # Finds something only where the period before was stopped, or ended by a
        # version that kept the seals.
        self.state.erase_secrets_until(self.facts.period - self.horizon.band)
        withdrawn = None
        if self.withdrawn is not None:
            withdrawn = open_records(self.withdrawn, gate.schema)
        public = {
            **self.method.public_facts(gate.schema),
            "stream": self.facts.to_json(),
        }
        opened = gate.open(plan, method=self.method.name, public=public)
        with StreamSession(opened, self.state, self.facts, withdrawn) as session:
            return self._ask_rounds(session, gate, plan)

    def _ask_rounds(self, session: StreamSession, gate: Gate, plan: Plan) -> Release:
        """Asks round after round, until the method asks nothing more.

        What a round asks follows from the answers before. In the first period these are
        multiplied by `Horizon.planning_periods`, and so is their noise: they stand for
        the totals of as many periods like it, since cells and pairs are chosen for
        those. (Real totals would have less noise, so no more is chosen than they bear.)

        Args:
            session: The session of this period.
            gate: Has its records.
            plan: The plan of `priced`.

        Returns:
            The totals after this period. Their certificate states what the first
            period has chosen, which all later ones take over.
        """
        method = in_rounds(self.method)
        schema = gate.schema
        periods = self.horizon.planning_periods
        noise_of_one_period = self.horizon.noise_by_query(plan, 1)
        # Queries that are not answered yet have the noise of a total of so many
        # periods, by which the method decides what is worth asking.
        state = _Answers({}, self.horizon.noise_by_query(plan, periods))
        state_before_last_round = state
        queries = method.next_round(schema, plan, state.values, state.noise)
        while queries:
            state_before_last_round = state
            state = state.with_answers(
                {
                    query: periods * value
                    for query, value in session.ask(queries).items()
                },
                {query: periods * noise_of_one_period[query] for query in queries},
            )
            queries = method.next_round(schema, plan, state.values, state.noise)
        if self.fixed:
            return session.release_period(self.fixed)
        # What is chosen is complete before the last round, which asks by it.
        choices = method.decisions(
            schema, plan, state_before_last_round.values, state_before_last_round.noise
        )
        return session.release_period(choices)


class _Answers(NamedTuple):
    """What is known before a round.

    Attributes:
        values: The answers so far, by query.
        noise: Standard deviation of the noise on each query, answered or not.
    """

    values: Mapping[str, Any]
    noise: Mapping[str, float]

    def with_answers(
        self, values: Mapping[str, Any], noise: Mapping[str, float]
    ) -> _Answers:
        """Returns what is known after a round, in new mappings."""
        return _Answers({**self.values, **values}, {**self.noise, **noise})
