"""Released pairs are denoised, and a search that ends far from what was released sets out twice."""

from itertools import combinations

import numpy as np
import pytest

from noisegate.tables.descent import MixtureSettings
from noisegate.tables.mixture_fit import FAR, MixtureFit, column_basis, denoised_pairs
from noisegate.tables.released import Table
from noisegate.tables.tables import class_tables

SMALL = MixtureSettings(components=60, steps=300)


def alike(records, std, *, columns=4, cells=12, seed=0):
    """Tables of columns that nearly say the same, as one number in cells cut a little apart, and of two classes."""
    random = np.random.default_rng(seed)
    hidden = random.exponential(size=records)
    codes = [
        np.clip(cells * hidden / 3 + random.normal(scale=0.2, size=records), 0, cells - 1).astype(int)
        for _ in range(columns)
    ]
    codes.append((hidden > np.quantile(hidden, 0.97)).astype(int))
    sizes = (*[cells] * columns, 2)
    asked = [(one, columns) for one in range(columns)]
    asked += [(one, two, columns) for one in range(columns) for two in range(one)]
    tables = []
    for which in (tuple(sorted(each)) for each in asked):
        counts = np.zeros([sizes[column] for column in which])
        np.add.at(counts, tuple(codes[column] for column in which), 1)
        tables.append(Table(columns=which, counts=counts + random.normal(scale=std, size=counts.shape), noise_std=std))
    return tables, sizes, columns


def fit(tables, sizes, label, settings=SMALL):
    """The first columns stand in an order."""
    ordered = [0 if column == label else size for column, size in enumerate(sizes)]
    return MixtureFit(tables, sizes, label, settings, seed=0, ordered=ordered)


def fitted(released, settings=SMALL):
    one = fit(*released, settings)
    one.run()
    return one


def pair_of(joint, records, std, *, ordered, seed=0):
    """The two-way table of a joint distribution as drawn, as released, and as denoised."""
    random = np.random.default_rng(seed)
    drawn = random.multinomial(records, joint.ravel()).reshape(joint.shape).astype(float)
    margins = [
        Table(columns=(axis,), counts=drawn.sum(axis=1 - axis) + random.normal(scale=std, size=size), noise_std=std)
        for axis, size in enumerate(joint.shape)
    ]
    noisy = drawn + random.normal(scale=std, size=joint.shape)
    tables = class_tables([*margins, Table(columns=(0, 1), counts=noisy, noise_std=std)], joint.shape, None)
    rows, columns = tables.spans
    return drawn, noisy, denoised_pairs(tables, ordered).pairs[0, rows, columns]


def normal_pair(cells, correlation):
    at = np.linspace(-2.5, 2.5, cells)
    joint = np.exp(-(at[:, None] ** 2 - 2 * correlation * at[:, None] * at + at**2) / (2 * (1 - correlation**2)))
    return joint / joint.sum()


def correlation_of(table):
    at = np.arange(len(table))
    share = table / table.sum()
    first, second = share.sum(axis=1), share.sum(axis=0)
    left, right = at - first @ at, at - second @ at
    return float(left @ share @ right / np.sqrt((first @ left**2) * (second @ right**2)))


@pytest.mark.parametrize("ordered", [36, 35, 0])
@pytest.mark.parametrize("empty", [0, 10, 34])
def test_the_vectors_of_a_basis_sum_to_zero_also_where_cells_are_empty(ordered, empty):
    random = np.random.default_rng(empty)
    shares = random.dirichlet(np.ones(36))
    shares[random.permutation(36)[:empty]] = 0
    basis, _ = column_basis(shares, ordered)
    assert np.abs(basis.sum(axis=0)).max() < 1e-12
    assert basis.T @ basis == pytest.approx(np.eye(35), abs=1e-12)


def test_the_correlation_of_a_pair_outlives_noise_that_is_larger_than_its_cells():
    """Of 20 records in a cell and noise of 25 on each, a fifth of the noise is left, and all of the correlation."""
    joint, left, errors = normal_pair(22, 0.3), [], []
    for seed in range(20):
        drawn, noisy, found = pair_of(joint, 10_000, 25.0, ordered=(22, 22), seed=seed)
        left.append(np.square(found - drawn).sum() / np.square(noisy - drawn).sum())
        errors.append(correlation_of(found) - correlation_of(drawn))
    assert np.mean(left) < 0.2
    assert abs(np.mean(errors)) < 0.06 and np.std(errors) < 0.1


