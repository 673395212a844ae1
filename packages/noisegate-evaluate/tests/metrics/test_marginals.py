import itertools

import numpy as np
import pyarrow as pa
import pytest

from noisegate.schema import Categorical, Continuous, Integer, Schema
from noisegate_evaluate import marginal_distances
from noisegate_evaluate.metrics import marginals

AB = Schema(
    columns=(
        Categorical(name="a", levels=("x", "y")),
        Categorical(name="b", levels=("u", "v")),
    )
)


def table(pairs):
    return pa.table(
        {"a": [pair[0] for pair in pairs], "b": [pair[1] for pair in pairs]}
    )


def test_a_hand_computed_case():
    # a: (3/4, 1/4) against (1/2, 1/2); b: the same on both sides.
    # Pairs xu, xv, yu, yv: (1/2, 1/4, 0, 1/4) against (0, 1/2, 1/2, 0).
    report = marginal_distances(
        table(["xu", "xu", "xv", "yv"]), table(["xv", "yu"]), AB
    )
    assert report.order(1).mean == pytest.approx((0.25 + 0.0) / 2)
    assert report.order(1).largest == pytest.approx(0.25)
    assert report.order(1).largest_columns == ("a",)
    assert report.order(2).mean == pytest.approx((0.5 + 0.25 + 0.5 + 0.25) / 2)


def test_bins_are_equal_width_between_the_schema_bounds():
    schema = Schema(columns=(Integer(name="n", lower=0, upper=100),))

    def distance(left, right, bins):
        return (
            marginal_distances(
                pa.table({"n": [left]}), pa.table({"n": [right]}), schema, bins=bins
            )
            .order(1)
            .mean
        )

    assert distance(0, 4, 20) == 0.0  # one bin is five wide
    assert distance(4, 5, 20) == 1.0
    assert distance(95, 100, 20) == 0.0  # the upper bound belongs to the last bin
    assert distance(0, 100, 1) == 0.0


def test_missing_and_outside_are_cells_of_their_own():
    schema = Schema(columns=(Integer(name="n", lower=0, upper=9, missing=True),))
    present, missing, outside = (
        pa.table({"n": values}) for values in (["0"], ["?"], ["zero"])
    )
    for left, right in itertools.permutations((present, missing, outside), 2):
        assert marginal_distances(left, right, schema).order(1).mean == 1.0


def test_the_shares_of_a_column_are_those_of_its_bins_and_of_what_is_missing():
    column = Integer(name="n", lower=0, upper=20, missing=True)
    tables = pa.table({"n": [0, None]}), pa.table({"n": [20, 20, 20, 0]})
    shown = marginals.column_shares(*tables, column, Schema(columns=(column,)), bins=20)
    assert (shown.real[0], shown.real[19], len(shown.real)) == (0.25, 0.75, 22)
    assert shown.synthetic.tolist() == [0.5, *[0.0] * 19, 0.5, 0.0]
    assert shown.distance == pytest.approx(0.75)


def test_the_subset_is_as_large_as_asked_and_reported_and_seeded():
    generator = np.random.default_rng(0)
    names = [f"c{i}" for i in range(12)]
    schema = Schema(
        columns=tuple(Categorical(name=name, levels=(0, 1)) for name in names)
    )
    left, right = (
        pa.table({name: generator.integers(0, 2, 60) for name in names})
        for _ in range(2)
    )
    first, again, other = (
        marginal_distances(left, right, schema, max_subsets=40, seed=seed).order(3)
        for seed in (1, 1, 2)
    )
    assert (first.used, first.total) == (40, 220)
    assert first == again
    assert first.mean != other.mean
    whole = marginal_distances(left, right, schema, max_subsets=220).order(3)
    assert (whole.used, whole.total) == (220, 220)
    assert marginal_distances(left, right, schema, max_subsets=1).order(2).used == 66


def test_renumbered_cells_give_the_same_distances_as_dense_ones(monkeypatch):
    generator = np.random.default_rng(3)
    schema = Schema(
        columns=tuple(Continuous(name=name, lower=0.0, upper=1.0) for name in "abcd")
    )
    left, right = (
        pa.table({name: generator.beta(2, shape, 300) for name in "abcd"})
        for shape in (2, 3)
    )
    dense = marginal_distances(left, right, schema, orders=(1, 2, 3, 4))
    monkeypatch.setattr(marginals, "_DENSE_CELLS", 10)
    sparse = marginal_distances(left, right, schema, orders=(1, 2, 3, 4))
    for thick, thin in zip(dense.orders, sparse.orders, strict=True):
        assert 0 < thick.mean < 1
        assert thin.mean == pytest.approx(thick.mean, abs=1e-12)


def test_many_wide_columns_do_not_overflow():
    names = [f"c{i}" for i in range(8)]
    schema = Schema(
        columns=tuple(Continuous(name=name, lower=0.0, upper=1.0) for name in names)
    )
    rows = pa.table({name: np.linspace(0, 1, 50) for name in names})
    far = pa.table(
        {
            name: np.linspace(1, 0, 50) if name == "c7" else np.linspace(0, 1, 50)
            for name in names
        }
    )
    assert (
        marginal_distances(rows, rows, schema, orders=(8,), bins=10**6).order(8).mean
        == 0.0
    )
    assert marginal_distances(rows, far, schema, orders=(8,), bins=10**6).order(
        8
    ).mean == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("cells", "left", "right"), [(5, 40, 1000), (300, 500, 2000), (50, 20_000, 3000)]
)
def test_what_sampling_does_is_what_two_samples_of_one_table_are_apart(
    cells, left, right
):
    random = np.random.default_rng(cells)
    shares = random.dirichlet(np.ones(cells) / 2)
    pairs = [
        (random.multinomial(left, shares), random.multinomial(right, shares))
        for _ in range(100)
    ]
    apart = [marginals.total_variation(*pair) for pair in pairs]
    expected = [marginals.expected_distance(*pair) for pair in pairs]
    # The mean of 100 distances, whose spread is known.
    assert abs(np.mean(expected) - np.mean(apart)) < 5 * np.std(apart) / 10


def test_what_is_beyond_sampling_is_nothing_for_samples_and_the_rest_for_others():
    schema = Schema([Categorical(name=name, levels=tuple("abcd")) for name in "xy"])
    random = np.random.default_rng(0)

    def drawn(rows, ends):
        return pa.table(
            {name: random.choice(list("abcd"), rows, p=ends) for name in "xy"}
        )

    even = [0.25] * 4
    uneven = [0.4, 0.2, 0.2, 0.2]
    same = marginal_distances(drawn(4_000, even), drawn(2_000, even), schema).order(2)
    other = marginal_distances(drawn(4_000, even), drawn(2_000, uneven), schema).order(
        2
    )
    assert same.mean == pytest.approx(same.sampling, rel=0.4)
    assert same.beyond_sampling < 0.03
    assert other.beyond_sampling == pytest.approx(0.2025, abs=0.03)
    assert other.to_json()["sampling_total_variation"] == other.sampling
