"""The contract of methods, for every method in the registry; a broken one is shown to be found out."""

from dataclasses import fields, replace

import numpy as np
import pytest
from tests.contracts.blind_noise import Blind, of_method, pictures, use
from tests.golden.names import without_noise
from tests.shared.columns import boolean

import noisegate
from noisegate import Budget, Gate, Release
from noisegate.gate.execution import made_up_records
from noisegate.methods.abilities import ClosedForm
from noisegate.methods.embedding import Embedding, MeanEmbeddingMethod
from noisegate.methods.gradient import STATE_FILE, GradientMethod
from noisegate.methods.registry import METHODS, make_for, method_of
from noisegate.models.folder import verify_model
from noisegate.privacy.gradient_plan import GradientQuery, steps_of
from noisegate.queries.feature_map import Counts
from noisegate.schema import EncodedTable, Schema
from noisegate.schema.decode import decode
from noisegate.settings import settings
from noisegate.testing import FakeGate, check_method, made_up
from noisegate_evaluate.auditing.examples import example

BRIEF = {
    "dp-merf": {"fit_options": {"steps": 5}},
    "dp-hp": {"fit_options": {"steps": 5}},
}
SAMPLED = {"dp-merf", "dp-hp", "pairwise", "dp-gan", "psg", "privbayes", "tab-pe", "pe"}
"""Others take seconds to fit; tests/golden fits every one."""


# MST and AIM compile for a minute.
@pytest.mark.parametrize(
    "name",
    # A contract is about one table; packages/noisegate/tests/methods/test_linked.py is about several.
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("aim", "mst")))
        for name in METHODS
        if name != "linked"
    ],
)
def test_a_method_keeps_its_contract(name, tmp_path):
    if name in ("aim", "mst"):
        pytest.importorskip("mbi", reason="needs the extra marginals")
    method, schema, _ = example(name, schema=None, settings={}, folder=tmp_path)
    brief_method = replace(method, **BRIEF.get(name, {}))
    budget = Budget(epsilon=1.0)
    check_method(brief_method, schema, budget=budget, sample=name in SAMPLED)


SCHEMA = Schema((boolean("ill"),))


@settings
class Counting(ClosedForm, MeanEmbeddingMethod):
    """Counts the records."""

    name = "counting"

    def embeddings(self, schema):
        return {"counts": Embedding(Counts(), 1.0)}

    def model(self, release):
        raise NotImplementedError


class Greedy(Counting):
    """Plans for ten times the budget."""

    def plan(self, schema, budget):
        return super().plan(schema, replace(budget, epsilon=10 * budget.epsilon))


def test_a_method_that_plans_for_more_than_its_budget_is_found_out():
    with pytest.raises(AssertionError, match="budget"):
        check_method(Greedy(), SCHEMA, sample=False)


def test_a_fake_gate_keeps_the_exact_sums_beside_the_noisy_ones():
    gate = FakeGate(SCHEMA, rows=50)
    release = Counting().query(gate)
    assert gate.exact["counts"].tolist() == [[50.0]]
    assert 0 < abs(release.values["counts"][0, 0] - 50) < 1


# What a step adds up does not depend on where records stand, for every method that asks for gradients (G-20).
# A whole run of the gate without noise, its probe and its blocks included, on records of which half are zeros. With
# the kernels of other processors, and with ones that round by the place of a record, it is run by `make
# test-kernels`.

STEPS = 2
RECORDS = 70
"""More than a block of gradients holds."""


def everyone_at_once(name, folder):
    """Returns a method of two steps on all records, and its schema; None where it asks for no gradients of records."""
    if not issubclass(METHODS[name], GradientMethod):
        return None
    setting_names = [field.name for field in fields(METHODS[name])]
    settings = dict.fromkeys(
        ({"steps", "encoder_steps"}).intersection(setting_names), STEPS
    ) | {"seed": 0}
    settings |= {
        key: 1.0 for key in setting_names if key.endswith("sampling_probability")
    }
    settings |= (
        {"discriminator_steps": 1} if "discriminator_steps" in setting_names else {}
    )
    method, schema, budget = example(
        name, schema=None, settings=settings, folder=folder
    )
    query = steps_of(method.plan(schema, budget)).query
    return (method, schema) if isinstance(query, GradientQuery) else None


