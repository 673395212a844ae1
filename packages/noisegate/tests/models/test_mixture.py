import itertools

import numpy as np
import pytest
import torch
from scipy.stats import chi2
from tests.shared.columns import boolean, categorical, continuous, integer

from noisegate.models.mixture import Mixture
from noisegate.models.within_cell import WithinCell
from noisegate.queries.binning import NumericBins
from noisegate.schema import Schema

FIRST = [categorical("job", "abc", missing=True), integer("age", 0, 9, missing=True)]
SCHEMA = Schema(
    [*FIRST, boolean("member"), continuous("rate", 0.0, 10.0)], label="member"
)
K = 3


def mixture(seed=0, dtype=np.float64):
    """Columns age, rate, job, member with 4, 2, 4 and 2 cells; a few probabilities are zero."""
    numbers = np.random.default_rng(seed)
    age, rate = SCHEMA.layout.numeric
    within = (
        WithinCell.from_edges(
            age,
            NumericBins((3 / 9, 6 / 9), nullable=True),
            edges=np.array([0, 1 / 9, 3 / 9, 6 / 9, 1]),
            masses=np.array([3.0, 1.0, 1.0, 1.0]),
        ),
        WithinCell.from_edges(
            rate, NumericBins((0.5,)), edges=np.array([0, 0.5, 1]), masses=np.ones(2)
        ),
    )
    tables = [
        numbers.dirichlet(np.ones(size), K).astype(dtype) for size in (4, 2, 4, 2)
    ]
    tables[2][0] = [0, 0.5, 0.5, 0]
    return Mixture(
        layout=SCHEMA.layout,
        within=within,
        weights=np.array([0.5, 0.3, 0.2], dtype=dtype),
        probabilities=tuple(tables),
    )


def joint(model):
    """The probability of every combination of cells, by its definition."""
    full = np.zeros(model.sizes)
    for cells in itertools.product(*map(range, model.sizes)):
        product = np.prod(
            [
                table[:, cell]
                for table, cell in zip(model.probabilities, cells, strict=True)
            ],
            axis=0,
        )
        full[cells] = (model.weights * product).sum()
    return full


def drawn(model, rows=40_000, seed=0):
    return model.draw(rows, torch.Generator().manual_seed(seed))


def shares(model, records):
    counts = np.zeros(model.sizes)
    np.add.at(counts, tuple(model.cells(records).T), 1 / len(records))
    return counts


def assert_close_to(counts, expected, rows):
    """Every share within five standard deviations: 64 cells, so one false alarm in 30,000."""
    assert (
        np.abs(counts - expected)
        <= 5 * np.sqrt(expected * (1 - expected) / rows) + 1e-12
    ).all()


def test_records_come_in_the_shares_of_the_mixture():
    model = mixture()
    assert_close_to(shares(model, drawn(model)), joint(model), 40_000)
    # Two-sided: the test can tell the mixture from the product of its own columns.
    product = np.einsum(
        "a,b,c,d->abcd", *(model.marginal([column]) for column in range(4))
    )
    with pytest.raises(AssertionError):
        assert_close_to(shares(model, drawn(model)), product, 40_000)


def chi_square(counts, expected):
    """Pearson's statistic over the cells that can be, and its degrees of freedom."""
    can = expected > 0
    assert (counts[~can] == 0).all()
    return ((counts - expected)[can] ** 2 / expected[can]).sum(), can.sum() - 1


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_every_combination_of_cells_is_expected_as_often_as_the_mixture_says(rows):
    """Unbiased also for few rows, the first one like all. |z| < 5.5 of 128 shares: a false alarm in 200,000."""
    model = mixture()
    random = torch.Generator().manual_seed(0)
    draws = 2000
    full = joint(model)
    counts = np.zeros((draws, *full.shape))
    first = np.zeros(full.shape)
    for draw in range(draws):
        cells = model.cells(model.draw(rows, random))
        np.add.at(counts[draw], tuple(cells.T), 1)
        first[tuple(cells[0])] += 1
    error = np.sqrt(full * (1 - full) * rows / draws)
    assert (np.abs(counts.mean(axis=0) - rows * full) <= 5.5 * error + 1e-12).all()
    assert (np.abs(first - draws * full) <= 5.5 * np.sqrt(draws * full) + 1e-12).all()


@pytest.mark.parametrize("pair", list(itertools.combinations(range(4), 2)))
def test_pair_tables_scatter_no_more_than_those_of_independent_records(pair):
    """Chi-square with a false-alarm rate of 1e-6: columns that shared ranks would be far beyond."""
    model = mixture()
    rows = 40_000
    away = tuple(axis for axis in range(4) if axis not in pair)
    counts = shares(model, drawn(model, rows)).sum(axis=away) * rows
    statistic, freedom = chi_square(counts, joint(model).sum(axis=away) * rows)
    assert statistic < chi2.isf(1e-6, freedom)


def identified(weights):
    """One coded column, whose cell is the component."""
    size = len(weights)
    layout = Schema((categorical("c", tuple(map(str, range(size)))),)).layout
    return Mixture(
        layout=layout,
        within=(),
        weights=np.asarray(weights),
        probabilities=(np.eye(size),),
    )


