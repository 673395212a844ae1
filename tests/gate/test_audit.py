"""An empirical audit of whole gradient runs: what an attacker learns stays below the claim, and bugs push it above.

Canaries whose gradients are unit vectors, each along a coordinate of its own, are put in or left out by fair coins, and
the attacker guesses the coins from the sums that leave the gate. Two lower bounds on ε follow from one run:

* that of Steinke, Nasr and Jagielski (2023, Theorem 5.2), which assumes nothing;
* that of the noise with which the certificate's event could have let the attacker be right as often (after Nasr and
  others, 2023), tighter, since canaries are independent trials here.

Each bound is wrong with probability at most 1e-4. One step more than paid for cannot be seen by an audit of this size;
test_gradients.py and test_gradient_journal.py count steps instead.
"""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from noisegate.gate import gradients, per_example
from noisegate.gate.gate import Gate
from noisegate.privacy import accounting
from noisegate.privacy.convolution import reached
from noisegate.privacy.gradient_plan import GradientPlan
from noisegate.privacy.grid import Grid
from noisegate.schema import Integer, Schema

CANARIES, ROUNDS, STEPS, BATCHES = 1000, 12, 60, 20
EPSILON, DELTA, CHANCE = 3.0, 1e-8, 1e-4
GUESSES = 200
SCHEMA = Schema((Integer(name="which", lower=0, upper=CANARIES),))


def loss(parameters, numeric, codes):
    # A canary that was left out became the record CANARIES, which has no coordinate, and so the gradient zero.
    own = torch.arange(CANARIES) == torch.round(numeric[0] * CANARIES)
    return 50.0 * (parameters["w"] * own).sum()


def run():
    """One round: coins, and for each canary the sum over all steps, and over those of a fixed batch."""
    coins = np.random.default_rng().uniform(size=CANARIES) < 0.5
    data = pd.DataFrame({"which": np.where(coins, np.arange(CANARIES), CANARIES)})
    gate = Gate(data, schema=SCHEMA, epsilon=EPSILON, delta=DELTA)
    plan = GradientPlan(name="g", steps=STEPS, rate=1 / BATCHES, norm=1.0, parameters={"w": (CANARIES,)})
    calibrated = plan.calibrate(gate.budget)
    with gate.gradients(calibrated, loss, method="audit", public={}, physical_batch=32) as session:
        sums = np.array([session.step({"w": torch.zeros(CANARIES)})["w"].numpy() for _ in range(STEPS)])
    own = np.arange(STEPS)[:, None] % BATCHES == np.arange(CANARIES) % BATCHES
    return coins, sums.sum(axis=0), (sums * own).sum(axis=0), calibrated.event


def audit():
    """The larger of both lower bounds on ε, over two attackers."""
    rounds = [run() for _ in range(ROUNDS)]
    coins, event = np.concatenate([one[0] for one in rounds]), rounds[0][3]
    found = []
    for attacker in (1, 2):
        scores = np.concatenate([one[attacker] for one in rounds])
        # Known beforehand: half of what a canary adds, on average over the steps that are looked at.
        middle = 0.5 * STEPS / BATCHES
        found += [steinke(coins, scores), by_noise(coins, scores > middle, event)]
    return max(found)


def steinke(coins, scores):
    """The largest ε that this many right guesses refute: the highest scores are guessed in, the lowest out."""
    order = np.argsort(scores)
    right = int((~coins[order[: GUESSES // 2]]).sum() + coins[order[-GUESSES // 2 :]].sum())
    low, high = 0.0, 20.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        guessed = stats.binom(GUESSES, 1 / (1 + math.exp(-middle)))
        beyond = guessed.sf(right - 1)
        more = max(((guessed.sf(right - 1 - i) - beyond) / i for i in range(1, right + 1)), default=0.0)
        refuted = beyond + 2 * len(coins) * DELTA * more <= CHANCE / 4
        low, high = (middle, high) if refuted else (low, middle)
    return low


def by_noise(coins, guesses, event):
    """ε of the same event with the largest noise that allows so many hits for so few false alarms."""
    hits, alarms = guesses[coins], guesses[~coins]
    power = stats.beta.ppf(CHANCE / 8, hits.sum(), (~hits).sum() + 1)
    false = stats.beta.isf(CHANCE / 8, alarms.sum() + 1, (~alarms).sum())

    def possible(factor):
        other = dataclasses.replace(event, noise_std=reached(event.noise_std * factor))
        deltas = (1e-3, 0.01, 0.03, 0.1, 0.2, 0.3, 0.5)
        return all(power <= math.exp(accounting.epsilon([other], d)) * false + d for d in deltas)

    low, high = 0.15, 8.0
    while high > low * 1.03:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if possible(middle) else (low, middle)
    return accounting.epsilon([dataclasses.replace(event, noise_std=reached(event.noise_std * high))], DELTA)


@pytest.mark.slow
def test_the_right_code_stays_below_its_claim_and_the_audit_sees_much_of_it():
    found = audit()
    print(f"audited epsilon at least {found:.3g}, claimed {EPSILON}")
    assert found <= EPSILON
    # An audit that sees nothing would find no bug.
    assert found > 0.2 * EPSILON


def halve_noise(patch):
    right = gradients.noise.add_noise
    patch.setattr(
        gradients.noise,
        "add_noise",
        lambda sums, *, noise_std, sampler: right(sums, noise_std=noise_std / 2, sampler=sampler),
    )


def skip_clipping(patch):
    plain = per_example.RecordGradients

    def add(self, sums, vectors):
        sums += (vectors[0].astype(np.float64) * Grid(norm=1.0).scale).sum(axis=0).astype(np.int64)

    patch.setattr(plain, "add", add)


def fix_batches(patch):
    step = iter(range(10**9))
    patch.setattr(gradients, "poisson_sample", lambda records, rate: np.arange(next(step) % BATCHES, records, BATCHES))


@pytest.mark.slow
@pytest.mark.parametrize("bug", [halve_noise, skip_clipping, fix_batches])
def test_a_planted_bug_is_seen_above_the_claim(bug, monkeypatch):
    bug(monkeypatch)
    found = audit()
    print(f"{bug.__name__}: audited epsilon at least {found:.3g}, claimed {EPSILON}")
    assert found > EPSILON


def test_the_bound_of_one_run_on_guesses_at_random_and_on_perfect_ones():
    random = np.random.default_rng(1)
    coins = random.uniform(size=6000) < 0.5
    assert steinke(coins, random.normal(size=6000)) == 0
    # With all of 200 guesses right, ε = −ln(CHANCE^(−1/200) − 1) would do without δ.
    assert 2.5 < steinke(coins, coins + random.normal(size=6000) / 100) < 3.2
