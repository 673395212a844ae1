"""The mixture's fit: it finds what was measured, fits no noise, and goes on with the same bits."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from tests.shared.noisy_tables import numbered_domain, numbered_table

from noisegate.models.tables.mixture_fit import FAR, MixtureFit
from noisegate.models.tables.mixture_settings import MixtureSettings
from noisegate.models.tables.packed_tables import (
    column_basis,
    denoise_pairs,
    pack_tables,
)

SIZES = (4, 3, 5, 2)
LABEL = 3
RECORDS = 20_000
SMALL = MixtureSettings(components=40, steps=120)


def truth(seed=0):
    """A mixture of three products, as one table of all four columns."""
    random = np.random.default_rng(seed)
    joint = np.zeros(SIZES)
    for weight in (0.5, 0.3, 0.2):
        parts = [random.dirichlet(np.full(size, 0.5)) for size in SIZES]
        joint += weight * np.einsum("a,b,c,d->abcd", *parts)
    return joint


def marginal(joint, columns):
    return joint.sum(axis=tuple(column for column in range(4) if column not in columns))


def released(columns_of_tables, std, label=LABEL, seed=0):
    random = np.random.default_rng(seed)
    joint = truth()
    tables = []
    for columns in columns_of_tables:
        with_label = tuple(sorted({*columns, *(() if label is None else (label,))}))
        counts = RECORDS * marginal(joint, with_label)
        tables.append(
            numbered_table(
                columns=with_label,
                counts=counts + random.normal(scale=std, size=counts.shape),
                noise_std=std,
            )
        )
    return tables


def others(label):
    return [column for column in range(4) if column != label]


def columns_measured(label=LABEL, pairs=True, triples=()):
    singles = [(), *((column,) for column in others(label))]
    return [*singles, *(combinations(others(label), 2) if pairs else ()), *triples]


def fit(tables, label=LABEL, settings=SMALL, seed=0):
    return MixtureFit(
        tables,
        numbered_domain(SIZES),
        label,
        settings,
        seed=seed,
        n_ordered=(0,) * len(SIZES),
    )


def shares_of(fit):
    """The share of each class, (classes,)."""
    return fit.tables.class_counts / fit.tables.class_counts.sum()


def parts_of(fit):
    """Components' shares of their class, (classes, K), and each column's cells, (classes, K, cells)."""
    cells = fit.components.cells.transpose(0, 2, 1)
    return fit.components.weights, [
        cells[:, :, span] for span in fit.tables.column_slices
    ]


def joint_of(fit, label=LABEL):
    """The fitted mixture as one table of all columns, the label where it stands."""
    weights, columns = parts_of(fit)
    joint = np.einsum(
        "y,yk,yka,ykb,ykc->yabc" if label is not None else "y,yk,yka,ykb,ykc,ykd->abcd",
        shares_of(fit),
        weights,
        *columns,
    )
    return joint if label is None else np.moveaxis(joint, 0, label)


def distance(left, right):
    return np.abs(left - right).sum() / 2


def product_of(joint, label=LABEL):
    """What is known of a table from its single columns alone, in each class."""
    if label is None:
        parts = [marginal(joint, (column,)) for column in range(4)]
        return np.einsum("a,b,c,d->abcd", *parts)
    shares = marginal(joint, (label,))
    parts = [marginal(joint, (column, label)) / shares for column in others(label)]
    return np.einsum("ad,bd,cd,d->abcd", *parts, shares)


def from_pairs(counts, wanted):
    return np.mean(
        [
            distance(marginal(counts, pair), marginal(wanted, pair))
            for pair in combinations(range(4), 2)
        ]
    )


@pytest.mark.parametrize("label", [LABEL, None])
def test_a_small_mixture_is_recovered_where_noise_is_low(label):
    model = fit(
        released(columns_measured(label), 5.0, label),
        label,
        MixtureSettings(components=40, steps=300),
    )
    model.run()
    model_joint = joint_of(model, label)
    assert model_joint.sum() == pytest.approx(1, abs=1e-5)
    assert from_pairs(model_joint, truth()) < 0.01
    assert from_pairs(model_joint, truth()) < 0.25 * from_pairs(
        product_of(truth(), label), truth()
    )
    assert 0.3 < model.discrepancy < 1.5


def test_where_pairs_drown_a_fit_is_about_as_near_to_the_truth_as_its_start():
    away = []
    for seed in range(4):
        fits = [
            fit(
                released(columns_measured(), 1500.0, seed=seed),
                settings=MixtureSettings(components=40, steps=n),
            )
            for n in (0, 120)
        ]
        for search in fits:
            search.run()
        away.append([from_pairs(joint_of(search), truth()) for search in fits])
    start, end = np.mean(away, axis=0)
    assert end < 1.1 * start


def test_triples_are_matched():
    triple = tuple(others(LABEL))
    pairs_only = fit(
        released(columns_measured(), 5.0),
        settings=MixtureSettings(components=40, steps=300),
    )
    both = fit(
        released(columns_measured(triples=[triple]), 5.0),
        settings=MixtureSettings(components=40, steps=300),
    )
    triples_only = fit(
        released(columns_measured(pairs=False, triples=[triple]), 5.0),
        settings=MixtureSettings(components=40, steps=300),
    )
    for search in (pairs_only, both, triples_only):
        search.run()
    assert distance(joint_of(both), truth()) < 0.02
    assert distance(joint_of(triples_only), truth()) < 0.02
    assert distance(joint_of(both), truth()) < 0.7 * distance(
        joint_of(pairs_only), truth()
    )


def test_classes_without_a_record_do_not_break_the_fit():
    tables = [
        replace(table, counts=table.counts - 1e6)
        for table in released(columns_measured(), 5.0)
    ]
    model = fit(tables, settings=MixtureSettings(components=4, steps=20))
    model.run()
    assert np.isfinite(joint_of(model)).all()
    assert joint_of(model).sum() == pytest.approx(1, abs=1e-5)


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    tables = released(columns_measured(), 20.0)
    fits = [fit(tables, seed=seed) for seed in (3, 3, 4)]
    for search in fits:
        search.run()
    assert joint_of(fits[0]).tobytes() == joint_of(fits[1]).tobytes()
    assert joint_of(fits[0]).tobytes() != joint_of(fits[2]).tobytes()


@pytest.mark.parametrize("far", [False, True])
def test_a_fit_taken_up_again_ends_with_the_same_bits_whenever_it_was_stopped(far):
    tables = released(columns_measured(), 20.0)
    settings = MixtureSettings(components=8, steps=20)

    def new():
        return search_fit(*alike(200_000, 2.0), settings) if far else fit(tables)

    whole = new()
    states = {}
    whole.run(lambda state: states.update({state.step: whole.state_dict()}))
    assert list(states) == list(range(1, whole.step + 1))
    assert whole.steps == whole.step
    # In the trial, at its last step, at the first of the fit, where either goes on, and close to the end.
    interval = settings.steps if far else SMALL.steps
    for step in sorted(
        {
            1,
            interval,
            interval + 1,
            *range(interval, whole.step, interval),
            whole.step - 1,
        }
    ):
        again = new()
        again.load_state_dict(states[step])
        assert again.step == step
        again.run()
        for name, part in vars(again.components).items():
            assert part.tobytes() == getattr(whole.components, name).tobytes()
        assert again.step == whole.step
        assert again.discrepancy == whole.discrepancy


SEARCH_SMALL = MixtureSettings(components=60, steps=300)


def tables_of(codes, sizes, columns_of_tables, std, random):
    """Tables of columns' codes with noise."""
    tables = []
    for which in columns_of_tables:
        counts = np.zeros([sizes[column] for column in which])
        np.add.at(counts, tuple(codes[column] for column in which), 1)
        tables.append(
            numbered_table(
                columns=which,
                counts=counts + random.normal(scale=std, size=counts.shape),
                noise_std=std,
            )
        )
    return tables


