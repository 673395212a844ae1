"""The report on images: what is compared with what, what it is called, and the caveat; and images as it takes them."""

from functools import partial

import numpy as np
import pytest

from noisegate.errors import DataError
from noisegate.records import Images
from noisegate.schema import EncodedTable, pixel_schema
from noisegate_evaluate import (
    Pixels,
    SelectionRecipe,
    evaluate_images,
    frechet_distance,
    images_of,
    read_classifiers,
)
from noisegate_evaluate.metrics.ndb import distribution_scores

from .test_comparison import page

SCHEMA = pixel_schema(4, 4, labels=("no", "yes"))
ONE = read_classifiers(
    "cnn,logistic", selection=SelectionRecipe(epochs=1, batch=16, shift=0, device="cpu")
)


@pytest.fixture(scope="module", autouse=True)
def one_clustering():
    """One, not the average of ten."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "noisegate_evaluate.metrics.ndb.distribution_scores",
            partial(distribution_scores, runs=1),
        )
        yield


def images(seed, rows=60, bright=120):
    """The upper half is brighter for class 1."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, rows)
    pixels = random.integers(0, 100, (rows, 4, 4, 1))
    pixels[:, :2] += bright * labels[:, None, None, None]
    return Images(pixels.astype(np.uint8), labels.astype(np.int32))


def measured(*sets, **options):
    return evaluate_images(
        *sets, **{"classifiers": ONE, "features": Pixels(), **options}
    )


@pytest.fixture(scope="module")
def report():
    return measured(images(0), images(1), SCHEMA, images(2))


def test_distances_are_to_the_training_images_and_the_floor_is_between_real_ones(
    report,
):
    assert report.compared_with == "train"
    rows = [Pixels()(images(seed).pixels) for seed in range(3)]
    assert report.distances["frechet"].distance == frechet_distance(rows[0], rows[2])
    assert report.floor["frechet"].distance == frechet_distance(rows[2], rows[1])
    assert report.distances["manifold"].precision > 0.5
    found = report.to_frames()["distances"].set_index(["compared", "metric", "figure"])[
        "value"
    ]
    assert (
        found["train with test", "frechet(pixels)", "value"]
        == report.floor["frechet"].distance
    )


def test_scores_are_on_the_test_images_after_training_on_either(report):
    assert list(report.downstream.models) == ["cnn", "logistic regression"]
    assert report.downstream.models["logistic regression"].accuracy > 0.9
    assert report.ceiling.models["logistic regression"].accuracy > 0.9
    assert report.ceiling != report.downstream


def test_without_labels_there_are_distances_alone():
    unlabelled = [Images(images(seed).pixels) for seed in range(2)]
    report = measured(*unlabelled, pixel_schema(4, 4))
    assert report.downstream is None
    assert report.notes == ("no downstream scores, because the images have no labels",)
    assert "no labels" in " ".join(page(report).split())


def test_encoded_images_come_back_exactly():
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 4, 4, 1)
    labels = np.arange(16, dtype=np.int32) % 2
    encoded = EncodedTable(pixels.reshape(16, 16) / np.float64(255), labels[:, None])
    found = images_of([encoded.rows(slice(0, 10)), encoded.rows(slice(10, 16))], SCHEMA)
    assert np.array_equal(found.pixels, pixels)
    assert np.array_equal(found.labels, labels)
    with pytest.raises(DataError, match="there are no images"):
        images_of([], SCHEMA)
