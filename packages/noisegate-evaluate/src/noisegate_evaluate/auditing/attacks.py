"""Attackers: two see all that is released, of many runs or of one, and two see synthetic records alone."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from noisegate.errors import OptionError
from noisegate.gate.gate import Gate
from noisegate.methods.method import Method
from noisegate.privacy import accounting
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Adjacency, Event
from noisegate.privacy.gradient_plan import NoisySteps
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate.privacy.shard_plan import ShardQuery
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.decode import decode
from noisegate.schema.linked.schema import LinkedSchema
from noisegate.sources.tables.tables import TableSource
from noisegate_evaluate.auditing.bounds import (
    beyond_best_threshold,
    count_right_guesses,
    more_sensitive,
    one_run_epsilon,
    sensitivity_factor,
)
from noisegate_evaluate.auditing.examples import (
    UNIT,
    FamilyWorlds,
    Worlds,
    candidates,
    made_up_family,
)
from noisegate_evaluate.auditing.measure import AuditReport, measured
from noisegate_evaluate.auditing.observation import (
    Observation,
    observe_step,
    observe_sums,
    orthonormal,
    sampling_rate,
)
from noisegate_evaluate.auditing.watched import SampleVectors, Vector, Watch

Progress = Callable[
    [int, int], None
]  # called with the runs that were done and how many there will be
CHANCE = 1e-4  # that anything in a report is wrong
PROJECTION = "projection"
ONE_RUN = "one-run"
SAMPLES = "samples"
ATTRIBUTE = "attribute"
# Answers along the difference of the worlds that are examined, over all runs, where nobody says how many runs: enough
# to tell the noise within a fifth. Of steps those of half of the runs can be examined.
ANSWERS = 200
_FEWEST = 40
_CANDIDATES, _FEW = (
    32,
    12,
)  # few of what takes long: families, and records whose teachers are trained
_CANARIES = 400
_GUESSED = 0.25
# In one run a smaller one is lost in what the theorem adds for δ, twice the number of canaries times δ = 1e-5.
_ONE_RUN_CHANCE = 0.01
_PRIORS = (
    4.0,
    1e-4,
)  # an attacker takes noise to be as loud as is stated (4 is 1 over a coin's variance), one quiet
_RUNS = 60
_ROWS = 200
_NEAR = 0.1
_VALUES = 8  # of a column that is guessed, at most


@dataclass(frozen=True, kw_only=True)
class Auditor:
    """Runs a method on simulated records with the claim of a budget, and writes down what an attacker sees."""

    method: Method
    schema: Schema | LinkedSchema
    budget: Budget

    def query(self, table: Any, watch: Watch, records: int) -> Release:
        """Returns the release of simulated records, whose number is public, hence the same in both worlds."""
        budget = self.budget
        has_units = budget.contributions is not None
        gate = Gate(
            table,
            schema=self.schema,
            epsilon=budget.epsilon,
            delta=budget.delta,
            adjacency=budget.adjacency,
            records=records,
            unit_column=UNIT if has_units else None,
            contributions=budget.contributions,
            engine=watch,
        )
        gate.watched = watch.watched
        # An audit makes up its records, and asks about them as often as it likes.
        gate.counted = False
        release = self.method.query(gate)
        watch.see_release(release)
        return release

    def query_world(
        self, worlds: Worlds | FamilyWorlds, world: int, watch: Watch
    ) -> Release:
        """Returns the release of a run in a world."""
        return self.query(worlds.table(world), watch, worlds.units)

    def worst_worlds(self) -> Worlds | FamilyWorlds:
        """Returns the neighbouring sets that are the farthest apart, of a few simulated records."""
        made_up = self._made_up()
        start = self._worlds(made_up, (0, 1))
        # What each record does to a step, or in shards to the last step, whose teachers
        # have learnt the most: (records, numbers), over the noise.
        steps: list[Vector] = []

        def see_step(plan: Plan, noisy: Vector, vectors: SampleVectors) -> None:
            if not steps:
                steps.append(_moves(vectors, len(made_up)))

        def see_sum(plan: Plan, noisy: Vector, sums: Vector) -> None:
            steps[:] = [sums]

        is_linked = isinstance(start, FamilyWorlds)
        watch = Watch(
            parts=made_up if is_linked else _singles(made_up),
            singles=start.singles if is_linked else made_up,
            on_step=see_step,
            on_sum=see_sum,
        )
        release = self.query_world(start, 0, watch)
        queries = [
            sums.reshape(len(made_up), -1) / release.noise_std[name]
            for name, sums in watch.sums.items()
        ]
        no_numbers = np.zeros((len(made_up), 0))
        vectors = np.concatenate([no_numbers, *queries, *steps], axis=1)
        chosen = _farthest(vectors, self.budget.adjacency, sampled=bool(steps))
        return self._worlds(made_up, chosen)

    def _made_up(self) -> Any:
        """Returns simulated records, or families; few of what takes long."""
        if isinstance(self.schema, LinkedSchema):
            return [made_up_family(self.schema, index) for index in range(_FEW)]
        plan = self.method.plan(self.schema, self.budget)
        trains_teachers = any(
            isinstance(mechanism, NoisySteps)
            and isinstance(mechanism.query, ShardQuery)
            for mechanism in plan.mechanisms
        )
        return candidates(self.schema, _FEW if trains_teachers else _CANDIDATES)

    def _worlds(self, made_up: Any, chosen: tuple[int, int]) -> Worlds | FamilyWorlds:
        if isinstance(self.schema, LinkedSchema):
            return FamilyWorlds(
                schema=self.schema, others=made_up[chosen[0]], new=made_up[chosen[1]]
            )
        return Worlds.of(self.schema, made_up, chosen, self.budget)

    def run(
        self, worlds: Worlds | FamilyWorlds, world: int
    ) -> tuple[Observation, Certificate]:
        """Returns what is seen of a run in a world, and its certificate."""
        observation = Observation(world=world)
        watch = Watch(
            parts=[worlds.records(0), worlds.records(1)],
            singles=worlds.singles,
            on_step=partial(observe_step, observation, self.budget.adjacency),
            on_sum=partial(observe_sums, observation),
        )
        release = self.query_world(worlds, world, watch)
        observation.add_release(release, watch.sums)
        return observation, release.certificate

    def report(
        self,
        kind: str,
        lower_bound: float,
        runs: int,
        chance: float,
        guessed: tuple[float, float] | None = None,
    ) -> AuditReport:
        """Returns the report of an attack that guesses, and says nothing of the noise."""
        return AuditReport.of(
            self.method.name,
            kind,
            self.budget,
            runs,
            chance,
            lower_bound=lower_bound,
            from_guesses=lower_bound,
            guessed=guessed,
        )

    def bound(
        self, events: tuple[Event, ...], hits: Any, alarms: Any, chance: float
    ) -> float:
        """Returns the ε that guesses refute: `hits` in runs with the record, and `alarms` in those without."""
        factor = sensitivity_factor(events, self.budget.adjacency, hits, alarms, chance)
        larger = [more_sensitive(event, factor) for event in events] if factor else []
        return accounting.epsilon(larger, self.budget.delta, self.budget.adjacency)

    def synthetic(self, release: Release, schema: Schema) -> EncodedTable:
        """Returns records that a model of a release makes."""
        table = self.method.fit_release(release, device="cpu").sample(_ROWS)
        return EncodedTable.concatenate(list(TableSource(table, schema).batches()))


def projected(
    auditor: Auditor,
    *,
    runs: int | None = None,
    chance: float = CHANCE,
    progress: Progress = lambda *_: None,
) -> AuditReport:
    """Returns what everything that is released tells; `runs` are those in both worlds together."""
    worlds = auditor.worst_worlds()
    first, certificate = auditor.run(worlds, 0)
    answers = max(map(len, first.residuals.values()), default=1)
    total = runs or max(_FEWEST, ANSWERS if answers == 1 else 4 * ANSWERS // answers)
    total += total % 2
    observations = [first]
    while len(observations) < total:
        progress(len(observations), total)
        observation, _ = auditor.run(worlds, len(observations) % 2)
        observations.append(observation)
    progress(total, total)
    return measured(observations, certificate, kind=PROJECTION, chance=chance)


def _farthest(
    vectors: Vector, adjacency: Adjacency, *, sampled: bool
) -> tuple[int, int]:
    """Returns which two records make the worst neighbours: the one that is there anyway, or is replaced, first."""
    chosen = (0, 1)
    largest = -1.0
    for first, record in enumerate(vectors):
        basis = orthonormal(record[None])
        for second, other in enumerate(vectors):
            difference = other
            if adjacency is Adjacency.REPLACE_ONE:
                difference = other - record
            elif sampled:
                difference = other - basis.T @ (basis @ other)
            length = float(np.linalg.norm(difference))
            if first != second and length > largest * (1 + 1e-9):
                largest = length
                chosen = first, second
    return chosen


def one_run(
    auditor: Auditor,
    *,
    runs: int | None = None,
    chance: float = _ONE_RUN_CHANCE,
    progress: Progress = lambda *_: None,
) -> AuditReport:
    """Returns what one run tells of many canaries; `runs` says how many. The attacker is the best linear one."""
    budget = auditor.budget
    if budget.adjacency is Adjacency.REPLACE_ONE or budget.contributions is not None:
        raise OptionError(
            "an audit in one run leaves out canaries: it needs add-remove, and a record a unit."
        )
    canaries = candidates(_of_one_table(auditor, ONE_RUN), runs or _CANARIES)
    coins = np.random.default_rng().uniform(size=len(canaries)) < 0.5
    coins[0] = True  # a table needs a record; it is not guessed
    guesses = 2 * max(1, round(_GUESSED * len(canaries) / 2))
    rights = [
        count_right_guesses(coins[1:], scores[1:], guesses)
        for scores in _canary_scores(auditor, canaries, coins)
    ]
    bound = max(
        one_run_epsilon(
            right,
            guesses,
            len(canaries) - 1,
            delta=budget.delta,
            chance=chance / len(_PRIORS),
        )
        for right in rights
    )
    progress(1, 1)
    return auditor.report(ONE_RUN, bound, 1, chance)


def _canary_scores(
    auditor: Auditor, canaries: EncodedTable, coins: Any
) -> list[Vector]:
    """Scores each canary by how likely it is in the run: one vector for each prior.

    Args:
        auditor: Runs the method.
        canaries: Records that may be in the run.
        coins: Which of them are, (canaries,).

    Returns:
        For each prior that an attacker has of the noise, (canaries,).
    """
    # The noisy answer of each step or query, (numbers,), and what each canary adds to
    # it, (canaries, numbers): both over the noise.
    answers: list[tuple[Vector, Vector]] = []

    def see_step(plan: Plan, noisy: Vector, vectors: SampleVectors) -> None:
        added = sampling_rate(plan) * _moves(vectors, len(canaries))
        answers.append((noisy - vectors(()), added))

    watch = Watch(parts=_singles(canaries), singles=canaries, on_step=see_step)
    records = decode(canaries.rows(coins), _of_one_table(auditor, ONE_RUN))
    release = auditor.query(records, watch, len(canaries) // 2)
    for name, sums in watch.sums.items():
        std = release.noise_std[name]
        noisy = release.values[name].reshape(-1) / std
        answers.append((noisy, sums.reshape(len(canaries), -1) / std))
    # The coins that are to be expected given the answers, were they normal; no two
    # alike count twice.
    equations = [
        (added @ added.T, added @ (noisy - added.sum(axis=0) / 2))
        for noisy, added in answers
    ]
    scores = []
    for prior in _PRIORS:
        score = np.zeros(len(canaries))
        for gram, target in equations:
            score += np.linalg.solve(gram + prior * np.eye(len(canaries)), target)
        scores.append(score)
    return scores


def from_samples(
    auditor: Auditor,
    *,
    runs: int | None = None,
    chance: float = CHANCE,
    progress: Progress = lambda *_: None,
) -> AuditReport:
    """Returns what synthetic records alone tell of a record: how much more they agree with it than with the others."""
    schema = _of_records(auditor, SAMPLES)
    total = runs or _RUNS
    worlds: Any = auditor.worst_worlds()
    rest = worlds.others if worlds.old is None else worlds.old
    scores: list[float] = []
    events: tuple[Event, ...] = ()
    for done in range(total):
        watch = Watch(parts=[worlds.new], singles=worlds.new)
        release = auditor.query_world(worlds, done % 2, watch)
        events = release.certificate.events
        synthetic = auditor.synthetic(release, schema)
        scores.append(_agreement(synthetic, worlds.new) - _agreement(synthetic, rest))
        progress(done + 1, total)
    # Half of the runs teach the attacker where to draw the line.
    world = np.arange(total) % 2
    is_learnt = np.arange(total) < total // 2
    guesses = beyond_best_threshold(np.array(scores), world, is_learnt)
    hits = guesses[~is_learnt & (world == 1)]
    alarms = guesses[~is_learnt & (world == 0)]
    bound = auditor.bound(events, hits, alarms, chance)
    return auditor.report(SAMPLES, bound, total, chance)


def of_attribute(
    auditor: Auditor,
    *,
    runs: int | None = None,
    chance: float = CHANCE,
    progress: Progress = lambda *_: None,
) -> AuditReport:
    """Returns how well one column of a record is guessed from synthetic records, in runs with it and without."""
    # The attacker knows all else, and takes the value that agrees best. The other records differ in that column alone,
    # each with a value of its own: none is likelier than another but for the record itself, whose value is drawn again
    # in each run.
    schema = _of_records(auditor, ATTRIBUTE)
    total = runs or _RUNS
    random = np.random.default_rng()
    values = _in_one_column(schema)
    is_right: list[bool] = []
    events: tuple[Event, ...] = ()
    for done in range(total):
        secret, other = random.integers(len(values), size=2).tolist()
        if done % 2:
            own = [secret]
        elif auditor.budget.adjacency is Adjacency.REPLACE_ONE:
            own = [other]
        else:
            own = []
        table = decode(values.rows(np.array([*range(len(values)), *own])), schema)
        if auditor.budget.contributions:
            table = table.append_column(UNIT, [list(range(len(table)))])
        watch = Watch(parts=[values], singles=values)
        release = auditor.query(table, watch, len(values) + 1)
        events = release.certificate.events
        synthetic = auditor.synthetic(release, schema)
        agreements = [_agreement(synthetic, value) for value in _singles(values)]
        is_right.append(int(np.argmax(agreements)) == secret)
        progress(done + 1, total)
    hits = np.array(is_right[1::2])
    alarms = np.array(is_right[::2])
    return auditor.report(
        ATTRIBUTE,
        auditor.bound(events, hits, alarms, chance),
        total,
        chance,
        guessed=(float(hits.mean()), float(alarms.mean())),
    )


ATTACKS = {
    PROJECTION: projected,
    ONE_RUN: one_run,
    SAMPLES: from_samples,
    ATTRIBUTE: of_attribute,
}


def _in_one_column(schema: Schema) -> EncodedTable:
    """Returns a made-up record with each value of a column, or some: of the one that has most."""
    sizes = [min(column.size, _VALUES) for column in schema.layout.coded]
    record = candidates(schema, 1)
    if sizes:
        records = record.rows(np.zeros(max(sizes), dtype=np.intp))
        records.codes[:, np.argmax(sizes)] = range(max(sizes))
    else:
        records = record.rows(np.zeros(2, dtype=np.intp))
        records.numeric[:, 0] = (0.0, 1.0)
    if schema.has_rules:
        records = records.rows(~schema.broken(records))
    if len(records) < 2:
        raise OptionError(
            "the constraints of the schema leave one value to guess; audit it without them."
        )
    return records


def _agreement(synthetic: EncodedTable, record: EncodedTable) -> float:
    """Returns how much synthetic records agree with one: the mean square of the share of columns that do."""
    is_same_level = synthetic.codes == record.codes
    distances = np.nan_to_num(np.abs(synthetic.numeric - record.numeric), nan=1.0)
    agrees = np.concatenate([is_same_level, distances < _NEAR], axis=1)
    return float(np.square(agrees.mean(axis=1)).mean())


def _of_records(auditor: Auditor, by: str) -> Schema:
    schema = _of_one_table(auditor, by)
    if auditor.method.makes != "records":
        raise OptionError(
            f"{auditor.method.name} makes no records; audit it by projection."
        )
    return schema


def _of_one_table(auditor: Auditor, by: str) -> Schema:
    if isinstance(auditor.schema, LinkedSchema):
        raise OptionError(
            f"by={by!r}: linked tables are audited by {PROJECTION} alone."
        )
    return auditor.schema


def _singles(records: EncodedTable) -> list[EncodedTable]:
    return [records.rows(slice(row, row + 1)) for row in range(len(records))]


def _moves(vectors: SampleVectors, records: int) -> Vector:
    """Returns what each record by itself does to the vector of a sample without any, (records, numbers)."""
    return np.stack([vectors((row,)) for row in range(records)]) - vectors(())
