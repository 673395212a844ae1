"""Training a decoder on public images: it learns their colours, repeats itself, and goes on after a stop."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from noisegate.errors import OptionError
from noisegate.schema import EncodedTable
from noisegate_images.networks.named import load_network
from noisegate_images.queries.perceptual import Perceptual, chosen_activations
from noisegate_papers.contrib.pretraining import decoder
from noisegate_papers.contrib.pretraining.decoder import (
    LAYER,
    DecoderFitting,
    DecoderTraining,
    instances_of,
)
from noisegate_papers.contrib.pretraining.training import PublicImages

QUICK = DecoderTraining(steps=4, batch=4, neighbours=2, latent=3)


def images(rows=24, seed=0, side=16, channels=3):
    """Bright images and dark ones."""
    random = np.random.default_rng(seed)
    labels = np.arange(rows) % 2
    pixels = (
        random.integers(0, 60, (rows, side, side, channels))
        + 190 * labels[:, None, None, None]
    )
    return PublicImages(
        pixels=pixels.astype(np.uint8),
        labels=labels.astype(np.int64),
        classes=("dark", "bright"),
    )


def fitting(public=None, settings=QUICK):
    return DecoderFitting(public or images(), load_network("encoder"), settings)


def test_what_it_draws_follows_the_feature():
    fit, losses = fitting(settings=replace(QUICK, steps=24, batch=6, average=0.8)), []
    fit.run(lambda step, loss: losses.append(loss))
    assert fit.step == fit.steps == len(losses) == 24
    assert 0 < np.mean(losses) < 4  # 2 when nothing is told apart
    shown, drawn = fit.samples(8, 2)
    assert (shown.shape, drawn.shape, drawn.dtype) == (
        (8, 16, 16, 3),
        (8, 2, 16, 16, 3),
        torch.uint8,
    )
    bright = shown.float().mean(dim=(1, 2, 3)) > 128
    level = drawn.float().mean(dim=(1, 2, 3, 4))
    assert 0 < int(bright.sum()) < 8
    assert float(level[bright].min()) > float(level[~bright].max()) + 2
    assert not torch.equal(drawn[:, 0], drawn[:, 1])
    assert not any(value.requires_grad for value in fit.decoder.parameters())


def test_the_design_names_the_encoder_and_features_are_the_methods_own():
    """The certificate's encoder, and the map that private images pass through."""
    fit, encoder, public = fitting(), load_network("encoder"), images()
    assert (fit.design.encoder, fit.design.layer) == (encoder.sha256, LAYER)
    encoding = Perceptual(
        activations=chosen_activations(encoder, (LAYER,), fit.design.shape, pool=True)
    )
    records = EncodedTable(
        public.pixels.reshape(24, -1) / 255, np.zeros((24, 0), dtype=np.int32)
    )
    torch.testing.assert_close(
        fit.decoder.centre,
        torch.from_numpy(encoding(records)).mean(dim=0),
        atol=1e-3,
        rtol=0,
    )


def test_settings_and_sizes_that_cannot_be_are_refused():
    for options in (
        {"steps": 0},
        {"seed": True},
        {"batch": 5},
        {"average": 2.0},
        {"learning_rate": "fast"},
    ):
        with pytest.raises(OptionError, match=f"{next(iter(options))}="):
            DecoderTraining(**options)
    with pytest.raises(OptionError, match="neighbours=2 of 1 images"):
        fitting(images(rows=1))
    with pytest.raises(OptionError, match="a decoder doubles 4 to 7 pixels"):
        fitting(images(side=18))


class Directions:
    """The mean red and green of an image, as a unit vector."""

    dim, norm, nonnegative = 2, 1.0, True

    def __call__(self, records):
        assert records.numeric.max() <= 1
        means = records.numeric.reshape(len(records), -1, 3)[:, :, :2].mean(axis=1)
        return (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)


def test_neighbours_are_the_nearest_features_and_the_image_itself_the_first(
    monkeypatch,
):
    monkeypatch.setattr(decoder, "_BLOCK", 3)
    angles = np.deg2rad([0, 40, 5, 90, 80])
    pixels = np.zeros((5, 4, 4, 3))
    pixels[..., 0], pixels[..., 1] = (
        255 * np.cos(angles)[:, None, None],
        255 * np.sin(angles)[:, None, None],
    )
    found = instances_of(pixels.astype(np.uint8), Directions(), neighbours=2)
    assert found.neighbours.tolist() == [[0, 2], [1, 2], [2, 0], [3, 4], [4, 3]]
    torch.testing.assert_close(found.features.norm(dim=1), torch.ones(5))
    assert found.pixels.shape == (5, 4, 4, 3)
    with pytest.raises(OptionError, match="neighbours=6 of 5 images"):
        instances_of(pixels.astype(np.uint8), Directions(), neighbours=6)
