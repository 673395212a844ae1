"""The benchmark of methods with public images: a whole run on a few made-up ones, in both forms."""

import io
import json
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

from mge_dre import run


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
    assert set(found) == {"public", "public-decoded", "dp-mge-1-0"}
    assert found["dp-mge-1-0"]["certified_epsilon"] <= 1
