"""The mixture's fit: it finds what was measured, fits no noise, and goes on with the same bits."""

from itertools import combinations

import numpy as np
import pytest

from noisegate.tables.descent import MixtureSettings
from noisegate.tables.mixture_fit import MixtureFit
from noisegate.tables.released import Table

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


def released(asked, std, label=LABEL, seed=0):
    random, joint = np.random.default_rng(seed), truth()
    tables = []
    for columns in asked:
        with_label = tuple(sorted({*columns, *(() if label is None else (label,))}))
        counts = RECORDS * marginal(joint, with_label)
        tables.append(
            Table(columns=with_label, counts=counts + random.normal(scale=std, size=counts.shape), noise_std=std)
        )
    return tables


def others(label):
    return [column for column in range(4) if column != label]


def asked(label=LABEL, pairs=True, triples=()):
    singles = [(), *((column,) for column in others(label))]
    return [*singles, *(combinations(others(label), 2) if pairs else ()), *triples]


def fit(tables, label=LABEL, settings=SMALL, seed=0):
    return MixtureFit(tables, SIZES, label, settings, seed=seed, ordered=(0,) * len(SIZES))


def shares_of(one):
    """The share of each class, (classes,)."""
    return one.tables.counts / one.tables.counts.sum()


def parts_of(one):
    """Components' shares of their class, (classes, K), and each column's cells, (classes, K, cells)."""
    cells = one.reached.cells.transpose(0, 2, 1)
    return one.reached.weights, [cells[:, :, span] for span in one.tables.spans]


def joint_of(one, label=LABEL):
    """The fitted mixture as one table of all columns, the label where it stands."""
    weights, columns = parts_of(one)
    joint = np.einsum(
        "y,yk,yka,ykb,ykc->yabc" if label is not None else "y,yk,yka,ykb,ykc,ykd->abcd",
        shares_of(one),
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


def from_pairs(found, wanted):
    return np.mean([distance(marginal(found, pair), marginal(wanted, pair)) for pair in combinations(range(4), 2)])


@pytest.mark.parametrize("label", [LABEL, None])
def test_a_small_mixture_is_recovered_where_noise_is_low(label):
    one = fit(released(asked(label), 5.0, label), label, MixtureSettings(components=40, steps=300))
    one.run()
    found = joint_of(one, label)
    assert found.sum() == pytest.approx(1, abs=1e-5) and from_pairs(found, truth()) < 0.01
    assert from_pairs(found, truth()) < 0.25 * from_pairs(product_of(truth(), label), truth())
    assert 0.3 < one.discrepancy < 1.5


def test_where_pairs_drown_a_fit_is_about_as_near_to_the_truth_as_its_start():
    away = []
    for seed in range(4):
        fits = [
            fit(released(asked(), 1500.0, seed=seed), settings=MixtureSettings(components=40, steps=n))
            for n in (0, 120)
        ]
        for one in fits:
            one.run()
        away.append([from_pairs(joint_of(one), truth()) for one in fits])
    start, end = np.mean(away, axis=0)
    assert end < 1.1 * start


def test_triples_are_matched():
    triple = tuple(others(LABEL))
    pairs_only = fit(released(asked(), 5.0), settings=MixtureSettings(components=40, steps=300))
    both = fit(released(asked(triples=[triple]), 5.0), settings=MixtureSettings(components=40, steps=300))
    triples_only = fit(
        released(asked(pairs=False, triples=[triple]), 5.0), settings=MixtureSettings(components=40, steps=300)
    )
    for one in (pairs_only, both, triples_only):
        one.run()
    assert distance(joint_of(both), truth()) < 0.02 and distance(joint_of(triples_only), truth()) < 0.02
    assert distance(joint_of(both), truth()) < 0.7 * distance(joint_of(pairs_only), truth())


def test_classes_without_a_record_do_not_break_the_fit():
    tables = [
        Table(columns=one.columns, counts=one.counts - 1e6, noise_std=one.noise_std) for one in released(asked(), 5.0)
    ]
    one = fit(tables, settings=MixtureSettings(components=4, steps=20))
    one.run()
    assert np.isfinite(joint_of(one)).all() and joint_of(one).sum() == pytest.approx(1, abs=1e-5)


def test_the_same_seed_gives_the_same_bits_and_another_does_not():
    tables = released(asked(), 20.0)
    fits = [fit(tables, seed=seed) for seed in (3, 3, 4)]
    for one in fits:
        one.run()
    assert joint_of(fits[0]).tobytes() == joint_of(fits[1]).tobytes()
    assert joint_of(fits[0]).tobytes() != joint_of(fits[2]).tobytes()


class Stop(Exception):  # noqa: N818
    pass


def run_until(one, step):
    def report(state):
        if state.step == step:
            raise Stop

    with pytest.raises(Stop):
        one.run(report)


def test_a_fit_taken_up_again_ends_with_the_same_bits_whenever_it_was_stopped():
    tables = released(asked(), 20.0)
    whole = fit(tables)
    seen = []
    whole.run(lambda state: seen.append(state.step))
    assert seen == list(range(1, whole.step + 1)) and whole.steps == whole.step
    # In the trial, at its last step, at the first of the fit and close to its end.
    for step in (1, 30, SMALL.steps, SMALL.steps + 1, whole.step - 1):
        stopped = fit(tables)
        run_until(stopped, step)
        state = {name: array.copy() for name, array in stopped.state_dict().items()}
        again = fit(tables)
        again.load_state_dict(state)
        assert again.step == step
        again.run()
        assert joint_of(again).tobytes() == joint_of(whole).tobytes()
        assert (again.step, again.discrepancy) == (whole.step, whole.discrepancy)
