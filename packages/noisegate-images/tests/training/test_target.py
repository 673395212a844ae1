import numpy as np
import pytest
from tests.shared.stated import certificate

from noisegate.privacy.release import Release
from noisegate_images.training.target import read_target


def made_up(counts, sums, records=None, count_std=2.0):
    values, stds = {"f": np.asarray(sums, dtype=float)}, {"f": 0.5}
    if counts is not None:
        values["counts"], stds["counts"] = np.asarray([counts], dtype=float), count_std
    return Release(
        values=values,
        noise_std=stds,
        certificate=certificate(public={"records": records}),
    )


def test_sums_are_divided_by_counts_class_by_class():
    target = read_target(made_up([100, 300], [[50, 30], [10, -60]]), counts="counts")
    np.testing.assert_allclose(target.means["f"], [[0.5, 0.1], [0.1, -0.2]])
    np.testing.assert_allclose(target.noise_std["f"], [0.005, 0.5 / 300])
    np.testing.assert_allclose(target.weights, [0.25, 0.75])
    assert target.records == 400


def test_a_class_lost_in_the_noise_has_no_weight_and_no_huge_mean():
    target = read_target(made_up([100, -3], [[50, 1], [10, 1]]), counts="counts")
    np.testing.assert_allclose(target.weights, [1, 0])
    assert (
        np.abs(target.means["f"][1]).max() == 0.5
    )  # divided by one noise standard deviation, 2


def test_sums_that_count_as_well_are_averaged_in_by_their_precisions():
    # The second sum counts [80, 320] with variance 0.5² (1 + 1) = 1/2, the counts [100, 300] with 4.
    release = made_up([100, 300], [[50, 200], [30, 120]])
    target = read_target(release, counts="counts", counters={"f": np.ones(2)})
    counts = (np.array([100, 300]) / 4 + np.array([80, 320]) * 2) / (1 / 4 + 2)
    np.testing.assert_allclose(target.weights, counts / counts.sum())
    np.testing.assert_allclose(target.records, 400)
    np.testing.assert_allclose(target.means["f"][:, 0], [50, 200] / counts)


def test_no_class_above_zero_gives_even_weights():
    target = read_target(made_up([-1, -5, 0], np.zeros((2, 3))), counts="counts")
    np.testing.assert_allclose(target.weights, [1 / 3] * 3)
    assert target.records == 1


@pytest.mark.parametrize(("records", "expected"), [(50, 50), (None, 1)])
def test_a_public_number_of_records_stands_in_for_the_count(records, expected):
    target = read_target(made_up(None, [[25.0]], records=records), counts="counts")
    assert target.records == expected
    assert target.means["f"][0, 0] == 25 / expected
    assert target.weights.tolist() == [1]
