"""Colour images as private data and the paper's DP-MEPF: the command is that of MNIST with another path.

The network is torchvision's VGG-19 with random weights, which the test puts where torch keeps downloads.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from torch import nn

from noisegate.ledger.ledger import Ledger
from noisegate_images.networks.named import load_network

models = pytest.importorskip("torchvision.models", reason="needs torchvision; install it with noisegate[vision]")

CLASSES = [*("airplane", "automobile", "bird", "cat", "deer"), *("dog", "frog", "horse", "ship", "truck")]
# The same 16 convolutions as VGG-19's, a 64th as wide.
NARROW = [1, 1, "M", 2, 2, "M", 4, 4, 4, 4, "M", 8, 8, 8, 8, "M", 8, 8, 8, 8, "M"]


class Narrow(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = models.vgg.make_layers(NARROW)

    def forward(self, images):
        return self.features(images)


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    """Images like CIFAR-10's, in Parquet as Hugging Face writes it: of two classes, whose colours differ."""
    monkeypatch.chdir(tmp_path)
    random, folder = np.random.default_rng(0), tmp_path / "pictures"
    for label, colour in (("cat", (200, 40, 40)), ("ship", (40, 40, 200))):
        (folder / label).mkdir(parents=True)
        for number in range(12):
            pixels = np.clip(random.normal(colour, 30, (32, 32, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / label / f"{number}.png")
    Ledger(tmp_path / "ledger.db").register("pictures", epsilon=10, delta=1e-5)
    return folder


def put_into_cache(network, tmp_path, monkeypatch):
    """Saves the weights of a network as torchvision does, with the first digits of their digest in the name."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    folder = tmp_path / "torch" / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(network.state_dict(), folder / "new")
    with (folder / "new").open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    (folder / "new").rename(folder / f"vgg19-{digest[:8]}.pth")
    address = f"https://download.pytorch.org/models/vgg19-{digest[:8]}.pth"
    monkeypatch.setattr(models.VGG19_Weights.DEFAULT.value, "url", address)
    load_network.cache_clear()
    return digest


def fit(pictures, cli, **settings):
    described = ["--size", 32, "--channels", 3, "--classes", ",".join(CLASSES)]
    paid = ["--epsilon", 10, "--dataset", "pictures", "--ledger", "ledger.db"]
    settings = {"preset": "paper", "network": "torchvision:vgg19", **settings}
    chosen = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    return cli("fit", pictures, *described, *paid, "--method", "dp-mepf", *chosen, "--out", "model")


def check_what_was_made(cli, digest, numbers):
    certificate = json.loads(Path("model/certificate.json").read_text())
    public = certificate["public"]["settings"]
    assert (public["preset"], public["network"], public["sha256"]) == ("paper", "torchvision:vgg19", digest)
    events = {event["name"]: event["coordinates"] for event in certificate["events"]}
    assert (events["first-moments"], events["second-moments"]) == (10 * numbers, 10 * numbers)
    assert {"stopping-first", "stopping-second", "counts"} < set(events)
    assert cli("verify", "model").code == 0
    assert cli("sample", "model", "-n", 30, "-o", "made.parquet", "--grid", "grid.png").code == 0
    with Image.open("grid.png") as grid:
        assert grid.mode == "RGB"
    assert pq.read_table("made.parquet").num_rows == 30
    load_network.cache_clear()


def test_the_paper_s_settings_run_on_colour_images(pictures, cli, tmp_path, monkeypatch):
    torch.manual_seed(0)
    network = Narrow()
    monkeypatch.setattr(models, "get_model", lambda name, weights: Narrow())
    ended = fit(pictures, cli)
    assert ended.code == 2
    assert "nothing is downloaded" in " ".join(ended.err.split())
    digest = put_into_cache(network, tmp_path, monkeypatch)
    few = '{"steps": 2, "batch": 4, "check_images": 8, "check_every": 1}'
    ended = fit(pictures, cli, fit_options=few, channels="[8,8,8,8]")
    assert ended.code == 0, ended.err
    check_what_was_made(cli, digest, 303_104 // 64)
    (account,) = Ledger(tmp_path / "ledger.db").show("pictures")
    assert (account.committed, account.reserved) == (1, 0)
