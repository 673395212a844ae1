"""What an evaluation answers question by question: a copy in which one thing is broken has that alone not kept."""

import io
from functools import partial

import numpy as np
import pyarrow as pa
import pytest
from rich.console import Console

from noisegate import evaluate
from noisegate.answers.verdict import Verdict
from noisegate.schema import Boolean, Continuous, Schema
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable
from noisegate_evaluate import evaluate_linked
from noisegate_evaluate.metrics.means import Means
from noisegate_evaluate.metrics.missing import MissingTogether

RECORDS = 4000
SCHEMA = Schema(
    [
        Continuous(name="crp", lower=0, upper=100, missing=True),
        Continuous(name="esr", lower=0, upper=100, missing=True),
        Boolean(name="woman"),
        Boolean(name="ill"),
    ],
    label="ill",
)
NAMES = SCHEMA.names


def patients(seed, *, together=True, learnable=True, shift=0.0, tail=0.0):
    """Patients of whom both blood values are missing at once, and who are ill where they are high."""
    random = np.random.default_rng(seed)
    crp = random.normal(50, 8, RECORDS)
    esr = (crp + 5 + random.exponential(2, RECORDS)).clip(0, 100)
    is_missing = random.random((2, RECORDS)) < 0.2
    if together:
        is_missing[1] = is_missing[0]
    ill = crp + random.normal(0, 4, RECORDS) > 50
    if not learnable:
        ill = random.permutation(ill)
    is_far = random.random(RECORDS) < tail
    crp = np.where(is_far, 99, crp) + shift
    return pa.table(
        {
            "crp": pa.array(crp.clip(0, 100), mask=is_missing[0]),
            "esr": pa.array(esr, mask=is_missing[1]),
            "woman": random.random(RECORDS) < 0.5,
            "ill": ill,
        }
    )


def findings(synthetic, *, with_train=True, **options):
    """Returns the answers about a copy, by question."""
    train = patients(1) if with_train else None
    report = evaluate(synthetic, patients(2), schema=SCHEMA, train=train, **options)
    return {finding.question: finding for finding in report.verdict.findings}


def test_a_second_sample_keeps_everything():
    found = findings(patients(3), by="woman")
    assert list(found) == [
        "single columns",
        "values missing together",
        "pairs of columns",
        "regressions",
        "relations and rules",
        "what models learn of the label",
        "groups",
        "means and tails",
    ]
    assert {finding.answer for finding in found.values()} == {"kept"}, found


BROKEN = {
    "values missing together": (partial(patients, together=False), "lost"),
    "what models learn of the label": (partial(patients, learnable=False), "lost"),
    "means and tails": (partial(patients, tail=0.02), "weakened"),
}


@pytest.mark.parametrize("question", BROKEN)
def test_what_is_broken_is_not_kept(question):
    make, answer = BROKEN[question]
    found = findings(make(3))
    assert found[question].answer == answer, found
    others = set(BROKEN) - {question}
    assert {found[other].answer for other in others} == {"kept"}, found


def test_a_mean_that_is_off_is_not_kept_and_said():
    found = findings(patients(3, shift=2.0))
    assert found["means and tails"].answer == "weakened"
    assert "mean of 'crp' off by 0.2" in found["means and tails"].detail
    assert findings(patients(3, shift=9.0))["means and tails"].answer == "lost"


def test_rules_of_real_records_that_are_broken_are_not_kept():
    crp = patients(3)["crp"]
    found = findings(patients(3).set_column(0, "crp", [crp[::-1]]))
    assert found["relations and rules"].answer == "weakened"
    assert "crp" in found["relations and rules"].detail


def test_without_training_records_learning_is_not_known():
    found = findings(patients(3), with_train=False)
    learning = found["what models learn of the label"]
    assert (learning.answer, learning.detail) == (
        "not known",
        "needs the training records",
    )
    assert "groups" not in found


def test_a_group_that_is_copied_badly_is_not_kept():
    made = patients(3)
    wrong = patients(3, learnable=False)
    women = made["woman"]
    mixed = pa.table(
        {name: pa.compute.if_else(women, wrong[name], made[name]) for name in NAMES}
    )
    found = findings(mixed, by="woman")
    assert found["groups"].answer != "kept"
    assert "by woman" in found["groups"].detail


