"""`noisegate evaluate` on folders of linked tables."""

import pyarrow.csv
import pytest

from ..metrics.test_links import SCHEMA, made


@pytest.fixture
def evaluate(tmp_path, cli):
    SCHEMA.to_toml(tmp_path / "linked.toml")
    for place, name in enumerate(("synthetic", "test", "train")):
        (tmp_path / name).mkdir()
        for table, rows in made(seed=place).items():
            pyarrow.csv.write_csv(rows, tmp_path / name / f"{table}.csv")

    def run(*more):
        where = ("--synthetic", tmp_path / "synthetic", "--test", tmp_path / "test")
        return cli("evaluate", *where, "--schema", tmp_path / "linked.toml", *more)

    return run


def test_folders_of_linked_tables_are_measured_and_keep_to_the_schema_of_the_output(
    evaluate, tmp_path
):
    ended = evaluate("--train", tmp_path / "train", "--json")
    assert ended.code == 0
    assert ended.json["links"]["visits"]["transitions"]["mean_total_variation"] < 0.1
    assert set(ended.json["links_floor"]) == {"visits"}
    shown = evaluate()
    assert "visits and their parents" in shown.out
    assert "NOT covered" in " ".join(shown.out.split())
