"""What one period of a stream asks at the gate."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from noisegate.gate.gate import Gate
from noisegate.gate.streams.session import StreamSession
from noisegate.gate.streams.state import StreamState
from noisegate.methods.method import Method
from noisegate.privacy.continual_plan import Horizon
from noisegate.privacy.plan import CalibratedPlan
from noisegate.privacy.release import Release
from noisegate.privacy.silos import Stream
from noisegate.sources.sources import open_records


@dataclass(frozen=True, kw_only=True)
class Period:
    """One period of a stream; ask it at a gate."""

    method: Method
    horizon: Horizon
    state: StreamState
    facts: Stream
    after: Release | None
    withdrawn: Any = None
    """Records that leave the stream: a path, or a table."""

    def priced(self, once: CalibratedPlan) -> CalibratedPlan:
        """Returns what this period asks: what the first one decided, with the noise on its totals."""
        plan, times = self.horizon.plan(once, self.facts.period), self.horizon.foreseen
        if plan.design is None:
            return plan
        clearer = times / self.horizon.noise(times)
        return replace(
            plan, design=replace(plan.design, fixed=self.fixed, foreseen=clearer)
        )

    @property
    def fixed(self) -> Mapping[str, Any]:
        """What the first period decided; empty before."""
        return (
            {} if self.after is None else self.after.certificate.public.get("fixed", {})
        )

    def __call__(self, gate: Gate, plan: CalibratedPlan, /) -> Release:
        """Returns the totals after this period."""
        method, schema, times = self.method, gate.schema, self.horizon.foreseen
        self.state.begin(self.facts.plan)
        # Nothing, unless the period before was stopped, or ended by a version that kept the seals.
        self.state.forget(self.facts.period - self.horizon.band)
        facts = {**method.public_facts(schema), "stream": self.facts.to_json()}
        gone = None if self.withdrawn is None else open_records(self.withdrawn, schema)
        # Of what is still to be asked, the noise on the totals that cells and pairs are chosen for.
        stds, first, values = (
            self.horizon.noise_of(plan, times),
            self.horizon.noise_of(plan, 1),
            dict[str, Any](),
        )
        with StreamSession(
            gate.open(plan, method=method.name, public=facts),
            self.state,
            self.facts,
            gone,
        ) as session:
            while asked := method.next_round(schema, plan, values, stds):
                by = values, stds
                # The first period stands for as many as are foreseen; later ones decide nothing.
                values = values | {
                    name: times * answer for name, answer in session.ask(asked).items()
                }
                stds = stds | {name: times * first[name] for name in asked}
            return session.close(self.fixed or method.decisions(schema, plan, *by))
