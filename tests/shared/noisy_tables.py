"""Noisy tables of columns by their numbers, as tests of fits write them."""

import numpy as np

from noisegate.answers.domain import Domain
from noisegate.answers.noisy_table import NoisyTable


def numbered_domain(sizes):
    """Columns c0, c1, ... with so many cells each."""
    return Domain.of({f"c{column}": range(size) for column, size in enumerate(sizes)})


def numbered_table(columns, counts, noise_std):
    """A table of some of these columns, by their numbers."""
    counts = np.asarray(counts, dtype=float)
    cells = {
        f"c{column}": range(size)
        for column, size in zip(columns, counts.shape, strict=True)
    }
    return NoisyTable.of(Domain.of(cells), counts, noise_std=noise_std)
