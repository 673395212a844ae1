"""Guarantee G-03 for Poisson samples: every part of the numerical error is bounded, and the sum is above the truth."""

import math
from fractions import Fraction
from itertools import pairwise

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from scipy.special import ndtri
from tests.shared.patience import at_most_calls
from tests.shared.stated import summed

from noisegate.errors import CalibrationError
from noisegate.privacy import accounting, composition
from noisegate.privacy import composition as lattice
from noisegate.privacy.composition import (
    DominatingPair,
    StepKind,
    composed_epsilon,
    lattice_losses,
)
from noisegate.privacy.events import Adjacency, Sampler

from .conftest import sampled_event

PRESENT, ABSENT, REPLACED = (
    DominatingPair(p_is_mixture=u, q_is_mixture=v)
    for u, v in ((True, False), (False, True), (True, True))
)
PAIRS = {"add-remove": (PRESENT, ABSENT), "replace-one": (REPLACED,)}


def exact_delta(steps, pair, epsilon):
    """δ of one step, to fifty digits: P − e^ε·Q beyond the place where the loss is ε."""
    with mpmath.workdps(50):
        q, m, e = (mpmath.mpf(value) for value in (steps.rate, steps.shift, epsilon))

        def mixture(t):
            return mpmath.log(1 - q + q * mpmath.exp(t))

        def loss(z):
            upper = mixture(m * z - m * m / 2) if pair.p_is_mixture else 0
            return upper - (mixture(-m * z - m * m / 2) if pair.q_is_mixture else 0)

        low = mpmath.mpf(-60)
        high = mpmath.mpf(60) + m
        if loss(low) >= e or loss(high) <= e:
            return mpmath.mpf(1) - mpmath.exp(e) if loss(low) >= e else mpmath.mpf(0)
        for _ in range(190):
            middle = (low + high) / 2
            low, high = (middle, high) if loss(middle) < e else (low, middle)

        def beyond(centre):
            return mpmath.erfc((low - centre) / mpmath.sqrt(2)) / 2

        first = (1 - q) * beyond(0) + q * beyond(m) if pair.p_is_mixture else beyond(0)
        second = (
            (1 - q) * beyond(0) + q * beyond(-m) if pair.q_is_mixture else beyond(0)
        )
        return first - mpmath.exp(e) * second


def composed_at(steps, interval, delta):
    """Returns the composition of steps whose record is there, at the best tilt."""
    lattices = composition._discretise(steps, PRESENT, interval, delta)
    return composition._compose(lattices, composition._best_tilt(lattices, delta))


@pytest.mark.parametrize(
    "z", [-37.0, -20.3, -5.5, -1.0, -0.2, 0.0, 0.3, 2.2, 9.1, 30.0]
)
@pytest.mark.parametrize("width", [1e-6, 1e-3, 0.5])
def test_the_error_of_a_normal_probability_is_bounded(z, width):
    masses, errors = lattice._normal_masses(np.array([z, z + width]))
    with mpmath.workdps(60):
        ends = [-mpmath.inf, mpmath.mpf(z), mpmath.mpf(z + width), mpmath.inf]
        # On the side where nothing cancels.
        sign = -1 if z < 0 else 1
        tails = [mpmath.erfc(sign * end / mpmath.sqrt(2)) / 2 for end in ends]
        exact = [abs(right - left) for left, right in pairwise(tails)]
        assert all(
            abs(mass - true) <= error
            for mass, true, error in zip(
                masses.tolist(), exact, errors.tolist(), strict=True
            )
        )
        # ... and is no excuse for anything.
        assert errors[1] <= 1e-11 * max(exact[0], exact[2]) or z + width > 0 > z


def dominates(lattice_pair, steps, pair):
    """Asserts that the lattice's δ is at least the exact one at many ε; returns at how many that says something."""
    interval = lattice_pair.interval
    losses = interval * (lattice_pair.first_index + np.arange(len(lattice_pair.masses)))
    compared = 0
    for epsilon in np.linspace(losses[0], losses[-1], 23):
        with mpmath.workdps(50):
            # Σ p·(1 − e^(ε − loss)) over losses above ε, with the lattice's powers of one number.
            beyond = [
                (mass, k)
                for k, mass in enumerate(lattice_pair.masses.tolist())
                if losses[k] > epsilon
            ]
            ratio = mpmath.exp(-mpmath.mpf(interval))
            power = mpmath.mpf(1)
            above = mpmath.mpf(0)
            for mass, k in beyond:
                power = (
                    mpmath.exp(
                        mpmath.mpf(epsilon)
                        - mpmath.mpf(interval) * (lattice_pair.first_index + k)
                    )
                    if not above
                    else power
                )
                above += mass * (1 - power)
                power *= ratio
            true = exact_delta(steps, pair, float(epsilon) + lattice_pair.widening)
            assert above + lattice_pair.infinite_mass >= true
        compared += true > 1e-25
    return compared


