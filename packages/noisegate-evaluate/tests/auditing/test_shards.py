"""The audit of sums over disjoint shards: right code stays below its claim and is seen, and planted bugs are found."""

import numpy as np
import pytest

import planted
from noisegate import Budget
from noisegate.gate.queries import shards
from noisegate.methods.registry import METHODS, make_for
from noisegate.privacy.events import Adjacency
from noisegate_evaluate.auditing.attacks import Auditor, projected
from noisegate_evaluate.auditing.examples import TABLE

RARE = 1e-7


def audited(name, runs=4, adjacency="add-remove", epsilon=1.0, **settings):
    method = make_for(name, TABLE, {**METHODS[name].audit_settings, **settings})
    budget = Budget(epsilon=epsilon, adjacency=Adjacency.parse(adjacency))
    return projected(Auditor(method=method, schema=TABLE, budget=budget), runs=runs, chance=RARE)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "adjacency"), [("pate-gan", "add-remove"), ("g-pate", "replace-one")])
def test_right_sums_over_shards_stay_below_their_claim_and_are_seen(name, adjacency):
    found = audited(name, adjacency=adjacency)
    assert found.holds, found
    assert 0.6 < found.noise[0] < 1 < found.noise[1] < 1.6


def test_noise_on_sums_over_shards_that_is_too_quiet_is_found():
    with planted.noise_times(1 / 2):
        found = audited("g-pate")
    assert found.too_little_noise


@pytest.mark.slow
def test_shards_that_overlap_are_found(monkeypatch):
    """As in several codes of PATE-GAN: here every shard holds all records."""

    def overlapping(words, count):
        every = np.arange(len(words))
        sizes = np.full(count, len(words), dtype=np.intp)
        return shards._Split(order=np.tile(every, count), first=np.arange(count) * len(words), sizes=sizes)

    assert audited("pate-gan", teachers=40, teacher_rounds=20, steps=4).holds
    monkeypatch.setattr(shards._Split, "of", overlapping)
    monkeypatch.setattr(shards.ShardSession, "_probe", lambda session: None)
    found = audited("pate-gan", runs=10, teachers=40, teacher_rounds=20, steps=4)
    assert found.lower_bound > found.claim, found
