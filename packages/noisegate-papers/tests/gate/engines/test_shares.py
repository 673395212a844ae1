"""Units and images are summed on a cluster to the bits of one machine; Ray is played here."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from noisegate import DPMERF, Gate, Pairwise
from noisegate.gate.engines.ray import RayEngine
from noisegate.gate.execution import map_execution
from noisegate.gate.sums import Engine, LocalEngine, SumTask
from noisegate.privacy.grid import Grid
from noisegate.schema import pixel_schema
from noisegate.sources.units import UnitLimit
from noisegate_images.networks.encoder import LAYERS, build_encoder, folded
from noisegate_images.networks.named import ChosenLayers
from noisegate_images.queries.perceptual import Activations, Perceptual
from noisegate_images.sources.images import ImageSource

SCHEMA = pixel_schema(12, 12, labels=["a", "b"])


class Both(Engine):
    """Asks one machine and a cluster, and takes what both say."""

    def __init__(self):
        self.records = []

    def sum(self, source, tasks, progress):
        here = LocalEngine(threads=2).sum(source, tasks, None)
        there = RayEngine(part_bytes=2000).sum(source, tasks, progress)
        assert there.records == here.records
        for name in tasks:
            assert there.sums[name].tolist() == here.sums[name].tolist()
        self.records.append(here.records)
        return there


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize(
    "method", [Pairwise(), DPMERF(frequencies=20)], ids=["pairwise", "merf"]
)
def test_units_count_as_often_as_they_may_and_no_more(
    method, kind, joined, people, mixed_schema, tmp_path
):
    frame = people(400)
    frame["patient"] = np.random.default_rng(1).integers(0, 150, 400)
    frame.to_csv(tmp_path / "x.csv", index=False)
    frame.to_parquet(tmp_path / "x.parquet", row_group_size=50)
    both = Both()
    options = {"unit_column": "patient", "contributions": 2, "engine": both}
    method.query(
        Gate(tmp_path / f"x.{kind}", schema=mixed_schema, epsilon=1.0, **options)
    )
    assert set(both.records) == {
        int(np.minimum(frame["patient"].value_counts(), 2).sum())
    }


@pytest.fixture(params=["folder", "list"])
def pictures(request, tmp_path):
    """700 images, of which some are of one person each."""
    random = np.random.default_rng(2)
    pixels = random.integers(0, 256, (700, 12, 12), dtype=np.uint8)
    labels = np.array(["a", "b"])[random.integers(0, 2, 700)]
    for number, (image, label) in enumerate(zip(pixels, labels, strict=True)):
        (tmp_path / "x" / label).mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(tmp_path / "x" / label / f"{number}.png")
    if request.param == "folder":
        return tmp_path / "x", None
    files = [f"{label}/{number}.png" for number, label in enumerate(labels)]
    people = random.integers(0, 90, 700)
    pd.DataFrame({"file": files, "label": labels, "who": people}).to_csv(
        tmp_path / "x" / "labels.csv", index=False
    )
    return tmp_path / "x", UnitLimit(column="who", contributions=3)


def test_images_have_the_same_features_on_a_cluster(pictures, joined):
    path, units = pictures
    layers = ChosenLayers(folded(build_encoder(seed=0)), LAYERS, SCHEMA.images.shape)
    activations = Activations(layers=layers, nonnegative=True)
    tasks = {}
    for moment in (1, 2):
        features = Perceptual(activations=activations, moment=moment)
        way = map_execution("q", features, SCHEMA.layout)
        tasks[f"m{moment}"] = SumTask(
            feature_map=features,
            grid=Grid(norm=1.0),
            columns=2,
            label=0,
            probed_execution=way,
        )
    both = Both()
    both.sum(ImageSource(path, SCHEMA, units=units), tasks, None)
    assert both.records == [700 if units is None else 268]