def alike(records, std, *, columns=4, cells=12, seed=0):
    """Tables of columns that nearly say the same, as one number in cells cut a little apart, and of two classes."""
    random = np.random.default_rng(seed)
    hidden = random.exponential(size=records)
    codes = [
        np.clip(
            cells * hidden / 3 + random.normal(scale=0.2, size=records), 0, cells - 1
        ).astype(int)
        for _ in range(columns)
    ]
    codes.append((hidden > np.quantile(hidden, 0.97)).astype(int))
    sizes = (*[cells] * columns, 2)
    columns_of_tables = [(column, columns) for column in range(columns)]
    columns_of_tables += [
        (one, two, columns) for one in range(columns) for two in range(one)
    ]
    return (
        tables_of(
            codes,
            sizes,
            [tuple(sorted(columns_of_table)) for columns_of_table in columns_of_tables],
            std,
            random,
        ),
        sizes,
        columns,
    )


def search_fit(tables, sizes, label, settings=SEARCH_SMALL):
    """The first columns stand in an order."""
    ordered = [0 if column == label else size for column, size in enumerate(sizes)]
    return MixtureFit(
        tables, numbered_domain(sizes), label, settings, seed=0, n_ordered=ordered
    )


def fitted(released, settings=SEARCH_SMALL):
    search = search_fit(*released, settings)
    search.run()
    return search