def test_the_component_of_a_record_does_not_depend_on_its_place():
    """Chi-square of places and components with a false-alarm rate of 1e-6, which sorted rows fail."""
    component = drawn(identified([0.4, 0.3, 0.2, 0.1]), 20_000).codes[:, 0]

    def statistic(component):
        counts = np.zeros((20, 4))
        np.add.at(counts, (np.arange(20_000) // 1000, component), 1)
        return chi_square(counts, np.broadcast_to(counts.mean(axis=0), counts.shape))[0]

    assert statistic(component) < chi2.isf(1e-6, 19 * 3) < statistic(np.sort(component))
    following = np.zeros((4, 4))
    np.add.at(following, (component[:-1], component[1:]), 1)
    assert (
        chi_square(
            following, np.outer(following.sum(axis=1), following.sum(axis=0)) / 19_999
        )[0]
        < 50
    )


def test_no_records_are_drawn_where_none_are_asked_for():
    model = mixture()
    for one in (model, model.given(SCHEMA.region({"job": "b", "age": (1, 4)}))):
        records = drawn(one, 0)
        assert records.numeric.shape == (0, 2)
        assert records.codes.shape == (0, 2)


@pytest.mark.parametrize("columns", [[0], [2, 0], [3, 1, 0], [2, 3, 0, 1]])
def test_marginals_are_sums_of_the_joint_distribution(columns):
    model = mixture()
    expected = np.einsum(joint(model), [0, 1, 2, 3], columns)
    np.testing.assert_allclose(model.marginal(columns), expected, atol=1e-12)


@pytest.mark.parametrize("column", range(4))
def test_log_joint_is_that_of_the_joint_distribution(column):
    model = mixture()
    cells = np.array(list(itertools.product(*map(range, model.sizes))))
    joint_shares = np.exp(model.log_joint(cells, column))[
        np.arange(len(cells)), cells[:, column]
    ]
    np.testing.assert_allclose(joint_shares, joint(model).ravel(), atol=1e-14)
    np.testing.assert_allclose(
        model.log_joint(cells[:4], column),
        model.log_joint(cells, column)[:4],
        atol=1e-12,
    )
    assert model.log_joint(cells[:0], column).shape == (0, model.sizes[column])


def test_what_cannot_be_has_minus_infinite_log_probability_and_is_never_drawn():
    model = Mixture(
        layout=Schema((boolean("b"),)).layout,
        within=(),
        weights=np.array([1.0, 0.0]),
        probabilities=(np.array([[0.0, 1.0], [1.0, 0.0]]),),
    )
    assert model.log_joint(np.array([[0]]), 0).tolist() == [[-np.inf, 0.0]]
    assert (drawn(model, 1000).codes == 1).all()


@pytest.mark.parametrize(
    "values",
    [
        {"job": "b"},
        {"member": True, "job": None},
        {"age": None},
        {"age": (1, 4)},
        {"age": 0, "rate": (2.5, 7.5)},
        {"rate": (6.0, None), "member": False, "age": "..8"},
    ],
)
def test_a_conditional_mixture_is_the_mixture_seen_through_its_region(values):
    """Against rejection: the same records, and as many of them as `probability` says."""
    model = mixture()
    region = SCHEMA.region(values)
    records = drawn(model, 200_000, seed=1)
    inside = records.rows(region.contains(records))
    share = len(inside) / len(records)
    assert (
        abs(model.probability(region) - share)
        < 5 * (share * (1 - share) / len(records)) ** 0.5
    )
    conditioned = model.given(region)
    direct = drawn(conditioned, 40_000, seed=2)
    assert region.contains(direct).all()
    assert_close_to(shares(conditioned, inside), joint(conditioned), len(inside))
    assert_close_to(shares(conditioned, direct), joint(conditioned), len(direct))
    for column in range(2):
        one, other = (table.numeric[:, column] for table in (direct, inside))
        one = one[~np.isnan(one)]
        other = other[~np.isnan(other)]
        if len(one):
            assert (
                abs(one.mean() - other.mean())
                < 5 * (1 / len(one) + 1 / len(other)) ** 0.5 * 0.5
            )


def test_a_conditional_mixture_can_be_saved_and_conditioned_again():
    model = mixture()
    first = SCHEMA.region({"job": "b", "age": (0, 4)})
    second = SCHEMA.region({"age": (2, 8)})
    both = SCHEMA.region({"job": "b", "age": (2, 4)})
    once = saved_and_loaded(model.given(first))
    assert once.probability(second) == pytest.approx(
        model.probability(both) / model.probability(first)
    )
    np.testing.assert_allclose(
        joint(once.given(second)), joint(model.given(both)), atol=1e-12
    )


def test_a_region_that_no_component_reaches_has_probability_zero():
    model = mixture()
    region = SCHEMA.region({"rate": 5.0})  # one point of an interval
    assert model.probability(region) == 0
    with pytest.raises(ValueError, match="probability zero"):
        model.given(region)


def saved_and_loaded(model):
    return Mixture.from_saved(SCHEMA, model.tensors(), model.to_json())


@pytest.mark.parametrize(
    "broken",
    [
        {"weights": np.array([0.5, 0.5])},
        {"weights": np.array([1.5, -0.3, -0.2])},
        {"weights": np.array([0.5, 0.3, np.nan])},
        {"probabilities/0": np.full((3, 4), 0.5)},
        {"probabilities/1": np.full((3, 3), 1 / 3)},
    ],
)
def test_broken_tensors_are_refused(broken):
    model = mixture()
    with pytest.raises(ValueError, match="probabilities"):
        Mixture.from_saved(SCHEMA, {**model.tensors(), **broken}, model.to_json())
