"""IC-GAN's encoder: ResNet-50 up to its mean over the picture, from a classifier's weights or SwAV's."""

import hashlib
import sys

import pytest
import torch

from noisegate.contrib.encoders import LAYER, SIDE
from noisegate.errors import MissingExtraError, ModelError, OptionError
from noisegate.networks.named import load_network


def test_features_are_those_before_the_classifier_and_heads_are_left_out(tmp_path, monkeypatch):
    models = pytest.importorskip("torchvision.models")
    monkeypatch.setattr(models, "resnet50", models.resnet18)  # a fifth of the weights, called the same
    original = models.resnet50().eval()
    state = {f"module.{name}": value for name, value in original.state_dict().items() if not name.startswith("fc.")}
    state["module.prototypes.weight"] = torch.zeros(3, 128)
    path = tmp_path / "swav.pth"
    torch.save(state, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    network = load_network("ic-gan:resnet50", str(path), digest)
    assert (network.layers, network.sha256) == ((LAYER,), digest)
    with torch.no_grad():
        images = torch.rand(1, 3, SIDE, SIDE)
        logits = original.fc(network.module(images))
        torch.testing.assert_close(logits, original(images), rtol=1e-4, atol=1e-5)
        assert network.module(torch.rand(2, 3, 32, 32)).shape == (2, 512)
    with pytest.raises(OptionError, match="need sha256=DIGEST"):
        load_network("ic-gan:resnet50", str(path))
    del state["module.conv1.weight"]
    torch.save(state, path)
    with pytest.raises(ModelError, match="do not fit a ResNet-50"):
        load_network("ic-gan:resnet50", str(path), hashlib.sha256(path.read_bytes()).hexdigest())


def test_without_a_file_or_the_extra_it_says_so(tmp_path, monkeypatch):
    for name, weights in (("ic-gan:resnet50", None), ("ic-gan:vgg", "w.pth")):
        with pytest.raises(OptionError, match="the encoder of IC-GAN is 'ic-gan:resnet50'"):
            load_network(name, weights)
    path = tmp_path / "w.pth"
    torch.save({}, path)
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(MissingExtraError, match="torchvision"):
        load_network("ic-gan:resnet50", str(path), hashlib.sha256(path.read_bytes()).hexdigest())