def test_of_independent_columns_next_to_no_dependence_is_left():
    joint = np.outer(np.full(12, 1 / 12), np.linspace(1, 3, 9) / 18)
    for ordered in ((12, 9), (0, 0)):
        left = []
        for seed in range(20):
            _, noisy, found = pair_of(joint, 2_000, 25.0, ordered=ordered, seed=seed)
            apart = [each - np.outer(each.sum(axis=1), each.sum(axis=0)) / each.sum() for each in (found, noisy)]
            left.append(np.square(apart[0]).sum() / np.square(apart[1]).sum())
        assert np.mean(left) < 0.15


@pytest.mark.parametrize("ordered", [(8, 7), (7, 0), (0, 0)])  # the second: a cell of missing values, and codes
def test_a_clear_table_stays_as_it_was(ordered):
    joint = np.random.default_rng(1).dirichlet(np.full(56, 0.3)).reshape(8, 7)
    _, noisy, found = pair_of(joint, 1_000_000, 2.0, ordered=ordered)
    assert np.abs(found - noisy).max() < 12


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_columns_that_nearly_say_the_same_are_followed_to_the_noise(seed):
    one = fitted(alike(9_000, 2.0, seed=seed))
    assert one.discrepancy < 1.5 and one.warning is None


def test_a_search_that_ends_far_sets_out_again_and_the_nearer_is_kept():
    released, settings = alike(200_000, 2.0), MixtureSettings(components=8, steps=40)
    one = fitted(released, settings)
    # Twice for the trial and twice for the fit.
    assert one.step == one.steps == 4 * 40
    first = fitted(released, MixtureSettings(components=8, steps=40, init_std=0.3))
    wider = fitted(released, MixtureSettings(components=8, steps=40, init_std=0.9))
    assert FAR < one.discrepancy <= max(first.discrepancy, wider.discrepancy)


def test_a_fit_far_from_its_release_says_so():
    released = alike(9_000, 2.0)
    one = fitted(released, MixtureSettings(components=2, steps=30))
    assert one.discrepancy > FAR
    assert one.warning is not None and f"{one.discrepancy:.2g} times what the noise" in one.warning
    assert '"components": 4, "steps": 90' in one.warning
    assert fit(*released).warning is None  # not run yet


def test_a_second_search_taken_up_again_ends_with_the_same_bits():
    released, settings = alike(200_000, 2.0), MixtureSettings(components=8, steps=20)
    states = {}
    whole = fit(*released, settings)
    whole.run(lambda state: states.update({state.step: whole.state_dict()}))
    for step in (20, 21, 40, 60, 79):
        again = fit(*released, settings)
        again.load_state_dict(states[step])
        again.run()
        assert again.reached.weights.tobytes() == whole.reached.weights.tobytes()
        assert (again.step, again.discrepancy) == (whole.step, whole.discrepancy)


def test_a_checkpoint_of_an_earlier_version_is_refused():
    one = fit(*alike(500, 2.0))
    with pytest.raises(ValueError, match="an earlier version"):
        one.load_state_dict({"logits": np.zeros(3), "progress": np.zeros(6)})


def independent(records, std, *, columns=6, cells=8, seed=0):
    """Tables of the pairs of columns that have nothing to do with each other, without a label."""
    random = np.random.default_rng(seed)
    codes = np.minimum(random.geometric(0.3, size=(columns, records)) - 1, cells - 1)
    tables = []
    for which in [*((one,) for one in range(columns)), *combinations(range(columns), 2)]:
        counts = np.zeros([cells] * len(which))
        np.add.at(counts, tuple(codes[column] for column in which), 1)
        tables.append(Table(columns=which, counts=counts + random.normal(scale=std, size=counts.shape), noise_std=std))
    return tables, (cells,) * columns, None


def test_a_fit_of_columns_that_have_nothing_to_do_with_each_other_is_nearly_their_product():
    one = fitted(independent(500, 30.0))
    weights, spans = one.reached.weights, one.tables.spans
    cells = [one.reached.cells[:, span].transpose(0, 2, 1) for span in spans]
    first, second = (np.einsum("ck,cka->a", weights, part) for part in cells[:2])
    both = np.einsum("ck,cka,ckb->ab", weights, cells[0], cells[1])
    assert np.abs(both - np.outer(first, second)).sum() / 2 < 0.15
