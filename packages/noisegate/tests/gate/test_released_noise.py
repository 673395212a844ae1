"""What is released minus the exact sum has the planned noise on every question: two-sided, through the whole gate.

The noise has no seed; each acceptance fails by chance with probability at most 1e-9.
"""

import numpy as np
import pytest
from scipy import stats

from noisegate.privacy import plan
from noisegate.privacy.events import Sampler
from noisegate.privacy.grid import UNITS

CHANCE = 1e-9
DIM = 400
RECORDS = [(0, False), (1, True), (1, True), (2, False)]


def fits(sample, std):
    """Whether Σz²/σ² lies where a χ² of so many degrees lies, and Σz where a normal does."""
    low = stats.chi2.ppf(CHANCE / 4, sample.size)
    high = stats.chi2.isf(CHANCE / 4, sample.size)
    centred = abs(sample.sum()) < stats.norm.isf(CHANCE / 4) * std * sample.size**0.5
    return bool(low < np.square(sample / std).sum() < high and centred)


def multiplier(epsilon, delta):
    """The noise over the sensitivity of a single release, from dp_accounting."""
    import dp_accounting

    return dp_accounting.get_sigma_gaussian(epsilon, delta)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_the_released_noise_has_the_scale_that_the_budget_asks_for(
    epsilon, adjacency, ask, chosen
):
    random = np.random.default_rng(0)
    shares = {"signed": 1.0, "positive": 0.25, "wide": 0.02}
    norms = {"signed": 1.0, "positive": 2.0, "wide": 30.0}
    maps = {
        name: chosen(
            random.normal(size=(3, DIM)).astype(np.float32),
            norm=norms[name],
            nonnegative=name == "positive",
        )
        for name in shares
    }
    runs = [
        ask(
            RECORDS,
            maps,
            shares=shares,
            epsilon=epsilon,
            adjacency=adjacency,
            records=len(RECORDS),
        )
        for _ in range(3)
    ]
    for name, share in shares.items():
        sensitivity = norms[name]
        if adjacency == "replace-one":
            sensitivity *= 2**0.5 if name == "positive" else 2.0
        # By hand, apart from the code: the share of μ², and the norm in the units of the vectors.
        planned = (
            sensitivity
            * multiplier(epsilon, 1e-5)
            * (sum(shares.values()) / share) ** 0.5
        )
        scale = UNITS * (1 - 2.0**-10) / norms[name]
        noise = np.concatenate(
            [
                (r.values[name].T - totals.sums[name] / scale).ravel()
                for r, totals in runs
            ]
        )
        assert noise.size == 3 * 2 * DIM
        # The grid's headroom makes the noise larger by 0.1 %, in the units of the vectors.
        planned *= 1 / (1 - 2.0**-10)
        assert fits(noise, planned), name
        assert not fits(noise, planned * 2 / 3), name
        assert not fits(noise, planned * 3 / 2), name
        assert all(
            r.noise_std[name] == pytest.approx(planned, rel=1e-5) for r, _ in runs
        )


@pytest.mark.parametrize("epsilon", [0.1, 3.0, 30.0])
def test_the_sampler_of_large_releases_gives_the_same_noise(
    epsilon, ask, chosen, monkeypatch
):
    sampler = Sampler.CONVOLVED_GAUSSIAN
    monkeypatch.setattr(
        plan, "choose_samplers", lambda sizes, **budget: (sampler,) * len(sizes)
    )
    maps = {
        "large": chosen(
            np.random.default_rng(0).normal(size=(3, 5 * DIM)).astype(np.float32)
        )
    }
    release, totals = ask(RECORDS, maps, epsilon=epsilon)
    (event,) = release.certificate.events
    assert event.sampler is sampler
    assert release.certificate.check() <= epsilon * (1 + 1e-9)
    noise = (
        release.values["large"].T - totals.sums["large"] / (UNITS * (1 - 2.0**-10))
    ).ravel()
    planned = multiplier(epsilon, 1e-5) / (1 - 2.0**-10)
    assert fits(noise, planned)
    assert not fits(noise, planned * 2 / 3)
    assert not fits(noise, planned * 3 / 2)
    # Convolutions come in steps, which only ever add noise.
    assert planned * (1 - 1e-5) <= release.noise_std["large"] <= planned * (1 + 2e-3)


def test_the_counts_get_their_noise_in_every_column(ask, chosen):
    # One number and two columns a run, so many runs; both columns must vary, and independently.
    maps = {"counts": chosen(np.ones((3, 1), np.float32), nonnegative=True)}
    rows = []
    for _ in range(150):
        release, totals = ask(RECORDS, maps)
        rows.append(
            release.values["counts"][0]
            - totals.sums["counts"][:, 0] / (UNITS * (1 - 2.0**-10))
        )
    noise = np.array(rows)
    planned = multiplier(1.0, 1e-5)
    for column in noise.T:
        assert fits(column, planned)
        assert not fits(column, planned * 0.5)
        assert not fits(column, planned * 2)
    # The sum of both columns varies as two independent ones do: were they equal or opposite, this would fail.
    assert fits(noise.sum(axis=1), planned * 2**0.5)
    assert fits(noise[:, 0] - noise[:, 1], planned * 2**0.5)
