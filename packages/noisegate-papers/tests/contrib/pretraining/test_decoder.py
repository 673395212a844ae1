"""Training a decoder on public images: it learns their colours, repeats itself, and goes on after a stop."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from noisegate.errors import ModelError, OptionError
from noisegate.schema import EncodedTable
from noisegate_images.features.perceptual import Perceptual, chosen_activations
from noisegate_images.networks.decoder import decoder_bytes
from noisegate_images.networks.named import load_network
from noisegate_papers.contrib.pretraining.decoder import LAYER, DecoderFitting, DecoderTraining
from noisegate_papers.contrib.pretraining.images import PublicImages
from noisegate_papers.contrib.pretraining.training import partial_of

QUICK = DecoderTraining(steps=4, batch=4, neighbours=2, latent=3)


def images(rows=24, seed=0, side=16, channels=3):
    """Bright images and dark ones."""
    random = np.random.default_rng(seed)
    labels = np.arange(rows) % 2
    pixels = random.integers(0, 60, (rows, side, side, channels)) + 190 * labels[:, None, None, None]
    return PublicImages(pixels=pixels.astype(np.uint8), labels=labels.astype(np.int64), classes=("dark", "bright"))


def fitting(public=None, settings=QUICK):
    return DecoderFitting(public or images(), load_network("encoder"), settings)


def test_what_it_draws_follows_the_feature():
    fit, losses = fitting(settings=replace(QUICK, steps=24, batch=6, average=0.8)), []
    fit.run(lambda step, loss: losses.append(loss))
    assert fit.step == fit.steps == len(losses) == 24
    assert 0 < np.mean(losses) < 4  # 2 when nothing is told apart
    shown, drawn = fit.samples(8, 2)
    assert (shown.shape, drawn.shape, drawn.dtype) == ((8, 16, 16, 3), (8, 2, 16, 16, 3), torch.uint8)
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
    encoding = Perceptual(activations=chosen_activations(encoder, (LAYER,), fit.design.shape, pool=True))
    records = EncodedTable(public.pixels.reshape(24, -1) / 255, np.zeros((24, 0), dtype=np.int32))
    torch.testing.assert_close(fit.decoder.centre, torch.from_numpy(encoding(records)).mean(dim=0), atol=1e-3, rtol=0)


def test_a_kept_training_goes_on_with_the_same_bits(tmp_path):
    whole, first, second = (fitting() for _ in range(3))
    whole.run()

    def stop(step, loss):
        if step == 2:
            raise KeyboardInterrupt

    path = partial_of(tmp_path / "d.safetensors")
    with pytest.raises(KeyboardInterrupt):
        first.run(stop)
    first.save(path)
    assert second.resume(path)
    assert second.step == 2
    second.run()
    assert decoder_bytes(whole.decoder) == decoder_bytes(second.decoder) != decoder_bytes(first.decoder)
    for changed in (fitting(settings=replace(QUICK, seed=1)), fitting(images(seed=1))):
        with pytest.raises(ModelError, match="was left by a training with other images or options; remove"):
            changed.resume(path)


def test_another_encoder_is_another_training(tmp_path):
    encoder = load_network("encoder")
    first = fitting()
    first.save(tmp_path / "kept")
    with pytest.raises(ModelError, match="other images or options"):
        DecoderFitting(images(), replace(encoder, sha256="0" * 64), QUICK).resume(tmp_path / "kept")


def test_settings_and_sizes_that_cannot_be_are_refused():
    for options in ({"steps": 0}, {"seed": True}, {"batch": 5}, {"average": 2.0}, {"learning_rate": "fast"}):
        with pytest.raises(OptionError, match=f"{next(iter(options))}="):
            DecoderTraining(**options)
    with pytest.raises(OptionError, match="neighbours=2 of 1 images"):
        fitting(images(rows=1))
    with pytest.raises(OptionError, match="a decoder doubles 4 to 7 pixels"):
        fitting(images(side=18))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_few_steps_on_a_gpu_end_near_those_on_the_processor_and_may_change_places(tmp_path):
    plain = fitting()
    plain.run()
    moved = DecoderFitting(images(), load_network("encoder"), QUICK, device="cuda")
    moved.run(lambda step, loss: moved.save(tmp_path / "state") if step == 2 else None)
    back = fitting()
    assert back.resume(tmp_path / "state")
    back.run()
    for other in (moved, back):
        for name, value in other.decoder.state_dict().items():
            torch.testing.assert_close(value, plain.decoder.state_dict()[name], atol=1e-2, rtol=0)
