import csv

import pytest

from noisegate.app.cli.sample import read_conditions


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (None, {}),
        ([" sex = Female "], {"sex": "Female"}),
        (["income=>50K"], {"income": ">50K"}),
        (["income=<=50K"], {"income": "<=50K"}),
        (["age>=18"], {"age": ("18", None)}),
        (["age <= 30", "age>=18", "sex=Male"], {"age": ("18", "30"), "sex": "Male"}),
        (["age=18..30"], {"age": "18..30"}),
        (["job="], {"job": ""}),
        (["admitted on>=2020-01-01"], {"admitted on": ("2020-01-01", None)}),
    ],
)
def test_conditions_say_what_a_column_shall_be(texts, found):
    assert read_conditions(texts) == found


def test_sample_keeps_to_its_conditions(fitted, tmp_path, cli):
    out = tmp_path / "made.csv"
    where = [
        "--where",
        "answer=yes",
        "--where",
        "age>=30",
        "--where",
        "age<=50",
        "--where",
        "income=",
    ]
    ended = cli(
        "sample", fitted.out, "-n", 40, "-o", out, "--seed", 1, *where, "--json"
    )
    assert ended.code == 0 and ended.json["where"] == where[1::2]
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 40 and {(row["answer"], row["income"]) for row in rows} == {
        ("yes", "")
    }
    assert (
        all(30 <= int(row["age"]) <= 50 for row in rows)
        and len({row["age"] for row in rows}) > 3
    )


def test_sample_makes_classes_even(fitted, tmp_path, cli):
    out = tmp_path / "made.csv"
    ended = cli(
        "sample",
        fitted.out,
        "-n",
        40,
        "-o",
        out,
        "--even",
        "answer",
        "--where",
        "age>=30",
        "--json",
    )
    assert (ended.code, ended.json["even"]) == (0, "answer")
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [
        sum(row["answer"] == answer for row in rows) for answer in ("yes", "no")
    ] == [20, 20]
    assert all(int(row["age"]) >= 30 for row in rows)
    refused = cli(
        "sample", fitted.out, "-n", 5, "-o", tmp_path / "none.csv", "--even", "age"
    )
    assert (
        refused.code == 2
        and "even='age'" in refused.err
        and not (tmp_path / "none.csv").exists()
    )
