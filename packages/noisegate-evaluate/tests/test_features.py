"""Features of images: that each image has its own, that Inception is the published network, and honest names."""

import hashlib

import numpy as np
import pytest
import torch
from torch import nn

from noisegate.errors import ModelError, OptionError
from noisegate_evaluate import EncoderFeatures, inception
from noisegate_evaluate.images import in_batches
from noisegate_images.networks.encoder import build_encoder, folded


def images(seed=0, rows=7, channels=1, side=12):
    return np.random.default_rng(seed).integers(
        0, 256, (rows, side, side, channels), dtype=np.uint8
    )


def small():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    )


def test_an_image_has_its_features_whatever_stands_beside_it(monkeypatch):
    monkeypatch.setattr("noisegate_evaluate.images._IMAGES_AT_ONCE", 3)
    colour = images(channels=3)
    whole = in_batches(small(), colour)
    alone = in_batches(small(), colour[4:5])
    assert np.allclose(whole[4], alone[0], atol=1e-5)
    assert not np.allclose(whole[4], whole[3], atol=1e-3)


def test_the_encoder_sees_the_images_and_needs_a_name():
    encoder = folded(build_encoder(seed=0))
    features = EncoderFeatures(encoder, name="mine")
    grey = images(side=28)
    assert features.name == "mine"
    assert features(grey).shape == (7, 144)
    assert np.allclose(features(grey), features(grey.repeat(3, axis=3)), atol=1e-4)
    with pytest.raises(OptionError, match="name is missing"):
        EncoderFeatures(encoder)


def test_means_of_a_pooling_leave_the_padding_out():
    behind = nn.Identity()
    inception.average_within(behind)
    maps = torch.rand(2, 3, 5, 6)
    inclusive = nn.functional.avg_pool2d(maps, 3, stride=1, padding=1)
    exclusive = nn.functional.avg_pool2d(
        maps, 3, stride=1, padding=1, count_include_pad=False
    )
    assert torch.allclose(behind(inclusive), exclusive, atol=1e-6)
    assert not torch.allclose(inclusive, exclusive)


def test_weights_that_are_not_there_or_are_others_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.hub.get_dir", lambda: str(tmp_path))
    with pytest.raises(
        ModelError, match=r"neither 'pt_inception-2015-12-05-6726825d\.pth'"
    ):
        inception.cached_weights()
    with pytest.raises(ModelError, match="cannot be read"):
        inception.load_weights(torch.nn.Identity(), tmp_path / "absent.pth")
    (tmp_path / "other.pth").write_bytes(b"other")
    digest = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(
        ModelError, match=f"starts with {digest[:8]}, expected 6726825d"
    ):
        inception.load_weights(torch.nn.Identity(), tmp_path / "other.pth")


@pytest.mark.slow  # builds a network of 22 million weights
def test_the_network_of_published_distances(tmp_path):
    """With any weights: 2048 features; the last pooling takes maxima, so it differs from torchvision's own network."""
    torch = pytest.importorskip("torch")
    torchvision = pytest.importorskip("torchvision")
    network = inception.build_inception().eval()
    own = torchvision.models.inception_v3(
        weights=None, aux_logits=False, transform_input=False, init_weights=False
    )
    file = tmp_path / "weights.pth"
    held = own.state_dict()
    torch.save(held, file)
    inception.load_weights(
        network, file, hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    )
    own.fc = torch.nn.Identity()
    pixels = torch.rand(1, 3, 32, 32)
    with torch.inference_mode():
        found = network(pixels)
        square = torch.nn.functional.interpolate(
            pixels, (299, 299), mode="bilinear", align_corners=False
        )
        other = own.eval()(2 * square - 1)
    assert found.shape == (1, 2048)
    assert torch.isfinite(found).all()
    # Channels 0-319 are a 1 x 1 convolution of the last block, 1856-2047 are behind its pooling.
    assert not torch.allclose(found, other)
    torch.save(
        {name: value for name, value in held.items() if "Mixed_6a" not in name}, file
    )
    with pytest.raises(ModelError, match="holds other tensors"):
        inception.load_weights(
            network, file, hashlib.sha256(file.read_bytes()).hexdigest()[:8]
        )