def pair_of(joint, records, std, *, ordered, seed=0):
    """The two-way table of a joint distribution as drawn, as released, and as denoised."""
    random = np.random.default_rng(seed)
    drawn = (
        random.multinomial(records, joint.ravel()).reshape(joint.shape).astype(float)
    )
    margins = [
        numbered_table(
            columns=(axis,),
            counts=drawn.sum(axis=1 - axis) + random.normal(scale=std, size=size),
            noise_std=std,
        )
        for axis, size in enumerate(joint.shape)
    ]
    noisy = drawn + random.normal(scale=std, size=joint.shape)
    tables = pack_tables(
        [*margins, numbered_table(columns=(0, 1), counts=noisy, noise_std=std)],
        numbered_domain(joint.shape),
        None,
    )
    rows, columns = tables.column_slices
    return drawn, noisy, denoise_pairs(tables, ordered).pair_counts[0, rows, columns]


def normal_pair(cells, correlation):
    at = np.linspace(-2.5, 2.5, cells)
    joint = np.exp(
        -(at[:, None] ** 2 - 2 * correlation * at[:, None] * at + at**2)
        / (2 * (1 - correlation**2))
    )
    return joint / joint.sum()


def correlation_of(table):
    at = np.arange(len(table))
    share = table / table.sum()
    first = share.sum(axis=1)
    second = share.sum(axis=0)
    left = at - first @ at
    right = at - second @ at
    return float(
        left @ share @ right / np.sqrt((first @ left**2) * (second @ right**2))
    )


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
    joint = normal_pair(22, 0.3)
    left = []
    errors = []
    for seed in range(20):
        drawn, noisy, fitted_pair = pair_of(
            joint, 10_000, 25.0, ordered=(22, 22), seed=seed
        )
        left.append(
            np.square(fitted_pair - drawn).sum() / np.square(noisy - drawn).sum()
        )
        errors.append(correlation_of(fitted_pair) - correlation_of(drawn))
    assert np.mean(left) < 0.2
    assert abs(np.mean(errors)) < 0.06
    assert np.std(errors) < 0.1


def test_of_independent_columns_next_to_no_dependence_is_left():
    joint = np.outer(np.full(12, 1 / 12), np.linspace(1, 3, 9) / 18)
    for ordered in ((12, 9), (0, 0)):
        left = []
        for seed in range(20):
            _, noisy, fitted_pair = pair_of(
                joint, 2_000, 25.0, ordered=ordered, seed=seed
            )
            apart = [
                tables - np.outer(tables.sum(axis=1), tables.sum(axis=0)) / tables.sum()
                for tables in (fitted_pair, noisy)
            ]
            left.append(np.square(apart[0]).sum() / np.square(apart[1]).sum())
        assert np.mean(left) < 0.15


