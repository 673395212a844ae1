"""What "Large-Scale Public Data Improves Differentially Private Image Generation Quality" printed, row by row.

Five figures a row, from no privacy to the strongest. Which ε these are the text at hand leaves out, as all formulas; it
speaks of ε = 1 and of 0.1 for the last ones. Ours are at ε = ∞ (1,000 at the gate), 10, 1, 0.5 and 0.1.
"""

from __future__ import annotations

EPSILONS = (float("inf"), 10.0, 1.0, 0.5, 0.1)
NON_PRIVATE = "Non-private IC-GAN"

WEIGHTS = "DP-DRE's weights"

PAPER_ROWS = {
    "private-decoded": NON_PRIVATE,
    "dp-gan-ft": "DP-GAN-FT",
    "dp-mepf": "DP-MEPF",
    "dp-gan-mi": "DP-GAN-MI",
    "dp-mge": "DP-MGE",
    "dp-dre-decoded": "DP-DRE",
    "dp-dre": WEIGHTS,
}
"""The paper's row that stands beside one of ours: there DP-DRE's images are always decoded."""

Rows = dict[str, tuple[float, ...]]

TABLE_1: dict[str, Rows] = {
    "Cifar10": {
        NON_PRIVATE: (16.6,),
        "DP-GAN-FT": (33.8, 36.7, 36.7, 38.3, 38.3),
        "DP-MEPF": (36.9, 37.0, 41.8, 68.3, 296.5),
        "DP-GAN-MI": (19.5, 97.2, 94.4, 75.6, 150.7),
        "DP-MGE": (33.9, 43.3, 39.9, 39.9, 51.1),
        "DP-DRE": (19.8, 21.2, 21.0, 20.9, 20.9),
    },
    "Car": {
        NON_PRIVATE: (17.7,),
        "DP-GAN-FT": (26.5, 150.5, 148.6, 149.3, 149.3),
        "DP-MEPF": (58.4, 52.4, 44.5, 52.4, 140.5),
        "DP-GAN-MI": (15.8, 38.8, 62.6, 239.9, 239.1),
        "DP-MGE": (20.0, 18.8, 19.6, 43.1, 203.3),
        "DP-DRE": (17.8, 18.6, 18.4, 17.3, 68.3),
    },
}
"""Fréchet Inception distances, of the two of six sets that ours are nearest in kind."""

TABLE_2: dict[str, dict[str, Rows]] = {
    "precision": {
        NON_PRIVATE: (0.971,),
        "DP-GAN-FT": (0.854, 0.880, 0.867, 0.876, 0.876),
        "DP-MEPF": (0.929, 0.922, 0.908, 0.825, 0.011),
        "DP-GAN-MI": (0.965, 0.521, 0.540, 0.785, 0.217),
        "DP-MGE": (0.886, 0.885, 0.908, 0.898, 0.836),
        "DP-DRE": (0.950, 0.946, 0.943, 0.944, 0.946),
    },
    "recall": {
        NON_PRIVATE: (0.969,),
        "DP-GAN-FT": (0.889, 0.884, 0.870, 0.890, 0.875),
        "DP-MEPF": (0.879, 0.880, 0.847, 0.638, 0.000),
        "DP-GAN-MI": (0.961, 0.544, 0.420, 0.541, 0.444),
        "DP-MGE": (0.697, 0.719, 0.727, 0.739, 0.733),
        "DP-DRE": (0.933, 0.925, 0.926, 0.933, 0.936),
    },
}
"""Precision and recall of the distribution on CIFAR-10."""

TABLE_3: Rows = {WEIGHTS: (0.97, 0.96, 0.96, 0.98, 0.58)}
"""Share of DP-DRE's weight on the right superclass, wheeled vehicles; for birds it is .98, .99, .98, .97 and .18."""

TABLE_5: dict[str, dict[str, Rows]] = {
    "precision": {
        NON_PRIVATE: (0.900,),
        "DP-GAN-FT": (0.810, 0.115, 0.127, 0.122, 0.131),
        "DP-MEPF": (0.453, 0.459, 0.682, 0.388, 0.041),
        "DP-GAN-MI": (0.925, 0.712, 0.594, 0.025, 0.024),
        "DP-MGE": (0.903, 0.899, 0.889, 0.739, 0.041),
        "DP-DRE": (0.927, 0.904, 0.898, 0.913, 0.465),
    },
    "recall": {
        NON_PRIVATE: (0.948,),
        "DP-GAN-FT": (0.902, 0.109, 0.138, 0.112, 0.120),
        "DP-MEPF": (0.648, 0.421, 0.683, 0.504, 0.002),
        "DP-GAN-MI": (0.947, 0.716, 0.495, 0.002, 0.001),
        "DP-MGE": (0.855, 0.907, 0.868, 0.783, 0.021),
        "DP-DRE": (0.934, 0.925, 0.883, 0.888, 0.880),
    },
}
"""Precision and recall of the distribution on cars, of the five further sets the one that ours are nearest in kind."""
