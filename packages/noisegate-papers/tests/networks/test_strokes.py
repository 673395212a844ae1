"""The encoder and the decoder of drawings: sizes, files, and what the ones in the package know."""

from importlib import resources

import pytest
import safetensors.torch
import torch
from torch import nn

from noisegate.errors import ModelError
from noisegate_images.networks import strokes
from noisegate_images.networks.encoder import halved
from noisegate_images.networks.named import load_network
from noisegate_images.networks.strokes import load_strokes


def test_a_generated_image_has_the_vector_of_a_record_and_the_slope_of_a_convolution():
    encoder, images = load_strokes(), torch.rand(3, 1, 28, 28, requires_grad=True)
    found = encoder(images)
    torch.testing.assert_close(found, encoder(images.detach()), rtol=1e-4, atol=1e-4)
    first, *others = encoder.convolutions
    values = nn.functional.conv2d(images, first.weight, first.bias, stride=2, padding=2)
    expected = encoder.embedding(nn.Sequential(*others)(values).flatten(1))
    slopes = [torch.autograd.grad(vectors.square().sum(), images)[0] for vectors in (found, expected)]
    torch.testing.assert_close(*slopes, rtol=1e-3, atol=1e-3)


def test_a_file_gives_the_encoder_back_and_another_is_refused(tmp_path):
    path, simple, image = tmp_path / "s.safetensors", load_strokes(), torch.rand(2, 1, 28, 28)
    path.write_bytes(safetensors.torch.save(halved(simple.state_dict())))
    torch.testing.assert_close(load_strokes(path)(image), simple(image), rtol=1e-2, atol=1e-2)
    with pytest.raises(ModelError, match=r"SHA-256 .* is not 00"):
        load_strokes(path, sha256="00")
    path.write_bytes(b"nothing")
    with pytest.raises(ModelError, match="no encoder of strokes"):
        load_strokes(path)
    with pytest.raises(ModelError, match="the strokes of this version is another one"):
        load_network("strokes", None, "00")


@pytest.mark.parametrize(("name", "load"), [("SHIPPED", load_strokes), ("DRAWING", strokes.load_drawing)])
def test_the_one_in_the_package_is_the_one_that_is_pinned(name, load, monkeypatch):
    file, pinned = getattr(strokes, name), getattr(strokes, f"{name}_SHA256")
    assert len(resources.files("noisegate_images.networks").joinpath(file).read_bytes()) < 600_000
    load()
    monkeypatch.setattr(strokes, f"{name}_SHA256", pinned[::-1])
    with pytest.raises(ModelError, match="SHA-256"):
        load()


def test_the_decoder_in_the_package_draws_and_a_fresh_one_does_not():
    """A drawing is dark but for a stroke, which is light; a fresh network gives grey."""
    fresh, known, noise = strokes.DrawingDecoder(), strokes.DrawingDecoder(), torch.randn(64, strokes.LATENT)
    known.load_state_dict(strokes.load_drawing())
    light = {
        name: float((network(noise).detach().sigmoid() > 0.8).float().mean())
        for name, network in (("f", fresh), ("k", known))
    }
    dark = float((known(noise).detach().sigmoid() < 0.05).float().mean())
    assert light["f"] < 0.01 < 0.03 < light["k"] < 0.4
    assert dark > 0.5
