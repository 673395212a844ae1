"""What an attacker sees of runs in both worlds, who knows all records, and what that says of ε: lower bounds."""

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from noisegate.privacy import accounting
from noisegate.privacy import events as kinds
from noisegate.privacy.certificate import Certificate, canonical_json
from noisegate.privacy.events import (
    Adjacency,
    Event,
    Sampler,
    StepEvent,
)
from noisegate.privacy.gradient_plan import steps_of
from noisegate.privacy.plan import Budget, Plan
from noisegate.privacy.release import Release
from noisegate_evaluate.auditing.watched import SampleVectors, Vector


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
    from_guesses: float  # that which rests on how often the two worlds were told apart
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


_DELTAS = (
    1e-3,
    0.01,
    0.03,
    0.1,
    0.3,
)  # where the trade-off of an attacker's errors is compared with the events'
_NEAR = 1.02  # relative width at which searches end, on the side that makes the bound smaller
_LARGEST = 64.0
Flags: TypeAlias = npt.NDArray[np.bool_]


def spread_limits(
    values: npt.ArrayLike, chance: float, *, degrees: int | None = None
) -> tuple[float, float]:
    """Returns limits of the standard deviation of normal numbers of mean zero: below and above with `chance`/2."""
    # With `degrees`, `values` is the root of the sum of squares of so many numbers.
    from scipy import stats

    numbers = np.asarray(values, dtype=np.float64)
    count = numbers.size if degrees is None else degrees
    total = float(np.square(numbers).sum())
    if not count:
        return 0.0, math.inf
    low = stats.chi2.isf(chance / 2, count)
    high = stats.chi2.ppf(chance / 2, count)
    return math.sqrt(total / low), math.sqrt(total / high)


def rate_limits(found: int, trials: int, chance: float) -> tuple[float, float]:
    """Returns limits of a probability, below and above with `chance`/2 (Clopper, Pearson 1934)."""
    from scipy import stats

    interval = stats.binomtest(found, trials).proportion_ci(1 - chance, method="exact")
    return float(interval.low), float(interval.high)


def sensitivity_factor(
    events: Sequence[Event],
    adjacency: Adjacency,
    hits: Flags,
    alarms: Flags,
    chance: float,
) -> float:
    """Returns the least factor on the sensitivity of events that lets an attacker be right as often."""
    # It is too large by a chance of `chance` only. `hits` tells for each run with the record, `alarms` for each
    # without, whether it was taken for one with it. 0 if guessing would do; at most 64, for an attacker that never
    # errs.
    power, _ = rate_limits(int(hits.sum()), hits.size, chance)
    _, false = rate_limits(int(alarms.sum()), alarms.size, chance)
    if power <= false:
        return 0.0

    def possible(factor: float) -> bool:
        larger = [scaled(event, factor) for event in events]
        # Where an attacker's threshold lies between both worlds, most is said close to the difference of both rates.
        for delta in (*_DELTAS, 0.98 * (power - false)):
            odds = math.exp(min(accounting.epsilon(larger, delta, adjacency), 700.0))
            # An attacker is as good on the complements.
            if power > odds * false + delta or 1 - false > odds * (1 - power) + delta:
                return False
        return True

    low = 1e-3
    high = _LARGEST
    if not possible(high):
        return high
    while high > low * _NEAR:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if possible(middle) else (middle, high)
    return low


def scaled(event: Event, factor: float) -> Event:
    """Returns an event whose question is `factor` times as sensitive, or whose noise is so much smaller."""
    if isinstance(event, kinds.ZeroConcentrated):
        return replace(event, rho=event.rho * factor**2)
    if isinstance(event, kinds.Thresholded):
        # Without its threshold, whose part of δ is far below what an attacker's rates can show.
        event = event.event
    sensitivity = kinds.gaussian_of(event).sensitivity * factor
    return kinds.replace_gaussian(event, sensitivity=sensitivity)


