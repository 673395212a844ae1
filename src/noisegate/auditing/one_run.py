"""One run with many canaries, each put in or left out by a fair coin, which the attacker guesses from the release.

The bound of Steinke, Nasr and Jagielski (2023) assumes nothing of how the release was made. The attacker here is the
best linear one: it knows what each canary would add, and how loud the noise is said to be.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from noisegate.auditing.bounds import one_run_epsilon, right_guesses
from noisegate.auditing.projection import Progress
from noisegate.auditing.report import AuditReport
from noisegate.auditing.watched import Vector, Watch, WatchedGate
from noisegate.auditing.worlds import candidates
from noisegate.errors import OptionError
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.plan import Budget
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.decode import decode

if TYPE_CHECKING:
    from noisegate.methods.catalogue import AnyMethod

ONE_RUN = "one-run"
_CANARIES = 400
_GUESSED = 0.25
# A smaller one drowns in what the theorem adds for δ, twice the number of canaries times δ = 1e-5.
_CHANCE = 0.01
# Of two attackers, one takes the noise to be as loud as is stated (4 is one over the variance of a coin), one as quiet.
_PRIORS = (4.0, 1e-4)


def one_run(
    method: AnyMethod,
    schema: Schema,
    budget: Budget,
    *,
    runs: int | None = None,
    chance: float = _CHANCE,
    progress: Progress | None = None,
) -> AuditReport:
    """Returns what an audit in one run finds: see `noisegate.audit`.

    Args:
        method: With its settings.
        schema: Of the made-up records.
        budget: What it shall claim.
        runs: How many canaries; None for 400.
        chance: That the bound is wrong.
        progress: Called with the runs that were done, and 1.

    Raises:
        OptionError: if a unit has several records, or the number of records is public, which the coins would change.
    """
    if budget.adjacency is Adjacency.REPLACE_ONE or budget.contributions is not None:
        raise OptionError("an audit in one run leaves out canaries: it needs add-remove, and a record a unit.")
    canaries = candidates(schema, runs or _CANARIES)
    coins = np.random.default_rng().uniform(size=len(canaries)) < 0.5
    coins[0] = True  # a table needs a record; it is not guessed
    guesses = 2 * max(1, round(_GUESSED * len(canaries) / 2))
    found = 0.0
    for scores in _scores(method, schema, budget, canaries, coins):
        right = right_guesses(coins[1:], scores[1:], guesses)
        part = chance / len(_PRIORS)
        found = max(found, one_run_epsilon(right, guesses, len(canaries) - 1, delta=budget.delta, chance=part))
    if progress:
        progress(1, 1)
    return AuditReport(
        method=method.name,
        kind=ONE_RUN,
        claim=budget.epsilon,
        delta=budget.delta,
        adjacency=budget.adjacency.value,
        lower_bound=found,
        from_noise=0.0,
        from_guesses=found,
        noise=(0.0, math.inf),
        along=(0.0, math.inf),
        runs=1,
        confidence=1 - chance,
    )


def _scores(method: AnyMethod, schema: Schema, budget: Budget, canaries: EncodedTable, coins: Any) -> list[Vector]:
    """Returns for each canary how much speaks for its being in, to each attacker."""
    steps: list[tuple[Vector, Vector]] = []
    singles = [canaries.rows(slice(place, place + 1)) for place in range(len(canaries))]
    watch = Watch(parts=singles, singles=canaries, on_step=lambda plan, noisy, found: _keep(steps, plan, noisy, found))
    gate = WatchedGate(
        decode(canaries.rows(coins), schema),
        watch=watch,
        schema=schema,
        epsilon=budget.epsilon,
        delta=budget.delta,
        records=len(canaries) // 2,
    )
    release = method.ask(gate)
    for name, sums in watch.sums.items():
        std = release.noise_std[name]
        steps.append((release.values[name].reshape(-1) / std, sums.reshape(len(canaries), -1) / std))
    return [sum((_posterior(*step, prior) for step in steps), np.zeros(len(canaries))) for prior in _PRIORS]


def _posterior(noisy: Vector, vectors: Vector, prior: float) -> Vector:
    """Returns the coins that are to be expected given an answer, were they normal; no two alike count twice."""
    left = vectors @ (noisy - vectors.sum(axis=0) / 2)
    found: Vector = np.linalg.solve(vectors @ vectors.T + prior * np.eye(len(vectors)), left)
    return found


def _keep(steps: list[tuple[Vector, Vector]], plan: Any, noisy: Vector, found: Vector) -> None:
    steps.append((noisy, plan.plan.rate * found))
