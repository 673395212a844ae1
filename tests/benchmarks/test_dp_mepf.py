"""The benchmark of DP-MEPF: Table 7 as printed, rows beside the paper's and resumed, and what is missing is named."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_mepf"))

import mepf_tables as tables
from mepf_rates import RATES, rates

FOLDER = Path(tables.__file__).parent


@pytest.fixture
def command(monkeypatch, capsys):
    def run(number, *options):
        monkeypatch.setattr(sys, "argv", [f"table_{number}.py", *map(str, options)])
        code = tables.main(number)
        return code, " ".join(capsys.readouterr().out.split())

    monkeypatch.setenv("COLUMNS", "200")
    return run


def test_learning_rates_are_those_of_table_7():
    assert rates("cifar10", 1, 10)[1:] == (1e-3, 1e-4)
    assert rates("cifar10", 2, 5)[1:] == (1e-3, 3e-4)
    assert rates("cifar10", 2, 2)[1:] == (1e-3, 1e-2)
    assert rates("celeba32", 1, 0.5)[1:] == (1e-3, 3e-4)
    assert rates("celeba64", 2, 1)[1:] == (3e-4, 1e-3)
    assert rates("mnist", 2, 0.2)[1:] == (1e-5, 1e-4)
    for entries in RATES.values():
        assert [entry.least for entry in entries] == sorted((entry.least for entry in entries), reverse=True)
        assert entries[-1].least == 0


def test_every_table_has_its_figures_and_its_command():
    for number in tables.TABLES:
        assert list(tables.figures(number))
        assert (FOLDER / f"table_{number}.py").is_file()
    found = {(one.metric, one.moments): (one.mean, one.std) for one in tables.figures(10) if one.epsilon == 1}
    assert found["mlp", 2] == (89.3, 0.6)
    assert found["logistic", 1] == (79.0, 0.6)
    parts = [one for one in tables.figures(2) if one.data == "mnist"]
    assert set(parts) < set(tables.figures(10))
    assert {one.stopping for one in tables.figures(4)} == {"private", "none"}


@pytest.mark.slow
def test_a_reduced_row_stands_beside_the_papers_and_is_not_made_twice(command, tmp_path, monkeypatch):
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for part in ("train", "test"):
        pixels = random.integers(0, 256, (60, 28, 28), dtype=np.uint8)
        np.savez(folder / f"{part}.npz", images=pixels, labels=np.arange(60) % 10)
    asked = ["--data", tmp_path / "data", "--out", tmp_path / "out", "--epsilon", 10, "--moments", 1, "--steps", 2]
    asked += ["--network", "encoder", "--images", 60, "--device", "cpu", "--only", "mnist"]
    code, page = command(10, *asked)
    assert code == 0
    assert "reduced" in page
    assert "full" not in page
    assert "88.8 ± 0.1" in page
    rows = json.loads((tmp_path / "out" / "rows.json").read_text())
    assert [row["asked"]["metric"] for row in rows] == ["mlp", "logistic"]
    assert all(row["certified_epsilon"] <= 10 and row["reduced"] for row in rows)
    monkeypatch.setattr(tables, "fitted", None)
    assert command(1, *asked)[0] == 0  # Table 1 takes the rows of Table 10


def test_what_is_not_at_hand_is_named(command, tmp_path):
    code, page = command(12, "--data", tmp_path, "--out", tmp_path / "out", "--epsilon", 1)
    assert code == 2
    assert "no train images of celeba32; expected celeba32/train.parquet" in page
    assert "Nothing is downloaded" in page
