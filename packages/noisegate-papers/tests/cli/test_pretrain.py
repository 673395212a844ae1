"""`noisegate pretrain encoder`: makes a file, says its digest, goes on after a stop, and leaves nothing behind."""

import json

import numpy as np
import pytest
from PIL import Image

from noisegate.cli.main import app
from noisegate_images.networks.encoder import load_encoder
from noisegate_papers.cli import pretrain
from noisegate_papers.contrib.pretraining.encoder import EncoderFitting

from .conftest import keeps


@pytest.fixture
def public(tmp_path):
    random = np.random.default_rng(0)
    for label, least in (("dark", 0), ("bright", 190)):
        (tmp_path / "public" / label).mkdir(parents=True)
        for number in range(64):
            pixels = random.integers(least, least + 60, (32, 32, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "public" / label / f"{number}.png")
    return tmp_path / "public"


def test_an_interrupted_training_goes_on_and_makes_the_same_file(public, tmp_path, capsys, monkeypatch):
    def run(out):
        command = ["pretrain", "encoder", str(public), "--out", str(out), "--epochs", "2", "--json"]
        app(command, standalone_mode=False)
        told = json.loads(capsys.readouterr().out)
        keeps(command, told)
        return told

    whole = run(tmp_path / "whole.safetensors")
    assert load_encoder(tmp_path / "whole.safetensors", sha256=whole["sha256"])
    descend = EncoderFitting._descend

    def stop(self):
        if self.step == 1:
            raise MemoryError("stopped")
        return descend(self)

    with monkeypatch.context() as patch:
        patch.setattr(EncoderFitting, "_descend", stop)
        with pytest.raises(MemoryError, match="stopped"):
            run(tmp_path / "parts.safetensors")
    assert "Stopped after 1 of 2 steps; the same command goes on" in capsys.readouterr().err
    assert (tmp_path / "parts.safetensors.partial").exists()
    assert run(tmp_path / "parts.safetensors")["sha256"] == whole["sha256"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts.safetensors", "public", "whole.safetensors"]
    with pytest.raises(Exception, match="exists"):
        run(tmp_path / "whole.safetensors")
    assert pretrain.CHECKPOINT_SECONDS < 60


def test_a_broken_picture_is_named_or_left_out(public, tmp_path, cli):
    (public / "dark" / "cut.png").write_bytes((public / "dark" / "0.png").read_bytes()[:80])
    command = ["pretrain", "encoder", public, "--out", tmp_path / "e.safetensors", "--epochs", "1"]
    ended = cli(*command)
    assert ended.code == 2
    assert "dark/cut.png: the image is cut off or damaged" in " ".join(ended.err.split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["public"]
    ended = cli(*command, "--on-error", "skip")
    assert ended.code == 0, ended.err
    assert "1 images could not be used and were left out" in " ".join(ended.err.split())
    assert (tmp_path / "e.safetensors").exists()
