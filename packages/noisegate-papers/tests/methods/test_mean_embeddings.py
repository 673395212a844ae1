import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import categorical, continuous
from tests.shared.stated import ledger_of

from noisegate import DPHP, DPMERF, DPNTK, Budget, Gate, Schema
from noisegate.methods.embedding import COUNTS
from noisegate.methods.registry import make_for
from noisegate.privacy import accounting
from noisegate.privacy.events import Adjacency
from noisegate.privacy.grid import UNITS
from noisegate.schema import Boolean, Categorical, Continuous, pixel_schema
from noisegate.testing import FakeGate
from noisegate_papers.methods.dp_ntk import TANGENT

from .test_merf import assert_recovered, correlated

COLUMNS = (
    continuous("u"),
    continuous("v"),
    categorical("w", ("low", "middle", "high")),
)
SCHEMA = Schema(COLUMNS, label="w")


def gate(table=None, schema=SCHEMA, **options):
    return Gate(
        correlated(300) if table is None else table,
        schema=schema,
        **{"epsilon": 1.0, **options},
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "generator", ["mixture", pytest.param("table", marks=pytest.mark.slow)]
)
def test_a_fit_recovers_what_goes_together_and_nothing_else(generator):
    """Two-sided: the same fit of the same columns, shuffled, must not find what is not there."""
    options = {"steps": 300, "stop_at_noise": False}
    method = DPHP(
        generator=generator, components=30, latent=8, hidden=(32,), fit_options=options
    )
    for shuffled in (False, True):
        made = method.fit(
            gate(correlated(3000, shuffled), epsilon=1000.0), device="cpu"
        ).sample(4000, seed=1)
        assert_recovered(made, shuffled)


def test_the_product_of_a_record_goes_to_its_own_class_alone():
    """The published code leaves out the label: each record's product is added to every class (REFERENCE 2.2)."""
    table = pa.table({"u": [0.2] * 50, "v": [0.7] * 50, "w": ["middle"] * 50})
    for method in (
        DPHP(),
        DPHP(products="random", draws=2),
        DPHP(subsets=(("u", "v"),)),
    ):
        release = method.query(gate(table, epsilon=1000.0))
        for name, values in release.values.items():
            limit = 8 * release.noise_std[name]
            assert np.abs(values[:, [0, 2]]).max() < limit, name
            assert np.abs(values[:, 1]).max() > 2 * limit, name


def test_every_release_of_products_is_in_the_plan_the_ledger_and_the_certificate(
    tmp_path,
):
    ledger = ledger_of(tmp_path, "people", epsilon=5.0, delta=1e-4)
    method = DPHP(products="random", draws=4, components=4)
    release = method.query(gate(ledger=ledger, dataset="people"))
    names = ["sum", "product-1", "product-2", "product-3", "product-4", "counts"]
    assert (
        list(release.values) == names
        and [event.name for event in release.certificate.events] == names
    )
    assert accounting.epsilon(release.certificate.events, 1e-5) == pytest.approx(
        1.0, rel=1e-3
    )
    without = [
        event for event in release.certificate.events if event.name != "product-3"
    ]
    assert accounting.epsilon(without, 1e-5) < 0.98
    groups = {method.maps(SCHEMA)[name].groups for name in names[1:5]}
    assert all(len(group) == 1 for group in groups)


def test_shares_are_those_of_the_least_total_noise():
    schema, budget = Schema(COLUMNS), Budget(epsilon=1.0)

    def energy(**shares):
        plan = DPHP(counts_share=1e-9, **shares).plan(schema, budget)
        chosen = [plan.release(name) for name in ("sum", "product")]
        return sum(
            release.noise_std_natural**2 * release.query.coordinates
            for release in chosen
        )

    least = energy()
    first = DPHP().plan(schema, budget)
    ratio = first.release("sum").query.share / first.release("product").query.share
    for factor in (0.5, 0.8, 1.25, 2.0):
        assert energy(sum_share=ratio * factor, product_share=1.0) > least
    assert energy(sum_share=ratio, product_share=1.0) == pytest.approx(least, rel=1e-6)


def test_the_share_of_counts_is_relative_to_all_others():
    plan = DPHP(sum_share=30.0, product_share=10.0, counts_share=0.05).plan(
        SCHEMA, Budget(epsilon=1.0)
    )
    others = [plan.release(name).query.share for name in ("sum", "product")]
    assert plan.release("counts").query.share == pytest.approx(0.05 * sum(others))


def test_images_are_fitted_through_pooled_products():
    schema = pixel_schema(8, 8, labels=["dark", "light"])
    random = np.random.default_rng(0)
    light = random.random(400) < 0.5
    pixels = np.clip(random.integers(0, 40, (400, 64)) + 200 * light[:, None], 0, 255)
    table = pa.table(
        {
            **dict(zip(schema.names, pixels.T, strict=False)),
            "label": np.where(light, "light", "dark"),
        }
    )
    options = {"steps": 60, "learning_rate": 0.02, "check_every": 60}
    method = DPHP(
        generator="convolutional",
        image=(8, 8, 1),
        latent=4,
        hidden=(16,),
        fit_options=options,
    )
    assert {name: one.dim for name, one in method.maps(schema).items()}[
        "product"
    ] == 16 * 15 // 2
    made = method.fit(gate(table, schema, epsilon=100.0), device="cpu").sample(
        200, seed=0
    )
    means = np.stack(
        [made[name].to_numpy() for name in schema.names[:-1]], axis=1
    ).mean(axis=1)
    label = np.array(made["label"].to_pylist())
    assert means[label == "dark"].mean() < 60 and means[label == "light"].mean() > 180


