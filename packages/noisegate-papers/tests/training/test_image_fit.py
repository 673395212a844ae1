"""The fitting loop with an image generator: batch normalisation must not break what holds for tables."""

import numpy as np
import pytest
import torch
from tests.shared.feature_space import PIXELS, drawings

from noisegate import DPMERF, Gate

OPTIONS = {"steps": 12, "check_every": 4, "check_batches": 8, "batch": 32}


@pytest.fixture(scope="module")
def release():
    return method().query(Gate(drawings(), schema=PIXELS, epsilon=50.0))


def method(generator="convolutional", **options):
    return DPMERF(
        generator=generator,
        image=(8, 8, 1),
        frequencies=60,
        length_scale=3.0,
        latent=4,
        hidden=(16,),
        channels=(4, 2),
        fit_options={**OPTIONS, **options},
    )


def run_steps(fitting, steps):
    class StopError(Exception):
        pass

    def report(state):
        if state.step == steps:
            raise StopError

    with pytest.raises(StopError):
        fitting.run(report)


@pytest.mark.parametrize("apart", [False, True])
def test_a_restored_fit_goes_on_with_the_same_bits(release, apart):
    whole = method(apart=apart).fitting(release, device="cpu")
    whole.run()
    first = method(apart=apart).fitting(release, device="cpu")
    run_steps(first, 5)
    second = method(apart=apart).fitting(release, device="cpu")
    second.load_state_dict(first.state_dict())
    second.run()
    assert second.discrepancy == whole.discrepancy
    states = whole.state_dict(), second.state_dict()
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name]), name


def test_the_discrepancy_is_that_of_the_images_that_are_sampled(release):
    """In training mode rows of a batch depend on each other, and a distance reads too low: it is not measured there."""
    chosen = method(steps=40, check_every=40)
    fitting = chosen.fitting(release, device="cpu")
    fitting.run()
    found = np.array([fitting.measure().value for _ in range(20)])
    assert not any(layer.training for layer in fitting.average.modules())
    assert all(layer.training for layer in fitting.generator.modules())
    model = chosen.synthesizer(release, fitting).model
    random = torch.Generator().manual_seed(5)
    with torch.no_grad():
        labels = torch.arange(2).repeat_interleave(10_000)
        made = model.generator(model.generator.noise(20_000, random), labels)
        features = fitting._embeddings["fourier"].means(made, 2)
    gap = (features - fitting._means["fourier"]) * fitting._precisions["fourier"]
    exact = float(gap.square().mean())
    assert found.mean() == pytest.approx(exact, rel=0.05)