@pytest.mark.parametrize(
    "ordered", [(8, 7), (7, 0), (0, 0)]
)  # the second: a cell of missing values, and codes
def test_a_clear_table_stays_as_it_was(ordered):
    joint = np.random.default_rng(1).dirichlet(np.full(56, 0.3)).reshape(8, 7)
    _, noisy, fitted_pair = pair_of(joint, 1_000_000, 2.0, ordered=ordered)
    assert np.abs(fitted_pair - noisy).max() < 12


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_columns_that_nearly_say_the_same_are_followed_to_the_noise(seed):
    model = fitted(alike(9_000, 2.0, seed=seed))
    assert model.discrepancy < 1.5
    assert model.warning is None


def test_a_search_that_ends_far_goes_on_and_comes_nearer():
    model = fitted(alike(200_000, 2.0), MixtureSettings(components=100, steps=40))
    first = fitted(alike(9_000, 2.0), MixtureSettings(components=100, steps=200))
    # Twice as many steps of the trial and of the fit, or once.
    assert model.step == 4 * 40
    assert first.step == 2 * 200
    assert model.step == model.steps
    assert first.discrepancy < 1.5 < FAR < model.discrepancy


def test_correlations_that_a_release_knows_are_kept_by_the_fit():
    random = np.random.default_rng(3)
    hidden = random.normal(size=(4, 10_000))
    hidden[3] = 0.7 * hidden[0] + 0.6 * hidden[1] + 0.3 * hidden[2] + 0.2 * hidden[3]
    codes = [
        np.searchsorted(np.quantile(each, np.arange(1, 32) / 32), each)
        for each in hidden
    ]
    sizes = (32,) * 4
    pairs = list(combinations(range(4), 2))
    ranks = np.arange(32) - 15.5
    model = fitted(
        (tables_of(codes, sizes, pairs, 0.3, random), sizes, None), MixtureSettings()
    )
    means = [
        ranks @ model.components.cells[0, span] for span in model.tables.column_slices
    ]
    for first, other in pairs:
        correlation = (
            model.components.weights[0] * means[first] * means[other]
        ).sum() / (ranks**2).mean()
        assert correlation == pytest.approx(
            np.corrcoef(codes[first], codes[other])[0, 1], abs=0.015
        )


def test_a_fit_far_from_its_release_says_so():
    released = alike(9_000, 2.0)
    model = fitted(released, MixtureSettings(components=2, steps=30))
    assert model.discrepancy > FAR
    assert model.warning is not None
    assert f"{model.discrepancy:.2g} times what the noise" in model.warning
    assert '"components": 4, "steps": 90' in model.warning
    assert search_fit(*released).warning is None  # not run yet


def test_a_checkpoint_of_an_earlier_version_is_refused():
    model = search_fit(*alike(500, 2.0))
    with pytest.raises(ValueError, match="an earlier version"):
        model.load_state_dict({"logits": np.zeros(3), "progress": np.zeros(6)})


def independent(records, std, *, columns=6, cells=8, seed=0):
    """Tables of the pairs of columns that have nothing to do with each other, without a label."""
    random = np.random.default_rng(seed)
    codes = np.minimum(random.geometric(0.3, size=(columns, records)) - 1, cells - 1)
    columns_of_tables = [
        *((column,) for column in range(columns)),
        *combinations(range(columns), 2),
    ]
    return (
        tables_of(codes, (cells,) * columns, columns_of_tables, std, random),
        (cells,) * columns,
        None,
    )


def test_a_fit_of_columns_that_have_nothing_to_do_with_each_other_is_nearly_their_product():
    model = fitted(independent(500, 30.0))
    weights = model.components.weights
    spans = model.tables.column_slices
    cells = [model.components.cells[:, span].transpose(0, 2, 1) for span in spans]
    first, second = (np.einsum("ck,cka->a", weights, part) for part in cells[:2])
    both = np.einsum("ck,cka,ckb->ab", weights, cells[0], cells[1])
    assert np.abs(both - np.outer(first, second)).sum() / 2 < 0.15
