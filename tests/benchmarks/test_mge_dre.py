"""The benchmark of methods with public images: a whole run on a few made-up ones, in both forms."""

import io
import json
import runpy
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from torch import nn

from noisegate.evaluation import images
from noisegate.evaluation.metrics.prd import distribution_scores
from noisegate.networks.encoder import WIDTH, build_encoder, folded, save_encoder

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

from mge_dre import published, run, tables


def write(path, count, seed):
    """Pictures of ten classes, each of a grey of its own."""
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 10
    rows = []
    for label in labels:
        stream = io.BytesIO()
        picture = random.integers(0, 30, (32, 32, 3)) + 20 * label
        Image.fromarray(picture.astype(np.uint8)).save(stream, "PNG")
        rows.append({"bytes": stream.getvalue(), "path": None})
    pq.write_table(pa.table({"image": rows, "label": labels}), path)


@pytest.fixture
def data(tmp_path):
    for part, count, seed in (("train", 160, 0), ("test", 120, 1)):
        write(tmp_path / f"{part}.parquet", count, seed)
    save_encoder(folded(build_encoder(seed=1)), nn.Linear(WIDTH, 10), tmp_path / "judge.safetensors")
    return tmp_path


def call(data, monkeypatch, *options):
    known = ["--data", data, "--out", data / "out", "--judge", data / "judge.safetensors", "--images", "60"]
    # One clustering, not the average of ten.
    monkeypatch.setattr(images, "distribution_scores", partial(distribution_scores, runs=1))
    monkeypatch.setattr(sys, "argv", ["run.py", *map(str, known), *options])
    assert run.main() == 0
    return {path.stem: json.loads(path.read_text()) for path in (data / "out").glob("*.json")}


@pytest.mark.slow
def test_a_part_of_the_public_images_is_private(data, monkeypatch, capsys):
    found = call(data, monkeypatch, "--methods", "dp-dre", "--epsilon", "inf")
    assert set(found) == {"dp-dre-inf-0", *run.FREE}
    assert found["other-vehicles"]["frechet"] < found["public"]["frechet"]
    # 4 of 10 classes are private; their greys tell them apart.
    assert found["dp-dre-inf-0"]["on_support"] > 0.6
    assert "share of the weight" in capsys.readouterr().out
    before = {path: path.stat().st_mtime_ns for path in (data / "out").glob("*.json")}
    call(data, monkeypatch, "--methods", "dp-dre", "--epsilon", "inf")
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_other_images_are_private(data, monkeypatch):
    other = data / "other.npz"
    np.savez(other, images=np.random.default_rng(2).integers(0, 256, (70, 28, 28), dtype=np.uint8))
    options = ["--private", "other", "--other", str(other), "--most", "50", "--methods", "dp-mge", "--epsilon", "1"]
    found = call(data, monkeypatch, *options)
    assert set(found) == {"public", "public-decoded", "private-decoded", "dp-mge-1-0"}
    assert found["dp-mge-1-0"]["certified_epsilon"] <= 1


def test_another_set_of_private_images_in_one_folder_is_refused(data, monkeypatch, capsys):
    options = run.parser().parse_args(["--data", "d", "--out", str(data), "--judge", "j"])
    run._check_set(options)
    run._check_set(options)
    options.private = "held-out"
    with pytest.raises(SystemExit) as stop:
        run._check_set(options)
    assert stop.value.code == 2
    assert "give another folder" in capsys.readouterr().err


def test_the_paper_s_row_stands_beside_ours_at_the_same_epsilon():
    rows = {
        "dp-dre-decoded": {"1": {"frechet": 0.2}, "10": {"frechet": 0.1}},
        "private-decoded": {"all": {"frechet": 0.05}},
        "dp-mge-full": {"1": {"frechet": None}},
    }
    found = tables.beside([10.0, 1.0], rows, "frechet", published.TABLE_1["Car"])
    assert [row["row"] for row in found] == ["dp-dre-decoded", "private-decoded"]
    assert found[0] | {"ours": [0.1, 0.2], "paper": [18.6, 18.4]} == found[0]
    assert found[1] | {"ours": [0.05, 0.05], "paper": [17.7, 17.7]} == found[1]


def test_published_rows_have_a_figure_for_each_epsilon_and_are_named_beside_ours():
    many = [*published.TABLE_1.values(), *published.TABLE_2.values(), published.TABLE_3, *published.TABLE_5.values()]
    for rows in many:
        assert set(rows) <= set(published.PAPER_ROWS.values())
        assert all(len(row) == (1 if name == published.NON_PRIVATE else 5) for name, row in rows.items())


def test_a_judge_is_trained_once_on_the_public_images_where_none_is_given(data, monkeypatch):
    called = []

    def trained(command, check):
        called.append(command)
        Path(command[-1]).write_bytes(b"")

    monkeypatch.setattr(run.subprocess, "run", trained)
    options = run.parser().parse_args(["--data", str(data), "--out", str(data / "out")])
    options.out.mkdir()
    assert run._trained_judge(options) == run._trained_judge(options) == options.out / "judge.safetensors"
    ((*_, encoder, public, seed, one, _, _),) = called
    assert (encoder, public, seed, one) == ("encoder", str(data / "train.parquet"), "--seed", "1")


def test_classes_that_are_held_out_are_not_public(data):
    given = ["--data", str(data), "--out", str(data), "--judge", "j", "--private", "held-out"]
    sets = run._sets(run.parser().parse_args(given))
    assert len(sets["private"].pixels) == 48
    assert len(sets["public"].pixels) == 96 and not np.isin(sets["public"].labels, run.VEHICLES).any()


@pytest.mark.slow
@pytest.mark.parametrize("script", ["table_1", "table_3", "figure_4"])
def test_a_table_is_one_command(data, monkeypatch, script):
    monkeypatch.setattr(images, "distribution_scores", partial(distribution_scores, runs=1))
    given = ["--data", data, "--out", data / "out", "--judge", data / "judge.safetensors", "--images", "60"]
    given += ["--methods", "dp-dre", "--epsilon", "1", "--json", data / "page.json"]
    monkeypatch.setattr(sys, "argv", [script, *map(str, given)])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(Path(run.__file__).parent / f"{script}.py"), run_name="__main__")
    assert not stop.value.code
    page = json.loads((data / "page.json").read_text())
    (figure,) = page["figures"].values()
    assert "dp-dre" in {row["row"] for row in figure}
    assert page["seed"] == 0 and page["private"] == ("held-out" if script == "figure_4" else "vehicles")
