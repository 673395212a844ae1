"""What runs in both worlds say of the ε that is claimed: the report of an audit.

observation  what an attacker who knows all records sees of each run
bounds       what answers and guesses refute, but for a chance
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from noisegate.privacy import accounting
from noisegate.privacy import events as kinds
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Adjacency, Event, Sampler, StepEvent
from noisegate.privacy.plan import Budget
from noisegate_evaluate.auditing import bounds
from noisegate_evaluate.auditing.observation import Observation

# Grid units of a measured question: so many that no sampler's slack matters.
_UNITS = 2.0**20
# Noise that is quieter than this part of what was stated counts as so loud: bounds on ε grow no further, and PLDs end.
_QUIETEST = 1e-3
_QUIETEST_SAMPLED = 0.2


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """What an audit found."""

    method: str
    kind: str
    claim: float
    delta: float
    adjacency: str
    lower_bound: float
    """The ε that the attack shows to be exceeded, but for a chance of 1 − `confidence`: the larger part."""
    from_noise: float = 0.0  # that which rests on how loud the noise was measured to be
    from_guesses: (
        float  # that which rests on how often the two worlds were distinguished
    )
    noise: tuple[float, float] = (0.0, math.inf)
    """Limits of the measured noise over the stated one, in all directions; (0, inf) where it cannot be told."""
    along: tuple[float, float] = (0.0, math.inf)
    """The same along the difference of the worlds, the smallest and largest of all questions."""
    runs: int  # how many runs there were, over both worlds
    confidence: float
    guessed: tuple[float, float] | None = None
    """Where one column of a record is guessed, how often right: in runs with the record, and without."""

    @classmethod
    def of(
        cls,
        method: str,
        kind: str,
        claim: Budget | Certificate,
        runs: int,
        chance: float,
        **findings: Any,
    ) -> Self:
        """Returns the findings on a claim, which are wrong with at most a `chance`."""
        return cls(
            method=method,
            kind=kind,
            claim=claim.epsilon,
            delta=claim.delta,
            adjacency=claim.adjacency.value,
            runs=runs,
            confidence=1 - chance,
            **findings,
        )

    @property
    def exceeded(self) -> bool:
        """Whether the lower bound is above the claim."""
        return self.lower_bound > self.claim

    @property
    def too_little_noise(self) -> bool:
        """Whether the noise is surely smaller than stated."""
        return min(self.noise[1], self.along[1]) < 1

    @property
    def too_much_noise(self) -> bool:
        """Whether the noise is surely larger than stated: no danger, but not what was paid for."""
        return max(self.noise[0], self.along[0]) > 1

    @property
    def holds(self) -> bool:
        """Whether nothing was found: the claim is not exceeded, and the noise is as stated."""
        return not (self.exceeded or self.too_little_noise or self.too_much_noise)

    @property
    def verdict(self) -> str:
        """What was found, in words."""
        if self.exceeded:
            return "the claim is exceeded"
        if self.too_little_noise:
            return "less noise than stated"
        return (
            "more noise than stated"
            if self.too_much_noise
            else "nothing found against the claim"
        )

    def to_json(self) -> dict[str, Any]:
        """Returns the report as a JSON object."""
        figures = {
            name: value for name, value in asdict(self).items() if value is not None
        }
        return {**figures, "holds": self.holds, "verdict": self.verdict}


def measured(
    runs: Sequence[Observation], certificate: Certificate, *, kind: str, chance: float
) -> AuditReport:
    """Returns what runs in both worlds say of the certificate of one of them; `chance` is that any of it is wrong."""
    # A quarter of `chance` each goes to the noise of queries along the difference, to the noise in all directions, and
    # to guesses. How loud the noise is may be told along the difference, which finds noise that is missing there, or in
    # all directions, of which there are thousands, unless it is surely louder along the difference.
    events = certificate.events
    names = sorted({name for run in runs for name in run.residuals})
    limits = {
        name: bounds.spread_limits(
            np.concatenate([run.residuals.get(name, []) for run in runs]),
            chance / 4 / len(names),
        )
        for name in names
    }
    low_everywhere, high_everywhere = bounds.spread_limits(
        math.sqrt(math.fsum(run.squares[0] for run in runs)),
        chance / 4,
        degrees=sum(run.squares[1] for run in runs),
    )

    def epsilon(events: Sequence[Event]) -> float:
        return accounting.epsilon(events, certificate.delta, certificate.adjacency)

    along = {name: high for name, (_, high) in limits.items()}
    in_all_directions = {
        name: high if low > high_everywhere else high_everywhere
        for name, (low, high) in limits.items()
    }
    from_noise = max(
        epsilon(_measured_events(runs, events, loudest))
        for loudest in (along, in_all_directions)
    )
    factor = guessed_factor(runs, events, certificate.adjacency, chance / 4)
    from_guesses = 0.0
    if factor:
        from_guesses = epsilon(
            [bounds.more_sensitive(event, factor) for event in events]
        )
    return AuditReport.of(
        certificate.method,
        kind,
        certificate,
        len(runs),
        chance,
        lower_bound=max(from_noise, from_guesses),
        from_noise=from_noise,
        from_guesses=from_guesses,
        noise=(low_everywhere, high_everywhere),
        along=(
            max((low for low, _ in limits.values()), default=0.0),
            min(along.values(), default=math.inf),
        ),
    )


def _measured_events(
    runs: Sequence[Observation], events: Sequence[Event], loudest: Mapping[str, float]
) -> list[Event]:
    """Returns the events with the differences that were seen, and with the loudest noise that is possible.

    Args:
        runs: What is seen of each run.
        events: What the certificate states.
        loudest: For each query, the loudest noise that is possible over the stated one.
    """
    steps = {event.name: event for event in events if isinstance(event, StepEvent)}
    stds = {
        name: max(std, _QUIETEST) for name, std in loudest.items() if name not in steps
    }
    square = min(
        math.fsum(
            (run.distances[name] / std) ** 2
            for name, std in stds.items()
            if name in run.distances
        )
        for run in runs
    )
    measured_events: list[Event] = []
    if square > 0:
        measured_events.append(
            kinds.Gaussian(
                name="measured",
                sensitivity=_UNITS * math.sqrt(square),
                noise_std=_UNITS,
                coordinates=1,
                sampler=Sampler.DISCRETE_GAUSSIAN,
            )
        )
    for name, event in steps.items():
        squares = [run.distances.get(name, 0.0) ** 2 for run in runs]
        distance = math.sqrt(np.mean(squares))
        if distance > 0 and name in loudest:
            std = max(loudest[name], _QUIETEST_SAMPLED)
            sensitivity = event.event.noise_std * distance / std
            measured_events.append(
                kinds.replace_gaussian(event, sensitivity=sensitivity)
            )
    return measured_events


def guessed_factor(
    runs: Sequence[Observation],
    events: Sequence[Event],
    adjacency: Adjacency,
    chance: float,
) -> float:
    """Returns how much more sensitive than stated the questions must be for the worlds to be distinguished as often."""
    # Three attackers guess: by the likelihoods of both worlds as the noise is stated, by how far the answers are from
    # those of world 0, and by what is released beside noisy numbers. The last two learn from half of the runs.
    worlds = np.array([run.world for run in runs])
    is_learnt = np.zeros(len(runs), dtype=bool)
    # Both worlds are in both halves.
    for world in (0, 1):
        indices = np.flatnonzero(worlds == world)
        is_learnt[indices[: len(indices) // 2]] = True
    is_likelier = np.array([run.score for run in runs]) > 0
    distances = np.array([run.squares[0] / max(run.squares[1], 1) for run in runs])
    is_far = bounds.beyond_best_threshold(distances, worlds, is_learnt)
    digests = Counter(
        (run.world, run.digest)
        for run, learnt in zip(runs, is_learnt, strict=True)
        if learnt
    )
    is_of_one = np.array(
        [digests[1, run.digest] > digests[0, run.digest] for run in runs]
    )
    is_any = np.ones(len(runs), dtype=bool)
    # What each attacker guesses of all runs, and the runs that it is judged by.
    attackers = [(is_likelier, is_any), (is_far, ~is_learnt), (is_of_one, ~is_learnt)]
    return max(
        bounds.sensitivity_factor(
            events,
            adjacency,
            hits=guesses[is_judged & (worlds == 1)],
            alarms=guesses[is_judged & (worlds == 0)],
            chance=chance / len(attackers),
        )
        for guesses, is_judged in attackers
    )
