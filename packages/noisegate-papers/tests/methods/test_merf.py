import numpy as np
import pyarrow as pa
import pytest

from noisegate import DPMERF, Budget, Gate
from noisegate.schema import Boolean, Categorical, Continuous, Schema

TINY = DPMERF(frequencies=50, latent=4, hidden=(16,), fit_options={"steps": 30})
X = Continuous(name="x", lower=0.0, upper=1.0)
Y = Boolean(name="y")


def fit(table, schema, method=TINY, **gate):
    return method.fit(Gate(table, schema=schema, **{"epsilon": 1.0, **gate}), device="cpu")


def correlated(rows, shuffled=False):
    """u and v are the same number, w is the level that u falls in; or, shuffled, nothing to do with each other."""
    random = np.random.default_rng(0)
    u = random.uniform(size=rows)
    v, w = (random.permutation(u), random.permutation(u)) if shuffled else (u, u)
    names = np.array(["low", "middle", "high"])
    return pa.table({"u": u, "v": v, "w": names[(w * 3).astype(int)]})


@pytest.mark.slow
@pytest.mark.parametrize("label", [None, "w"])
def test_a_fit_recovers_what_goes_together_and_nothing_else(label):
    """Two-sided: the same fit of the same columns, shuffled, must not find what is not there."""
    columns = (
        Continuous(name="u", lower=0.0, upper=1.0),
        Continuous(name="v", lower=0.0, upper=1.0),
        Categorical(name="w", levels=("low", "middle", "high")),
    )
    options = {"steps": 250, "stop_at_noise": False}
    method = DPMERF(frequencies=50, length_scale=(0.2, 0.5), latent=8, hidden=(32,), fit_options=options)
    for shuffled in (False, True):
        made = fit(correlated(3000, shuffled), Schema(columns, label=label), method, epsilon=1000.0).sample(
            4000, seed=1
        )
        u, v = made["u"].to_numpy(), made["v"].to_numpy()
        high = np.array(made["w"].to_pylist()) == "high"
        found = np.corrcoef(u, v)[0, 1], np.corrcoef(u, high)[0, 1]
        assert 0.25 < high.mean() < 0.42
        assert (min(found) > 0.6) if not shuffled else (np.abs(found).max() < 0.2)


TABLES = {
    "unlabelled": (Schema((X, Y)), {"x": [0.1, 0.9] * 20, "y": [True, False] * 20}),
    "numeric label": (Schema((X, Y), label="x"), {"x": [0.1, 0.9] * 20, "y": [True, False] * 20}),
    "one class": (Schema((X, Y), label="y"), {"x": [0.1, 0.9] * 20, "y": [True] * 40}),
    "one numeric column": (Schema((X,)), {"x": [0.1, 0.9] * 20}),
    "one coded column": (Schema((Y,)), {"y": [True, False] * 20}),
    "all missing": (
        Schema((Continuous(name="x", lower=0.0, upper=1.0, missing=True), Y), label="y"),
        {"x": pa.nulls(40, pa.float64()), "y": [True, False] * 20},
    ),
    "constant": (Schema((X, Y), label="y"), {"x": [0.5] * 40, "y": [True, False] * 20}),
    "one row": (Schema((X, Y), label="y"), {"x": [0.5], "y": [True]}),
    "missing label": (
        Schema((X, Boolean(name="y", missing=True)), label="y"),
        {"x": [0.1, 0.9] * 20, "y": [True, None] * 20},
    ),
}


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("name", TABLES)
def test_legal_tables_run(name, adjacency):
    schema, columns = TABLES[name]
    table = pa.table(columns)
    # Few records at a small budget: noise drowns everything, and still nothing may fail.
    fitted = fit(table, schema, epsilon=0.01, adjacency=adjacency, records=table.num_rows)
    made = fitted.sample(100, seed=0)
    assert made.num_rows == 100
    assert made.column_names == list(schema.names)
    assert fitted.certificate.check() <= 0.01 * (1 + 1e-9)


def test_class_shares_follow_the_counts():
    schema = Schema((X, Y), label="y")
    table = pa.table({"x": np.linspace(0, 1, 2000), "y": np.arange(2000) % 5 == 0})
    made = fit(table, schema, epsilon=100.0).sample(5000, seed=0)
    assert abs(np.mean(made["y"].to_pylist()) - 0.2) < 0.04


def rare(rows):
    """One record in fifty is sick: with a high u and a low v, where the others have a low u and a high v."""
    random = np.random.default_rng(0)
    sick = np.arange(rows) % 50 == 0
    u, v = (np.where(sick, *means) + 0.1 * random.normal(size=rows) for means in ((0.75, 0.25), (0.25, 0.75)))
    return pa.table({"u": u.clip(0, 1), "v": v.clip(0, 1), "sick": sick})


def means_of_sick(fit_options):
    schema = Schema(
        (Continuous(name="u", lower=0.0, upper=1.0), Continuous(name="v", lower=0.0, upper=1.0), Boolean(name="sick")),
        label="sick",
    )
    method = DPMERF(frequencies=50, latent=4, hidden=(16,), fit_options={"steps": 250, **fit_options})
    made = fit(rare(20_000), schema, method, epsilon=10.0).sample(20_000, seed=1)
    sick = np.array(made["sick"].to_pylist())
    return [[float(made[name].to_numpy()[which].mean()) for name in ("u", "v")] for which in (sick, ~sick)]


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


def test_questions_follow_the_schema_and_the_adjacency():
    def asked(schema, adjacency="add-remove"):
        plan = TINY.plan(schema, Budget(epsilon=1.0, adjacency=adjacency_of(adjacency)))
        return {r.query.name: (r.query.dim, r.query.columns) for r in plan.releases}

    from noisegate import Adjacency

    adjacency_of = Adjacency.parse
    kinds = Categorical(name="k", levels=("a", "b", "c"), missing=True)
    assert asked(Schema((X, kinds, Y), label="y")) == {"fourier": (100, 2), "levels": (4, 2), "counts": (1, 2)}
    assert asked(Schema((X, kinds, Y))) == {"fourier": (100, 1), "levels": (6, 1), "counts": (1, 1)}
    assert asked(Schema((X, Y), label="y")) == {"fourier": (100, 2), "counts": (1, 2)}
    # Without a label the number of records is all there is to count, and replace-one takes it as public.
    assert asked(Schema((X, kinds)), "replace-one") == {"fourier": (100, 1), "levels": (4, 1)}
    assert asked(Schema((X, Y), label="y"), "replace-one") == {"fourier": (100, 2), "counts": (1, 2)}
