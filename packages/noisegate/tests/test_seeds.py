"""Seeds of public randomness: an unusable one is found before anything is read or spent, wherever one is given."""

import sys

import numpy as np
import pandas as pd
import pytest
import torch
from tests.shared.columns import boolean
from tests.shared.stated import ledger_of

import noisegate as ng
from noisegate import seeds
from noisegate.errors import OptionError
from noisegate.schema import Schema
from noisegate_evaluate import evaluate_tables, kernel_distance
from noisegate_papers.contrib.pretraining.decoder import DecoderTraining
from noisegate_papers.contrib.pretraining.encoder import EncoderTraining

UNUSABLE = [2**70, seeds.MOST_SEED + 1, -1, True, 1.5, "x", None]
SCHEMA = Schema((boolean("a"),))


def people():
    return pd.DataFrame({"a": np.arange(40) % 2 == 0})


def test_a_run_with_one_spends_nothing_and_one_with_the_largest_works(tmp_path):
    ledger = ledger_of(tmp_path, epsilon=3.0)
    booked = {"ledger": ledger, "dataset": "clinic"}
    with pytest.raises(OptionError, match="seed="):
        ng.synthesize(people(), schema=SCHEMA, epsilon=1.0, seed=2**70, **booked)
    assert len(ledger.history("clinic")) == 1
    model = ng.synthesize(
        people(), schema=SCHEMA, epsilon=1.0, seed=seeds.MOST_SEED, **booked
    )
    assert len(model.sample(5, seed=seeds.MOST_SEED)) == 5
    for seed in UNUSABLE[:-1]:
        for draw in (model.sample, model.batches):
            with pytest.raises(OptionError, match="seed="):
                draw(5, seed=seed)


@pytest.mark.parametrize("seed", [seeds.MOST_EVALUATION_SEED + 1, -1, "x"])
def test_no_evaluation_takes_one(seed):
    numbers = np.zeros((4, 2))
    tables = people()
    for score in (
        lambda: evaluate_tables(tables, tables, SCHEMA, seed=seed),
        lambda: kernel_distance(numbers, numbers, seed=seed),
    ):
        with pytest.raises(OptionError, match="seed="):
            score()
    for training in (EncoderTraining, DecoderTraining):
        with pytest.raises(OptionError, match="seed="):
            training(seed=seed)


@pytest.mark.parametrize("seed", [0, 7, 2**32 + 5, 2**63 - 1])
def test_without_torch_the_numbers_are_those_of_torch_bit_for_bit(seed, monkeypatch):
    ours = seeds.MersenneTwister(seed)
    with_torch = seeds.public_random(seed)
    assert isinstance(with_torch, torch.Generator)
    for count in (1, 2, 5, 0, 3000, 70_000):
        for draw in (seeds.uniform, seeds.permutation):
            assert draw(ours, count).dtype == draw(with_torch, count).dtype
            assert (draw(ours, count) == draw(with_torch, count)).all()
    assert [float(seeds.uniform32(ours, 1)[0]) for _ in range(5)] == [
        float(seeds.uniform32(with_torch, 1)[0]) for _ in range(5)
    ]
    monkeypatch.delitem(sys.modules, "torch")
    assert isinstance(seeds.public_random(seed), seeds.MersenneTwister)
    assert (
        seeds.uniform(seeds.public_random(seed), 3)
        == seeds.uniform(seeds.MersenneTwister(seed), 3)
    ).all()
    assert (
        seeds.uniform(seeds.public_random(None), 3)
        != seeds.uniform(seeds.public_random(None), 3)
    ).all()
