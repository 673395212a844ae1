"""Whether the noise that a release states, in the units of its values, is that of the events, in grid units (G-02).

Of trained numbers the scale follows from the norm in the certificate; sums tell it, as they were whole numbers.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from noisegate.errors import ModelError
from noisegate.privacy.certificate import Certificate
from noisegate.privacy.events import Event, GaussianEvent, SampledGaussianEvent
from noisegate.privacy.grid import Grid
from noisegate.privacy.release import Release

_SAME = 1e-9
# Of a number in float64, a few operations and as many additions as there are silos later.
_ROUNDED = 1e-14
# So many whole numbers, noisy as they are, have no common divisor but once in 2⁴⁰ times.
_ENOUGH = 40


def check_stated_noise(release: Release, where: Path) -> None:
    """Refuses a release whose noise is not that of its certificate's events, by a `ModelError`.

    Shares under masks are left out: masked words tell nothing. (Their merged release is not.) An event whose noise is a
    whole multiple of what it was is noticed where its answer has 40 numbers or more.
    """
    certificate = release.certificate
    if "secure_sum" in certificate.public and certificate.silos is None:
        return
    for event in certificate.events:
        if isinstance(event, SampledGaussianEvent):
            stated = release.noise_std[event.name] * _scale(certificate, event.name)
            fits = abs(stated - event.noise_std) <= _SAME * event.noise_std
        elif isinstance(event, GaussianEvent):
            scale = _total(certificate, event) / release.noise_std[event.name]
            fits = _whole(release.values[event.name].reshape(-1) * scale)
        else:
            continue
        if not fits:
            raise ModelError(
                f"{where}: event {event.name!r} states noise_std={event.noise_std:g} in grid units, which is not the "
                f"{release.noise_std[event.name]:g} that the release states in the units of its values: do not rely on "
                "it."
            )


def _total(certificate: Certificate, event: GaussianEvent) -> float:
    """Returns the noise on a released sum in grid units: that of all silos, where several were added up."""
    silos = certificate.silos
    if silos is None:
        return event.noise_std
    if silos.colluding is not None:  # each has a share of the noise, of which those who do not collude suffice
        return event.noise_std * math.sqrt(len(silos.members) / (len(silos.members) - silos.colluding))
    same: list[Event] = [one for silo in silos.members for one in silo.events if one.name == event.name]
    return math.sqrt(math.fsum(one.noise_std**2 for one in same if isinstance(one, GaussianEvent)))


def _whole(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> bool:
    """Returns whether numbers are whole but for rounding, and not all multiples of one: too coarse a grid."""
    told = np.abs(numbers) * _ROUNDED < 1e-2  # larger ones are whole whatever the scale
    nearest = np.rint(numbers[told])
    if (np.abs(numbers[told] - nearest) > 1e-6 + np.abs(nearest) * _ROUNDED).any():
        return False
    return len(nearest) < _ENOUGH or math.gcd(*map(int, nearest)) <= 1


def _scale(certificate: Certificate, name: str) -> float:
    """Returns the grid units per unit of what a step returns."""
    try:
        run = certificate.public["gradients"][name]
        norm, factored = float(run["norm"]), run.get("factored", False)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise ModelError(f"the certificate states no norm of the vectors of {name!r}: do not rely on it.") from None
    if not 0 < norm < math.inf:
        raise ModelError(f"the certificate states norm={norm!r} of {name!r}, which means nothing.")
    scale = Grid(norm=norm).scale
    if factored:
        from noisegate.privacy.gradient_plan import factored_scale

        return factored_scale(scale)
    return scale
