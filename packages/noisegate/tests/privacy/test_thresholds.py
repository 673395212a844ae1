"""Guarantee G-15: counts of unlisted keys above a threshold cost what their exact curve says, or a little more."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.shared.stated import event_of, ledger_of, sampled

from noisegate.errors import CalibrationError
from noisegate.privacy import accounting
from noisegate.privacy.events import (
    EventError,
    Gaussian,
    Sampler,
    Thresholded,
    event_from_json,
    event_to_json,
)
from noisegate.privacy.noise import noisy_counts_above

WEIGHT = 4096


def event(keys=3, std=20_000.0, z=4.0, **changes):
    fields = {
        "name": "levels",
        "sensitivity": math.ceil(WEIGHT * math.sqrt(keys)),
        "noise_std": std,
        "threshold": WEIGHT + round(z * std),
        "weight": WEIGHT,
        "keys": keys,
        "coordinates": keys * 2**30,
        "sampler": Sampler.DISCRETE_GAUSSIAN,
    }
    return event_of(Thresholded, **{**fields, **changes})


def exact_delta(event, epsilon, common):
    """δ of the continuous mechanism when `common` keys of the extra record occur elsewhere and the others do not.

    Either neighbour may come first. The others are seen with probability q; else the outputs are Gaussian.
    """
    alone = stats.norm.sf((event.threshold - event.weight) / event.event.noise_std)
    seen = 1 - (1 - alone) ** (event.keys - common)
    mu = event.weight * math.sqrt(common) / event.event.noise_std
    forth = seen + (1 - seen) * math.exp(
        accounting.log_delta(mu, epsilon - math.log1p(-seen))
    )
    back = math.exp(accounting.log_delta(mu, epsilon + math.log1p(-seen)))
    return max(forth, back)


@pytest.mark.parametrize("z", [2.5, 4.0, 6.0])
@pytest.mark.parametrize("keys", [1, 3, 40])
@pytest.mark.parametrize("std", [2_000.0, 20_000.0])
def test_the_accounted_cost_covers_the_exact_curve_and_not_much_more(keys, std, z):
    counts_event = event(keys, std, z)
    odds = accounting.threshold_probability([counts_event])
    for delta in (1.2 * odds, 3 * odds, 0.3):
        if not odds < delta < 1:
            continue
        epsilon = accounting.epsilon([counts_event], delta)
        assert (
            max(
                exact_delta(counts_event, epsilon, common) for common in range(keys + 1)
            )
            <= delta
        )
        plain = accounting.epsilon([gaussian_part(counts_event)], delta - odds)
        assert plain <= epsilon <= plain - math.log1p(-odds) + 1e-9


def gaussian_part(counts_event):
    return Gaussian(
        name="plain",
        sensitivity=counts_event.event.sensitivity,
        noise_std=counts_event.event.noise_std,
        coordinates=10,
        sampler=Sampler.DISCRETE_GAUSSIAN,
    )


def test_the_odds_bound_how_often_noise_reaches_the_threshold():
    std = 16.0
    gap = 20
    counts_event = event(1, std, threshold=WEIGHT + gap)
    kept_indices, noisy = noisy_counts_above(
        np.full(40_000, WEIGHT), noise_std=std, threshold=WEIGHT + gap
    )
    assert noisy.min() >= WEIGHT + gap
    assert (np.diff(kept_indices) > 0).all()
    odds = accounting.threshold_probability([counts_event])
    low, high = stats.binomtest(len(kept_indices), 40_000).proportion_ci(
        1 - 1e-9, "exact"
    )
    assert low < odds < 1.2 * high


@pytest.mark.parametrize("gap", [0, -1, 1 - WEIGHT])
def test_a_threshold_within_one_record_keeps_nothing_secret(gap):
    counts_event = event(1, threshold=WEIGHT + gap)
    assert accounting.threshold_probability([counts_event]) >= 1
    assert accounting.epsilon([counts_event], 0.5) == math.inf


def test_the_price_of_thresholds_adds_up():
    first = event(z=4.0)
    second = event(z=4.5)
    together = accounting.threshold_probability([first, second, gaussian_part(first)])
    assert together == pytest.approx(
        accounting.threshold_probability([first])
        + accounting.threshold_probability([second])
    )
    merged = gaussian_part(first)
    alone = accounting.epsilon([merged, merged], 1e-3 - together)
    assert alone < accounting.epsilon([first, second], 1e-3) < alone + 1e-3


def test_with_sampled_steps_the_price_is_charged_too():
    steps = sampled(
        rate=0.1,
        steps=5,
        sensitivity=1,
        noise_std=100.0,
        sampler=Sampler.DISCRETE_GAUSSIAN,
    )
    counts_event = event(z=3.5)
    odds = accounting.threshold_probability([counts_event])
    with_threshold = accounting.epsilon([steps, counts_event], 0.01)
    assert (
        with_threshold
        > accounting.epsilon([steps, gaussian_part(counts_event)], 0.01 - odds) - 1e-9
    )
    assert with_threshold > accounting.epsilon(
        [steps, gaussian_part(counts_event)], 0.01
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": Sampler.ROUNDED_GAUSSIAN}, "discrete Gaussian only"),
        ({"sensitivity": WEIGHT * 1.7}, "below that of 3 keys"),
        ({"threshold": 1.5}, "threshold=1.5 is not a whole"),
        ({"weight": 0}, "weight=0 is not a positive"),
    ],
)
def test_an_event_that_proves_nothing_is_refused(changes, message):
    with pytest.raises(EventError, match=message):
        event(**changes)
    stored = {**event_to_json(event()), **changes}
    if isinstance(changes.get("sampler"), Sampler):
        stored["sampler"] = changes["sampler"].value
    with pytest.raises(EventError, match=message):
        event_from_json(stored)


@pytest.mark.parametrize("std", [0.0, 15.9, 2.0**51, float("nan")])
def test_noise_outside_what_is_proved_is_never_drawn(std):
    with pytest.raises(CalibrationError, match="outside"):
        noisy_counts_above(np.ones(3, dtype=np.int64), noise_std=std, threshold=5)


def test_noise_on_counts_has_the_stated_scale():
    std = 1000.0
    size = 20_000
    counts = 2**40 + np.arange(size)
    kept_indices, noisy = noisy_counts_above(counts, noise_std=std, threshold=1)
    assert kept_indices.tolist() == list(range(size))
    statistic = np.square((noisy - counts) / std).sum()
    assert stats.chi2.ppf(5e-10, size) < statistic < stats.chi2.isf(5e-10, size)


def test_a_ledger_says_what_is_left_after_a_threshold(tmp_path):
    ledger = ledger_of(tmp_path, epsilon=1.0)
    counts_event = event(z=5.5, std=200_000.0)
    ledger.reserve(
        "clinic", [counts_event], adjacency="add-remove", purpose="discovery"
    )
    left = ledger.show("clinic")[0].remaining
    assert 0.9 < left < 1.0
    sensitivity = 1000
    fits = sensitivity / accounting.mu_for(left * 0.999, 1e-5)
    part = {
        "coordinates": 1,
        "sampler": Sampler.DISCRETE_GAUSSIAN,
        "name": "next",
        "sensitivity": sensitivity,
    }
    ledger.reserve(
        "clinic",
        [Gaussian(noise_std=fits, **part)],
        adjacency="add-remove",
        purpose="what is said to be left",
    )
