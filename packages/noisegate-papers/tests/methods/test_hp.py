import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import categorical, continuous
from tests.shared.stated import ledger_of

from noisegate import DPHP, Budget, Gate
from noisegate.privacy import accounting
from noisegate.schema import Schema, pixel_schema

from .test_merf import assert_recovered, correlated

COLUMNS = (continuous("u"), continuous("v"), categorical("w", ("low", "middle", "high")))
SCHEMA = Schema(COLUMNS, label="w")


def gate(table=None, schema=SCHEMA, **options):
    return Gate(correlated(300) if table is None else table, schema=schema, **{"epsilon": 1.0, **options})


@pytest.mark.slow
@pytest.mark.parametrize("generator", ["mixture", pytest.param("table", marks=pytest.mark.slow)])
def test_a_fit_recovers_what_goes_together_and_nothing_else(generator):
    """Two-sided: the same fit of the same columns, shuffled, must not find what is not there."""
    options = {"steps": 300, "stop_at_noise": False}
    method = DPHP(generator=generator, components=30, latent=8, hidden=(32,), fit_options=options)
    for shuffled in (False, True):
        made = method.fit(gate(correlated(3000, shuffled), epsilon=1000.0), device="cpu").sample(4000, seed=1)
        assert_recovered(made, shuffled)


def test_the_product_of_a_record_goes_to_its_own_class_alone():
    """The published code leaves out the label: each record's product is added to every class (REFERENCE 2.2)."""
    table = pa.table({"u": [0.2] * 50, "v": [0.7] * 50, "w": ["middle"] * 50})
    for method in (DPHP(), DPHP(products="random", draws=2), DPHP(subsets=(("u", "v"),))):
        release = method.query(gate(table, epsilon=1000.0))
        for name, values in release.values.items():
            limit = 8 * release.noise_std[name]
            assert np.abs(values[:, [0, 2]]).max() < limit, name
            assert np.abs(values[:, 1]).max() > 2 * limit, name


def test_every_release_of_products_is_in_the_plan_the_ledger_and_the_certificate(tmp_path):
    ledger = ledger_of(tmp_path, "people", epsilon=5.0, delta=1e-4)
    method = DPHP(products="random", draws=4, components=4)
    release = method.query(gate(ledger=ledger, dataset="people"))
    names = ["sum", "product-1", "product-2", "product-3", "product-4", "counts"]
    assert list(release.values) == names
    assert [event.name for event in release.certificate.events] == names
    assert accounting.epsilon(release.certificate.events, 1e-5) == pytest.approx(1.0, rel=1e-3)
    without = [event for event in release.certificate.events if event.name != "product-3"]
    assert accounting.epsilon(without, 1e-5) < 0.98
    groups = {method.maps(SCHEMA)[name].groups for name in names[1:5]}
    assert all(len(group) == 1 for group in groups)


def test_shares_are_those_of_the_least_total_noise():
    schema, budget = Schema(COLUMNS), Budget(epsilon=1.0)

    def energy(**shares):
        plan = DPHP(counts_share=1e-9, **shares).plan(schema, budget)
        chosen = [plan.release(name) for name in ("sum", "product")]
        return sum(release.noise_std_natural**2 * release.query.coordinates for release in chosen)

    least = energy()
    first = DPHP().plan(schema, budget)
    ratio = first.release("sum").query.share / first.release("product").query.share
    for factor in (0.5, 0.8, 1.25, 2.0):
        assert energy(sum_share=ratio * factor, product_share=1.0) > least
    assert energy(sum_share=ratio, product_share=1.0) == pytest.approx(least, rel=1e-6)


def test_images_are_fitted_through_pooled_products():
    schema = pixel_schema(8, 8, labels=["dark", "light"])
    random = np.random.default_rng(0)
    light = random.random(400) < 0.5
    pixels = np.clip(random.integers(0, 40, (400, 64)) + 200 * light[:, None], 0, 255)
    table = pa.table({**dict(zip(schema.names, pixels.T, strict=False)), "label": np.where(light, "light", "dark")})
    options = {"steps": 60, "learning_rate": 0.02, "check_every": 60}
    method = DPHP(generator="convolutional", image=(8, 8, 1), latent=4, hidden=(16,), fit_options=options)
    assert {name: one.dim for name, one in method.maps(schema).items()}["product"] == 16 * 15 // 2
    made = method.fit(gate(table, schema, epsilon=100.0), device="cpu").sample(200, seed=0)
    means = np.stack([made[name].to_numpy() for name in schema.names[:-1]], axis=1).mean(axis=1)
    label = np.array(made["label"].to_pylist())
    assert means[label == "dark"].mean() < 60
    assert means[label == "light"].mean() > 180
