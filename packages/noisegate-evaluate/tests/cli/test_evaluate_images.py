"""`noisegate evaluate --images`: image files in, figures out, and the options that go with them."""

import numpy as np
import pytest
from PIL import Image

from noisegate.schema import pixel_schema
from noisegate_evaluate import CAVEAT


@pytest.fixture
def evaluate(tmp_path, cli):
    """Folders of 4 x 4 grey images, of which those of class 1 are brighter; the synthetic ones are an .npz file."""
    random = np.random.default_rng(0)
    for what in ("synthetic", "test", "train"):
        labels = np.arange(24) % 2
        pixels = (
            random.integers(0, 100, (24, 4, 4)) + 120 * labels[:, None, None]
        ).astype(np.uint8)
        if what == "synthetic":
            np.savez(tmp_path / "synthetic.npz", images=pixels, labels=labels)
            continue
        for place, (image, label) in enumerate(zip(pixels, labels, strict=True)):
            (tmp_path / what / str(label)).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(tmp_path / what / str(label) / f"{place}.png")
    pixel_schema(4, 4, labels=(0, 1)).to_toml(tmp_path / "images.toml")

    def run(*more, schema="images.toml"):
        where = ["--synthetic", tmp_path / "synthetic.npz", "--test", tmp_path / "test"]
        return cli("evaluate", *where, "--schema", tmp_path / schema, *more)

    return run


def test_images_are_measured(evaluate, tmp_path):
    options = (
        "--images",
        "--features",
        "pixels",
        "--epochs",
        1,
        "--most",
        20,
        "--classifiers",
        "logistic",
    )
    nearest = tmp_path / "private-nearest.png"
    ended = evaluate(
        *options, "--train", tmp_path / "train", "--nearest", nearest, "--json"
    )
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["caveat"] == CAVEAT
    assert ended.json["distances"]["frechet(pixels)"] > 0
    assert ended.json["distances"]["real_images"] == 20
    assert (
        ended.json["downstream"]["classifiers"]["logistic regression"]["accuracy"] > 0.8
    )
    assert ended.json["downstream_ceiling"]["classifiers"]
    with Image.open(nearest) as picture:
        assert picture.text["Comment"] == "PRIVATE, DO NOT PUBLISH"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--images", "--jobs", 2), "--jobs is not for --images"),
        (("--features", "pixels"), "--features is for --images; add --images"),
        (("--images", "--classifiers", "convnet"), "classifiers has 'convnet'"),
        (("--images", "--features", "vgg"), "features is 'vgg'"),
        (
            ("--images", "--nearest", "private-a.png"),
            "--nearest shows private records: give --train",
        ),
        (
            ("--images", "--nearest", "nearest.png", "--train", "train"),
            "starts with private-",
        ),
    ],
)
def test_options_that_do_not_go_together_are_named_before_anything_is_read(
    evaluate, tmp_path, options, message
):
    (tmp_path / "synthetic.npz").unlink()
    ended = evaluate(*options)
    assert ended.code == 2
    assert message in " ".join(ended.err.split())
