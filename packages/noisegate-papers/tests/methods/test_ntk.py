"""DP-NTK: what it asks, that a record moves its answer by the bound alone, and that its generators learn."""

import numpy as np
import pyarrow as pa
import pytest

from noisegate import DPNTK, Budget, Gate
from noisegate.methods.registry import make_for
from noisegate.privacy.events import Adjacency
from noisegate.privacy.grid import UNITS
from noisegate.schema import Boolean, Categorical, Continuous, Schema, pixel_schema
from noisegate_papers.methods.mean_embeddings import TANGENT

SCHEMA = Schema(
    (Continuous(name="u", lower=0.0, upper=1.0), Categorical(name="w", levels=("low", "high")), Boolean(name="ill")),
    label="ill",
)
BRIEF = {"steps": 100, "learning_rate": 0.02, "ema_decay": 0.9, "batch": 32, "check_batches": 3}
IMAGES = pixel_schema(8, 8, labels=("across", "down"))


def people(rows, seed=0):
    """The ill ones have a high u, and w says whether u is above a half."""
    random = np.random.default_rng(seed)
    ill = random.uniform(size=rows) < 0.3
    u = np.clip(np.where(ill, 0.75, 0.25) + 0.15 * random.normal(size=rows), 0, 1)
    return pa.table({"u": u, "w": np.where(u > 0.5, "high", "low"), "ill": ill})


def test_under_replace_one_it_pays_the_square_root_of_two_and_not_two():
    budget = Budget(epsilon=1.0, adjacency=Adjacency.REPLACE_ONE)
    event = make_for("dp-ntk", IMAGES, {"width": 10}).plan(IMAGES, budget).release(TANGENT).event
    assert event.sensitivity == pytest.approx(2**0.5 * UNITS, rel=1e-6)


def test_a_table_is_learnt():
    method = DPNTK(width=6, cells=12, latent=4, hidden=(16,), fit_options=BRIEF)
    made = method.fit(Gate(people(4000), schema=SCHEMA, epsilon=20.0), device="cpu").sample(3000, seed=0)
    ill, u = np.array(made["ill"].to_pylist()), made["u"].to_numpy()
    high = np.array(made["w"].to_pylist()) == "high"
    assert ill.mean() == pytest.approx(0.3, abs=0.03)
    assert u[ill].mean() == pytest.approx(0.75, abs=0.06)
    assert u[~ill].mean() == pytest.approx(0.25, abs=0.06)
    assert u[high].mean() - u[~high].mean() > 0.3


def test_images_are_learnt():
    """Stripes across or down, told apart by the label."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 2, 4000)
    stripes = np.zeros((4000, 8, 8))
    stripes[:, ::2] = 200
    stripes[labels == 1] = stripes[labels == 1].transpose(0, 2, 1)
    pixels = stripes.reshape(4000, 64).T.astype(int)
    columns = dict(zip(IMAGES.names, [*pixels, np.array(["across", "down"])[labels]], strict=True))
    method = make_for("dp-ntk", IMAGES, {"width": 16, "latent": 4, "hidden": (16,), "fit_options": BRIEF})
    made = method.fit(Gate(pa.table(columns), schema=IMAGES, epsilon=5.0), device="cpu").sample(500, seed=0)
    pixels = np.stack([made[name].to_numpy() for name in IMAGES.names[:-1]], axis=1).reshape(-1, 8, 8)
    down = np.array(made["label"].to_pylist()) == "down"
    for which, image in ((~down, pixels[~down].mean(axis=0)), (down, pixels[down].mean(axis=0).T)):
        assert which.any()
        assert image[::2].mean() - image[1::2].mean() > 100
