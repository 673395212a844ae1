"""What plans and fits answer question by question, from public facts and from the release."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from tests.shared.columns import boolean, categorical, continuous, integer

import noisegate
from noisegate import Schema, synthesize
from noisegate.answers.findings import questions_of_linked, questions_of_table
from noisegate.models.tables.associations import fit_verdicts
from noisegate.schema import Comparison
from noisegate.schema.linked.schema import LinkedSchema, LinkedTable

QUICK = {"fit_options": {"steps": 60, "components": 20}}
BLOOD = [continuous(name, 0, 99, missing=True) for name in "ab"]
RULE = Comparison(left="a", relation="<=", right="b")
SCHEMA = Schema([*BLOOD, boolean("ill")], label="ill", constraints=(RULE,))


def blood(rows, *, together, ill=0.5):
    """Two numbers, a third of which are missing: of the same records or not."""
    random = np.random.default_rng(0)
    is_missing = random.random((2, rows)) < 1 / 3
    if together:
        is_missing[1] = is_missing[0]
    numbers = np.sort(random.uniform(0, 99, (2, rows)), axis=0)
    columns = {
        name: pa.array(values, mask=mask)
        for name, values, mask in zip("ab", numbers, is_missing, strict=True)
    }
    return pa.table(columns | {"ill": random.random(rows) < ill})


def answers(verdict):
    return {finding.question: finding.answer for finding in verdict.findings}


def detail(verdict, question):
    details = {finding.question: finding.detail for finding in verdict.findings}
    return details[question]


def test_only_questions_that_apply_are_asked():
    assert questions_of_table(Schema([boolean("ill")])) == ("single columns",)
    assert questions_of_table(SCHEMA) == (
        "single columns",
        "values missing together",
        "pairs of columns",
        "regressions",
        "relations and rules",
        "what models learn of the label",
        "means and tails",
    )
    one_missing = Schema([BLOOD[0], boolean("ill")])
    assert "values missing together" not in questions_of_table(one_missing)


def test_a_plan_answers_by_noise_and_says_what_it_cannot_know():
    verdict = noisegate.plan(SCHEMA, epsilon=1.0, records=10_000_000).verdict
    assert answers(verdict) == {
        "single columns": "kept",
        "values missing together": "not known",
        "pairs of columns": "kept",
        "regressions": "not known",
        "relations and rules": "kept",
        "what models learn of the label": "not known",
        "means and tails": "not known",
    }
    assert detail(verdict, "values missing together") == "needs the release"
    few = answers(noisegate.plan(SCHEMA, epsilon=1.0, records=10).verdict)
    assert few["single columns"] == few["pairs of columns"] == "lost"
    assert noisegate.plan(SCHEMA, epsilon=1.0).verdict.findings == ()


def test_pairs_that_are_not_measured_are_lost_and_single_columns_are_not():
    by_question = answers(
        noisegate.plan(SCHEMA, epsilon=1.0, records=10**7, pairs="none").verdict
    )
    assert by_question["single columns"] == "kept"
    assert by_question["pairs of columns"] == "lost"


@pytest.mark.parametrize("together", [True, False])
def test_a_fit_tells_from_its_release_whether_values_stay_missing_together(together):
    table = blood(20_000, together=together)
    model = synthesize(table, schema=SCHEMA, epsilon=3.0, seed=0, **QUICK)
    assert answers(model.verdict)["values missing together"] == "kept"
    shown = detail(model.verdict, "values missing together")
    assert ("independent" in shown) is not together
    unknown = answers(model.verdict)["what models learn of the label"]
    assert unknown == "not known"


def test_a_fit_that_makes_missing_values_independent_has_lost_them():
    table = blood(20_000, together=True)
    method = noisegate.plan(SCHEMA, epsilon=3.0, records=20_000).method
    release = synthesize(table, schema=SCHEMA, epsilon=3.0, **QUICK).release
    fitting = replace(method, **QUICK).fitting(release)
    fitting.run()
    shares = [fitting.marginal((column,)) for column in (0, 1)]

    class Independent:
        def __getattr__(self, name):
            return getattr(fitting, name)

        def marginal(self, columns):
            if columns == (0, 1):
                return np.outer(*shares)
            return fitting.marginal(columns)

    [finding] = [
        finding
        for verdict in fit_verdicts(Independent())
        for finding in verdict.findings
        if finding.question == "values missing together"
    ]
    assert finding.answer == "lost"


def test_noise_hides_whether_few_values_are_missing_together():
    table = blood(100, together=True)
    model = synthesize(table, schema=SCHEMA, epsilon=0.3, seed=0, **QUICK)
    by_question = answers(model.verdict)
    assert by_question["values missing together"] == "not known"
    assert by_question["pairs of columns"] == "lost"


def test_a_label_of_which_noise_hides_a_class_cannot_be_learnt():
    table = blood(3000, together=True, ill=0.0)
    model = synthesize(table, schema=SCHEMA, epsilon=1.0, seed=0, **QUICK)
    assert answers(model.verdict)["what models learn of the label"] == "lost"
    assert "True of" not in detail(model.verdict, "what models learn of the label")
    assert "True" in detail(model.verdict, "what models learn of the label")


def test_numbers_in_one_cell_have_lost_their_mean():
    amounts = 500_000 + 100 * np.random.default_rng(0).random(3000)
    schema = Schema([continuous("amount", 0, 1_000_000)])
    table = pa.table({"amount": amounts})
    model = synthesize(table, schema=schema, epsilon=1.0, **QUICK)
    assert answers(model.verdict) == {
        "single columns": "kept",
        "means and tails": "lost",
    }


def test_children_are_asked_about_where_parents_may_have_several():
    people = LinkedTable(name="people", key="id", schema=Schema([boolean("ill")]))
    pain = Schema([integer("pain", 0, 10)])

    def planned(most):
        visits = LinkedTable(name="visits", schema=pain, parent="people", most=most)
        schema = LinkedSchema([people, visits])
        assert "groups" not in questions_of_linked(schema)
        return answers(noisegate.plan(schema, epsilon=1.0, records=10**8).verdict)

    assert planned(9) == {
        "single columns": "kept",
        "means and tails": "not known",
        "parents and children": "kept",
        "children of one parent": "weakened",  # for they have no order
    }
    assert "children of one parent" not in planned(1)


def test_levels_alone_have_no_means():
    schema = Schema([categorical(name, "xy") for name in "ab"])
    assert questions_of_table(schema) == ("single columns", "pairs of columns")
