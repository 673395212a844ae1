"""From runs in both worlds to lower bounds on ε."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from noisegate.auditing.bounds import scaled, sensitivity_factor, spread_limits
from noisegate.auditing.report import AuditReport
from noisegate.auditing.seen import Seen
from noisegate.privacy import accounting
from noisegate.privacy.adjacency import Adjacency
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Event, GaussianEvent, SampledGaussianEvent, Sampler

# Grid units of a measured question: so many that no sampler's slack matters.
_UNITS = 2.0**20
# Noise that is quieter than this part of what was stated counts as so loud: bounds on ε grow no further, and PLDs end.
_QUIETEST, _QUIETEST_SAMPLED = 1e-3, 0.2
_ATTACKERS = 3


def measured(seen: Sequence[Seen], certificate: Certificate, *, kind: str, chance: float) -> AuditReport:
    """Returns what the runs say of the certificate of one of them.

    Half of `chance` goes to the lower bounds, half to both tests of the noise.

    Args:
        seen: Runs in both worlds.
        certificate: What is claimed.
        kind: How they were made.
        chance: That anything in the report is wrong.
    """
    events, delta, adjacency = certificate.events, certificate.delta, certificate.adjacency
    names = sorted({name for one in seen for name in one.residuals})
    limits = {}
    for name in names:
        left = np.concatenate([one.residuals.get(name, []) for one in seen])
        limits[name] = spread_limits(left, chance / 4 / len(names))
    loudest = {name: high for name, (_, high) in limits.items()}
    from_noise = accounting.epsilon(_as_measured(seen, events, loudest, adjacency), delta, adjacency)
    factor = guessed_factor(seen, events, adjacency, chance / 4)
    from_guesses = accounting.epsilon([scaled(event, factor) for event in events], delta, adjacency) if factor else 0.0
    squares = math.fsum(one.squares[0] for one in seen)
    degrees = sum(one.squares[1] for one in seen)
    return AuditReport(
        method=certificate.method,
        kind=kind,
        claim=certificate.epsilon,
        delta=delta,
        adjacency=adjacency.value,
        lower_bound=max(from_noise, from_guesses),
        from_noise=from_noise,
        from_guesses=from_guesses,
        noise=spread_limits(math.sqrt(squares), chance / 4, degrees=degrees),
        along=(max((low for low, _ in limits.values()), default=0.0), min(loudest.values(), default=math.inf)),
        runs=len(seen),
        confidence=1 - chance,
    )


def _as_measured(
    seen: Sequence[Seen], events: Sequence[Event], loudest: dict[str, float], adjacency: Adjacency
) -> list[Event]:
    """Returns the events with the differences that were reached, and with the loudest noise that is possible."""
    found: list[Event] = []
    sampled = {event.name: event for event in events if isinstance(event, SampledGaussianEvent)}
    square = math.inf
    for one in seen:
        plain = [
            reach / max(loudest[name], _QUIETEST) for name, reach in one.reach.items() if _plain(name, loudest, sampled)
        ]
        square = min(square, math.fsum(value**2 for value in plain))
    if 0 < square < math.inf:
        found.append(
            GaussianEvent(
                name="measured",
                sensitivity=_UNITS * math.sqrt(square),
                noise_std=_UNITS,
                coordinates=1,
                sampler=Sampler.DISCRETE_GAUSSIAN,
            )
        )
    for name, event in sampled.items():
        reach = math.sqrt(np.mean([one.reach.get(name, 0.0) ** 2 for one in seen]))
        if reach > 0 and name in loudest:
            sensitivity = event.noise_std * reach / max(loudest[name], _QUIETEST_SAMPLED)
            found.append(replace(event, sensitivity=sensitivity))
    return found


def _plain(name: str, loudest: dict[str, float], sampled: dict[str, SampledGaussianEvent]) -> bool:
    return name in loudest and name not in sampled


def guessed_factor(seen: Sequence[Seen], events: Sequence[Event], adjacency: Adjacency, chance: float) -> float:
    """Returns how much more sensitive than stated the questions must be for the worlds to be told apart as often.

    Three attackers guess: by the likelihoods of both worlds as the noise is stated, by how far the answers are from
    those of world 0, and by the form of the release. The last two learn from half of the runs.
    """
    worlds = np.array([one.world for one in seen])
    scores = [np.array([one.score for one in seen]) > 0]
    learnt = np.zeros(len(seen), dtype=bool)
    # Both worlds are in both halves.
    for world in (0, 1):
        places = np.flatnonzero(worlds == world)
        learnt[places[: len(places) // 2]] = True
    far = np.array([one.squares[0] / max(one.squares[1], 1) for one in seen])
    attackers = [(scores[0], np.ones(len(seen), dtype=bool))]
    attackers += [(by_threshold(far, worlds, learnt), ~learnt), (_by_form(seen, learnt), ~learnt)]
    part = chance / _ATTACKERS
    return max(
        sensitivity_factor(events, adjacency, said[used & (worlds == 1)], said[used & (worlds == 0)], part)
        for said, used in attackers
    )


def by_threshold(
    scores: npt.NDArray[np.float64], worlds: npt.NDArray[np.int_], learnt: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Returns which runs lie on the side of the best threshold, of those learnt from, where world 1 is."""
    known, truth = scores[learnt], worlds[learnt] == 1
    order = np.argsort(known)
    ones, zeros = np.cumsum(truth[order]) / max(truth.sum(), 1), np.cumsum(~truth[order]) / max((~truth).sum(), 1)
    gap = zeros - ones
    place = int(np.argmax(np.abs(gap)))
    threshold = known[order][place : place + 2].mean()
    above: npt.NDArray[np.bool_] = scores > threshold
    return above if gap[place] > 0 else ~above


def _by_form(seen: Sequence[Seen], learnt: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    counts = [
        Counter(one.form for one, known in zip(seen, learnt, strict=True) if known and one.world == world)
        for world in (0, 1)
    ]
    return np.array([counts[1][one.form] > counts[0][one.form] for one in seen])
