"""`evaluate` says which group of a column is copied worst, on the page, in JSON and in words."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

SCHEMA = """
label = "ill"
[columns.sex]
kind = "categorical"
levels = ["f", "m", "x"]
[columns.age]
kind = "integer"
lower = 0
upper = 99
[columns.ill]
kind = "boolean"
"""


def people(seed, *, follows_age_in_women):
    """Illness follows age, but for women of synthetic records; 5 people are of the third group."""
    random = np.random.default_rng(seed)
    sex = np.array(["f"] * 300 + ["m"] * 300 + ["x"] * 5)
    age = random.integers(0, 100, len(sex))
    is_by_chance = (sex == "f") & (not follows_age_in_women)
    ill = np.where(is_by_chance, random.random(len(sex)) < 0.5, age >= 50)
    return pa.table({"sex": sex, "age": age, "ill": ill})


@pytest.fixture
def options(tmp_path):
    (tmp_path / "schema.toml").write_text(SCHEMA)
    words = ["--schema", tmp_path / "schema.toml", "--by", "sex"]
    for seed, name in enumerate(("synthetic", "test", "train")):
        table = people(seed, follows_age_in_women=name != "synthetic")
        pyarrow.csv.write_csv(table, tmp_path / f"{name}.csv")
        words += [f"--{name}", tmp_path / f"{name}.csv"]
    return words


def test_json_has_the_worst_group_of_each_figure(options, cli):
    ended = cli("evaluate", *options, "--json")
    assert ended.code == 0
    groups = ended.json["groups"]
    assert groups["score"] == "ROC-AUC"
    worst = groups["worst"]
    for figure in ("pairs", "associations_lost", "score_lost"):
        assert worst[figure]["level"] == "f"
        assert worst[figure]["groups"] == 2
        assert worst[figure]["mean_error"] < worst[figure]["error"]
    assert "too few to judge: 'x' (5)" in " ".join(ended.json["notes"])
    assert worst["associations_lost"]["error"] > 0.8
    reasons = " ".join(ended.json["verdict"]["reasons"])
    assert "of strong associations are kept in 'f', the worst of 2 groups" in reasons
    assert "models trained on synthetic records reach ROC-AUC 0." in reasons


def test_the_terminal_and_the_page_name_it_too(options, cli, tmp_path):
    page = tmp_path / "page.html"
    ended = cli("evaluate", *options, "--page", page)
    assert ended.code == 0
    title = "the worst group beside the mean over groups"
    assert title in " ".join(ended.out.split())
    assert "too few records" in " ".join(ended.out.split())
    text = page.read_text(encoding="utf-8")
    assert "Groups of sex" in text
    assert title in text
