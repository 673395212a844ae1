"""A trial returns to where it was nearest, sets out twice where it ends far, and a fit settles where it swings."""

from itertools import combinations

import numpy as np
import pytest

from noisegate.tables import descent as module
from noisegate.tables.descent import MixtureSettings
from noisegate.tables.mixture_fit import FAR, MixtureFit
from noisegate.tables.released import Table

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


def fitted(released, settings=SMALL, seed=0):
    one = MixtureFit(*released, settings, seed=seed)
    one.run()
    return one


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_columns_that_nearly_say_the_same_are_followed_to_the_noise(seed):
    one = fitted(alike(9_000, 2.0, seed=seed), MixtureSettings(components=60), seed)
    assert one.discrepancy < 1.5 and one.warning is None


def test_a_fit_far_from_its_release_says_so():
    released = alike(9_000, 2.0)
    one = fitted(released, MixtureSettings(components=2, steps=30))
    assert one.discrepancy > FAR
    assert one.warning is not None and f"{one.discrepancy:.2g} times what the noise" in one.warning
    assert '"components": 4, "steps": 90' in one.warning
    assert MixtureFit(*released, SMALL, seed=0).warning is None  # not run yet


def test_a_second_trial_taken_up_again_ends_with_the_same_bits():
    released, settings = alike(200_000, 2.0), MixtureSettings(components=8, steps=40)
    whole = fitted(released, settings)
    first, second = (attempt.taken for attempt in whole.trial._attempts)
    for step in (first, first + 1, first + second, whole.step - 1):
        stopped, again = (MixtureFit(*released, settings, seed=0) for _ in range(2))
        while stopped.step < step:
            stopped._step()
        again.load_state_dict(stopped.state_dict())
        again.run()
        assert again.reached.weights.tobytes() == whole.reached.weights.tobytes()
        assert again.trial.components.cells.tobytes() == whole.trial.components.cells.tobytes()
        assert (again.step, again.discrepancy) == (whole.step, whole.discrepancy)


def test_a_checkpoint_of_an_earlier_version_is_refused():
    one = MixtureFit(*alike(500, 2.0), SMALL, seed=0)
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


def test_no_step_is_taken_where_columns_are_independent_or_pairs_drown():
    steps = [sum(fitted(independent(500, 30.0, seed=seed), seed=seed).trial.path.steps) for seed in range(10)]
    assert steps.count(0) >= 9
    drowned, _, label = alike(100, 500.0)
    one = fitted((drowned, (12, 12, 12, 12, 2), label))
    assert sum(one.trial.path.steps) == 0
    assert one.discrepancy == pytest.approx(1, abs=0.2) and one.warning is None
    # What is kept is the start.
    assert one.trial.components.cells == pytest.approx(
        module.Descent(one.trial_tables, SMALL, SMALL.init_std, 0).components.cells
    )


def test_steps_are_taken_where_pairs_stand_out():
    assert sum(fitted(alike(9_000, 20.0)).trial.path.steps) > 0


def test_a_fit_without_steps_is_the_product_of_single_columns():
    one = fitted(independent(500, 30.0))
    weights, spans = one.reached.weights, one.tables.spans
    cells = [one.reached.cells[:, span].transpose(0, 2, 1) for span in spans]
    first, second = (np.einsum("ck,cka->a", weights, part) for part in cells[:2])
    both = np.einsum("ck,cka,ckb->ab", weights, cells[0], cells[1])
    # The spread of its components leaves next to nothing of a dependence.
    assert np.abs(both - np.outer(first, second)).sum() / 2 < 0.02
