"""Every value has exactly one cell, whatever it is, and only that value decides."""

import numpy as np
import pytest

from noisegate.errors import OptionError
from noisegate.queries.binning import NumericBins


def test_a_value_on_a_cut_belongs_to_the_interval_above():
    bins = NumericBins((0.25, 0.5))
    values = np.array([0.0, np.nextafter(0.25, 0), 0.25, 0.4999, 0.5, 1.0])
    assert bins.codes(values).tolist() == [0, 0, 1, 1, 2, 2]
    assert bins.codes(values).dtype == np.int32


@pytest.mark.parametrize(("nullable", "size"), [(False, 3), (True, 4)])
def test_missing_values_go_to_the_last_cell(nullable, size):
    bins = NumericBins((0.25, 0.5), nullable)
    assert bins.size == size
    assert bins.codes(np.array([np.nan, 0.1, np.nan])).tolist() == [
        size - 1,
        0,
        size - 1,
    ]


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("cuts", [(), (0.5,), (0.001, 0.999)])
def test_no_value_falls_outside_all_cells(cuts, nullable):
    bins = NumericBins(cuts, nullable)
    values = np.array([-np.inf, -1e300, -1.0, -0.0, 0.3, 1.0, 2.0, np.inf, np.nan])
    codes = bins.codes(values)
    assert codes.min() >= 0
    assert codes.max() <= bins.size - 1
    # Beyond the bounds is in the outermost interval, never in the cell for missing values.
    assert codes[:3].tolist() == [0, 0, 0]
    assert set(codes[5:8].tolist()) == {len(cuts)}


@pytest.mark.parametrize(
    "cuts",
    [
        (0.0,),
        (1.0,),
        (-0.1, 0.5),
        (0.5, 1.1),
        (0.5, 0.5),
        (0.6, 0.5),
        (float("nan"),),
        (0.1, float("nan"), 0.5),
    ],
)
def test_cuts_out_of_order_are_refused(cuts):
    with pytest.raises(OptionError, match="strictly increasing"):
        NumericBins(cuts)


@pytest.mark.parametrize(
    "cuts",
    [
        (),
        np.arange(1, 20) / 20,
        (np.arange(1023) + 0.5) / 1023,
        (0.25, np.nextafter(0.25, 1), 0.5, 0.5 + 2**-40, np.nextafter(1.0, 0)),
        (
            5e-324,
            1e-300,
            *(np.arange(1, 9) * 1e-7),
            0.7,
        ),  # so many in one part of [0, 1] that they are searched for
    ],
)
def test_a_value_is_looked_up_where_a_search_among_the_cuts_finds_it(cuts):
    bins = NumericBins(tuple(np.asarray(cuts).tolist()))
    random = np.random.default_rng(1)
    ends = np.array(
        [*cuts, *(np.arange(2049) / 2048), -1.0, -0.0, 2.0, -np.inf, np.inf]
    )
    values = np.concatenate(
        [
            ends,
            np.nextafter(ends, 9),
            np.nextafter(ends, -9),
            random.uniform(size=999),
            [np.nan],
        ]
    )
    for order in (values, np.repeat(values[:, None], 3, axis=1)[:, 1]):
        assert (
            bins.codes(order).tolist()
            == np.searchsorted(np.asarray(cuts), order, side="right").tolist()
        )