def one_run_epsilon(
    right: int, guesses: int, canaries: int, *, delta: float, chance: float
) -> float:
    """Returns the largest ε that `right` of some `guesses` in one run refute, but for `chance`.

    Canaries are put in by fair coins; those without a guess say nothing. It assumes nothing of the mechanism: Steinke,
    Nasr and Jagielski (NeurIPS 2023), https://arxiv.org/abs/2305.08846, Theorem 5.2.
    """
    from scipy import stats

    low = 0.0
    high = 50.0
    while high - low > 1e-3:
        middle = (low + high) / 2
        guessed = stats.binom(guesses, 1 / (1 + math.exp(-middle)))
        beyond = float(guessed.sf(right - 1))
        places = np.arange(1, right + 1)
        more = float(
            np.max((guessed.sf(right - 1 - places) - beyond) / places, initial=0.0)
        )
        refuted = beyond + 2 * canaries * delta * more <= chance
        low, high = (middle, high) if refuted else (low, middle)
    return low


def right_guesses(coins: Flags, scores: npt.NDArray[np.float64], guesses: int) -> int:
    """Returns how many are right when the highest half of `guesses` scores is guessed in, and the lowest half out."""
    order = np.argsort(scores)
    return int(
        (~coins[order[: guesses // 2]]).sum() + coins[order[-(guesses // 2) :]].sum()
    )


_NOTHING = 1e-9  # a part of a record's vector that is shorter than this, over the noise, is no direction


@dataclass
class Seen:
    """One run."""

    world: int  # which world it was
    form: str = ""  # digest of everything that was released but the noisy numbers
    residuals: dict[str, list[float]] = field(default_factory=dict)
    """For each query, what is left when the exact sums are subtracted, along the difference of the worlds: standard
    normal numbers, one for each answer."""
    reach: dict[str, float] = field(default_factory=dict)
    """For each query, the difference of the worlds over the stated noise; of steps, its root mean square."""
    squares: tuple[float, int] = (0.0, 0)
    """Sum of the squares of what is left in all directions, and how many there are."""
    score: float = 0.0  # logarithm of how much likelier world 1 is than world 0, as the noise is stated
    moved: list[float] = field(
        default_factory=list
    )  # of each step, the square of what the record moves over the noise

    def answer(self, name: str, noisy: Vector, worlds: Vector) -> None:
        """Adds an answer, and the exact sums of both worlds, (2, …): all over the standard deviation of its noise."""
        if noisy.shape != worlds[0].shape:
            return  # its form tells already
        left = noisy - worlds[self.world]
        apart = worlds[1] - worlds[0]
        length = float(np.linalg.norm(apart))
        self.reach[name] = math.hypot(self.reach.get(name, 0.0), length)
        self.leave(left, left.size)
        if length > _NOTHING:
            self.residuals.setdefault(name, []).append(
                float(np.vdot(left, apart)) / length
            )
            self.score += float(np.vdot(noisy - worlds.mean(axis=0), apart))

    def released(self, release: Release, sums: Mapping[str, Vector]) -> None:
        """Adds a release, with the exact sums of both worlds for the queries that are known."""
        for name, worlds in sums.items():
            if name in release.values:
                std = release.noise_std[name]
                # Tables that were chosen on the way are one query, called after their event.
                self.answer(
                    name.partition("/")[0], release.values[name] / std, worlds / std
                )
        shapes = {name: list(values.shape) for name, values in release.values.items()}
        self.form = form_of(
            release.certificate, shapes=shapes, noise_std=dict(release.noise_std)
        )

    def moves(self, name: str, *squares: float) -> None:
        """Adds a step in which the record moved the answer so far, if it was in it, and tells the mean of all."""
        self.moved += squares
        self.reach[name] = math.sqrt(sum(self.moved) / max(len(self.moved), 1))

    def leave(self, left: npt.NDArray[np.float64], degrees: int) -> None:
        """Adds what is left when all that is known is subtracted: noise in so many directions."""
        total, count = self.squares
        self.squares = total + float(np.square(left).sum()), count + degrees


def see_step(
    seen: Seen,
    adjacency: Adjacency,
    plan: Plan,
    noisy: Vector,
    vectors: SampleVectors,
) -> None:
    """Adds a step; `vectors` is of samples of the record of both worlds, of the old one if any, of the new one.

    Whether a record that is there was sampled is not known, so what is looked at is orthogonal to the vectors of all
    samples of those. Under replace-one world 0 has an old record, which stands before the new one.
    """
    replaced = adjacency is Adjacency.REPLACE_ONE
    name = steps_of(plan).query.name
    # Of samples with what only a world has, which may be nothing, without and with the record of both.
    shared = [vectors(()), vectors((0,))]
    new = 2 if replaced else 1
    own = [
        [vectors((1,)), vectors((0, 1))] if replaced else shared,
        [vectors((new,)), vectors((0, new))],
    ]
    known = orthonormal(np.stack([*shared, *own[seen.world]]))
    seen.leave(noisy - known.T @ (known @ noisy), len(noisy) - len(known))
    absent = own[1 - seen.world][0]
    away = absent - known.T @ (known @ absent)
    if np.linalg.norm(away) > _NOTHING:
        seen.residuals.setdefault(name, []).append(
            float(away @ noisy / np.linalg.norm(away))
        )
    rate = sampling_rate(plan)
    basis = orthonormal(np.stack(shared))
    means = [(1 - rate) * alone + rate * both for alone, both in own]
    apart = means[1] - means[0] - basis.T @ (basis @ (means[1] - means[0]))
    length = float(np.linalg.norm(apart))
    reach = 0.0
    if length > _NOTHING:
        along = apart / length
        places = [np.array([along @ vector for vector in one]) for one in own]
        # The least that the record moves, whether or not the one of both worlds is in the sample.
        reach = float(places[1].min() - places[0].max()) / (2 if replaced else 1)
        found = float(along @ noisy)
        seen.score += _sampled(found, places[1], rate) - _sampled(
            found, places[0], rate
        )
    seen.moves(name, max(0.0, reach) ** 2)


def sampling_rate(plan: Plan) -> float:
    """Returns how likely a record is in the sample of a step, whose shard, if there are some, may be any."""
    query = steps_of(plan).query
    shards = getattr(query, "shards", 1)
    return query.sampling_probability / shards


def see_sums(seen: Seen, plan: Plan, noisy: Vector, worlds: Vector) -> None:
    """Adds a step's sums over shards, and the exact ones of both worlds, (2, numbers): in which shards records are.

    Where shards may be left out, an attacker who knows which were asked is not told by how much the worlds differ on
    the whole: nothing is added to the score.
    """
    query = steps_of(plan).query
    before = seen.score
    name = query.name
    rate = query.sampling_probability
    seen.answer(name, noisy, worlds)
    square = float(np.square(worlds[1] - worlds[0]).sum())
    if rate < 1:
        seen.score = before
    seen.moves(name, *([square] if rate == 1 or square > 0 else []))


def form_of(certificate: Certificate, **told: Any) -> str:
    """Returns a digest of a certificate without what follows from noise, and of what else is told."""
    content = {
        name: value
        for name, value in certificate.to_json().items()
        if name not in ("hashes", "ledger")
    }
    return hashlib.sha256(canonical_json({"certificate": content, **told})).hexdigest()


def orthonormal(rows: Vector) -> Vector:
    """Returns an orthonormal basis of what rows span, (rank, numbers)."""
    if not len(rows):
        return rows
    _, values, right = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(
        right[values > max(_NOTHING, 1e-9 * float(values.max(initial=0)))]
    )


def _sampled(found: float, places: Vector, rate: float) -> float:
    """Returns ln of the density of `found` with a record that is sampled, alone or with another, over that without."""
    chances = [1 - rate, rate * (1 - rate), rate * rate]
    return float(logsumexp([0.0, *(places * found - places**2 / 2)], b=chances))


_UNITS = (
    2.0**20
)  # grid units of a measured question: so many that no sampler's slack matters
# Noise that is quieter than this part of what was stated counts as so loud: bounds on ε grow no further, and PLDs end.
_QUIETEST = 1e-3
_QUIETEST_SAMPLED = 0.2


def measured(
    seen: Sequence[Seen], certificate: Certificate, *, kind: str, chance: float
) -> AuditReport:
    """Returns what runs in both worlds say of the certificate of one of them; `chance` is that any of it is wrong."""
    # A quarter of `chance` each goes to the noise of queries along the difference, to the noise in all directions, and
    # to guesses. How loud the noise is may be told along the difference, which finds noise that is missing there, or in
    # all directions, of which there are thousands, unless it is surely louder along the difference.
    events = certificate.events
    names = sorted({name for run in seen for name in run.residuals})
    limits = {
        name: spread_limits(
            np.concatenate([run.residuals.get(name, []) for run in seen]),
            chance / 4 / len(names),
        )
        for name in names
    }
    everywhere = spread_limits(
        math.sqrt(math.fsum(run.squares[0] for run in seen)),
        chance / 4,
        degrees=sum(run.squares[1] for run in seen),
    )

    def epsilon(events: Sequence[Event]) -> float:
        return accounting.epsilon(events, certificate.delta, certificate.adjacency)

    along = {name: high for name, (_, high) in limits.items()}
    in_all_directions = {
        name: high if low > everywhere[1] else everywhere[1]
        for name, (low, high) in limits.items()
    }
    from_noise = max(
        epsilon(_as_measured(seen, events, loudest))
        for loudest in (along, in_all_directions)
    )
    factor = guessed_factor(seen, events, certificate.adjacency, chance / 4)
    from_guesses = 0.0
    if factor:
        from_guesses = epsilon([scaled(event, factor) for event in events])
    return AuditReport.of(
        certificate.method,
        kind,
        certificate,
        len(seen),
        chance,
        lower_bound=max(from_noise, from_guesses),
        from_noise=from_noise,
        from_guesses=from_guesses,
        noise=everywhere,
        along=(
            max((low for low, _ in limits.values()), default=0.0),
            min(along.values(), default=math.inf),
        ),
    )


def _as_measured(
    seen: Sequence[Seen], events: Sequence[Event], loudest: dict[str, float]
) -> list[Event]:
    """Returns the events with the differences that were reached, and with the loudest noise that is possible."""
    sampled = {event.name: event for event in events if isinstance(event, StepEvent)}
    plain = [name for name in loudest if name not in sampled]
    stds = {name: max(loudest[name], _QUIETEST) for name in plain}
    square = min(
        math.fsum(
            (one.reach[name] / stds[name]) ** 2 for name in plain if name in one.reach
        )
        for one in seen
    )
    found: list[Event] = []
    if square > 0:
        found.append(
            kinds.Gaussian(
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
            noise_std = event.event.noise_std
            sensitivity = noise_std * reach / max(loudest[name], _QUIETEST_SAMPLED)
            found.append(kinds.replace_gaussian(event, sensitivity=sensitivity))
    return found


def guessed_factor(
    seen: Sequence[Seen], events: Sequence[Event], adjacency: Adjacency, chance: float
) -> float:
    """Returns how much more sensitive than stated the questions must be for the worlds to be told apart as often."""
    # Three attackers guess: by the likelihoods of both worlds as the noise is stated, by how far the answers are from
    # those of world 0, and by the form of the release. The last two learn from half of the runs.
    worlds = np.array([one.world for one in seen])
    likelier = np.array([one.score for one in seen]) > 0
    learnt = np.zeros(len(seen), dtype=bool)
    # Both worlds are in both halves.
    for world in (0, 1):
        places = np.flatnonzero(worlds == world)
        learnt[places[: len(places) // 2]] = True
    far = np.array([one.squares[0] / max(one.squares[1], 1) for one in seen])
    attackers = [(likelier, np.ones(len(seen), dtype=bool))]
    forms = Counter(
        (one.world, one.form) for one, known in zip(seen, learnt, strict=True) if known
    )
    by_form = np.array([forms[1, one.form] > forms[0, one.form] for one in seen])
    attackers += [(by_threshold(far, worlds, learnt), ~learnt), (by_form, ~learnt)]
    part = chance / len(attackers)
    told = [
        (said[used & (worlds == 1)], said[used & (worlds == 0)])
        for said, used in attackers
    ]
    return max(
        sensitivity_factor(events, adjacency, hits, alarms, part)
        for hits, alarms in told
    )


def by_threshold(scores: Vector, worlds: npt.NDArray[np.int_], learnt: Flags) -> Flags:
    """Returns which runs lie on the side of the best threshold, of those learnt from, where world 1 is."""
    known = scores[learnt]
    truth = worlds[learnt] == 1
    order = np.argsort(known)
    ones = np.cumsum(truth[order]) / max(truth.sum(), 1)
    zeros = np.cumsum(~truth[order]) / max((~truth).sum(), 1)
    gap = zeros - ones
    place = int(np.argmax(np.abs(gap)))
    threshold = known[order][place : place + 2].mean()
    above: Flags = scores > threshold
    return above if gap[place] > 0 else ~above