# Released sums that also tell how many records a class has are used for it, at no cost.

COUNTERS_SCHEMA = Schema(
    (
        Continuous(name="x", lower=0.0, upper=1.0),
        *(Boolean(name=f"b{place}") for place in range(4)),
        Boolean(name="y"),
    ),
    label="y",
)
QUICK = {"fit_options": {"steps": 1}}


@pytest.mark.parametrize("method", [DPMERF(frequencies=20, **QUICK), DPHP(**QUICK)])
def test_shares_are_nearer_to_the_truth_than_the_counts_alone(method):
    counted, combined = [], []
    for seed in range(8):
        gate = FakeGate(COUNTERS_SCHEMA, rows=400, seed=seed, epsilon=1.0)
        release = method.query(gate)
        truth = gate.exact[COUNTS][0]
        counted.append(release.values[COUNTS][0] - truth)
        target = method.fitting(release, device="cpu").target
        combined.append(target.weights * target.records - truth)
    # The variance falls to a sixth; for sixteen draws each a false alarm is below 1e-3.
    assert np.square(combined).mean() < np.square(counted).mean()


def test_the_model_draws_classes_in_the_shares_that_were_fitted():
    method = DPMERF(frequencies=20, **QUICK)
    release = method.query(FakeGate(COUNTERS_SCHEMA, rows=400))
    fitting = method.fitting(release, device="cpu")
    np.testing.assert_array_equal(
        method.synthesizer(release, fitting).model.weights, fitting.target.weights
    )


# DP-NTK: what it asks, that a record moves its answer by the bound alone, and that its generators learn.

NTK_SCHEMA = Schema(
    (
        Continuous(name="u", lower=0.0, upper=1.0),
        Categorical(name="w", levels=("low", "high")),
        Boolean(name="ill"),
    ),
    label="ill",
)
BRIEF = {
    "steps": 100,
    "learning_rate": 0.02,
    "ema_decay": 0.9,
    "batch": 32,
    "check_batches": 3,
}
IMAGES = pixel_schema(8, 8, labels=("across", "down"))


def people(rows, seed=0):
    """The ill ones have a high u, and w says whether u is above a half."""
    random = np.random.default_rng(seed)
    ill = random.uniform(size=rows) < 0.3
    u = np.clip(np.where(ill, 0.75, 0.25) + 0.15 * random.normal(size=rows), 0, 1)
    return pa.table({"u": u, "w": np.where(u > 0.5, "high", "low"), "ill": ill})


def test_under_replace_one_it_pays_the_square_root_of_two_and_not_two():
    budget = Budget(epsilon=1.0, adjacency=Adjacency.REPLACE_ONE)
    event = (
        make_for("dp-ntk", IMAGES, {"width": 10})
        .plan(IMAGES, budget)
        .release(TANGENT)
        .event
    )
    assert event.sensitivity == pytest.approx(2**0.5 * UNITS, rel=1e-6)


def test_a_table_is_learnt():
    method = DPNTK(width=6, cells=12, latent=4, hidden=(16,), fit_options=BRIEF)
    made = method.fit(
        Gate(people(4000), schema=NTK_SCHEMA, epsilon=20.0), device="cpu"
    ).sample(3000, seed=0)
    ill, u = np.array(made["ill"].to_pylist()), made["u"].to_numpy()
    high = np.array(made["w"].to_pylist()) == "high"
    assert ill.mean() == pytest.approx(0.3, abs=0.03) and u[
        ill
    ].mean() == pytest.approx(0.75, abs=0.06)
    assert (
        u[~ill].mean() == pytest.approx(0.25, abs=0.06)
        and u[high].mean() - u[~high].mean() > 0.3
    )


def test_images_are_learnt():
    """Stripes across or down, told apart by the label."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 4000)
    stripes = np.zeros((4000, 8, 8))
    stripes[:, ::2] = 200
    stripes[labels == 1] = stripes[labels == 1].transpose(0, 2, 1)
    pixels = stripes.reshape(4000, 64).T.astype(int)
    columns = dict(
        zip(IMAGES.names, [*pixels, np.array(["across", "down"])[labels]], strict=True)
    )
    method = make_for(
        "dp-ntk",
        IMAGES,
        {"width": 16, "latent": 4, "hidden": (16,), "fit_options": BRIEF},
    )
    made = method.fit(
        Gate(pa.table(columns), schema=IMAGES, epsilon=5.0), device="cpu"
    ).sample(500, seed=0)
    pixels = np.stack(
        [made[name].to_numpy() for name in IMAGES.names[:-1]], axis=1
    ).reshape(-1, 8, 8)
    down = np.array(made["label"].to_pylist()) == "down"
    for which, image in (
        (~down, pixels[~down].mean(axis=0)),
        (down, pixels[down].mean(axis=0).T),
    ):
        assert which.any() and image[::2].mean() - image[1::2].mean() > 100
