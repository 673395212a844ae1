"""`noisegate pretrain decoder`: makes a file that decodes, goes on after a stop, and leaves nothing behind."""

import json

import numpy as np
import pytest
from PIL import Image
from torch import nn

from noisegate.cli.main import app
from noisegate.schema.pixels import ImageShape
from noisegate_images.models.decoder import load_decoder
from noisegate_images.networks.encoder import SHIPPED_SHA256, WIDTH, build_encoder, folded, save_encoder
from noisegate_papers.contrib.pretraining.decoder import DecoderFitting

from .conftest import keeps


@pytest.fixture
def public(tmp_path):
    random = np.random.default_rng(0)
    for label, least in (("dark", 0), ("bright", 190)):
        (tmp_path / "public" / label).mkdir(parents=True)
        for number in range(6):
            pixels = random.integers(least, least + 60, (16, 16, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "public" / label / f"{number}.png")
    return tmp_path / "public"


def run(public, out, *options):
    command = ["pretrain", "decoder", str(public), "--out", str(out), "--size", "16", "--steps", "2", "--json"]
    app([*command, *options], standalone_mode=False)


def test_an_interrupted_training_goes_on_and_makes_the_same_file(public, tmp_path, capsys, monkeypatch):
    run(public, tmp_path / "whole.safetensors", "--channels", "1", "--grid", str(tmp_path / "grid.png"))
    whole = json.loads(capsys.readouterr().out)
    keeps(["pretrain", "decoder"], whole)
    found = load_decoder(tmp_path / "whole.safetensors", whole["sha256"])
    assert (found.shape, found.encoder) == (ImageShape(height=16, width=16, channels=1), SHIPPED_SHA256)
    assert whole["encoder"] == SHIPPED_SHA256
    with Image.open(tmp_path / "grid.png") as picture:
        assert picture.mode == "L"
    descend = DecoderFitting._descend

    def stop(self):
        if self.step == 1:
            raise MemoryError("stopped")
        return descend(self)

    with monkeypatch.context() as patch:
        patch.setattr(DecoderFitting, "_descend", stop)
        with pytest.raises(MemoryError, match="stopped"):
            run(public, tmp_path / "parts.safetensors", "--channels", "1")
    assert "Stopped after 1 of 2 steps; the same command goes on" in capsys.readouterr().err
    run(public, tmp_path / "parts.safetensors", "--channels", "1")
    output = capsys.readouterr()
    assert "Going on after 1 of 2 steps." in output.err
    assert json.loads(output.out)["sha256"] == whole["sha256"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "grid.png",
        "parts.safetensors",
        "public",
        "whole.safetensors",
    ]


def test_an_encoder_of_ones_own_is_named_in_the_file(public, tmp_path, capsys):
    digest = save_encoder(folded(build_encoder(seed=5)), nn.Linear(WIDTH, 2), tmp_path / "own.safetensors")
    run(public, tmp_path / "d.safetensors", "--encoder", str(tmp_path / "own.safetensors"))
    assert json.loads(capsys.readouterr().out)["encoder"] == digest
    assert load_decoder(tmp_path / "d.safetensors").encoder == digest
