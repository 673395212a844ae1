"""Perceptual features: norms, moments, row independence, and what a network may not do."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest
import torch
from tests.shared.patience import PATIENCE
from torch import nn

from noisegate.errors import OptionError
from noisegate.gate.execution import made_up_records, map_execution
from noisegate.gate.sums import SumTask, sum_records
from noisegate.privacy.events import Adjacency
from noisegate.privacy.grid import UNITS, Grid
from noisegate.schema import EncodedTable, pixel_schema
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.encoder import LAYERS, build_encoder, folded
from noisegate_images.networks.named import ChosenLayers
from noisegate_images.queries.perceptual import (
    Activations,
    LatestActivations,
    Perceptual,
)

GREY, COLOUR = (
    ImageShape(height=12, width=12),
    ImageShape(height=12, width=16, channels=3),
)


def encoder_features(shape=GREY, moment=1, **options):
    layers = ChosenLayers(folded(build_encoder(seed=0)), LAYERS, shape, **options)
    return Perceptual(
        activations=Activations(layers=layers, nonnegative=True), moment=moment
    )


def layout(shape):
    return pixel_schema(
        shape.height, shape.width, shape.channels, labels=("a", "b")
    ).layout


def records(shape, rows=9):
    return made_up_records(layout(shape), rows, np.random.default_rng(1))


def tiny(*more):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(inplace=True), nn.Conv2d(4, 2, 3), *more
    )


@pytest.mark.parametrize("shape", [GREY, COLOUR])
def test_vectors_are_the_scaled_activations_and_their_squares(shape):
    first, second = encoder_features(shape, 1), encoder_features(shape, 2)
    rows = records(shape)
    with torch.no_grad():
        images = torch.from_numpy(rows.numeric.astype(np.float32))
        plain = first.activations.layers(images).double().numpy()
    one, two = first(rows).astype(np.float64), second(rows).astype(np.float64)
    assert one.shape == (9, first.dim)
    np.testing.assert_allclose(
        one, plain / np.linalg.norm(plain, axis=1, keepdims=True), atol=1e-5
    )
    squares = plain**2
    np.testing.assert_allclose(
        two, squares / np.linalg.norm(squares, axis=1, keepdims=True), atol=1e-5
    )
    np.testing.assert_allclose(
        [np.linalg.norm(one, axis=1), np.linalg.norm(two, axis=1)], 1, atol=1e-5
    )
    assert (one >= 0).all()
    assert (two >= 0).all()


def test_pixels_stand_as_in_the_schema_and_channels_are_normalised():
    shape = ImageShape(height=2, width=3, channels=3)
    layers = ChosenLayers(
        nn.Sequential(nn.Identity()),
        ("0",),
        shape,
        mean=(0.0, 0.1, 0.2),
        std=(1.0, 2.0, 4.0),
    )
    row = np.arange(18, dtype=np.float32)
    image = (
        layers(torch.from_numpy(row)[None]).reshape(2, 3, 3).permute(2, 0, 1).numpy()
    )
    expected = (
        row.reshape(2, 3, 3).transpose(2, 0, 1) - np.array([0, 0.1, 0.2])[:, None, None]
    ) / np.array([1, 2, 4])[:, None, None]
    np.testing.assert_allclose(image, expected, rtol=1e-5)


def test_a_network_in_training_mode_is_put_into_evaluation_mode():
    network = tiny(nn.BatchNorm2d(2)).train()
    layers = ChosenLayers(network, ("3",), GREY)
    assert not any(module.training for module in layers.network.modules())
    layers.train()
    assert not any(module.training for module in layers.modules())
    assert network.training  # what was given is left as it was
    features = Perceptual(activations=Activations(layers=layers))
    map_execution("f", features, layout(GREY), 256)


def test_a_network_that_normalises_over_the_batch_is_refused():
    layers = ChosenLayers(
        tiny(nn.BatchNorm2d(2, track_running_stats=False)), ("3",), GREY
    )
    with pytest.raises(OptionError, match="another vector"):
        map_execution(
            "f", Perceptual(activations=Activations(layers=layers)), layout(GREY), 256
        )


def test_convolutions_are_taken_before_a_relu_that_overwrites_them():
    layers = ChosenLayers(tiny(), ("0", "2"), GREY)
    values = layers(torch.rand(5, GREY.size))
    assert layers.sizes == (4 * 144, 2 * 100)
    assert (values[:, : layers.sizes[0]] < 0).any()
    features = Perceptual(activations=Activations(layers=layers))
    assert not features.nonnegative
    assert (features(records(GREY)) < 0).any()


def test_pooling_takes_the_mean_of_each_channel():
    plain, pooled = (
        ChosenLayers(tiny(), ("0", "2"), GREY, pool=pool) for pool in (False, True)
    )
    image = torch.rand(2, GREY.size)
    expected = plain(image)[:, :576].reshape(2, 144, 4).mean(dim=1)
    torch.testing.assert_close(pooled(image)[:, :4], expected)
    assert pooled.sizes == (4, 2)


def test_threads_do_not_disturb_each_other():
    features, tables = encoder_features(), [records(GREY, rows) for rows in range(3, 9)]
    with ThreadPoolExecutor(len(tables)) as pool:
        found = list(pool.map(features, tables))
    assert all(
        np.array_equal(one, features(table))
        for one, table in zip(found, tables, strict=True)
    )


@pytest.mark.parametrize("moment", [1, 2])
def test_replacing_an_image_moves_the_sum_by_root_two_and_no_more(moment):
    """The published code takes 1 for the second moment; an image that changes its label moves the sum by √2."""
    features, rows = encoder_features(moment=moment), records(GREY, 40)
    grid = Grid(norm=features.norm, nonnegative=features.nonnegative)
    task = SumTask(feature_map=features, grid=grid, columns=2, label=0)
    codes = rows.codes.copy()
    codes[7] = 1 - codes[7]
    sums = [
        sum_records(EncodedTable(numeric=rows.numeric, codes=each), {"q": task}).sums[
            "q"
        ]
        for each in (rows.codes, codes)
    ]
    moved = float(np.square((sums[0] - sums[1]).astype(np.float64)).sum())
    bound = grid.bound.sensitivity_squared(Adjacency.REPLACE_ONE)
    assert bound == 2 * UNITS**2
    assert 0.99 * bound < moved <= bound


def test_odd_activations_cost_accuracy_and_no_more():
    values = np.array(
        [
            [0, 0, 0],
            [np.nan, 1, 0],
            [np.inf, 1, 0],
            [1e-40, 0, 0],
            [3e38, 3e38, -3e38],
            [-2, 0, 0],
        ]
    )
    for moment in (1, 2):
        vectors = encoder_features(moment=moment).second_half(values.astype(np.float32))
        assert vectors[0].tolist() == [0, 0, 0]
        assert vectors[3].tolist() == [0, 0, 0]
        np.testing.assert_allclose(
            np.linalg.norm(vectors[4:].astype(np.float64), axis=1), 1, atol=1e-6
        )
        quantised = Grid(norm=1.0).quantise(vectors)
        assert not quantised[1:3].any()


@pytest.mark.parametrize(
    ("layers", "shape", "message"),
    [
        ((), GREY, r"layers=\[\]"),
        (("nothing",), GREY, r"layers=\['nothing'\].*of 0, 1, 2"),
        (("0", "0"), GREY, "different modules"),
        (("0",), ImageShape(height=8, width=8, channels=4), "1 or 3 channels"),
        (
            ("2",),
            ImageShape(height=1, width=1),
            "images of 1 x 1 x 1 cannot be given to this network",
        ),
    ],
)
def test_unusable_layers_and_images_are_refused(layers, shape, message):
    with pytest.raises(OptionError, match=message):
        ChosenLayers(tiny(), layers, shape)


# Perceptual features of generated points are those of records, differentiable, and computed once for both moments.

SHAPE = ImageShape(height=6, width=5)


class Counting(nn.Module):
    """Counts its calls, wherever it is copied to."""

    calls: ClassVar[list[int]] = []

    def forward(self, images):
        self.calls.append(len(images))
        return images


@pytest.fixture
def maps():
    torch.manual_seed(0)
    network = nn.Sequential(
        Counting(), nn.Conv2d(3, 4, 3), nn.Tanh(), nn.Conv2d(4, 3, 3)
    )
    activations = Activations(layers=ChosenLayers(network, ("1", "3"), SHAPE))
    Counting.calls.clear()
    return {
        f"m{moment}": Perceptual(activations=activations, moment=moment)
        for moment in (1, 2)
    }


def points(rows=6):
    return torch.rand(rows, SHAPE.size, generator=torch.Generator().manual_seed(1))


def test_means_are_those_of_each_set(maps):
    for embedding in (each.of_points() for each in maps.values()):
        features = embedding(points())
        expected = torch.stack(
            [features[:, :3].mean(dim=1), features[:, 3:].mean(dim=1)], dim=1
        )
        torch.testing.assert_close(embedding.means(points(), 2), expected)


def test_slopes_are_right(maps):
    embedding = maps["m2"].of_points().to(torch.float64)
    made = points(2).double()

    def feature(values):
        return embedding.means(values.clone(), 1)[:4, 0]

    slopes = torch.autograd.functional.jacobian(feature, made)[:, 0, :5]
    step = 1e-2
    found = torch.stack(
        [
            (feature(made + step * bump) - feature(made - step * bump)) / (2 * step)
            for bump in _bumps(made, 5)
        ],
        dim=1,
    )
    torch.testing.assert_close(slopes.double(), found.double(), rtol=0.05, atol=5e-3)


def _bumps(made, count):
    for place in range(count):
        bump = torch.zeros_like(made)
        bump[0, place] = 1
        yield bump


# Latest activations.

LATEST_ACTIVATIONS_SHAPE = ImageShape(height=4, width=4)


def test_two_threads_each_get_what_they_asked_for():
    """The halves of a batch run side by side: the one must not get the other's activations."""
    latest = LatestActivations(
        ChosenLayers(
            nn.Sequential(nn.Conv2d(3, 2, 3)), ("0",), LATEST_ACTIVATIONS_SHAPE
        )
    )
    points = [torch.rand(3, LATEST_ACTIVATIONS_SHAPE.size) for _ in range(2)]
    meet = threading.Barrier(2)

    def run(rows: torch.Tensor) -> torch.Tensor:
        latest(rows)
        meet.wait(timeout=PATIENCE)
        first = latest(rows)
        meet.wait(timeout=PATIENCE)
        assert latest(rows) is first
        return first

    with ThreadPoolExecutor(2) as pool:
        for found, rows in zip(pool.map(run, points), points, strict=True):
            torch.testing.assert_close(found, latest.layers(rows))