def test_what_applies_and_cannot_be_measured_is_not_known():
    few = patients(3).slice(0, 10)
    report = evaluate(few, few, schema=SCHEMA)
    found = {finding.question: finding for finding in report.verdict.findings}
    assert found["values missing together"].answer == "not known"
    assert "have too few missing values" in found["values missing together"].detail


def test_no_word_rests_on_values_missing_together_or_means():
    report = evaluate(patients(3), patients(2), schema=SCHEMA, train=patients(1))
    figures = dict(report.metrics)
    for name in ("missing", "means"):
        figures[name] = None
    without = type(report)(**vars(report) | {"metrics": figures})
    assert without.verdict.word == report.verdict.word
    assert without.verdict.reasons == report.verdict.reasons
    assert without.verdict.findings != report.verdict.findings


def test_findings_are_in_the_json_and_on_the_console():
    report = evaluate(patients(3), patients(2), schema=SCHEMA)
    verdict = Verdict.from_json(report.to_json()["verdict"])
    assert verdict.findings == report.verdict.findings != ()
    console = Console(file=io.StringIO(), width=80, legacy_windows=False)
    console.print(report.render())
    for finding in verdict.findings:
        assert f" {finding.question:<30}  {finding.answer}" in console.file.getvalue()


def test_correlations_of_missing_values_are_of_columns_that_lack_some():
    of_all = MissingTogether.measured(patients(0), patients(1), schema=SCHEMA, seed=0)
    assert (of_all.pairs, of_all.strong[0][0]) == (1, "crp × esr")
    assert of_all.strong[0][1:] == pytest.approx((1.0, 1.0))
    assert of_all.kept == pytest.approx(1.0)
    filled = patients(1).set_column(1, "esr", [np.full(RECORDS, 50.0)])
    assert MissingTogether.measured(filled, filled, schema=SCHEMA, seed=0) is None
    # What no synthetic record lacks is not missing together with anything.
    lost = MissingTogether.measured(filled, patients(1), schema=SCHEMA, seed=0)
    assert lost.kept == 0.0


def test_means_are_compared_beyond_chance():
    assert (
        Means.measured(patients(0), patients(1), schema=SCHEMA, seed=0).largest < 0.05
    )
    far = Means.measured(patients(0, shift=8.0), patients(1), schema=SCHEMA, seed=0)
    assert far.largest == pytest.approx(0.95, abs=0.1)
    assert far.column == "crp"


WARD = LinkedSchema(
    [
        LinkedTable(name="people", key="id", schema=Schema([Boolean(name="ill")])),
        LinkedTable(
            name="visits",
            parent="people",
            most=4,
            schema=Schema([Continuous(name="pain", lower=0, upper=10)]),
        ),
    ]
)


def ward(seed, *, shuffled=False):
    """People with two visits each, whose pain is nearly that of the visit before, and more where they are ill."""
    random = np.random.default_rng(seed)
    ill = random.random(RECORDS) < 0.5
    base = random.uniform(0, 5, RECORDS) + 5 * ill
    pain = np.stack([base, (base + random.normal(0, 0.3, RECORDS)).clip(0, 10)], axis=1)
    if shuffled:
        pain = random.permutation(pain.ravel()).reshape(pain.shape)
    keys = np.arange(RECORDS)
    return {
        "people": pa.table({"id": keys, "ill": ill}),
        "visits": pa.table({"id": np.repeat(keys, 2), "pain": pain.ravel()}),
    }


@pytest.mark.parametrize("shuffled", [True, False])
def test_children_are_compared_with_their_parents_and_each_other(shuffled):
    report = evaluate_linked(ward(1, shuffled=shuffled), ward(2), WARD)
    found = {finding.question: finding.answer for finding in report.verdict.findings}
    expected = "lost" if shuffled else "kept"
    assert found == {
        "single columns": "kept",
        "means and tails": found["means and tails"],
        "parents and children": expected,
        "children of one parent": expected,
    }
