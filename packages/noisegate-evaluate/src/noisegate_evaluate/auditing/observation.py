"""What an attacker who knows all records sees of one run: noise, and how much likelier one world is than the other."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from noisegate.privacy.certificate import Certificate, canonical_json
from noisegate.privacy.events import Adjacency
from noisegate.privacy.gradient_plan import steps_of
from noisegate.privacy.plan import Plan
from noisegate.privacy.release import Release
from noisegate_evaluate.auditing.watched import SampleVectors, Vector

# A part of a record's vector that is shorter than this, over the noise, is no direction.
_NO_LENGTH = 1e-9


@dataclass
class Observation:
    """What is seen of one run, over the standard deviation of the noise.

    Attributes:
        world: Which world the run was in.
        digest: Digest of everything that was released but the noisy numbers.
        residuals: For each query, what is left when the exact sums are subtracted,
            along the difference of the worlds: standard normal numbers, one for each
            answer.
        distances: For each query, the difference of the worlds over the stated noise;
            of steps, its root mean square.
        squares: Sum of the squares of what is left in all directions, and how many
            there are.
        score: Logarithm of how much likelier world 1 is than world 0, as the noise is
            stated.
        squared_moves: Of each step, the square of what the record moves its answer.
    """

    world: int
    digest: str = ""
    residuals: dict[str, list[float]] = field(default_factory=dict)
    distances: dict[str, float] = field(default_factory=dict)
    squares: tuple[float, int] = (0.0, 0)
    score: float = 0.0
    squared_moves: list[float] = field(default_factory=list)

    def add_answer(self, name: str, noisy: Vector, worlds: Vector) -> None:
        """Adds an answer.

        Args:
            name: The query.
            noisy: The answer, over the standard deviation of its noise.
            worlds: The exact sums of both worlds, (2, …), over the same.
        """
        if noisy.shape != worlds[0].shape:
            return  # the digest tells already
        rest = noisy - worlds[self.world]
        difference = worlds[1] - worlds[0]
        length = float(np.linalg.norm(difference))
        self.distances[name] = math.hypot(self.distances.get(name, 0.0), length)
        self.add_noise(rest, rest.size)
        if length > _NO_LENGTH:
            self.add_residual(name, float(np.vdot(rest, difference)) / length)
            self.score += float(np.vdot(noisy - worlds.mean(axis=0), difference))

    def add_release(self, release: Release, sums: Mapping[str, Vector]) -> None:
        """Adds a release, with the exact sums of both worlds for the queries whose sums were watched."""
        for name, worlds in sums.items():
            if name in release.values:
                std = release.noise_std[name]
                # Tables that were chosen on the way are one query, called after their event.
                query, _, _ = name.partition("/")
                self.add_answer(query, release.values[name] / std, worlds / std)
        shapes = {name: list(values.shape) for name, values in release.values.items()}
        self.digest = release_digest(
            release.certificate, shapes=shapes, noise_std=dict(release.noise_std)
        )

    def add_residual(self, name: str, residual: float) -> None:
        """Adds what is left of one answer along the difference of the worlds."""
        self.residuals.setdefault(name, []).append(residual)

    def add_moves(self, name: str, *squares: float) -> None:
        """Adds how far the record moved the answer of a step, if it was asked; none leaves the mean of all as it is."""
        self.squared_moves += squares
        count = max(len(self.squared_moves), 1)
        self.distances[name] = math.sqrt(sum(self.squared_moves) / count)

    def add_noise(self, noise: npt.NDArray[np.float64], directions: int) -> None:
        """Adds what is left when all that is known is subtracted: noise in so many directions."""
        total, count = self.squares
        self.squares = total + float(np.square(noise).sum()), count + directions


def observe_step(
    observation: Observation,
    adjacency: Adjacency,
    plan: Plan,
    noisy: Vector,
    vectors: SampleVectors,
) -> None:
    """Adds a step that samples records.

    Whether a record that is there was sampled is not known, so what is examined is orthogonal to the vectors of all
    samples of those.

    Args:
        observation: What is seen of the run.
        adjacency: Which records the worlds differ in.
        plan: The plan of the steps.
        noisy: The answer, over the standard deviation of its noise.
        vectors: Those of samples of the record of both worlds, the old one if any, and
            the new one.
    """
    # Samples of what a world may hold, without and with the record of both worlds.
    shared = [vectors(()), vectors((0,))]
    if adjacency is Adjacency.REPLACE_ONE:
        # World 0 has an old record, which stands before the new one.
        own = [[vectors((1,)), vectors((0, 1))], [vectors((2,)), vectors((0, 2))]]
        differing_records = 2
    else:
        own = [shared, [vectors((1,)), vectors((0, 1))]]
        differing_records = 1
    name = steps_of(plan).query.name
    known = orthonormal(np.stack([*shared, *own[observation.world]]))
    observation.add_noise(
        _orthogonal_part(noisy, known), directions=len(noisy) - len(known)
    )
    absent = _orthogonal_part(own[1 - observation.world][0], known)
    if np.linalg.norm(absent) > _NO_LENGTH:
        observation.add_residual(name, float(absent @ noisy / np.linalg.norm(absent)))
    rate = sampling_rate(plan)
    means = [(1 - rate) * alone + rate * beside for alone, beside in own]
    difference = _orthogonal_part(means[1] - means[0], orthonormal(np.stack(shared)))
    length = float(np.linalg.norm(difference))
    least_move = 0.0
    if length > _NO_LENGTH:
        along = difference / length
        old, new = (np.array([along @ vector for vector in samples]) for samples in own)
        # The least that the record moves, whether or not the one of both worlds is in the sample.
        least_move = float(new.min() - old.max()) / differing_records
        position = float(along @ noisy)
        observation.score += _log_density_ratio(position, new, rate)
        observation.score -= _log_density_ratio(position, old, rate)
    observation.add_moves(name, max(0.0, least_move) ** 2)


def observe_sums(
    observation: Observation, plan: Plan, noisy: Vector, worlds: Vector
) -> None:
    """Adds the noisy sums of one step over shards to what an audit has seen.

    The score is left as it was if a step may skip shards: the attacker knows which
    shards were selected, but not by how much the worlds differ over all shards.

    Args:
        observation: What was seen of the run so far; updated.
        plan: The plan of the steps.
        noisy: The sums, in standard deviations of their noise, (numbers,).
        worlds: The exact sums of both worlds over the same shards, in the same unit,
            (2, numbers).
    """
    query = steps_of(plan).query
    uses_every_shard = query.sampling_probability == 1
    score_before = observation.score
    observation.add_answer(query.name, noisy, worlds)
    if not uses_every_shard:
        observation.score = score_before
    squared_move = float(np.square(worlds[1] - worlds[0]).sum())
    # A step that skipped the record's shard does not move, and does not count.
    if uses_every_shard or squared_move > 0:
        observation.add_moves(query.name, squared_move)
    else:
        observation.add_moves(query.name)


def sampling_rate(plan: Plan) -> float:
    """Returns how likely a record is in the sample of a step, whose shard, if there are some, may be any."""
    query = steps_of(plan).query
    shards = getattr(query, "shards", 1)
    return query.sampling_probability / shards


def release_digest(certificate: Certificate, **public: Any) -> str:
    """Returns a digest of a certificate without what follows from noise, and of what else is public."""
    content = {
        name: value
        for name, value in certificate.to_json().items()
        if name not in ("hashes", "ledger")
    }
    return hashlib.sha256(
        canonical_json({"certificate": content, **public})
    ).hexdigest()


def orthonormal(rows: Vector) -> Vector:
    """Returns an orthonormal basis of what rows span, (rank, numbers)."""
    if not len(rows):
        return rows
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    shortest = max(_NO_LENGTH, 1e-9 * float(values.max(initial=0)))
    return np.asarray(right[values > shortest])


def _orthogonal_part(vector: Vector, basis: Vector) -> Vector:
    """Returns a vector without what lies in the span of an orthonormal basis."""
    return np.asarray(vector - basis.T @ (basis @ vector))


def _log_density_ratio(position: float, centres: Vector, rate: float) -> float:
    """Returns ln of the density at a position with a record that is sampled, over that without.

    Args:
        position: Where the noisy answer lies along the difference of the worlds.
        centres: Where it would lie without noise: with the record alone, and beside the
            record of both worlds.
        rate: How likely each of the two records is sampled.
    """
    chances = [1 - rate, rate * (1 - rate), rate * rate]
    exponents = [0.0, *(centres * position - centres**2 / 2)]
    return float(logsumexp(exponents, b=chances))
