"""How much each class counts in a fit of one network to all of them: by what its released mean can teach.

A residual of a class's released mean has two sources: noise, and what the generator never comes to match. In noise
standard deviations the first has variance 1, and the second grows with the class's signal: its variance is a part of
the signal-to-noise ratio. Weights are the inverse of their sum, so

- classes that stand out of the noise weigh alike in their means, whatever their share (DP-MERF, section 4.2; noise
  standard deviations alone would weigh them by their squared share, and forget the small ones), and
- a class that the noise drowns weighs by its noise alone, and cannot drag the others along.

The ratio comes from released values alone: what all classes' means hold above their expected noise, by squared size.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from noisegate.errors import OptionError
from noisegate.fitting.target import Target

MISFIT = 0.03
"""Part of the signal's energy that a generator is taken to miss; chosen on simulated tables, see docs/choosing.md."""


def class_weights(target: Target, power: float | None) -> npt.NDArray[np.float64]:
    """Returns the weight of each present class's squared residual in noise standard deviations, 1 for the largest.

    Args:
        target: What is matched.
        power: None for the weights above; a number for the class's share to this power. As a residual in noise standard
            deviations grows with the share, 0 weighs classes by the squares of their shares, and -2 weighs them alike.

    Returns:
        Of shape (present classes,).
    """
    if power is not None:
        shares = target.weights[target.present]
        return np.asarray((shares / (shares.max() if power > 0 else shares.min())) ** power)
    dim = sum(means.shape[1] for means in target.means.values())
    # Sums over coordinates, of a class's squared mean and of the precision that its size gives it.
    energy, precision = np.zeros(len(target.present)), np.zeros(len(target.present))
    for name, means in target.means.items():
        of_block = target.noise_std[name][target.present] ** -2.0
        energy += np.square(means[target.present]).sum(axis=1) * of_block
        precision += means.shape[1] * of_block
    signal = max(float((energy - dim).sum() / precision.sum()), 0.0)
    variance = 1 + MISFIT * signal * precision / dim
    return np.asarray(variance.min() / variance)


def check_power(power: object) -> None:
    """Refuses what `class_weights` cannot take.

    Raises:
        OptionError: if it is neither None nor a number of modest size.
    """
    if power is None:
        return
    if isinstance(power, bool) or not isinstance(power, int | float) or not -4 <= power <= 4:
        raise OptionError(
            f"fit option class_power={power!r} must be a number from -4 to 4; leave it out for equal weights."
        )
