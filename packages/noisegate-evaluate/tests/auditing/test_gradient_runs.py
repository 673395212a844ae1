"""An empirical audit of whole gradient runs: what an attacker learns stays below the claim, and bugs push it above.

Canaries whose gradients are unit vectors, each along a coordinate of its own, are put in or left out by fair coins, and
the attacker guesses the coins from the sums that leave the gate. Two lower bounds on ε follow from one run:

* that of Steinke, Nasr and Jagielski (2023, Theorem 5.2), which assumes nothing;
* that of the noise with which the certificate's event could have let the attacker be right as often (after Nasr and
  others, 2023), tighter, since canaries are independent trials here.

Each bound is wrong with probability at most 1e-4. One step more than paid for cannot be seen by an audit of this size;
test_gradients.py and test_gradient_journal.py count steps instead.
"""

import numpy as np
import pandas as pd
import pytest
import torch
from tests.shared.stated import step_query

from noisegate.gate import samples
from noisegate.gate.gate import Gate
from noisegate.gate.per_example import gradients as per_example
from noisegate.privacy import accounting, noise
from noisegate.privacy.events import Adjacency
from noisegate.privacy.gradient_plan import plan_steps
from noisegate.privacy.grid import Grid
from noisegate.schema import Integer, Schema
from noisegate_evaluate.auditing.bounds import (
    count_right_guesses,
    more_sensitive,
    one_run_epsilon,
    sensitivity_factor,
)

CANARIES = 1000
ROUNDS = 12
STEPS = 60
BATCHES = 20
EPSILON = 3.0
DELTA = 1e-8
CHANCE = 1e-4
GUESSES = 200
IMAGES = 20
SCHEMA = Schema((Integer(name="which", lower=0, upper=CANARIES),))


def loss(parameters, numeric, codes):
    # A canary that was left out became the record CANARIES, which has no coordinate, and so the gradient zero.
    own = torch.arange(CANARIES) == torch.round(numeric[0] * CANARIES)
    return 50.0 * (parameters["w"] * own).sum()


def run():
    """One round: coins, and for each canary the sum over all steps, over those of a fixed batch, and the largest sum of
    as many steps on end as a step of GS-WGAN has images."""
    coins = np.random.default_rng().uniform(size=CANARIES) < 0.5
    data = pd.DataFrame({"which": np.where(coins, np.arange(CANARIES), CANARIES)})
    gate = Gate(data, schema=SCHEMA, epsilon=EPSILON, delta=DELTA)
    calibrated = plan_steps(
        gate.budget, step_query(CANARIES, steps=STEPS, sampling_probability=1 / BATCHES)
    )
    with gate.gradients(
        calibrated, loss, method="audit", public={}, microbatch=32
    ) as session:
        sums = np.array(
            [
                session.step({"w": torch.zeros(CANARIES)})["w"].numpy()
                for _ in range(STEPS)
            ]
        )
    own = np.arange(STEPS)[:, None] % BATCHES == np.arange(CANARIES) % BATCHES
    images = sums.reshape(-1, IMAGES, CANARIES).sum(axis=1).max(axis=0)
    return (
        coins,
        sums.sum(axis=0),
        (sums * own).sum(axis=0),
        images,
        calibrated.events[0],
    )


def audit():
    """The larger of both lower bounds on ε, over three attackers."""
    rounds = [run() for _ in range(ROUNDS)]
    coins = np.concatenate([one[0] for one in rounds])
    event = rounds[0][-1]
    found = []
    # Known beforehand: half of what a canary adds, on average over the steps that are looked at; and most of what it
    # adds to those that share a draw, where they do.
    for attacker, threshold in (
        (1, 0.5 * STEPS / BATCHES),
        (2, 0.5 * STEPS / BATCHES),
        (3, 0.8 * IMAGES),
    ):
        scores = np.concatenate([one[attacker] for one in rounds])
        found += [by_one_run(coins, scores), by_noise(coins, scores > threshold, event)]
    return max(found)


def by_one_run(coins, scores):
    """The largest ε that right guesses refute: the highest scores are guessed in, the lowest out."""
    right = count_right_guesses(coins, scores, GUESSES)
    return one_run_epsilon(right, GUESSES, len(coins), delta=DELTA, chance=CHANCE / 6)


def by_noise(coins, guesses, event):
    """ε of the same event with the largest noise that allows so many hits for so few false alarms."""
    factor = sensitivity_factor(
        [event], Adjacency.ADD_REMOVE, guesses[coins], guesses[~coins], CHANCE / 6
    )
    return accounting.epsilon([more_sensitive(event, factor)], DELTA) if factor else 0.0


@pytest.mark.slow
def test_the_right_code_stays_below_its_claim_and_the_audit_sees_much_of_it():
    found = audit()
    print(f"audited epsilon at least {found:.3g}, claimed {EPSILON}")
    assert found <= EPSILON
    # An audit that sees nothing would find no bug.
    assert found > 0.2 * EPSILON


def halve_noise(patch):
    right = noise.add_noise
    patch.setattr(
        noise,
        "add_noise",
        lambda sums, *, noise_std, sampler: right(
            sums, noise_std=noise_std / 2, sampler=sampler
        ),
    )


def skip_clipping(patch):
    def add_clipped(self, sums, gradients):
        sums += (
            (gradients.arrays[0].astype(np.float64) * Grid(norm=1.0).scale)
            .sum(axis=0)
            .astype(np.int64)
        )

    patch.setattr(per_example.RecordGradients, "add_clipped", add_clipped)


def fix_batches(patch):
    step = iter(range(10**9))
    patch.setattr(
        samples,
        "poisson_sample",
        lambda records, rate, _: np.arange(next(step) % BATCHES, records, BATCHES),
    )


def share_draws(patch):
    """Amplification claimed for each image, though all images of a step come from one draw of a shard (GS-WGAN)."""
    step = iter(range(10**9))
    kept = []
    right = samples.poisson_sample

    def sample(records, rate, words):
        if next(step) % IMAGES == 0:
            kept[:] = [right(records, rate, words)]
        return kept[0]

    patch.setattr(samples, "poisson_sample", sample)


@pytest.mark.slow
@pytest.mark.parametrize("bug", [halve_noise, skip_clipping, fix_batches, share_draws])
def test_a_planted_bug_is_seen_above_the_claim(bug, monkeypatch):
    bug(monkeypatch)
    found = audit()
    print(f"{bug.__name__}: audited epsilon at least {found:.3g}, claimed {EPSILON}")
    assert found > EPSILON