def sums_of(method, schema, records):
    seen = []
    gate = Gate(decode(records, schema), schema=schema, epsilon=1.0, records=RECORDS)
    with without_noise(seen.append):
        method.query(gate, method.plan(schema, gate.budget))
    return seen


@pytest.mark.parametrize("name", METHODS)
def test_where_a_record_stands_changes_no_sum_of_a_step(name, tmp_path):
    example = everyone_at_once(name, tmp_path)
    if example is None:
        pytest.skip("asks for no gradients of records")
    records = made_up_records(example[1].layout, RECORDS, np.random.default_rng(0))
    records.numeric[RECORDS // 2 :] = 0.0
    turned = EncodedTable(records.numeric[::-1].copy(), records.codes[::-1].copy())
    sums = sums_of(*example, records)
    others = sums_of(*example, turned)
    assert len(sums) == len(others) >= STEPS
    assert all(
        np.array_equal(one, other) for one, other in zip(sums, others, strict=True)
    )


# What every fit keeps to: it takes the planned steps, is kept whole, and comes back from what it released.

OF_STEPS = [name for name in METHODS if issubclass(METHODS[name], GradientMethod)]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return [
        pictures(second, tmp_path_factory.mktemp("images") / "x") for second in (0, 1)
    ]


def said(model, schema):
    """What a model says: records, or the scores of a classifier."""
    if hasattr(model, "sample"):
        return str(model.sample(20, seed=1))
    return model.scores(made_up(schema.unlabelled().layout, 20)).tolist()


@pytest.mark.parametrize("name", METHODS)
def test_what_is_fitted_is_kept_whole_and_comes_back_from_its_release(
    name, tmp_path, images
):
    if name in ("aim", "mst"):
        pytest.importorskip("mbi", reason="needs the extra marginals")
    (data, _), schema, settings, options = of_method(name, tmp_path, images)
    model = noisegate.fit(
        data,
        schema=schema,
        epsilon=3.0,
        method=name,
        out=tmp_path / "m",
        device="cpu",
        **options,
        **settings,
    )
    assert verify_model(tmp_path / "m").recomputed_epsilon <= 3.0
    again = noisegate.load(tmp_path / "m")
    assert again.certificate == model.certificate
    release = Release.load(tmp_path / "m")
    method = method_of(release.certificate)
    assert method.plan(schema, Budget(epsilon=3.0)).events == release.certificate.events
    fitted = (
        method.fit_release(release, device="cpu")
        if method.makes == "records"
        else method.classifier(release)
    )
    assert said(model, schema) == said(again, schema) == said(fitted, schema)


@pytest.mark.parametrize("name", OF_STEPS)
def test_a_run_that_is_taken_up_again_ends_with_the_same_bits(
    name, tmp_path, images, monkeypatch
):
    """Or begins anew, where a run cannot be resumed."""
    (data, _), schema, settings, _ = of_method(name, tmp_path, images)
    method = make_for(name, schema, settings)
    blind = Blind()
    done = []
    use(monkeypatch, blind)

    def run(report, **more):
        gate = Gate(data, schema=schema, epsilon=3.0, records=1000)
        return method.query(gate, report=report, **more).values

    def stop(step):
        if step == 2:
            raise KeyboardInterrupt

    whole = run(done.append)
    assert done == [1, 2, 3]
    blind.asked = 0
    with pytest.raises(KeyboardInterrupt):
        run(stop, folder=tmp_path)
    resumed = method.is_resumable(method.plan(schema, Budget(epsilon=3.0)))
    assert (tmp_path / STATE_FILE).exists() == resumed
    blind.asked = 2 * resumed
    done = []
    again = run(done.append, folder=tmp_path)
    assert done == ([3] if resumed else [1, 2, 3])
    assert all(np.array_equal(again[part], whole[part]) for part in whole)
