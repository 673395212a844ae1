"""One run of a method as an attacker sees it who knows all records, but not in which of two worlds it ran."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from noisegate.auditing.watched import Vector
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.certificate import Certificate, canonical_json
from noisegate.privacy.gradient_plan import CalibratedGradientPlan
from noisegate.privacy.release import Release

# A part of a record's vector that is shorter than this, over the noise, is no direction.
_NOTHING = 1e-9


@dataclass
class Seen:
    """One run.

    Attributes:
        world: Which world it was.
        form: Digest of everything that was released but the noisy numbers.
        residuals: For each question, what is left when the exact sums are subtracted, along the difference of the
            worlds: standard normal numbers, one for each answer.
        reach: For each question, the difference of the worlds over the stated noise; of steps, its root mean square.
        squares: Sum of the squares of what is left in all directions, and how many there are.
        score: Logarithm of how much likelier world 1 is than world 0, as the noise is stated.
    """

    world: int
    form: str = ""
    residuals: dict[str, list[float]] = field(default_factory=dict)
    reach: dict[str, float] = field(default_factory=dict)
    squares: tuple[float, int] = (0.0, 0)
    score: float = 0.0

    def answer(self, name: str, noisy: Vector, worlds: Vector) -> None:
        """Adds the answer to a question.

        Args:
            name: Of the question.
            noisy: What was released, over the standard deviation of its noise.
            worlds: The exact sums of both worlds, (2, …), likewise.
        """
        if noisy.shape != worlds[0].shape:
            return  # its form tells already
        left, apart = noisy - worlds[self.world], worlds[1] - worlds[0]
        length = float(np.linalg.norm(apart))
        self.reach[name] = math.hypot(self.reach.get(name, 0.0), length)
        self._left(left, left.size)
        if length > _NOTHING:
            self.residuals.setdefault(name, []).append(float(np.vdot(left, apart)) / length)
            self.score += float(np.vdot(noisy - worlds.mean(axis=0), apart))

    def released(self, release: Release, sums: Mapping[str, Vector]) -> None:
        """Adds a release, with the exact sums of both worlds for the questions that are known."""
        for name, worlds in sums.items():
            if name in release.values:
                std = release.noise_std[name]
                # Tables that were chosen on the way are one question, called after their event.
                self.answer(name.partition("/")[0], release.values[name] / std, worlds / std)
        shapes = {name: list(values.shape) for name, values in release.values.items()}
        self.form = form_of(release.certificate, shapes=shapes, noise_std=dict(release.noise_std))

    def _left(self, left: npt.NDArray[np.float64], degrees: int) -> None:
        total, count = self.squares
        self.squares = total + float(np.square(left).sum()), count + degrees


class SeenSteps:
    """The steps of a gradient run, added to a `Seen`.

    What the records add that are there is known but for whether they were sampled, so what is looked at is orthogonal
    to them.

    Args:
        seen: Where to add.
        replaced: Whether world 0 has an old record, which stands before the new one.
    """

    def __init__(self, seen: Seen, adjacency: Adjacency) -> None:
        self._seen, self._replaced = seen, adjacency is Adjacency.REPLACE_ONE
        self._squares, self._steps = 0.0, 0

    def __call__(self, plan: CalibratedGradientPlan, noisy: Vector, gradients: Vector) -> None:
        """Adds a step; `gradients` are those of the records of both worlds, of the old one if any, of the new one."""
        seen, name = self._seen, plan.plan.name
        old = gradients[-2] if self._replaced else np.zeros_like(noisy)
        others, new = gradients[: -2 if self._replaced else -1], gradients[-1]
        present = np.stack([*others, new if seen.world else old])
        basis = orthonormal(present)
        left = noisy - basis.T @ (basis @ noisy)
        seen._left(left, len(noisy) - len(basis))
        absent = old if seen.world else new
        away = absent - basis.T @ (basis @ absent)
        if np.linalg.norm(away) > _NOTHING:
            seen.residuals.setdefault(name, []).append(float(away @ noisy / np.linalg.norm(away)))
        self._compare(plan, noisy, old, new, orthonormal(others))

    def _compare(self, plan: CalibratedGradientPlan, noisy: Vector, old: Vector, new: Vector, others: Vector) -> None:
        apart = (new - old) - others.T @ (others @ (new - old))
        length = float(np.linalg.norm(apart))
        times = 2.0 if self._replaced else 1.0
        self._squares, self._steps = self._squares + (length / times) ** 2, self._steps + 1
        self._seen.reach[plan.plan.name] = math.sqrt(self._squares / self._steps)
        if length <= _NOTHING:
            return
        along = apart / length
        found = float(along @ noisy)
        self._seen.score += _sampled(found, float(along @ new), plan.plan.rate)
        self._seen.score -= _sampled(found, float(along @ old), plan.plan.rate)


def form_of(certificate: Certificate, **told: Any) -> str:
    """Returns a digest of a certificate without what follows from noise, and of what else is told."""
    content = {name: value for name, value in certificate.to_json().items() if name not in ("hashes", "ledger")}
    return hashlib.sha256(canonical_json({"certificate": content, **told})).hexdigest()


def orthonormal(rows: Vector) -> Vector:
    """Returns an orthonormal basis of what rows span, (rank, numbers)."""
    if not len(rows):
        return rows
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    basis: Vector = right[values > max(_NOTHING, 1e-9 * float(values.max(initial=0)))]
    return basis


def _sampled(found: float, effect: float, rate: float) -> float:
    """Returns ln of the density of `found` with a record that is sampled, over that without it."""
    inside = effect * found - effect**2 / 2 + math.log(rate)
    return float(np.logaddexp(math.log1p(-rate) if rate < 1 else -math.inf, inside))