@pytest.mark.parametrize("pair", [PRESENT, ABSENT, REPLACED])
@pytest.mark.parametrize(
    ("rate", "shift", "interval"),
    [
        (0.01, 1.0, 1e-2),
        (0.3, 0.2, 1e-2),
        (0.5, 4.0, 0.05),
        (1 - 2**-32, 0.5, 0.02),
        (2**-20, 2.0, 5e-2),
    ],
)
def test_a_step_on_the_lattice_is_never_below_the_exact_one(
    rate, shift, interval, pair
):
    steps = StepKind(rate=rate, shift=shift, count=1)
    losses = lattice_losses(steps, pair, interval, 12.0)
    assert 0 <= losses.widening < 1e-11
    assert dominates(losses, steps, pair) > 10
    assert float(np.sum(losses.masses)) - 1 < 1e-9


def test_points_that_are_found_badly_cost_tightness_and_nothing_else(monkeypatch):
    original = lattice._outcomes_with_loss
    steps = StepKind(rate=0.3, shift=0.5, count=1)

    def badly(*arguments):
        outcomes = original(*arguments)
        return outcomes + 0.02 * np.sin(7 * np.arange(len(outcomes)))

    monkeypatch.setattr(lattice, "_outcomes_with_loss", badly)
    for pair in (PRESENT, REPLACED):
        losses = lattice_losses(steps, pair, 0.05, 9.0)
        assert 1e-3 < losses.widening < 0.02
        assert dominates(losses, steps, pair) > 5


def test_probabilities_are_rounded_up_by_their_error(monkeypatch):
    steps = StepKind(rate=0.3, shift=0.5, count=1)
    exact = lattice_losses(steps, PRESENT, 0.05, 9.0)
    monkeypatch.setattr(lattice, "_CDF_ERROR", 1e-6)
    losses = lattice_losses(steps, PRESENT, 0.05, 9.0)
    assert float(losses.masses.sum()) > float(exact.masses.sum()) + 1e-6
    assert losses.infinite_mass > exact.infinite_mass


@pytest.mark.parametrize("adjacency", list(PAIRS))
@pytest.mark.parametrize("delta", [1e-5, 1e-9, 1e-14, 1e-40])
@pytest.mark.parametrize(("rate", "shift"), [(0.05, 1.0), (0.9, 0.3), (0.001, 1.7)])
def test_one_step_costs_what_high_precision_says(rate, shift, delta, adjacency):
    steps = StepKind(rate=rate, shift=shift, count=1)
    epsilon = composed_epsilon([steps], PAIRS[adjacency], delta)
    assert max(exact_delta(steps, pair, epsilon) for pair in PAIRS[adjacency]) <= delta
    assert (
        max(exact_delta(steps, pair, epsilon * 0.999) for pair in PAIRS[adjacency])
        > delta
    )


def drawn(number):
    """Returns a step and a δ below the chance that it samples a record, as published plans have them, and beyond."""
    random = np.random.default_rng(number)
    rate = 10 ** random.uniform(-6, -0.05)
    multiplier = 10 ** random.uniform(-0.6, 1.5)
    return StepKind(rate=rate, shift=1 / multiplier, count=1), 10 ** random.uniform(
        -12, math.log10(rate)
    )


# What `composed_epsilon` gave for the first was 2,400 times the exact cost.
LOOSE = [
    (3.57e-5, 0.5487, 4.9e-6),
    (0.0044787, 0.5609, 0.003386),
    (4.272e-5, 0.26, 3.312e-5),
]


@pytest.mark.parametrize(
    "case",
    [
        *LOOSE,
        *range(9),
        *(pytest.param(case, marks=pytest.mark.slow) for case in range(9, 30)),
    ],
)
def test_a_single_step_costs_its_closed_form_and_hardly_more_on_the_lattice(case):
    steps, delta = (
        (StepKind(rate=case[0], shift=1 / case[1], count=1), case[2])
        if case in LOOSE
        else drawn(case)
    )
    found = accounting.single_step_epsilon(steps.rate, steps.shift, delta)
    at = {
        epsilon: max(exact_delta(steps, pair, epsilon) for pair in PAIRS["add-remove"])
        for epsilon in (0.0, found)
    }
    assert at[found] <= delta
    assert found == 0 or at[0.0] > delta
    if found > 1e-12:
        assert (
            max(
                exact_delta(steps, pair, found * (1 - 1e-6))
                for pair in PAIRS["add-remove"]
            )
            > delta
        )
    lattice_epsilon = composed_epsilon([steps], PAIRS["add-remove"], delta)
    assert found <= lattice_epsilon * (1 + 1e-8) + 1e-15
    assert lattice_epsilon <= 1.01 * found + 0.003


