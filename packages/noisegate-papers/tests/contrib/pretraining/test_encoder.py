"""Training an encoder on public images: it learns, repeats itself, goes on after a stop, and never inverts."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from noisegate.errors import ModelError, OptionError
from noisegate.models.checkpoint import Checkpoint
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.named import ChosenLayers, load_network
from noisegate_papers.contrib.pretraining.encoder import (
    EncoderFitting,
    EncoderTraining,
    augmented,
)

from .test_decoder import images as bright_and_dark

QUICK = EncoderTraining(epochs=2, batch=8, learning_rate=0.05)
images = partial(bright_and_dark, side=32)


def test_a_kept_training_is_taken_up_with_the_same_images_and_options_only(tmp_path):
    path = tmp_path / "e.safetensors.partial"
    begun = EncoderFitting(images(), QUICK)
    begun.step = 1
    Checkpoint(path, begun, cure="").save()
    Checkpoint(path, again := EncoderFitting(images(), QUICK), cure="").resume()
    assert again.step == 1
    for changed in (
        EncoderFitting(images(), replace(QUICK, epochs=3)),
        EncoderFitting(images(seed=1), QUICK),
    ):
        with pytest.raises(
            ModelError,
            match=r"was left by a training with other images or options\. Cure",
        ):
            Checkpoint(path, changed, cure="Cure").resume()
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="is broken"):
        Checkpoint(path, again, cure="").resume()


def test_numbers_near_zero_are_what_they_were_after_a_training():
    """The switch that makes it faster is that of the thread: left on, the gate's own numbers would change."""

    def stop(step, loss):
        assert tiny * 1.0 == 0
        raise KeyboardInterrupt

    tiny = float("5e-324")
    fit = EncoderFitting(images(), QUICK)
    with pytest.raises(KeyboardInterrupt):
        fit.run(stop)
    assert tiny * 1.0 > 0
    fit.run()
    assert tiny * 1.0 > 0


def test_crops_and_mirror_images_are_parts_of_the_image_and_never_inverted():
    ramp = np.broadcast_to(np.arange(32, dtype=np.uint8)[:, None] * 8, (64, 32, 32))
    pixels = torch.from_numpy(np.stack([ramp, ramp // 2, ramp // 4], axis=-1))
    made = augmented(pixels, torch.Generator().manual_seed(0), grey=0.5)
    assert made.shape == (64, 3, 32, 32)
    assert 0 <= float(made.min()) <= float(made.max()) <= 1
    grey = (made[:, 0] == made[:, 2]).flatten(1).all(dim=1)
    assert 10 < int(grey.sum()) < 54
    # Brighter towards the bottom, in every one of them, but for the reflected margin.
    assert (made[:, :, 24].mean(dim=(1, 2)) > made[:, :, 8].mean(dim=(1, 2))).all()


def test_unusable_options_are_refused():
    with pytest.raises(OptionError, match="are fewer than batch=128"):
        EncoderFitting(images(), EncoderTraining())
    bad = [
        {"epochs": 0},
        {"steps": 0},
        {"seed": True},
        {"grey": 2.0},
        {"network": "torchvision:vgg19"},
    ]
    for options in (*bad, {"learning_rate": "fast"}):
        with pytest.raises(OptionError, match=f"{next(iter(options))}="):
            EncoderTraining(**options)


def test_a_resnet18_has_the_layers_of_the_paper(tmp_path):
    pytest.importorskip("torchvision")
    fit = EncoderFitting(
        images(), replace(QUICK, network="torchvision:resnet18", steps=2)
    )
    fit.run()
    assert fit.step == 2
    path = tmp_path / "resnet18.safetensors"
    network = load_network(
        "torchvision:resnet18", str(path), fit.classifier.write(path)
    )
    shape = ImageShape(height=32, width=32, channels=3)
    layers = ChosenLayers(
        network.module, network.layers, shape, mean=network.mean, std=network.std
    )
    assert layers.dim == 47_104
    fit.classifier.eval()
    given = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    last = ChosenLayers(
        network.module, ["fc"], shape, mean=network.mean, std=network.std
    )
    with torch.inference_mode():
        torch.testing.assert_close(
            last(given.permute(0, 2, 3, 1).flatten(1)), fit.classifier(given)
        )
