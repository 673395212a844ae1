"""Three attackers: one sees all that is released, one the same of a single run, one synthetic records alone.

`projected` projects the release onto the difference of two neighbouring sets of records, over many runs. `one_run` puts
many canaries in or out by fair coins and guesses them from one release; the bound of Steinke, Nasr and Jagielski
(NeurIPS 2023), https://arxiv.org/abs/2305.08846, assumes nothing of how it was made. `from_samples` sees no more than
synthetic records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from noisegate.auditing.bounds import one_run_epsilon, right_guesses, scaled, sensitivity_factor
from noisegate.auditing.examples import UNIT, Worlds, candidates
from noisegate.auditing.families import FamilyWorlds, made_up_families
from noisegate.auditing.measure import Seen, SeenSteps, SeenSums, by_threshold, measured, orthonormal
from noisegate.auditing.report import AuditReport
from noisegate.auditing.watched import Vector, Vectors, Watch, WatchedGate
from noisegate.data.tables.tables import TableSource
from noisegate.errors import OptionError
from noisegate.methods.method import Method
from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Adjacency, Event
from noisegate.privacy.gradient_plan import CalibratedStepPlan
from noisegate.privacy.plan import Budget
from noisegate.privacy.release import Release
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.decode import decode
from noisegate.schema.linked import LinkedSchema

Progress = Callable[[int, int], None]
"""Called with the runs that were done and how many there will be."""

CHANCE = 1e-4
"""That anything in a report is wrong."""
PROJECTION, ONE_RUN, SAMPLES = "projection", "one-run", "samples"
# Answers along the difference of the worlds that are looked at, over all runs, where nobody says how many runs: enough
# to tell the noise within a fifth. Of steps those of half of the runs can be looked at.
ANSWERS, _FEWEST = 200, 40
_CANDIDATES, _FAMILIES = 32, 12
_CANARIES, _GUESSED = 400, 0.25
# In one run a smaller one drowns in what the theorem adds for δ, twice the number of canaries times δ = 1e-5.
_ONE_RUN_CHANCE = 0.01
# Of two attackers, one takes the noise to be as loud as is stated (4 is one over the variance of a coin), one as quiet.
_PRIORS = (4.0, 1e-4)
_RUNS, _ROWS, _NEAR = 60, 200, 0.1


@dataclass(frozen=True, kw_only=True)
class Auditor:
    """Runs a method on made-up records, and writes down what an attacker sees.

    Attributes:
        method: With its settings.
        schema: Of the records.
        budget: What is claimed.
    """

    method: Method
    schema: Schema | LinkedSchema
    budget: Budget

    def query(self, table: Any, watch: Watch, records: int) -> Release:
        """Returns the release of made-up records, whose number is public, hence the same in both worlds."""
        budget = self.budget
        units = {"unit_column": UNIT, "contributions": budget.contributions} if budget.contributions else {}
        claim = {"epsilon": budget.epsilon, "delta": budget.delta, "adjacency": budget.adjacency}
        return self.method.query(WatchedGate(table, watch=watch, schema=self.schema, records=records, **claim, **units))

    def query_world(self, worlds: Worlds | FamilyWorlds, world: int, watch: Watch) -> Release:
        """Returns the release of a run in a world."""
        return self.query(worlds.table(world), watch, worlds.units)

    def worst_worlds(self) -> Worlds | FamilyWorlds:
        """Returns the neighbouring sets that are the farthest apart, of a few made-up records."""
        made_up, adjacency, steps = self._made_up(), self.budget.adjacency, list[Vector]()

        def keep(plan: CalibratedStepPlan, noisy: Vector, vectors: Vectors) -> None:
            """Writes down what each record by itself does to the first step."""
            if not steps:
                steps.append(_moves(vectors, len(made_up)))

        def keep_sums(plan: CalibratedStepPlan, noisy: Vector, sums: Vector) -> None:
            """Writes down the sums over shards of the last step, which have learnt the most."""
            steps[:] = [sums]

        start = self._worlds(made_up, (0, 1))
        linked = isinstance(start, FamilyWorlds)
        watch = Watch(
            parts=made_up if linked else _singles(made_up),
            singles=start.singles if linked else made_up,
            on_step=keep,
            on_sum=keep_sums,
        )
        release = self.query_world(start, 0, watch)
        queries = [sums.reshape(len(made_up), -1) / release.noise_std[name] for name, sums in watch.sums.items()]
        vectors = np.concatenate([np.zeros((len(made_up), 1)), *queries, *steps], axis=1)
        chosen = _farthest(vectors, adjacency, sampled=bool(steps))
        return self._worlds(made_up, chosen)

    def _made_up(self) -> Any:
        """Returns some records, or families, from which the worst ones are chosen."""
        if isinstance(self.schema, LinkedSchema):
            return made_up_families(self.schema, _FAMILIES)
        return candidates(self.schema, _CANDIDATES)

    def _worlds(self, made_up: Any, chosen: tuple[int, int]) -> Worlds | FamilyWorlds:
        if isinstance(self.schema, LinkedSchema):
            return FamilyWorlds(schema=self.schema, others=made_up[chosen[0]], new=made_up[chosen[1]])
        return Worlds.of(self.schema, made_up, chosen, self.budget)

    def run(self, worlds: Worlds | FamilyWorlds, world: int) -> tuple[Seen, Certificate]:
        """Returns what is seen of a run in a world, and its certificate."""
        seen = Seen(world=world)
        watch = Watch(
            parts=[worlds.records(0), worlds.records(1)],
            singles=worlds.singles,
            on_step=SeenSteps(seen, self.budget.adjacency),
            on_sum=SeenSums(seen),
        )
        release = self.query_world(worlds, world, watch)
        seen.released(release, watch.sums)
        return seen, release.certificate

    def report(self, kind: str, found: float, runs: int, chance: float) -> AuditReport:
        """Returns the report of an attack that guesses, and says nothing of the noise."""
        return AuditReport(
            method=self.method.name,
            kind=kind,
            claim=self.budget.epsilon,
            delta=self.budget.delta,
            adjacency=self.budget.adjacency.value,
            lower_bound=found,
            from_guesses=found,
            runs=runs,
            confidence=1 - chance,
        )


def projected(
    auditor: Auditor, *, runs: int | None = None, chance: float = CHANCE, progress: Progress = lambda *_: None
) -> AuditReport:
    """Returns what everything that is released tells; `runs` are those in both worlds together."""
    worlds = auditor.worst_worlds()
    first, certificate = auditor.run(worlds, 0)
    answers = max((len(values) for values in first.residuals.values()), default=1)
    total = runs or max(_FEWEST, ANSWERS if answers == 1 else 4 * ANSWERS // answers)
    total += total % 2
    seen = [first]
    while len(seen) < total:
        progress(len(seen), total)
        seen.append(auditor.run(worlds, len(seen) % 2)[0])
    progress(total, total)
    return measured(seen, certificate, kind=PROJECTION, chance=chance)


def _farthest(vectors: Vector, adjacency: Adjacency, *, sampled: bool) -> tuple[int, int]:
    """Returns which two records make the worst neighbours: the one that is there anyway, or is replaced, first."""
    best, chosen = -1.0, (0, 1)
    for first, one in enumerate(vectors):
        basis = orthonormal(one[None])
        for second, other in enumerate(vectors):
            apart = other - one if adjacency is Adjacency.REPLACE_ONE else other
            if sampled and adjacency is Adjacency.ADD_REMOVE:
                apart = other - basis.T @ (basis @ other)
            length = float(np.linalg.norm(apart))
            if first != second and length > best * (1 + 1e-9):
                best, chosen = length, (first, second)
    return chosen


def one_run(
    auditor: Auditor, *, runs: int | None = None, chance: float = _ONE_RUN_CHANCE, progress: Progress = lambda *_: None
) -> AuditReport:
    """Returns what one run tells of many canaries; `runs` says how many. The attacker is the best linear one."""
    budget = auditor.budget
    if budget.adjacency is Adjacency.REPLACE_ONE or budget.contributions is not None:
        raise OptionError("an audit in one run leaves out canaries: it needs add-remove, and a record a unit.")
    canaries = candidates(_of_one_table(auditor, ONE_RUN), runs or _CANARIES)
    coins = np.random.default_rng().uniform(size=len(canaries)) < 0.5
    coins[0] = True  # a table needs a record; it is not guessed
    guesses = 2 * max(1, round(_GUESSED * len(canaries) / 2))
    rights = [right_guesses(coins[1:], scores[1:], guesses) for scores in _canary_scores(auditor, canaries, coins)]
    others, part = len(canaries) - 1, chance / len(_PRIORS)
    found = max(one_run_epsilon(right, guesses, others, delta=budget.delta, chance=part) for right in rights)
    progress(1, 1)
    return auditor.report(ONE_RUN, found, 1, chance)


def _canary_scores(auditor: Auditor, canaries: EncodedTable, coins: Any) -> list[Vector]:
    """Returns for each canary how much speaks for its being in, to each attacker."""
    steps: list[tuple[Vector, Vector]] = []

    def keep(plan: CalibratedStepPlan, noisy: Vector, vectors: Vectors) -> None:
        """Writes down what a step handed out, and what each canary moves it by on average."""
        rate = plan.plan.sampling_probability / getattr(plan.plan, "shards", 1)
        steps.append((noisy - vectors(()), rate * _moves(vectors, len(canaries))))

    watch = Watch(parts=_singles(canaries), singles=canaries, on_step=keep)
    release = auditor.query(decode(canaries.rows(coins), _of_one_table(auditor, ONE_RUN)), watch, len(canaries) // 2)
    for name, sums in watch.sums.items():
        std = release.noise_std[name]
        steps.append((release.values[name].reshape(-1) / std, sums.reshape(len(canaries), -1) / std))
    return [sum((_posterior(*step, prior) for step in steps), np.zeros(len(canaries))) for prior in _PRIORS]


def _posterior(noisy: Vector, vectors: Vector, prior: float) -> Vector:
    """Returns the coins that are to be expected given an answer, were they normal; no two alike count twice."""
    left = vectors @ (noisy - vectors.sum(axis=0) / 2)
    found: Vector = np.linalg.solve(vectors @ vectors.T + prior * np.eye(len(vectors)), left)
    return found


def from_samples(
    auditor: Auditor, *, runs: int | None = None, chance: float = CHANCE, progress: Progress = lambda *_: None
) -> AuditReport:
    """Returns what synthetic records alone tell, of which each run in both worlds draws some.

    Half of the runs teach the attacker where to draw the line: how much more the synthetic records agree with the
    record that makes the difference than with the others.
    """
    if auditor.method.makes != "records":
        raise OptionError(f"{auditor.method.name} makes no records; audit it by projection.")
    schema, total = _of_one_table(auditor, SAMPLES), runs or _RUNS
    worlds: Any = auditor.worst_worlds()
    scores: list[float] = []
    events: tuple[Event, ...] = ()
    for done in range(total):
        release = auditor.query_world(worlds, done % 2, Watch(parts=[worlds.new], singles=worlds.new))
        events = release.certificate.events
        table = auditor.method.fit_release(release, device="cpu").sample(_ROWS)
        made = EncodedTable.concatenate(list(TableSource(table, schema).batches()))
        rest = worlds.others if worlds.old is None else worlds.old
        scores.append(_agreement(made, worlds.new) - _agreement(made, rest))
        progress(done + 1, total)
    world, learnt = np.arange(total) % 2, np.arange(total) < total // 2
    said, used = by_threshold(np.array(scores), world, learnt), ~learnt
    hits, alarms = said[used & (world == 1)], said[used & (world == 0)]
    factor = sensitivity_factor(events, auditor.budget.adjacency, hits, alarms, chance)
    larger = [scaled(event, factor) for event in events] if factor else []
    found = accounting.epsilon(larger, auditor.budget.delta, auditor.budget.adjacency)
    return auditor.report(SAMPLES, found, total, chance)


def _agreement(made: EncodedTable, one: EncodedTable) -> float:
    """Returns the mean share of columns in which records agree with one."""
    alike = [made.codes == one.codes, np.nan_to_num(np.abs(made.numeric - one.numeric), nan=1.0) < _NEAR]
    return float(np.square(np.concatenate(alike, axis=1).mean(axis=1)).mean())


def _of_one_table(auditor: Auditor, by: str) -> Schema:
    if isinstance(auditor.schema, LinkedSchema):
        raise OptionError(f"by={by!r}: linked tables are audited by {PROJECTION} alone.")
    return auditor.schema


def _singles(records: EncodedTable) -> list[EncodedTable]:
    return [records.rows(slice(place, place + 1)) for place in range(len(records))]


def _moves(vectors: Vectors, records: int) -> Vector:
    """Returns what each record by itself does to the vector of a sample without any, (records, numbers)."""
    return np.stack([vectors((place,)) for place in range(records)]) - vectors(())
