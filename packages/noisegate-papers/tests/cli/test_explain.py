"""A classifier that is asked what it answers to, and why it predicts what it predicts."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from noisegate import Gate, Schema, progress
from noisegate.schema import pixel_schema
from noisegate_papers.methods.dp_llm import DPLLM

from .conftest import SCHEMA, rows, said

INCOME = "73.25"
METHOD = DPLLM(maps=2, steps=2, sampling_probability=0.25)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    (folder / "data.csv").write_text(
        "\n".join(["age,income,job,answer", *rows(200)]) + "\n"
    )
    gate = Gate(
        folder / "data.csv", schema=Schema.loads(SCHEMA), epsilon=20.0, records=200
    )
    return METHOD.fit(gate).save(folder / "model")


@pytest.fixture(scope="module")
def pixels(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pixels")
    schema, random = pixel_schema(4, 3, labels=(0, 1)), np.random.default_rng(0)
    table = pa.table(
        {name: random.integers(0, 2, 100) * 255 for name in schema.names[:-1]}
        | {"label": [0, 1] * 50}
    )
    pyarrow.parquet.write_table(
        table.slice(0, 2).drop_columns("label"), folder / "two.parquet"
    )
    return METHOD.fit(Gate(table, schema=schema, epsilon=20.0, records=100)).save(
        folder / "model"
    ), folder


@pytest.fixture
def record(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "record.csv"
    path.write_text(f"age,income,job\n30,{INCOME},farmer\n40,,nurse\n")
    return path


def test_classes_are_told_by_what_they_answer_to(model, cli):
    found = cli("explain", model, "--json", "--top", 3).json["filters"]
    assert [one["label"] for one in found] == ["no", "yes"] and [
        len(one["inputs"]) for one in found
    ] == [3, 3]
    for one in found:
        weights = [abs(each["weight"]) for each in one["inputs"]]
        assert weights == sorted(weights, reverse=True)
    # Of two classes, what speaks for one speaks against the other.
    assert found[0]["inputs"][0]["weight"] == pytest.approx(
        -found[1]["inputs"][0]["weight"]
    )
    only = cli("explain", model, "--json", "--label", "yes").json["filters"]
    assert [one["label"] for one in only] == ["yes"]
    assert "What no depends on" not in cli("explain", model, "--label", "yes").out


def test_a_record_is_told_by_what_speaks_for_it_and_against_it(model, record, cli):
    ended = cli("explain", model, "--record", record)
    assert (ended.code, ended.err) == (0, "") and "Record 1:" in ended.out
    assert "Record 2:" in ended.out
    found = cli("explain", model, "--record", record, "--json").json["records"]
    for one in found:
        chances = one["probabilities"]
        assert sum(chances.values()) == pytest.approx(1)
        assert one["prediction"] == one["label"] == max(chances, key=chances.get)
        assert all(each["adds"] > 0 for each in one["for"]) and all(
            each["adds"] < 0 for each in one["against"]
        )
        assert {each["column"] for each in one["for"] + one["against"]} <= {
            "age",
            "income",
            "job",
        }
    other = cli(
        "explain", model, "--record", record, "--json", "--label", "yes", "--top", 1
    ).json["records"]
    assert [(one["label"], len(one["for"]) + len(one["against"])) for one in other] == [
        ("yes", 1),
        ("yes", 1),
    ]


def test_cells_are_shown_only_when_asked_for(model, record, cli):
    for more in ([], ["--json"]):
        hidden = cli("explain", model, "--record", record, *more)
        assert INCOME not in hidden.out and "farmer" not in hidden.out
        shown = cli("explain", model, "--record", record, "--show-values", *more)
        assert INCOME in shown.out and "farmer" in shown.out
    record.write_text(f"age,income,job\n30,{INCOME}x,farmer\n")
    for arguments in (
        ["explain", model, "--record", record],
        ["predict", model, record, "-o", "p.csv"],
    ):
        assert (
            INCOME not in cli(*arguments).err
            and INCOME in cli(*arguments, "--show-values").err
        )


def test_a_label_in_the_file_is_left_alone(model, record, cli):
    found = cli("explain", model, "--record", record, "--json").json["records"]
    record.write_text(
        f"answer,age,income,job\nmaybe,30,{INCOME},farmer\nno,40,,nurse\n"
    )
    assert cli("explain", model, "--record", record, "--json").json["records"] == found
    assert cli("predict", model, record, "-o", "p.parquet", "--json").json == {
        "records": 2,
        "out": "p.parquet",
    }
    # What is predicted of private records is private too.
    assert os.name == "nt" or Path("p.parquet").stat().st_mode & 0o077 == 0
    table = pyarrow.parquet.read_table("p.parquet").to_pydict()
    assert table["answer"] == [one["prediction"] for one in found]
    assert table["probability of yes"] == pytest.approx(
        [one["probabilities"]["yes"] for one in found]
    )


def test_maps_of_pixels_are_drawn_and_the_image_itself_only_when_asked_for(
    pixels, cli, monkeypatch, tmp_path
):
    model, folder = pixels
    drawn = []
    monkeypatch.chdir(tmp_path)

    def spy(rows, path, *, shape, title):
        drawn.append(rows)
        path.write_bytes(b"")

    assert cli("explain", model, "--image", "4,3", "--picture", "classes.png").code == 0
    assert (tmp_path / "classes.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr("noisegate_evaluate.reporting.pictures.maps_picture", spy)
    asked = ["explain", model, "--image", "4,3,1", "--record", folder / "two.parquet"]
    assert cli(*asked, "--picture", "hidden.png").code == 0
    assert cli(*asked, "--picture", "shown.png", "--show-values").code == 0
    hidden, shown = drawn
    assert [(row.name, row.maps.shape, row.image) for row in hidden] == [
        (f"record {j}", (2, 12), None) for j in (1, 2)
    ]
    assert all(set(row.image) <= {0.0, 1.0} for row in shown)


BAD = {
    "no such class": (
        ["explain", "MODEL", "--label", "maybe"],
        "--label 'maybe' is not a class; choose one of no, yes",
    ),
    "a picture without a size": (
        ["explain", "MODEL", "--picture", "p.png"],
        "--picture and --image go together",
    ),
    "a size without a picture": (
        ["explain", "MODEL", "--image", "2,2"],
        "--picture and --image go together",
    ),
    "no size": (
        ["explain", "MODEL", "--image", "2x2", "--picture", "p.png"],
        "image is '2x2'; expected HEIGHT,WIDTH",
    ),
    "another size": (
        ["explain", "MODEL", "--image", "9,9", "--picture", "p.png"],
        "images of 9 x 9 x 1",
    ),
    "nothing to show": (["explain", "MODEL", "--top", "0"], "--top"),
    "no such record": (["explain", "MODEL", "--record", "none.csv"], "none.csv"),
    "too many records": (
        ["explain", "MODEL", "--record", "many.csv"],
        "more than 20 records",
    ),
    "no model": (["explain", "nothing"], "nothing"),
    "another ending": (
        ["predict", "MODEL", "many.csv", "-o", "p.txt"],
        ".csv or .parquet",
    ),
    "a file in the way": (["predict", "MODEL", "many.csv", "-o", "many.csv"], "exists"),
    "no sample of it": (
        ["sample", "MODEL", "-n", "5", "-o", "p.csv"],
        "holds a classifier, which draws no records",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_requests_are_explained_and_leave_nothing(model, desk, cli, case):
    (desk.folder / "many.csv").write_text(
        "\n".join(["age,income,job"] + ["30,50.0,nurse"] * 21) + "\n"
    )
    before = desk.listing()
    arguments, words = BAD[case]
    ended = cli(*[model if part == "MODEL" else part for part in arguments])
    assert ended.code == 2 and words in said(ended.err)
    assert desk.listing() == before


def test_progress_of_a_prediction_tells_no_count_to_a_scheduler(
    model, record, cli, monkeypatch
):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    ended = cli("predict", model, record, "-o", "p.csv")
    lines = [line for line in ended.err.splitlines() if "Predicting" in line]
    assert lines
    assert all(line.endswith(" s so far") for line in lines)
