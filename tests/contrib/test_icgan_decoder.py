"""Checkpoints of IC-GAN as decoders: loaded strictly, with their digest, named in saved models."""

import hashlib
import json

import pytest
import torch

from noisegate.contrib.biggan import BigGAN, BigGANDesign
from noisegate.errors import ModelError, OptionError
from noisegate.models.decoder import LoadedDecoder, load_decoder
from noisegate.schema.pixels import ImageShape


@pytest.fixture
def checkpoint(tmp_path):
    torch.manual_seed(0)
    network = BigGAN(
        BigGANDesign(
            widths=((8, 8),),
            attention=frozenset({0}),
            side=4,
            chunk=3,
            hierarchical=True,
            features=12,
            embedded=6,
            classes=(10, 7),
            statistics="plain",
        )
    )
    (tmp_path / "weights").mkdir()
    return written(tmp_path, {f"module.{name}": value for name, value in network.state_dict().items()})


def written(folder, state):
    torch.save(state, folder / "weights" / "G_ema.pth")
    description = {"kind": "ic-gan", "path": "weights/G_ema.pth", "encoder": "e" * 64}
    (folder / "icgan.json").write_text(json.dumps(description))
    return folder / "icgan.json", hashlib.sha256((folder / "weights" / "G_ema.pth").read_bytes()).hexdigest()


def test_a_checkpoint_decodes_and_is_named_in_saved_models(checkpoint):
    path, digest = checkpoint
    found = load_decoder(path, digest)
    assert (found.shape, found.features, found.latent) == (ImageShape(height=8, width=8, channels=3), 12, 6)
    assert (found.digest, found.encoder, found.layer, found.tensors()) == (digest, "e" * 64, "feature", {})
    features, noise = torch.nn.functional.normalize(torch.randn(3, 12)), torch.randn(3, 6)
    rows = found(features, noise)
    assert rows.shape == (3, 192)
    torch.testing.assert_close(rows.reshape(3, 8, 8, 3).permute(0, 3, 1, 2), found.decoder.network(features, noise))
    again = LoadedDecoder.from_saved({}, json.loads(json.dumps(found.to_json())))
    assert torch.equal(again(features, noise), rows)
    (path.parent / "weights" / "G_ema.pth").unlink()
    with pytest.raises(ModelError, match="the file cannot be read"):
        LoadedDecoder.from_saved({}, found.to_json())


def test_another_file_is_refused(checkpoint, tmp_path):
    path, digest = checkpoint
    with pytest.raises(OptionError, match=f"needs its SHA-256, .*{digest}"):
        load_decoder(path)
    with pytest.raises(ModelError, match="is not 00"):
        load_decoder(path, "00")
    state = torch.load(tmp_path / "weights" / "G_ema.pth", weights_only=True)
    more = {**state, "module.more": torch.zeros(1)}
    less = {name: value for name, value in state.items() if "conv2" not in name}
    for changed in (more, less, {}, [1]):
        with pytest.raises(ModelError, match="no checkpoint of an IC-GAN generator on features"):
            load_decoder(*written(tmp_path, changed))
    for wrong in ({}, {"encoder": 1}, {"encoder": "e" * 64, "other": 1}):
        path.write_text(json.dumps({"kind": "ic-gan", "path": "weights/G_ema.pth", **wrong}))
        with pytest.raises(OptionError, match="has the keys encoder, kind, layer, path"):
            load_decoder(path, digest)
