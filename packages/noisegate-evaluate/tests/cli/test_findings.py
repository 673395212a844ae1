"""Plan, fit and evaluate say what a copy is good for, question by question, in words and in JSON."""

import re

import pytest

from .conftest import rows

QUESTIONS = [
    "single columns",
    "pairs of columns",
    "regressions",
    "what models learn of the label",
    "means and tails",
]


def shown_answers(ended):
    """Returns the answers in the table on the console, by question."""
    _, _, table = ended.out.partition("what it is good for")
    assert table, ended.out
    return {
        question: re.split(r"\s{2,}", line.strip())[1]
        for line in table.splitlines()
        for question in QUESTIONS
        if line.startswith(f" {question}  ")
    }


@pytest.fixture
def verbs(desk):
    """The arguments of the three verbs; evaluate compares the records with themselves."""
    desk.write_rows(rows(400, seed=5))
    given = ["--schema", desk.schema, "--epsilon", "1"]
    settings = ["--set", 'fit_options={"steps": 20, "components": 8}']
    return {
        "plan": ["plan", *given, "--records", "400"],
        "fit": ["fit", desk.data, *given, "--out", desk.out, *settings],
        "evaluate": [
            *("evaluate", "--synthetic", desk.data, "--test", desk.data),
            *("--schema", desk.schema),
        ],
    }


@pytest.mark.parametrize("verb", ["plan", "fit", "evaluate"])
def test_every_verb_answers_the_questions_that_apply(verb, verbs, cli):
    ended = cli(*verbs[verb])
    assert ended.code == 0, ended.err
    answers = shown_answers(ended)
    assert list(answers) == QUESTIONS
    assert answers["what models learn of the label"] == "not known"
    if verb == "evaluate":
        assert answers["single columns"] == answers["means and tails"] == "kept"


@pytest.mark.parametrize("verb", ["plan", "evaluate"])
def test_json_has_the_findings(verb, verbs, cli):
    told = cli(*verbs[verb], "--json").json
    findings = told["verdict"]["findings"]
    assert [finding["question"] for finding in findings] == QUESTIONS
    assert all(finding["detail"] for finding in findings)
