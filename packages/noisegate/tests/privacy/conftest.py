"""Events that tests of this room ask the price of."""

from tests.shared.stated import event_of

from noisegate.privacy.events import Gaussian, Sampled, Sampler

SENSITIVITY = 2**22
DISCRETE = Sampler.DISCRETE_GAUSSIAN


def gaussian_event(
    multiplier, *, name="q", coordinates=100, sampler=DISCRETE, sensitivity=SENSITIVITY
):
    """One release, with noise of so many times its sensitivity."""
    noise = {
        "sensitivity": sensitivity,
        "noise_std": multiplier * sensitivity,
        "sampler": sampler,
    }
    return Gaussian(name=name, coordinates=coordinates, **noise)


def sampled_event(multiplier, rate, steps, *, coordinates=100, sampler=DISCRETE):
    """Steps on Poisson samples."""
    noise = {
        "sensitivity": SENSITIVITY,
        "noise_std": multiplier * SENSITIVITY,
        "sampler": sampler,
    }
    return event_of(
        Sampled, name="step", rate=rate, steps=steps, coordinates=coordinates, **noise
    )
