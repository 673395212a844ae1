"""Released tables by class: where each count goes, and what all tables together say about one column."""

import math

import numpy as np
import pytest
from tests.shared.noisy_tables import numbered_domain, numbered_table

from noisegate.models.tables.packed_tables import estimate_shares, pack_tables, split

SIZES = (2, 3, 2)
LABEL = 1


def table(columns, counts, noise_std=1.0):
    return numbered_table(
        columns=columns, counts=np.asarray(counts, dtype=float), noise_std=noise_std
    )


def exact(columns, records):
    counts = np.zeros([SIZES[column] for column in columns])
    np.add.at(counts, tuple(records[:, column] for column in columns), 1)
    return counts


@pytest.fixture
def records():
    random = np.random.default_rng(0)
    return np.stack([random.integers(0, size, 400) for size in SIZES], axis=1)


def test_counts_of_a_pair_stand_at_the_offsets_of_its_columns_in_each_class():
    counts = np.arange(12.0).reshape(2, 3, 2)  # columns 0, label, 2
    packed = pack_tables([table((0, 1, 2), counts, 0.5)], numbered_domain(SIZES), LABEL)
    assert packed.sizes == (2, 2)
    assert packed.pair_counts.shape == (3, 4, 4)
    for row in range(3):
        assert packed.pair_counts[row, :2, 2:].tolist() == counts[:, row, :].tolist()
    assert packed.pair_inverse_std.tolist() == [
        [0, 0, 2, 2],
        [0, 0, 2, 2],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    assert packed.triples == ()


def test_tables_without_the_label_are_not_used(records):
    tables = [table((1,), exact((1,), records)), table((0, 1), exact((0, 1), records))]
    packed = pack_tables(tables, numbered_domain(SIZES), LABEL)
    more = pack_tables(
        [*tables, table((0,), [1e6, 1e6]), table((), 1e6)],
        numbered_domain(SIZES),
        LABEL,
    )
    assert np.array_equal(packed.one_way_counts, more.one_way_counts)
    assert np.array_equal(packed.class_counts, more.class_counts)


def measured(records, seed, columns, stds):
    random = np.random.default_rng(seed)
    return [
        table(
            table_columns,
            exact(table_columns, records)
            + random.normal(scale=std, size=exact(table_columns, records).shape),
            std,
        )
        for table_columns, std in zip(columns, stds, strict=True)
    ]


def test_single_columns_are_the_inverse_variance_estimate(records):
    """Each table gives an estimate of a cell by adding up; their noise is independent, their weight by its variance."""
    columns = [(1,), (0, 1), (1, 2), (0, 1, 2)]
    stds = [1.0, 2.0, 3.0, 0.7]
    tables = measured(records, 0, columns, stds)
    packed = pack_tables(tables, numbered_domain(SIZES), LABEL)
    for row in range(3):
        for cell in range(2):
            estimates = [
                tables[1].counts[cell, row],
                tables[3].counts[cell, row, :].sum(),
            ]
            variances = np.array([2.0**2, 2 * 0.7**2])
            assert packed.one_way_counts[row, cell] == pytest.approx(
                np.average(estimates, weights=1 / variances)
            )
            assert packed.one_way_std[cell] == pytest.approx(
                (1 / variances).sum() ** -0.5
            )
        estimates = [
            tables[0].counts[row],
            tables[1].counts[:, row].sum(),
            tables[2].counts[row].sum(),
            tables[3].counts[:, row].sum(),
        ]
        variances = np.array([1.0, 2 * 2.0**2, 2 * 3.0**2, 4 * 0.7**2])
        assert packed.class_counts[row] == pytest.approx(
            # Shrunk a little towards equal classes: by less than its noise.
            np.average(estimates, weights=1 / variances),
            abs=0.5 * (1 / variances).sum() ** -0.5,
        )


@pytest.mark.parametrize("seed", [0, 1])
def test_halves_have_the_stated_noise_and_nothing_in_common(seed):
    truth = np.full(40_000, 100.0)
    std = 3.0
    cells = 40_000
    released = table(
        (0,),
        truth + np.random.default_rng(100 + seed).normal(scale=std, size=cells),
        std,
    )
    (trial,), (judge,) = split([released], np.random.default_rng(seed))
    for half, factor in ((trial, math.sqrt(5 / 4)), (judge, math.sqrt(5))):
        assert half.noise_std == pytest.approx(std * factor)
        # A standard deviation of n draws is off by 1/√2n of itself: five of these.
        assert (half.counts - truth).std() == pytest.approx(
            half.noise_std, rel=5 / math.sqrt(2 * cells)
        )
        assert half.domain.names == ("c0",)
    correlation = np.corrcoef(trial.counts - truth, judge.counts - truth)[0, 1]
    assert abs(correlation) < 5 / math.sqrt(cells)


def test_every_table_is_split_with_noise_of_its_own():
    released = [table((0,), np.zeros(1000), 1.0), table((1,), np.zeros(1000), 1.0)]
    trial, _ = split(released, np.random.default_rng(0))
    assert abs(np.corrcoef(trial[0].counts, trial[1].counts)[0, 1]) < 5 / math.sqrt(
        1000
    )


def shares_of(singles, counts, std):
    tables = [
        table((1,), counts, std),
        table((0, 1), np.asarray(singles, dtype=float).T, std),
    ]
    return estimate_shares(
        pack_tables(tables, numbered_domain((len(singles[0]), len(counts))), 1)
    )


@pytest.mark.parametrize("std", [1e-9, 1.0, 1e3, 1e9])
@pytest.mark.parametrize("scale", [0.0, 1.0, 1e5, -1e5])
def test_shares_are_positive_and_sum_to_one(std, scale):
    random = np.random.default_rng(0)
    singles = scale * random.uniform(size=(3, 8)) + random.normal(
        scale=std, size=(3, 8)
    )
    shares = shares_of(singles, singles.sum(axis=1), std)
    assert (shares > 0).all() or std == 1e-9
    assert (shares >= 0).all()
    assert shares.sum(axis=1) == pytest.approx(np.ones(3))