@pytest.mark.parametrize("pair", [PRESENT, ABSENT, REPLACED])
@pytest.mark.parametrize("delta", [1e-6, 1e-14])
def test_two_steps_cost_what_numeric_integration_says(pair, delta):
    """Two steps are a pair of densities in the plane, integrated by sums over a grid, without any loss distribution."""
    rate = 0.1
    shift = 0.8
    found = composed_epsilon([StepKind(rate=rate, shift=shift, count=2)], [pair], delta)
    z, width = np.linspace(-11, 12, 2301, retstep=True)

    def density(centre):
        still, moved = (
            np.exp(-((z - c) ** 2) / 2) / math.sqrt(2 * math.pi) for c in (0, centre)
        )
        return (1 - rate) * still + rate * moved

    first = density(shift if pair.p_is_mixture else 0.0)
    second = density(-shift if pair.q_is_mixture else 0.0)

    def composed(epsilon):
        gap = np.outer(first, first) - math.exp(epsilon) * np.outer(second, second)
        return float(np.maximum(gap, 0).sum()) * width**2

    assert composed(found) <= delta * (1 + 1e-4)
    # With the record absent alone, losses end soon, and the lattice is coarse for them; the other pair is dearer.
    assert pair is ABSENT or composed(found * 0.998) > delta


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-9, 1e-11, 1e-12, 1e-14, 1e-50, 1e-190])
@pytest.mark.parametrize("steps", [1, 7, 1000, 100_000])
@pytest.mark.parametrize("mu", [0.01, 0.5, 3.0])
def test_forced_through_the_transform_a_gaussian_costs_hardly_more_than_it_does(
    mu, steps, delta
):
    epsilon = composed_epsilon(
        [StepKind(rate=1.0, shift=mu / math.sqrt(steps), count=steps)], [PRESENT], delta
    )
    exact = accounting.gaussian_epsilon(mu, delta) / (1 + 1e-9)
    assert exact <= epsilon <= exact * (1 + 3e-3) + 1e-9


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("delta", [1e-14, 1e-12, 1e-8])
@pytest.mark.parametrize("steps", [1, 100, 30_000, 10**6])
def test_events_of_all_records_are_exactly_gaussian(steps, delta, adjacency):
    moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    multiplier = math.sqrt(steps) / 0.5
    exact = accounting.gaussian_epsilon(0.5 * moved, delta)
    assert exact * (1 - 1e-8) <= accounting.epsilon(
        [sampled_event(multiplier, 1.0, steps)], delta, adjacency
    )
    assert accounting.epsilon(
        [sampled_event(multiplier, 1.0, steps)], delta, adjacency
    ) <= exact * (1 + 1e-8)
    beside = summed(
        sensitivity=1000, noise_std=4000.0, sampler=Sampler.ROUNDED_GAUSSIAN
    )
    if delta > 1e-10:  # the rounded sampler has its own distance
        both = accounting.epsilon(
            [sampled_event(multiplier, 1.0, steps), beside], delta, adjacency
        )
        assert both == pytest.approx(
            accounting.gaussian_epsilon(math.hypot(0.5 * moved, 0.25), delta), rel=1e-2
        )
        assert both >= accounting.gaussian_epsilon(
            math.hypot(0.5 * moved, 0.25), delta
        ) * (1 - 1e-8)


def fractions(values):
    return [Fraction(value) for value in values.tolist()]


def exact_convolution(parts, counts, size):
    powers = [Fraction(1)] + [Fraction(0)] * (size - 1)
    for part, count in zip(parts, counts, strict=True):
        for _ in range(count):
            following = [Fraction(0)] * size
            for i, value in enumerate(powers):
                for j, other in enumerate(part):
                    following[(i + j) % size] += value * other
            powers = following
    return powers


