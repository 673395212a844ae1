"""Images of every kind through the gate with few steps: what is made has their form, and the verdict has words."""

import numpy as np
import pytest

import noisegate
from noisegate.schema import pixel_schema

FEW = {
    "pixels": 20,
    "orientations": 20,
    "wavelets": 20,
    "strokes": 0,
    "channels": (4, 2),
    "hidden": (8,),
}


def pictures(labels, side, channels):
    """Noise that is the brighter the later the class."""
    draw = np.random.default_rng(0)
    level = np.linspace(40, 200, labels.max() + 1)[labels][:, None, None, None]
    return np.clip(
        level + draw.normal(0, 20, (len(labels), side, side, channels)), 0, 255
    ).astype(np.uint8)


KINDS = {
    "colour, 64 x 64": (
        pixel_schema(64, 64, 3, labels=("cat", "dog")),
        np.repeat([0, 1], 20),
    ),
    "grey, 128 x 128, without labels": (pixel_schema(128, 128), np.zeros(24, int)),
    "2 classes, 5 in 100 of one": (
        pixel_schema(8, 8, labels=("ill", "well")),
        np.repeat([0, 1], [6, 114]),
    ),
    "100 classes": (
        pixel_schema(8, 8, labels=range(100)),
        np.repeat(np.arange(100), 2),
    ),
}


LARGE = [
    pytest.param(kind, marks=pytest.mark.slow) if " x " in kind else kind
    for kind in KINDS
]


@pytest.mark.parametrize("kind", LARGE)
def test_a_fit_makes_images_of_its_kind(kind):
    schema, labels = KINDS[kind]
    form = schema.images
    private = pictures(labels, form.shape.height, form.shape.channels)
    data = (private, np.array(form.labels)[labels]) if form.labels else private
    model = noisegate.fit(
        data,
        schema=schema,
        epsilon=10.0,
        method="joint",
        **FEW,
        fit_options={"steps": 3, "batch": 8},
    )
    (batch,) = model.images(30, seed=0)
    assert batch.pixels.shape == (
        30,
        form.shape.height,
        form.shape.width,
        form.shape.channels,
    )
    assert batch.pixels.dtype == np.uint8
    assert (batch.labels is None) == (not form.labels)
    assert set(np.asarray(batch.labels if form.labels else []).tolist()) <= set(
        form.labels or ()
    )
    assert str(model.verdict)
    assert model.certificate.guarantee.startswith("(10, 1e-05)")


def test_a_rare_class_is_made_as_rarely_as_it_is():
    schema, labels = KINDS["2 classes, 5 in 100 of one"]
    steps = {"steps": 3, "batch": 8}
    model = noisegate.fit(
        (pictures(labels, 8, 1), np.array(schema.images.labels)[labels]),
        schema=schema,
        epsilon=1000.0,
        method="joint",
        **FEW,
        fit_options=steps,
    )
    (batch,) = model.images(2000, seed=0)
    assert np.mean(np.asarray(batch.labels) == "ill") == pytest.approx(0.05, abs=0.03)
