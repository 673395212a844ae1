import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous

from noisegate import DPMERF, Adjacency, Budget, Gate
from noisegate.schema import Schema, pixel_schema

TINY = DPMERF(frequencies=50, latent=4, hidden=(16,), fit_options={"steps": 30})


def fit(table, schema, method=TINY, **gate):
    return method.fit(
        Gate(table, schema=schema, **{"epsilon": 1.0, **gate}), device="cpu"
    )


def correlated(rows, shuffled=False):
    """u and v are the same number, w is the level that u falls in; or, shuffled, nothing to do with each other."""
    random = np.random.default_rng(0)
    u = random.uniform(size=rows)
    v, w = (random.permutation(u), random.permutation(u)) if shuffled else (u, u)
    names = np.array(["low", "middle", "high"])
    return pa.table({"u": u, "v": v, "w": names[(w * 3).astype(int)]})


def assert_recovered(made, shuffled):
    u, v, high = (
        made["u"].to_numpy(),
        made["v"].to_numpy(),
        np.array(made["w"].to_pylist()) == "high",
    )
    found = np.corrcoef(u, v)[0, 1], np.corrcoef(u, high)[0, 1]
    assert 0.25 < high.mean() < 0.42
    assert (min(found) > 0.6) if not shuffled else (np.abs(found).max() < 0.2)


@pytest.mark.slow
@pytest.mark.parametrize("label", [None, "w"])
def test_a_fit_recovers_what_goes_together_and_nothing_else(label):
    """Two-sided: the same fit of the same columns, shuffled, must not find what is not there."""
    columns = (
        continuous("u"),
        continuous("v"),
        categorical("w", ("low", "middle", "high")),
    )
    options = {"steps": 250, "stop_at_noise": False}
    method = DPMERF(
        frequencies=50,
        length_scale=(0.2, 0.5),
        latent=8,
        hidden=(32,),
        fit_options=options,
    )
    for shuffled in (False, True):
        made = fit(
            correlated(3000, shuffled),
            Schema(columns, label=label),
            method,
            epsilon=1000.0,
        ).sample(4000, seed=1)
        assert_recovered(made, shuffled)


def rare(rows):
    """One record in fifty is sick: with a high u and a low v, where the others have a low u and a high v."""
    random = np.random.default_rng(0)
    sick = np.arange(rows) % 50 == 0
    u, v = (
        np.where(sick, *means) + 0.1 * random.normal(size=rows)
        for means in ((0.75, 0.25), (0.25, 0.75))
    )
    return pa.table({"u": u.clip(0, 1), "v": v.clip(0, 1), "sick": sick})


def means_of_sick(fit_options):
    schema = Schema((continuous("u"), continuous("v"), boolean("sick")), label="sick")
    method = DPMERF(
        frequencies=50,
        latent=4,
        hidden=(16,),
        fit_options={"steps": 250, **fit_options},
    )
    made = fit(rare(20_000), schema, method, epsilon=10.0).sample(20_000, seed=1)
    sick = np.array(made["sick"].to_pylist())
    return [
        [float(made[name].to_numpy()[which].mean()) for name in ("u", "v")]
        for which in (sick, ~sick)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("fit_options", [{}, {"apart": True}, {"class_power": -2.0}])
def test_a_class_of_two_per_cent_is_learnt_as_well_as_the_others(fit_options):
    sick, others = means_of_sick(fit_options)
    np.testing.assert_allclose(sick, [0.75, 0.25], atol=0.06)
    np.testing.assert_allclose(others, [0.25, 0.75], atol=0.06)


def test_a_power_of_the_share_has_the_meaning_that_it_was_stored_with():
    """Old settings may hold one: 1 weighs a class by the cube of its share, and a small one comes out half-way."""
    sick, others = means_of_sick({"class_power": 1.0})
    assert sick[0] < 0.6
    assert sick[1] > 0.4
    np.testing.assert_allclose(others, [0.25, 0.75], atol=0.06)


def test_what_is_asked_does_not_depend_on_the_generator():
    schema, image = (
        pixel_schema(4, 8, labels=(0, 1)),
        {"generator": "convolutional", "image": (4, 8, 1)},
    )
    images = DPMERF(**image, frequencies=20, latent=2, hidden=(8,))
    table = DPMERF(frequencies=20, kernel="numeric", length_scale=images.length_scale)
    assert images.plan(schema, Budget(epsilon=1.0)) == table.plan(
        schema, Budget(epsilon=1.0)
    )
    assert np.array_equal(
        images.maps(schema)["fourier"].frequencies,
        table.maps(schema)["fourier"].frequencies,
    )


@pytest.mark.parametrize("adjacency", list(Adjacency))
def test_the_number_of_records_is_asked_unless_it_is_public(adjacency):
    schema = Schema((continuous("u"), boolean("y")))
    plan = TINY.plan(schema, Budget(epsilon=1.0, adjacency=adjacency))
    assert ("counts" in plan.maps) == (adjacency is Adjacency.ADD_REMOVE)
