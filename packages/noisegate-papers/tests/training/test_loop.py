from dataclasses import replace

import numpy as np
import pytest
import torch

from noisegate.privacy.release import Release
from noisegate_images.training.moment_matching import Discrepancy


def with_batch(method, release, batch):
    options = {**method.fit_options, "batch": batch, "check_batches": 3}
    return replace(method, fit_options=options).fitting(release, device="cpu")


def distances(fitting):
    made = fitting.generator(*fitting._batch(fitting.generator))
    return (
        fitting._residuals_of(made, fitting._factors(), halves=2).prod(dim=2).sum(dim=0)
    )


@pytest.mark.slow
def test_the_distance_of_a_step_is_unbiased(method, release):
    """Means of many small draws agree with one big draw, whose own bias is negligible."""
    small, large = (with_batch(method, release, batch) for batch in (32, 100_000))
    with torch.no_grad():
        exact = distances(large)
        draws = [distances(small) for _ in range(3000)]
        # The plain squared norm of a mean is biased upward, and this test sees it.
        naive = torch.stack(
            [small._residuals(small.generator).square().sum(dim=0) for _ in range(3000)]
        )
    products = torch.stack(draws)
    error = products.std(dim=0) / len(draws) ** 0.5
    assert ((products.mean(dim=0) - exact).abs() < 5 * error + 1e-3 * exact).all()
    assert (
        (naive.mean(dim=0) - exact) > 5 * naive.std(dim=0) / len(draws) ** 0.5
    ).all()


@pytest.mark.slow
def test_the_measured_discrepancy_is_unbiased_with_an_honest_error(method, release):
    fitting = method.fitting(release, device="cpu")
    found = [fitting.measure() for _ in range(60)]
    values, errors = (
        np.array([one.value for one in found]),
        np.array([one.error for one in found]),
    )
    exact = with_batch(method, release, 100_000).measure().value
    assert (
        abs(values.mean() - exact)
        < 5 * values.std() / len(values) ** 0.5 + 1e-3 * exact
    )
    assert 0.5 < errors.mean() / values.std() < 2


def test_a_fit_stops_at_the_noise_and_only_when_asked(method, release):
    """With noise far above the signal any generator is within it, so the first look ends the fit."""
    noisy = Release(
        values=release.values,
        noise_std={
            name: std if name == "counts" else 1e6
            for name, std in release.noise_std.items()
        },
        certificate=release.certificate,
    )
    for stop, steps in ((True, 4), (False, 12)):
        options = {"steps": 12, "check_every": 4, "stop_at_noise": stop}
        fitting = replace(method, fit_options=options).fitting(noisy, device="cpu")
        fitting.run()
        assert fitting.step == steps


@pytest.mark.parametrize(
    ("value", "error", "stops"),
    [(0.9, 0.05, True), (0.95, 0.1, False), (1.05, 0.1, False)],
)
def test_a_fit_stops_when_the_distance_is_surely_at_the_noise(
    method, release, monkeypatch, value, error, stops
):
    """The error counts against stopping: a distance that is below 1 by chance alone does not end a fit."""
    options = {"steps": 6, "check_every": 2, "stop_at_noise": True}
    fitting = replace(method, fit_options=options).fitting(release, device="cpu")
    monkeypatch.setattr(
        fitting, "measure", lambda: Discrepancy(value=value, error=error)
    )
    fitting.run()
    assert fitting.at_noise == stops
    assert fitting.step == (2 if stops else 6)
    assert fitting.discrepancy == value


def test_a_class_without_weight_is_left_out(method, release):
    values = dict(release.values)
    for name, value in values.items():
        values[name] = np.column_stack([value[:, 0], np.zeros(len(value))])
    values["counts"] = np.array([[300.0, -4.0]])
    fitting = method.fitting(replace(release, values=values), device="cpu")
    fitting.run()
    assert np.isfinite(fitting.discrepancy)
    assert fitting._classes.tolist() == [0]
