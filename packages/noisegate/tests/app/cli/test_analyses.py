"""Analyses that are named before a release, and those that no question of `infer` is."""

import json

import pyarrow.parquet as parquet
import pytest

from noisegate.app.analyses import read_analyses

from .conftest import argv

TEXT = """
[[analyses]]
kind = "ols"
outcome = "age"
terms = ["job"]

[[analyses]]
question = "share(job = nurse)"
half_width = 0.4

[[analyses]]
question = "median(age)"
"""


@pytest.fixture
def analyses(tmp_path):
    path = tmp_path / "analyses.toml"
    path.write_text(TEXT, encoding="utf-8-sig")  # as Notepad saves it
    return path


def test_a_plan_says_how_exact_answers_will_be_and_asks_for_their_moments(
    desk, cli, analyses
):
    words = argv(
        f"plan --schema {desk.schema} --records 2000 --epsilon 2 --analyses {analyses}"
    )
    output = json.loads(cli(*words, "--json").out)
    regression, share, median = output["analyses"]
    assert regression["want"] == "`age` ~ `job`"
    assert regression["half"] is None
    assert regression["promised"] > 0
    assert share["half"] == 0.4
    assert share["met"]
    assert median["promised"] > 0
    assert any(release["name"] == "moments" for release in output["releases"])
    shown = " ".join(f"{(ended := cli(*words)).out} {ended.err}".split())
    assert "half widths at epsilon = 2" in shown
    assert "simulated records" in shown


def test_a_fit_asks_for_their_columns_alone(desk, cli, analyses, tmp_path):
    fit = argv(
        f"fit {desk.data} --schema {desk.schema} --epsilon 2 --analyses {analyses} --json"
    )
    ended = cli(*fit, "--set", 'fit_options={"steps": 5}', "-o", tmp_path / "model")
    assert ended.code == 0, ended.err
    settings = json.loads(ended.out)["certificate"]["public"]["settings"]
    assert settings["moments_share"] == 0.43
    assert settings["moments"] == ["age", "job"]
    assert [analysis.question for analysis in read_analyses(analyses)][1:] == [
        "share(job = nurse)",
        "median(age)",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("analyses = [3]", "expected tables [[analyses]]"),
        (
            "analyses = [{kind = 'anova', outcome = 'age', terms = ['job']}]",
            "number 1: expected a question, or a kind",
        ),
        ("analyses = [{question = 'mean(age)', kind = 'ols'}]", "given without kind"),
        ("analyses = [{question = 'what'}]", "is not understood"),
        (
            "analyses = [{question = 'mean(age)', half_width = -1}]",
            "half_width = -1 must be a number above 0",
        ),
        ("analyses = [{question = 'mean(age)', width = 1}]", "unknown key 'width'"),
        ("analyses = [{question = 'mean(wage)'}]", "'wage', which is not a column"),
        ("analyses", "cannot be read"),
    ],
)
def test_what_is_no_analysis_is_refused(desk, cli, analyses, text, message):
    analyses.write_text(text)
    ended = cli(
        f"plan --schema {desk.schema} --records 50 --epsilon 1 --analyses {analyses}"
    )
    assert ended.code == 2
    assert message in " ".join(ended.err.split())


@pytest.mark.parametrize("option", ["--for-inference", "--analyses"])
def test_moments_are_asked_for_by_pairwise_alone(desk, cli, analyses, option):
    words = argv(f"plan --schema {desk.schema} --epsilon 1 --method dp-merf {option}")
    ended = cli(*words, *([analyses] if option == "--analyses" else []))
    assert ended.code == 2
    assert f"{option} belongs to pairwise" in " ".join(ended.err.split())


def test_a_plan_whose_widths_cannot_be_found_publishes_nothing(
    desk, cli, analyses, tmp_path
):
    words = argv(
        f"plan --schema {desk.schema} --epsilon 1 --analyses {analyses} --save {tmp_path}/plan.toml"
    )
    ended = cli(*words)
    assert ended.code == 2
    assert "--analyses needs --records" in ended.err
    assert not (tmp_path / "plan.toml").exists()


def test_public_records_stand_in_for_a_want_or_an_analysis_alone(desk, cli):
    ended = cli(f"plan --schema {desk.schema} --epsilon 1 --like {desk.data}")
    assert ended.code == 2
    assert "goes with --want or --analyses" in " ".join(ended.err.split())


def test_a_file_of_copies_numbers_them(desk, cli, tmp_path):
    model = tmp_path / "model"
    out = tmp_path / "copies.parquet"
    cli(
        f"fit {desk.data} --schema {desk.schema} --epsilon 2 --set",
        'fit_options={"steps": 5}',
        "-o",
        model,
    )
    ended = cli(f"sample {model} -n 40 --copies 2 -o {out}")
    assert ended.code == 0
    assert "3 copies of 40 records" in " ".join(ended.err.split())
    table = parquet.read_table(out)
    assert table.column_names[:2] == [".imp", ".id"]
    assert table[".imp"].to_pylist() == [0] * 40 + [1] * 40 + [2] * 40
    assert table[".id"].to_pylist() == [*range(1, 41)] * 3
    ended = cli(f"sample {model} -n 40 --copies 2 -o {out} --where job=nurse")
    assert ended.code == 2
    assert "--where does not go with --copies" in " ".join(ended.err.split())
