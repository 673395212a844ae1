"""Planted bugs in sums over disjoint shards: who is in a shard, who learns, and what is paid."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from tests.planted.patches import Plant, bug, table, wrong

from noisegate.privacy import accounting
from noisegate.privacy.grid import UNITS


@wrong("shards._Split.of", "test_only_the_vector_of_the_records_shard_changes")
def shards_that_overlap(right: Any, made: Any, words: Any, shards: int) -> Any:
    """Every record is in the next shard too, as in several codes of PATE-GAN."""
    found = right(made, np.concatenate([words, words + np.uint64(1)]), shards)
    object.__setattr__(found, "order", found.order % len(words))
    return found


@wrong("shards.ShardSession._exact", "test_a_public_schedule_says_who_learns_whoever_is_asked")
def learning_when_asked(right: Any, session: Any, records: Any, sample: Any) -> Any:
    """The shards that learn are those that were asked, as in GS-WGAN: their states remember the draws."""
    found = right(session, records, sample)
    session._learn(records, sample)
    return found


@wrong("shard_plan.ShardPlan.event", "test_a_plan_pays_for_all_records_of_a_step_together")
def image_by_image(right: Any, plan: Any, noise_std: float, sampler: Any) -> Any:
    """Each record of a step is accounted as if it were alone, as GS-WGAN does."""
    records = next(iter(plan.parameters.values()))[0]
    return right(plan, noise_std / math.sqrt(records), sampler)


@bug("test_epsilon_does_not_depend_on_the_votes")
def cheaper_where_teachers_agree(plant: Plant) -> None:
    """The certificate tells less where the exact answers agree, as the programs of DataLens and G-PATE print it."""

    @plant.wrap("shards.ShardSession._exact")
    def _(right: Any, session: Any, records: Any, sample: Any) -> Any:
        found = right(session, records, sample)
        session.agreement = float(np.linalg.norm(found)) / (session.plan.plan.shards * UNITS)
        return found

    @plant.wrap("session.Session._certify")
    def _(right: Any, session: Any, hashes: Any) -> Any:
        found, louder = right(session, hashes), 1 + session.agreement
        events = tuple(replace(event, noise_std=event.noise_std * louder) for event in found.events)
        return replace(found, epsilon=accounting.epsilon(events, found.delta, found.adjacency), events=events)


table("""
norm-for-diameter: A vector that may be turned round is paid for as one that comes or goes.
    by test_a_record_moves_the_sum_by_at_most_the_sensitivity
    rewrite shard_plan.ShardPlan: self.grid.bound.sensitivity(Adjacency.REPLACE_ONE) => UNITS
""")
