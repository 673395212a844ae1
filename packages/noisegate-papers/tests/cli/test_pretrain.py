"""`noisegate pretrain`: makes a file, says its digest, goes on after a stop, and leaves nothing behind."""

import json

import numpy as np
import pytest
from PIL import Image
from torch import nn

from noisegate.app.cli.main import app
from noisegate.schema.pixels import ImageShape
from noisegate_images.networks.decoder import load_decoder
from noisegate_images.networks.encoder import (
    SHIPPED_SHA256,
    WIDTH,
    build_encoder,
    folded,
    load_encoder,
    save_encoder,
)
from noisegate_papers.contrib.pretraining.decoder import DecoderFitting
from noisegate_papers.contrib.pretraining.encoder import EncoderFitting

from .conftest import keeps

QUICK = {
    "encoder": ("--epochs", "2"),
    "decoder": ("--size", "16", "--steps", "2", "--channels", "1"),
}
FITTINGS = {"encoder": EncoderFitting, "decoder": DecoderFitting}


@pytest.fixture
def public(tmp_path):
    random = np.random.default_rng(0)
    for label, least in (("dark", 0), ("bright", 190)):
        (tmp_path / "public" / label).mkdir(parents=True)
        for number in range(64):
            pixels = random.integers(least, least + 60, (16, 16, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "public" / label / f"{number}.png")
    return tmp_path / "public"


@pytest.fixture
def run(public, capsys):
    def trained(kind, out, *options):
        command = [
            "pretrain",
            kind,
            str(public),
            "--out",
            str(out),
            *(options or QUICK[kind]),
            "--json",
        ]
        app(command, standalone_mode=False)
        told = json.loads(capsys.readouterr().out)
        keeps(command, told)
        return told

    return trained


@pytest.mark.parametrize("kind", QUICK)
def test_an_interrupted_training_goes_on_and_makes_the_same_file(
    kind, run, tmp_path, capsys, monkeypatch
):
    whole = run(kind, tmp_path / "whole.safetensors")
    descend = FITTINGS[kind]._descend

    def stop(self):
        if self.step == 1:
            raise MemoryError("stopped")
        return descend(self)

    with monkeypatch.context() as patch:
        patch.setattr(FITTINGS[kind], "_descend", stop)
        with pytest.raises(MemoryError, match="stopped"):
            run(kind, tmp_path / "parts.safetensors")
    assert (
        "Stopped after 1 of 2 steps; the same command continues"
        in capsys.readouterr().err
    )
    assert (tmp_path / "parts.safetensors.partial").exists()
    assert run(kind, tmp_path / "parts.safetensors")["sha256"] == whole["sha256"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "parts.safetensors",
        "public",
        "whole.safetensors",
    ]
    with pytest.raises(Exception, match="exists"):
        run(kind, tmp_path / "whole.safetensors")


def test_files_are_read_by_the_digest_that_was_told_and_a_decoder_names_its_encoder(
    run, tmp_path
):
    made = run("encoder", tmp_path / "e.safetensors")
    assert load_encoder(tmp_path / "e.safetensors", sha256=made["sha256"])
    made = run(
        "decoder",
        tmp_path / "d.safetensors",
        *QUICK["decoder"],
        "--grid",
        str(tmp_path / "grid.png"),
    )
    found = load_decoder(tmp_path / "d.safetensors", made["sha256"])
    assert (found.shape, found.encoder) == (
        ImageShape(height=16, width=16, channels=1),
        SHIPPED_SHA256,
    )
    with Image.open(tmp_path / "grid.png") as picture:
        assert picture.mode == "L"
    own = tmp_path / "own.safetensors"
    digest = save_encoder(folded(build_encoder(seed=5)), nn.Linear(WIDTH, 2), own)
    made = run(
        "decoder", tmp_path / "o.safetensors", *QUICK["decoder"], "--encoder", str(own)
    )
    assert made["encoder"] == load_decoder(tmp_path / "o.safetensors").encoder == digest


def test_a_broken_picture_is_named_or_left_out(public, tmp_path, cli):
    (public / "dark" / "cut.png").write_bytes(
        (public / "dark" / "0.png").read_bytes()[:80]
    )
    command = [
        "pretrain",
        "encoder",
        public,
        "--out",
        tmp_path / "e.safetensors",
        "--epochs",
        "1",
    ]
    ended = cli(*command)
    assert ended.code == 2
    assert "dark/cut.png: the image is cut off or damaged" in " ".join(
        ended.err.split()
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["public"]
    ended = cli(*command, "--on-error", "skip")
    assert ended.code == 0, ended.err
    assert "1 images could not be used and were left out" in " ".join(ended.err.split())
    assert (tmp_path / "e.safetensors").exists()
