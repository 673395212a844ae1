"""The contract of methods, for every method in the registry; a broken one is shown to be found out."""

from dataclasses import replace

import pytest

from noisegate.features.feature_map import Counts
from noisegate.methods.embedding import Embedding, MeanEmbeddingMethod
from noisegate.methods.registry import METHODS
from noisegate.schema import Boolean, Schema
from noisegate.settings import settings
from noisegate.testing import FakeGate, check_method
from noisegate_evaluate.auditing.examples import example

BRIEF = {"dp-merf": {"fit_options": {"steps": 5}}, "dp-hp": {"fit_options": {"steps": 5}}}
SAMPLED = {"dp-merf", "dp-hp", "pairwise", "dp-gan", "psg", "privbayes", "tab-pe", "pe"}
"""Others take seconds to fit; tests/golden fits every one."""


# MST and AIM compile for a minute.
@pytest.mark.parametrize(
    "name",
    # A contract is about one table; packages/noisegate/tests/methods/test_linked.py is about several.
    [pytest.param(name, marks=[pytest.mark.slow] * (name in ("aim", "mst"))) for name in METHODS if name != "linked"],
)
def test_a_method_keeps_its_contract(name, tmp_path):
    if name in ("aim", "mst"):
        pytest.importorskip("mbi", reason="needs the extra marginals")
    method, schema, _ = example(name, schema=None, settings={}, folder=tmp_path)
    check_method(replace(method, **BRIEF.get(name, {})), schema, sample=name in SAMPLED)


SCHEMA = Schema((Boolean(name="ill"),))


@settings
class Counting(MeanEmbeddingMethod):
    """Counts the records."""

    name = "counting"

    def embeddings(self, schema):
        return {"counts": Embedding(Counts(), 1.0)}

    def synthesizer(self, release, fitting):
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
    assert gate.exact["counts"].tolist() == [[50.0]] and 0 < abs(release.values["counts"][0, 0] - 50) < 1
