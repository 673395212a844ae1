"""What weighs more in the distance of a mixture to its tables."""

from dataclasses import replace

import numpy as np
from tests.shared.noisy_tables import numbered_domain, numbered_table

from noisegate.models.tables.distance import _weighted_scores
from noisegate.models.tables.packed_tables import pack_tables


def test_the_order_of_a_number_weighs_more_also_if_values_may_be_missing():
    """Pins an inside: a fit with the score of missing values only keeps correlations
    a tenth worse, which no journey would notice.
    """
    counts = np.full((5, 3), 100.0)
    tables = pack_tables(
        [numbered_table(columns=(0, 1), counts=counts, noise_std=1.0)],
        numbered_domain((5, 3)),
        None,
    )
    # Four cells with an order and missing values; three levels without an order.
    tables = replace(tables, n_ordered=(4, 0))
    (score,) = _weighted_scores(tables).T
    assert (np.diff(score[:4]) > 0).all() or (np.diff(score[:4]) < 0).all()
    assert abs(score[4]) < abs(score[:4]).max() / 2
    assert not score[5:].any()
