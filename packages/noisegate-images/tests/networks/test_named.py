"""Networks by name: never downloaded, and always the ones that a digest says."""

import hashlib
import sys

import pytest
import torch

from noisegate.errors import MissingExtraError, ModelError, OptionError
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.encoder import LAYERS, SHIPPED_SHA256
from noisegate_images.networks.named import (
    ChosenLayers,
    feature_convolutions,
    load_network,
)


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch, tmp_path):
    load_network.cache_clear()
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    yield
    load_network.cache_clear()


def written(state, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(state, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_the_encoder_needs_nothing():
    network = load_network("encoder")
    assert (network.layers, network.sha256, network.nonnegative) == (
        LAYERS,
        SHIPPED_SHA256,
        set(LAYERS),
    )
    assert load_network("encoder") is network
    with pytest.raises(ModelError, match="the encoder of this version is another one"):
        load_network("encoder", sha256="00")


@pytest.mark.parametrize("name", ["vgg19", "torchvision:", "keras:vgg19", ""])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(OptionError, match="is not known; give 'encoder'"):
        load_network(name)


def test_torchvision_takes_a_file_with_its_digest(tmp_path):
    models = pytest.importorskip("torchvision.models")
    original = models.resnet18()
    path = tmp_path / "w.pth"
    digest = written(original.state_dict(), path)
    network = load_network("torchvision:resnet18", str(path), digest)
    assert torch.equal(network.module.conv1.weight, original.conv1.weight)
    assert not network.module.training
    assert len(network.layers) == 17  # the three shortcuts are no features
    assert network.layers[0] == "conv1"
    layers = ChosenLayers(
        network.module, network.layers, ImageShape(height=32, width=32, channels=3)
    )
    assert torch.isfinite(layers(torch.rand(2, 3072))).all()
    with pytest.raises(OptionError, match=rf"need sha256=DIGEST.*{digest}"):
        load_network("torchvision:resnet18", str(path))
    with pytest.raises(ModelError, match="is not 00"):
        load_network("torchvision:resnet18", str(path), "00")
    with pytest.raises(ModelError, match="do not fit the network"):
        load_network("torchvision:resnet34", str(path), digest)
    with pytest.raises(ModelError, match="cannot be read"):
        load_network("torchvision:resnet18", str(tmp_path / "none.pth"), digest)


def test_torchvision_weights_in_torchs_cache_are_taken_and_checked(tmp_path):
    models = pytest.importorskip("torchvision.models")
    folder = tmp_path / "torch" / "hub" / "checkpoints"
    with pytest.raises(
        OptionError,
        match=r"nothing is downloaded\. Put squeezenet1_1-.*\.pth from https",
    ):
        load_network("torchvision:squeezenet1_1")
    named = folder / models.SqueezeNet1_1_Weights.DEFAULT.url.rpartition("/")[2]
    written(models.squeezenet1_1().state_dict(), named)
    with pytest.raises(ModelError, match="is not the one in its name"):
        load_network("torchvision:squeezenet1_1")
    digest = hashlib.sha256(named.read_bytes()).hexdigest()
    assert load_network("torchvision:squeezenet1_1", sha256=digest).sha256 == digest


@pytest.mark.parametrize(
    ("name", "numbers"),
    [("resnet18", 47_104), ("resnet50", 196_096), ("vgg11", 151_552)],
)
def test_the_layers_taken_have_as_many_numbers_as_in_the_paper(name, numbers):
    models = pytest.importorskip("torchvision.models")
    with torch.device("meta"):
        network = models.get_model(name, weights=None).eval()
        taken = []
        for layer in feature_convolutions(network):
            network.get_submodule(layer).register_forward_hook(
                lambda _, __, given: taken.append(given.numel())
            )
        network(torch.zeros(1, 3, 32, 32))
    assert sum(taken) == numbers


def test_torchvision_takes_a_network_trained_on_other_labels(tmp_path):
    models = pytest.importorskip("torchvision.models")
    digest = written(
        models.shufflenet_v2_x0_5(num_classes=7).state_dict(), tmp_path / "w.pth"
    )
    assert (
        len(
            load_network(
                "torchvision:shufflenet_v2_x0_5", str(tmp_path / "w.pth"), digest
            ).module.fc.bias
        )
        == 7
    )


def test_timm_takes_a_file_only(tmp_path):
    timm = pytest.importorskip("timm")
    digest = written(timm.create_model("resnet10t").state_dict(), tmp_path / "w.pth")
    network = load_network("timm:resnet10t", str(tmp_path / "w.pth"), digest)
    assert "conv1.0" in network.layers
    with pytest.raises(OptionError, match="needs weights=FILE and sha256=DIGEST"):
        load_network("timm:resnet10t")
    with pytest.raises(OptionError, match="timm has no such model"):
        load_network("timm:nothing")


@pytest.mark.parametrize("package", ["torchvision", "timm"])
def test_without_the_extra_it_is_named(package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtraError,
        match=rf"needs {package}; install it with: pip install 'noisegate\[vision\]'",
    ):
        load_network(f"{package}:anything")
