"""DP-FETA divides class means by the private count of the class, and noises them for the expected one.

    python benchmarks/claims/dp_feta.py [--json FILE]

Poisson batches of B records (SunnierLee/DP-FETA f95d3a7, dataset_tool.py:58-62; DPImageBench 565f8d7,
data/dataset_loader.py:176-180): of each, the mean of the half-size images of a class, with noise of 5 · √(D/4) / (B/K),
B/K the expected number of images of a class if classes are even. A record moves the mean by √(D/4) over the number of
images of its class in the batch, which is private and may be smaller: a class of a share s of the records has its noise
understated by 1/(Ks). On a class that may have one record or none there is no bound at all. MNIST has five batches of a
tenth (extract_mean.py:15-17), EuroSAT one of 12,000 of 23,000 (configs/DP-FETA/eurosat_32_eps1.0.yaml:19-22).

FETA-Pro takes 1/m for the sensitivity of DP-MERF's mean, which is 2/m under replace-one: DPImageBench,
configs/DP-FETA-Pro/mnist_28_eps1.0.yaml:178-180 and models/dp_merf.py:161, noise of which is in rff_mmd_approx.py:141.
"""

from __future__ import annotations

import sys

import numpy as np
from corrected import dp_feta, feta_pro
from showing import Claims, Said, show

CLASSES = {
    "MNIST's 5, 5,421 of 60,000": (6000 / 5421, 0.1, 5),
    "EuroSAT's pasture, 2,000 of 27,000": (2700 / 2000, 12_000 / 23_000, 1),
    "a class of a hundredth": (10.0, 0.1, 5),
}
SAID: Said = {
    "ε of the means, claimed": (0.165, 0.0005),
    "MNIST's 5, 5,421 of 60,000: ε": (0.188, 0.0005),
    "EuroSAT's pasture, 2,000 of 27,000: ε claimed": (0.42, 0.005),
    "EuroSAT's pasture, 2,000 of 27,000: ε": (0.61, 0.005),
    "a class of a hundredth: ε": (9.9, 0.05),
    "FETA-Pro, ε of the embedding with 1/m": (0.117, 0.0005),
    "FETA-Pro, ε of the embedding with 2/m": (0.25, 0.0005),
}
CLAIMS: Claims = [
    *((f"means, {name}", f"{name}: ε claimed", f"{name}: ε") for name in CLASSES),
    (
        "mean embedding",
        "FETA-Pro, ε of the embedding with 1/m",
        "FETA-Pro, ε of the embedding with 2/m",
    ),
]


def moved(share: float, classes: int = 10, batch: int = 6000) -> float:
    """Returns by how many of the sensitivities that are claimed one image moves the mean of its class."""
    others = np.zeros((round(share * batch) - 1, 14 * 14))
    white = np.ones((1, 14 * 14))
    difference = np.concatenate([others, white]).mean(axis=0) - others.mean(axis=0)
    return float(np.linalg.norm(difference) / (14 / (batch // classes)))


def figures() -> dict[str, float]:
    """Returns ε of the means, as claimed and for classes of less than the expected size, and of Pro's embedding."""
    found = {"ε of the means, claimed": dp_feta(1.0)}
    for name, (factor, rate, batches) in CLASSES.items():
        found[f"{name}: noise understated by"] = factor
        found[f"{name}: moved by one image, of what is claimed"] = moved(0.1 / factor)
        found[f"{name}: ε claimed"] = dp_feta(1.0, rate=rate, batches=batches)
        found[f"{name}: ε"] = dp_feta(factor, rate=rate, batches=batches)
    found["FETA-Pro, ε of the embedding with 1/m"] = feta_pro(ratio=1.0)
    found["FETA-Pro, ε of the embedding with 2/m"] = feta_pro()
    return found


if __name__ == "__main__":
    sys.exit(show(__doc__ or "", figures, SAID, CLAIMS))
