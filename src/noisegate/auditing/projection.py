"""The white-box audit: what is released, projected onto the difference of the worlds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from noisegate.auditing.measure import measured
from noisegate.auditing.report import AuditReport
from noisegate.auditing.seen import Seen, SeenSteps, orthonormal
from noisegate.auditing.watched import Vector, Watch, WatchedGate
from noisegate.auditing.worlds import UNIT, Worlds, candidates, neighbours
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.gradient_plan import CalibratedGradientPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import EncodedTable, Schema

if TYPE_CHECKING:
    from noisegate.methods.catalogue import AnyMethod

Progress = Callable[[int, int], None]
"""Called with the runs that were done and how many there will be."""

CHANCE = 1e-4
PROJECTION = "projection"
# Answers along the difference of the worlds that are looked at, over all runs, where nobody says how many runs: enough
# to tell the noise within a fifth. Of gradients those of half of the runs can be looked at.
ANSWERS, _FEWEST = 200, 40
_CANDIDATES = 12


def projected(
    method: AnyMethod,
    schema: Schema,
    budget: Budget,
    *,
    runs: int | None = None,
    chance: float = CHANCE,
    progress: Progress | None = None,
) -> AuditReport:
    """Returns what the projection audit of a method finds: see `audit`.

    Args:
        method: With its settings.
        schema: Of the made-up records.
        budget: What it shall claim.
        runs: In both worlds together; None for enough.
        chance: That anything in the report is wrong.
        progress: Called with the runs that were done and how many there will be.
    """
    auditor = Auditor(method=method, schema=schema, budget=budget)
    worlds = auditor.worst_worlds()
    seen, done = list[Seen](), 0
    first, certificate = auditor.run(worlds, 0)
    answers = max((len(values) for values in first.residuals.values()), default=1)
    total = runs or max(_FEWEST, ANSWERS if answers == 1 else 4 * ANSWERS // answers)
    total += total % 2
    seen.append(first)
    for done in range(1, total):
        if progress:
            progress(done, total)
        seen.append(auditor.run(worlds, done % 2)[0])
    if progress:
        progress(done + 1, total)
    return measured(seen, certificate, kind=PROJECTION, chance=chance)


@dataclass(frozen=True, kw_only=True)
class Auditor:
    """Runs a method on made-up records, and writes down what an attacker sees.

    Attributes:
        method: With its settings.
        schema: Of the records.
        budget: What is claimed.
    """

    method: AnyMethod
    schema: Schema
    budget: Budget

    def worst_worlds(self) -> Worlds:
        """Returns the neighbouring sets that are the farthest apart, of a few made-up records."""
        made_up = candidates(self.schema, _CANDIDATES)
        steps: list[Vector] = []

        def keep(plan: CalibratedGradientPlan, noisy: Vector, gradients: Vector) -> None:
            if not steps:
                steps.append(gradients)

        parts = [made_up.rows(slice(place, place + 1)) for place in range(len(made_up))]
        watch = Watch(parts=parts, singles=made_up, on_step=keep)
        worlds = neighbours(self.schema, made_up, (0, 1), self.budget.adjacency, self.budget.contributions)
        release = self.ask(worlds, 0, watch)
        questions = [sums.reshape(len(parts), -1) / release.noise_std[name] for name, sums in watch.sums.items()]
        vectors = np.concatenate([*questions, *steps], axis=1) if questions or steps else np.zeros((len(parts), 1))
        chosen = _farthest(vectors, self.budget.adjacency, sampled=bool(steps))
        return neighbours(self.schema, made_up, chosen, self.budget.adjacency, self.budget.contributions)

    def run(self, worlds: Worlds, world: int) -> tuple[Seen, Certificate]:
        """Returns what is seen of a run in a world, and its certificate."""
        seen = Seen(world=world)
        steps = SeenSteps(seen, self.budget.adjacency)
        singles = EncodedTable.concatenate(
            [part for part in (worlds.others, worlds.old, worlds.new) if part is not None]
        )
        watch = Watch(parts=[worlds.records(0), worlds.records(1)], singles=singles, on_step=steps)
        release = self.ask(worlds, world, watch)
        seen.released(release, watch.sums)
        return seen, release.certificate

    def ask(self, worlds: Worlds, world: int, watch: Watch) -> Release:
        """Returns the release of a run in a world."""
        table = worlds.table(world)
        units = (
            {}
            if self.budget.contributions is None
            else {"unit_column": UNIT, "contributions": self.budget.contributions}
        )
        gate = WatchedGate(
            table,
            watch=watch,
            schema=self.schema,
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            adjacency=self.budget.adjacency,
            # Public, hence the same in both worlds.
            records=len(worlds.records(1)),
            **units,
        )
        return self.method.ask(gate)


def _farthest(vectors: Vector, adjacency: Adjacency, *, sampled: bool) -> tuple[int, int]:
    """Returns which two records make the worst neighbours: the one that is there anyway, or is replaced, first."""
    best, chosen = -1.0, (0, 1)
    for first, one in enumerate(vectors):
        for second, other in enumerate(vectors):
            if first == second:
                continue
            apart = other - one if adjacency is Adjacency.REPLACE_ONE else other
            if sampled and adjacency is Adjacency.ADD_REMOVE:
                basis = orthonormal(one[None])
                apart = other - basis.T @ (basis @ other)
            length = float(np.linalg.norm(apart))
            if length > best * (1 + 1e-9):
                best, chosen = length, (first, second)
    return chosen
