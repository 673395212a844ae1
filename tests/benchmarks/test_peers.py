"""The table of peers: a run that is there is not made again, one without an end is said, the page is what runs say."""

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytestmark = pytest.mark.slow  # scripts that make figures, and are run by hand

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def by_name(name: str):
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


RUN, PEERS, PAGE = (by_name(name) for name in ("baselines.run", "images.peers", "images.peers_page"))


@pytest.fixture
def data(tmp_path):
    """A folder with sixty made-up training images and thirty test images, in the form of MNIST's publisher."""
    (tmp_path / "data" / "mnist").mkdir(parents=True)
    labels = np.arange(90) % 10
    pixels = np.random.default_rng(0).integers(0, 256, (90, 28, 28))
    for part, rows in (("train", slice(0, 60)), ("t10k", slice(60, 90))):
        for kind, array in (("images-idx3", pixels[rows]), ("labels-idx1", labels[rows])):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">i4").tobytes()
            (tmp_path / "data" / "mnist" / f"{part}-{kind}-ubyte").write_bytes(head + array.astype(np.uint8).tobytes())
    return tmp_path / "data"


@pytest.fixture
def started(monkeypatch):
    """Which commands were started; they run in this process, with the quickest classifier alone."""
    commands = []

    def here(command, timeout):
        commands.append(command)
        return SimpleNamespace(returncode=RUN.main([*command[2:], "--classifiers=logistic"]))

    monkeypatch.setattr(PEERS.subprocess, "run", here)
    monkeypatch.setitem(PEERS.PEERS, "pe", {"candidates": 20, "rounds": 1, "images": 40})
    return commands


def test_runs_that_are_there_are_not_made_again_and_stand_on_the_page(data, started, tmp_path, monkeypatch):
    out = tmp_path / "out"
    asked = [f"--data={data}", f"--out={out}", "--sets", "mnist-8k", "--methods", "pe", "--epsilon", "1", "--made=60"]
    assert PEERS.main(asked) == PEERS.main(asked) == 0
    assert len(started) == 1
    (row,) = json.loads((out / "pe-mnist-8k-1-60-0.json").read_text())
    assert 0.9 < row["certified_epsilon"] <= 1
    rows = [row | {"cnn": cnn, "mlp": 0.5, "seed": seed} for seed, cnn in ((1, 0.4), (0, 0.1), (0, 0.2))]
    rows = PAGE.collected(rows)
    assert [(same["seed"], same["cnn"]) for same in rows] == [(0, 0.2), (1, 0.4)]
    figures = f".300 | .500 | {PAGE.short(row['logistic'])} | 2 | 1 | candidates 20, rounds 1, images 40 | 60 |"
    (line,) = PAGE.ours(rows)
    assert line.startswith(f"| MNIST, 8,000 | 1 | `pe` | {figures}")


def test_a_run_without_an_end_is_said_and_the_others_are_made(data, tmp_path, monkeypatch, capsys):
    asked = []

    def hangs(command, timeout):
        asked.append(timeout)
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(PEERS.subprocess, "run", hangs)
    options = [f"--data={data}", f"--out={tmp_path}", "--sets", "mnist", "--methods", "pe", "--minutes", "0.5"]
    assert PEERS.main([*options, "--epsilon", "1", "10"]) == 1
    assert asked == [30, 30]
    assert "not done in 0.5 minutes" in capsys.readouterr().out


def test_missing_data_is_named_before_a_run(tmp_path, started, capsys):
    assert PEERS.main([f"--data={tmp_path}", f"--out={tmp_path / 'out'}"]) == 2
    assert not started
    assert not (tmp_path / "out").exists()
    assert "there is no file train.parquet" in capsys.readouterr().out


def test_the_sample_of_a_step_is_of_as_many_records_in_every_set(tmp_path):
    for name, share in (("mnist", {}), ("mnist-8k", {"sampling_probability": 0.032})):
        command = PEERS.Run(name, 1.0, "dp-gan", 0, 10).command(tmp_path, tmp_path)
        assert json.loads(command[4].partition("=")[2]) == {"steps": 400} | share


def test_rows_of_the_baselines_that_were_made_alike_stand_here_too():
    row = {"method": "dp-gan", "data_set": "mnist", "settings": {"steps": 400}, "records": None, "made": 10_000}
    row |= {"epsilon": 1.0, "seed": 0, "cnn": 0.6, "mlp": 0.5, "logistic": 0.4, "seconds": {"cpu": 80}}
    few = {name: value for name, value in row.items() if name != "cnn"}
    (line,) = PAGE.ours([*PAGE.alike([row, few, row | {"made": 2000}])])
    assert line == "| MNIST | 1 | `dp-gan` | .600 | .500 | .400 | 1 | 400 | – | 10,000 | 80 |"
    (line,) = PAGE.ours([row | {"records": 8000, "steps": None}])
    assert line.startswith("| MNIST, first 8,000 | 1 | `dp-gan` |")


def test_the_page_has_every_row_and_marks_what_is_not_private():
    assert PAGE.PAGE.read_text("utf-8") == PAGE.page(), "run python benchmarks/images/peers_page.py"
    marked = [line for line in PAGE.page().splitlines() if "not private as published" in line]
    assert [line.split(" | ")[0] for line in marked] == ["| dp-kernel", "| gs-wgan"]
