"""DP-FETA divides class means by the private count of the class, and noises them for the expected one.

    python benchmarks/claims/dp_feta.py [--json FILE]

Five Poisson batches of a tenth of the records (DP-FETA, dataset_tool.py): of each, the mean of the half-size images of
a class, with noise of 5 · √(D/4) / (B/K), B/K the expected number of images of a class if classes are even. A record
moves the mean by √(D/4) over the number of images of its class in the batch, which is private and may be smaller: a
class of a share s of the records has its noise understated by 1/(Ks). On a class that may have one record or none there
is no bound at all. FETA-Pro takes 1/m for the sensitivity of DP-MERF's mean, which is 2/m under replace-one.
"""

from __future__ import annotations

import sys

from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from showing import DELTA, show

from noisegate.privacy.accounting import gaussian_epsilon

SIGMA, RATE, BATCHES = 5.0, 0.1, 5
MERF_SIGMA = 26.6  # FETA-Pro
CLASSES = {
    "MNIST's 5, 5,421 of 60,000": 6000 / 5421,
    "EuroSAT's pasture, 2,000 of 27,000": 2700 / 2000,
    "a class of a hundredth": 10.0,
}


def means(sigma: float) -> float:
    """Returns ε of the batches, each a Gaussian release of a Poisson sample."""
    accountant = PLDAccountant()
    accountant.compose(SelfComposedDpEvent(PoissonSampledDpEvent(RATE, GaussianDpEvent(sigma)), BATCHES))
    return float(accountant.get_epsilon(DELTA))


def figures() -> dict[str, float]:
    """Returns ε of the means, as claimed and for classes of less than the expected size, and of Pro's embedding."""
    found = {"ε of the means, claimed": means(SIGMA)}
    for name, factor in CLASSES.items():
        found[f"{name}: noise understated by"] = factor
        found[f"{name}: ε"] = means(SIGMA / factor)
    found["FETA-Pro, ε of the embedding with 1/m"] = gaussian_epsilon(1 / MERF_SIGMA, DELTA)
    found["FETA-Pro, ε of the embedding with 2/m"] = gaussian_epsilon(2 / MERF_SIGMA, DELTA)
    return found


if __name__ == "__main__":
    sys.exit(show(__doc__ or "", figures))
