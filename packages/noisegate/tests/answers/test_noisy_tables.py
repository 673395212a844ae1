"""Tables of noisy counts: what is computed of them is what arrays say, with the variance of the noise."""

import numpy as np
import pytest

from noisegate.answers.domain import Domain, NumberRange, nest
from noisegate.answers.noisy_table import NoisyNumber, NoisyTable

DOMAIN = Domain.of(
    {
        "age": (NumberRange(0, 4), NumberRange(5, 9), NumberRange(10, 19), None),
        "sex": ("f", "m"),
        "ill": (False, True),
    }
)
RANDOM = np.random.default_rng(0)
COUNTS = RANDOM.normal(50, 10, DOMAIN.shape)
VARIANCE = RANDOM.uniform(1, 4, DOMAIN.shape)
TABLE = NoisyTable(DOMAIN, COUNTS, VARIANCE)


def test_a_projection_sums_over_the_other_columns_in_the_order_that_is_asked_for():
    table = TABLE.project(["ill", "age"])
    assert table.domain.names == ("ill", "age")
    np.testing.assert_allclose(table.counts, COUNTS.sum(axis=1).T)
    np.testing.assert_allclose(table.variance, VARIANCE.sum(axis=1).T)
    assert TABLE.total == NoisyNumber(
        pytest.approx(COUNTS.sum()), pytest.approx(VARIANCE.sum())
    )


def test_a_condition_takes_the_cells_of_a_level_by_its_name():
    table = TABLE.condition(sex="m", age=None)
    assert table.domain.names == ("ill",)
    np.testing.assert_array_equal(table.counts, COUNTS[3, 1])
    np.testing.assert_array_equal(table.variance, VARIANCE[3, 1])
    with pytest.raises(LookupError, match="'sex' has no cell 'x'"):
        TABLE.condition(sex="x")


def test_cells_of_a_number_are_summed_into_wider_ones():
    wider = (NumberRange(0, 9), NumberRange(10, 19), None)
    table = TABLE.group("age", wider)
    assert table.domain.by_name["age"] == wider
    np.testing.assert_allclose(table.counts[0], COUNTS[:2].sum(axis=0))
    np.testing.assert_allclose(table.counts[1:], COUNTS[2:])
    np.testing.assert_allclose(table.variance[0], VARIANCE[:2].sum(axis=0))
    with pytest.raises(ValueError, match="do not nest"):
        TABLE.group("age", (NumberRange(0, 7), NumberRange(8, 19), None))


def test_a_value_between_two_cells_of_real_numbers_lies_in_the_upper_one():
    fine = [NumberRange(0.0, 0.5), NumberRange(0.5, 1.0), NumberRange(1.0, 1.0)]
    wider = [NumberRange(0.0, 0.5), NumberRange(0.5, 1.0)]
    assert nest(fine, wider).tolist() == [0, 1, 1]


def test_two_estimates_are_combined_with_the_least_variance():
    other = NoisyTable(DOMAIN, COUNTS + 1, 3 * VARIANCE)
    table = TABLE.combine(other)
    np.testing.assert_allclose(table.counts, COUNTS + 0.25)
    np.testing.assert_allclose(table.variance, 0.75 * VARIANCE)
    exact = NoisyTable(DOMAIN, COUNTS - 1, np.zeros(DOMAIN.shape))
    np.testing.assert_array_equal(TABLE.combine(exact).counts, COUNTS - 1)
    np.testing.assert_array_equal(exact.combine(TABLE).counts, COUNTS - 1)
    np.testing.assert_array_equal(exact.combine(exact).variance, 0)
    with pytest.raises(ValueError, match="is not"):
        TABLE.combine(TABLE.project(["sex"]))


def test_sums_of_scores_are_those_of_all_cells():
    scores = {
        name: RANDOM.normal(size=(len(DOMAIN.by_name[name]), 2))
        for name in DOMAIN.names
    }
    sums, variance = TABLE.contract(scores)
    age, sex, ill = (scores[name] for name in DOMAIN.names)
    np.testing.assert_allclose(
        sums, np.einsum("asi,ax,sy,iz->xyz", COUNTS, age, sex, ill)
    )
    np.testing.assert_allclose(
        variance, np.einsum("asi,ax,sy,iz->xyz", VARIANCE, age**2, sex**2, ill**2)
    )


@pytest.mark.parametrize("groups", [(), ("sex",), ("age", "ill")])
def test_errors_of_shares_are_those_of_simulated_noise(groups):
    """The groups are best estimates: by the table and by an independent one of them."""
    random = np.random.default_rng(1)
    truth = np.full(DOMAIN.shape, 400.0)
    variance = np.full(DOMAIN.shape, 90.0)
    other_variance = 250.0
    shares = []
    for _ in range(4000):
        table = NoisyTable(
            DOMAIN,
            truth + np.sqrt(variance) * random.normal(size=DOMAIN.shape),
            variance,
        )
        exact = NoisyTable(DOMAIN, truth, variance).project(groups)
        other = NoisyTable(
            exact.domain,
            exact.counts
            + np.sqrt(other_variance) * random.normal(size=exact.counts.shape),
            np.full(exact.domain.shape, other_variance),
        )
        estimates = table.normalize(table.project(groups).combine(other))
        shares.append(estimates.shares)
    seen = np.std(shares, axis=0)
    # 4,000 draws of 16 cells: each standard deviation is known to 1.1 %.
    np.testing.assert_allclose(seen, estimates.errors, rtol=0.06)


def test_noise_that_is_correlated_is_not_added_up():
    table = NoisyTable(DOMAIN, COUNTS, VARIANCE, is_independent=False)
    for sum_up in (
        lambda: table.project(["sex"]),
        lambda: table.total,
        lambda: table.group("age", DOMAIN.by_name["age"]),
        lambda: table.contract({}),
    ):
        with pytest.raises(ValueError, match="correlated"):
            sum_up()
    assert not table.condition(sex="f").is_independent


def test_arrays_of_another_shape_are_refused():
    with pytest.raises(ValueError, match="differ in shape"):
        NoisyTable(DOMAIN, COUNTS, VARIANCE[0])
