"""Bugs, all but one of published code, planted behind the gate: what the audit must see above the claim.

Each is a context manager that changes how the gate behaves while it is open. Certificates go on to claim what they
claimed. Where each was found:

* halved noise: half of the sensitivity under replace-one, in several public codes of mean embeddings;
* detached noise: noise added to kernel values as a constant, so that the gradient through them passes un-noised but for
  its length (DP-Kernel);
* private divisor: class sums divided by the exact number of records of the class, noise and all (labelled DP-MEPF);
* shape of the batch: as many images come out as records were sampled (DP-Sinkhorn);
* shared draw: amplification by subsampling claimed for each image, though all images of a step come from one draw of a
  shard (GS-WGAN);
* children that count whole: a parent's children each count as if they were the only one, so that a family has no bound
  (of no published code: what counting rows of linked tables without weights would do);
* another sensitivity: mutual information over the root of both entropies, in bits, with the sensitivity of plain mutual
  information in nats (PrivBayes in dpmm).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from noisegate.gate.session import Session
from noisegate.privacy import accounting, noise
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Adjacency, ZeroConcentrated
from noisegate.sources import linked as linked
from noisegate_evaluate.auditing.observation import Observation

Bug = Callable[[], AbstractContextManager[None]]


@contextmanager
def noise_times(factor: float) -> Iterator[None]:
    """Draws noise of another standard deviation than is stated."""
    right = noise.add_noise

    def other(sums: Any, *, noise_std: float, sampler: Any) -> Any:
        return right(sums, noise_std=noise_std * factor, sampler=sampler)

    with patch.object(noise, "add_noise", other):
        yield


def halved_noise() -> AbstractContextManager[None]:
    """Draws half of the noise that is stated."""
    return noise_times(0.5)


@contextmanager
def detached_noise() -> Iterator[None]:
    """Hands out exact gradients that are as long as noisy ones."""
    right = noise.add_noise

    def only_longer(sums: Any, *, noise_std: float, sampler: Any) -> Any:
        noisy, length = (
            right(sums, noise_std=noise_std, sampler=sampler),
            np.linalg.norm(sums.astype(float)),
        )
        return (
            (sums * (np.linalg.norm(noisy.astype(float)) / length)).astype(np.int64)
            if length
            else sums
        )

    with patch.object(noise, "add_noise", only_longer):
        yield


@contextmanager
def _changed_release(change: Callable[[Any, int], Any]) -> Iterator[None]:
    """Lets every released array pass through `change`, with the private number of records."""
    right = Session.release

    def release(self: Any) -> Any:
        found, records = (
            right(self),
            sum(len(batch) for batch in self.hand_over().source.batches()),
        )
        for name in found.values:
            found.values[name] = change(found.values[name], records)
        return found

    with patch.object(Session, "release", release):
        yield


def private_divisor() -> AbstractContextManager[None]:
    """Divides what is released by the exact number of records."""
    return _changed_release(lambda values, records: values / records)


def shape_of_the_batch() -> AbstractContextManager[None]:
    """Releases as many copies as there are records."""
    return _changed_release(
        lambda values, records: np.resize(values, (records, *values.shape))
    )


@contextmanager
def whole_children() -> Iterator[None]:
    """Lets every child of a family count as much as if it were the only one."""
    right = linked.build_transitions

    def whole(found: Any, link: Any, grid: int) -> Any:
        made = right(found, link, grid)
        return replace(made, weights=np.full_like(made.weights, grid))

    with patch.object(linked, "build_transitions", whole):
        yield


ON_SUMS: dict[str, Bug] = {
    "halved noise": halved_noise,
    "private divisor": private_divisor,
    "shape of the batch": shape_of_the_batch,
}
ON_GRADIENTS: dict[str, Bug] = {"detached noise": detached_noise}
ON_FAMILIES: dict[str, Bug] = {"children that count whole": whole_children}

# PrivBayes: the exponential mechanism chooses a parent by a score.
RECORDS = 1000


def mutual_information(table: Any) -> float:
    """Returns the mutual information of two columns in nats, from their joint counts."""
    joint = table / table.sum()
    product = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    held = joint > 0
    return float((joint[held] * np.log(joint[held] / product[held])).sum())


def entropy(counts: Any) -> float:
    """Returns the entropy of a column in nats."""
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def normalised(table: Any) -> float:
    """Returns the score of dpmm: mutual information over the root of both entropies, 1 for one that tells the other."""
    both = entropy(table.sum(axis=0)) * entropy(table.sum(axis=1))
    return mutual_information(table) / math.sqrt(both) if both > 0 else 0.0


def sensitivity(records: int) -> float:
    """Returns the replace-one sensitivity of mutual information in nats with a binary column (PrivBayes, Lemma 4.1)."""
    return math.log(records) / records + (records - 1) / records * math.log(
        records / (records - 1)
    )


def choices(
    score: Callable[[Any], float], *, epsilon: float, runs: int
) -> tuple[list[Observation], Certificate]:
    """Returns what an attacker sees of a choice between two pairs of columns, in two neighbouring worlds.

    All records are alike but one: in world 1 it is the one that both columns of the first pair tell apart, in world 0
    it is like the rest. The second pair is of constant columns, with score 0.
    """
    worlds = [np.array([[RECORDS, 0], [0, 0]]), np.array([[RECORDS - 1, 0], [0, 1]])]
    random = np.random.default_rng()
    observations = []
    for run in range(runs):
        world = run % 2
        gain = epsilon * score(worlds[world]) / (2 * sensitivity(RECORDS))
        first = random.uniform() < 1 / (1 + math.exp(-min(gain, 700.0)))
        observations.append(
            Observation(world=world, digest=str(first), score=1.0 if first else -1.0)
        )
    event = ZeroConcentrated(
        name="choice", rho=epsilon**2 / 8, mechanism="exponential mechanism"
    )
    delta = 1e-6
    claim = max(accounting.epsilon([event], delta, Adjacency.REPLACE_ONE), epsilon)
    certificate = Certificate(
        epsilon=claim,
        delta=delta,
        adjacency=Adjacency.REPLACE_ONE,
        unit="record",
        events=(event,),
        method="choice of a parent",
        public={},
        hashes={},
        ledger=None,
    )
    return observations, certificate
