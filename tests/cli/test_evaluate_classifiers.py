import pytest

from noisegate.evaluation import twelve


@pytest.fixture
def evaluate(desk, cli):
    def run(*more):
        return cli("evaluate", "--synthetic", desk.data, "--test", desk.data, "--schema", desk.schema, *more)

    return run


def test_the_twelve_of_the_papers(evaluate):
    ended = evaluate("--classifiers", "twelve", "--jobs", 1, "--json")
    assert (ended.code, ended.err) == (0, "")
    scored = ended.json["downstream"]
    assert scored["classifiers"] == twelve("tables").to_json()
    assert len(scored["models"]) == 12
    assert 0 <= scored["mean"]["accuracy"] <= 1
    assert set(scored["standard_deviation"]) == set(scored["mean"])


def test_three_by_default(evaluate):
    ended = evaluate("--json")
    assert ended.json["downstream"]["classifiers"] == {"list": "three"}
    assert len(ended.json["downstream"]["models"]) == 3


def test_a_wrong_choice_is_refused_before_anything_is_read(evaluate, desk):
    desk.data.unlink()
    ended = evaluate("--classifiers", "thirteen")
    assert ended.code == 2
    assert "'thirteen'; expected 'three' or 'twelve'" in " ".join(ended.err.split())
    assert evaluate("--jobs", 0).code == 2
