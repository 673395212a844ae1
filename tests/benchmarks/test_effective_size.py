"""Effective data-set sizes, what the paper reads off its figure, and the generator that is fitted without privacy."""

import math
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from noisegate.models.image_network import ImageNetwork
from noisegate.schema.pixels import ImageShape

sys.path.append(str(Path(__file__).parents[2] / "benchmarks" / "dp_hp"))

import full_mmd
from effective_size import curve_of, figures, levels_off, worth

FOLDER = Path(full_mmd.__file__).parent
REAL = {60: 0.5, 600: 0.7, 6000: 0.8}


def test_a_curve_levels_off_where_it_stays_near_its_end():
    assert levels_off({60: 0.5, 600: 0.715, 6000: 0.72, 60_000: 0.719}) == 600
    assert levels_off({60: 0.719, 600: 0.6, 6000: 0.72}) == 6000, "near again after a dip is not level"
    assert levels_off({60: 0.5, 600: 0.7, 6000: 0.72}) == 6000


def test_worth_is_straight_in_the_logarithm_between_what_was_tried():
    assert worth(0.6, REAL) == pytest.approx(math.sqrt(60 * 600))
    assert worth(0.7, REAL) == pytest.approx(600)
    assert worth(0.4, REAL) == 60
    assert worth(0.9, REAL) == math.inf


def test_the_authors_curves_level_off_where_the_paper_says():
    """Section 5.3: at about 5 % (3k) to 10 % (6k), for all but full MMD."""
    published = tomllib.loads((FOLDER / "expected.toml").read_text())["curves"]
    curves = {name: dict(zip(published["images"], row, strict=True)) for name, row in published["mnist"].items()}
    found = figures(curves)
    assert {name: row["levels off"] for name, row in found.items()} == {
        **{"real": 60_000, "full-mmd": 60_000},
        **{"dp-hp": 6000, "dp-merf": 3000},
    }
    assert found["dp-merf"]["worth"] < found["dp-hp"]["worth"] < 600 < found["full-mmd"]["worth"]
    assert found["real"]["worth"] is None
    assert curve_of({"curve": {"60": [{"accuracy": 0.5}, {"accuracy": 0.7}]}}) == {60: pytest.approx(0.6)}


def test_the_distance_leaves_out_other_labels_and_an_image_with_itself():
    random = np.random.default_rng(0)
    made, real = (torch.from_numpy(random.uniform(size=(7, 4))) for _ in range(2))
    labels = torch.tensor([0, 1, 0, 1, 0, 2, 2])

    def kernel(one, two):
        return math.exp(-float((one - two).square().sum()) / (2 * 0.5**2))

    pairs = [(i, j) for i in range(7) for j in range(7) if labels[i] == labels[j]]
    own = np.mean([kernel(made[i], made[j]) for i, j in pairs if i != j])
    across = np.mean([kernel(made[i], real[j]) for i, j in pairs])
    assert float(full_mmd.labelled_mmd(made, real, labels, length_scale=0.5)) == pytest.approx(own - 2 * across)


def test_a_generator_learns_which_label_is_bright(monkeypatch):
    monkeypatch.setattr(full_mmd, "BATCH", 32)
    random = np.random.default_rng(0)
    labels = np.arange(200) % 2
    images = np.clip(random.normal(0.2 + 0.6 * labels[:, None], 0.1, (200, 64)), 0, 1).astype(np.float32)
    shape = ImageShape(height=8, width=8)
    design = ImageNetwork(shape=shape, kind="fully-connected", latent=4, hidden=(16,), channels=())
    steps = []
    generator = full_mmd.fitted_by_mmd(design, images, labels, steps=100, seed=0, report=steps.append)
    made, wanted = full_mmd.drawn(generator, 20, seed=1)
    assert steps == list(range(1, 101))
    assert wanted.tolist() == [0, 1] * 10
    assert abs(made[wanted == 1].mean() - 0.8) < 0.1
    assert abs(made[wanted == 0].mean() - 0.2) < 0.1