def test_the_error_of_the_transform_is_bounded_and_small():
    random = np.random.default_rng(5)
    parts = [random.random(9) ** 4, random.random(5) ** 2]
    parts = [np.round(part / part.sum() * 2**40) / 2**40 for part in parts]
    parts = [np.append(part[:-1], 1 - part[:-1].sum()) for part in parts]
    convolved, error = composition._convolve(parts, [6, 3], 64)
    exact = exact_convolution([fractions(part) for part in parts], [6, 3], 64)
    off = max(
        abs(Fraction(value) - true)
        for value, true in zip(convolved.tolist(), exact, strict=True)
    )
    assert 0 < off <= error < 1e-12


def test_a_composition_is_above_the_exact_convolution_of_its_parts_everywhere():
    """Its own lattice, its own tilt, multiplied out in fractions: each loss is at least as likely as it is."""
    steps = (StepKind(rate=0.2, shift=0.4, count=5),)
    interval = 0.05
    delta = 1e-10
    composed = composed_at(steps, interval, delta)
    reach = -float(ndtri(delta * composition._CUT_PART / 5))
    part = lattice_losses(steps[0], PRESENT, interval, reach)
    exact = exact_convolution(
        [fractions(part.masses)], [5], 1 << (5 * len(part.masses)).bit_length()
    )
    checked = 0
    with mpmath.workdps(40):
        for loss, tilted in zip(
            composed.losses.tolist(), composed.tilted_masses.tolist(), strict=True
        ):
            index = round(loss / interval) - 5 * part.first_index
            if not 0 <= index <= 5 * (len(part.masses) - 1):
                continue
            true = exact[index]
            above = mpmath.mpf(tilted) * mpmath.exp(
                mpmath.mpf(composed.log_factor) - composed.tilt * loss
            )
            assert above >= mpmath.mpf(true.numerator) / true.denominator
            checked += tilted > 1e-9
    assert checked > 20
    assert composed.infinite_mass >= 5 * part.infinite_mass
    assert composed.widening >= 5 * part.widening


@pytest.mark.parametrize("delta", [1e-5, 1e-10, 1e-14])
@pytest.mark.parametrize(
    ("rate", "multiplier", "steps"),
    [(0.01, 1.0, 1000), (0.004, 0.8, 60_000), (0.5, 5.0, 100)],
)
def test_it_is_below_what_moments_give(rate, multiplier, steps, delta):
    accountant = RdpAccountant(
        orders=[1 + x / 10 for x in range(1, 100)] + list(range(11, 300))
    )
    accountant.compose(
        dp_accounting.PoissonSampledDpEvent(
            rate, dp_accounting.GaussianDpEvent(multiplier)
        ),
        steps,
    )
    above = accountant.get_epsilon(delta)
    assert (
        above * 0.7
        < accounting.epsilon([sampled_event(multiplier, rate, steps)], delta)
        < above
    )


@pytest.mark.parametrize("delta", [1e-300, 9e-201])
def test_a_delta_at_the_end_of_float64_is_refused_with_the_least_one(delta):
    with pytest.raises(
        CalibrationError, match=r"least for which steps on Poisson samples.*raise delta"
    ):
        accounting.epsilon([sampled_event(1.0, 0.1, 10)], delta)
    assert accounting.epsilon([sampled_event(1.0, 1.0, 10)], delta) > 100


def test_steps_without_end_are_refused():
    with pytest.raises(CalibrationError, match="no bound is computed"):
        accounting.epsilon([sampled_event(1e6, 0.1, 10**9 + 1)], 1e-5)


@pytest.mark.parametrize("adjacency", list(Adjacency))
@pytest.mark.parametrize("rate", [2**-32, 1e-4, 0.5, 1 - 2**-32, 1.0])
@pytest.mark.parametrize("multiplier", [0.02, 0.8, 1e4])
@pytest.mark.parametrize("steps", [1, pytest.param(30_000, marks=pytest.mark.slow)])
def test_extremes_end_within_seconds_and_between_the_bounds_of_all_and_of_no_amplification(
    steps, multiplier, rate, adjacency
):
    with at_most_calls(50_000):
        epsilon = accounting.epsilon(
            [sampled_event(multiplier, rate, steps)], 1e-9, adjacency
        )
    moved = 2 if adjacency is Adjacency.REPLACE_ONE else 1
    whole = accounting.gaussian_epsilon(math.sqrt(steps) * moved / multiplier, 1e-9)
    assert 0 <= epsilon <= whole * (1 + 5e-3)
    if (
        rate > 0.999 and multiplier > 0.5
    ):  # beyond, the chance not to be in a sample bounds the loss
        assert epsilon >= whole * 0.3
